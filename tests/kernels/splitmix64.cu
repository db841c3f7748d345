// The splitmix64 generator's output for a seed: 64-bit additions, shifts and multiplications by constants.
__global__ void splitmix64(const unsigned long long *seed, unsigned long long *out) {
    int i = threadIdx.x;
    unsigned long long z = seed[i] + 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    out[i] = z ^ (z >> 31);
}
