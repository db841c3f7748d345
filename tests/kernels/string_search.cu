// Where a pattern occurs in a text, a position a thread, and the first place of all.
__global__ void string_search(const char *text, int n, const char *pattern, int m, int *matches, int *first) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i + m > n) return;
    int k = 0;
    while (k < m && text[i + k] == pattern[k]) ++k;
    if (k == m) {
        matches[i] = 1;
        atomicMin(first, i);
    }
}
