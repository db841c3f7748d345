// The 64-bit FNV-1a hash of the thread's string.
__global__ void fnv1a64(unsigned long long *hash, const unsigned char *text, const int *start) {
    int t = threadIdx.x;
    unsigned long long h = 0xcbf29ce484222325ull;
    for (int i = start[t]; i < start[t + 1]; ++i) h = (h ^ text[i]) * 0x100000001b3ull;
    hash[t] = h;
}
