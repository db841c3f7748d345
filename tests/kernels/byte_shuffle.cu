// Byte permutations: the order of the bytes reversed, halves swapped, and a selection that the data gives.
__global__ void byte_shuffle(const unsigned *in, const unsigned *selector, unsigned *swapped,
                             unsigned *mixed) {
    int i = threadIdx.x;
    unsigned x = in[i];
    unsigned backwards = __byte_perm(x, 0, 0x0123);
    swapped[i] = backwards;
    mixed[i] = __byte_perm(x, __byte_perm(x, backwards, 0x5432), selector[i]);
}
