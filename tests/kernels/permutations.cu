// Permutation number `index` of n items in lexicographic order, four bits an item, the first one lowest.
__global__ void permutations(const unsigned *index, unsigned *out, int n) {
    int i = threadIdx.x;
    unsigned rest = index[i];
    unsigned factorial = 1;
    for (int k = 2; k < n; ++k) factorial *= k;
    unsigned items = 0x76543210u;
    unsigned chosen = 0;
    for (int k = n - 1; k >= 0; --k) {
        unsigned place = rest / factorial;
        rest -= place * factorial;
        unsigned shift = 4 * place;
        chosen |= ((items >> shift) & 15) << (4 * (n - 1 - k));
        unsigned low = (1u << shift) - 1;
        items = (items & low) | ((items >> 4) & ~low);
        if (k > 1) factorial /= k;
    }
    out[i] = chosen;
}
