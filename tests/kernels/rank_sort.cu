// Stable sort by rank: each thread counts the elements that come before its own.
__global__ void rank_sort(const int *in, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int key = in[i], rank = 0;
    for (int k = 0; k < n; ++k) rank += in[k] < key || (in[k] == key && k < i);
    out[rank] = key;
}
