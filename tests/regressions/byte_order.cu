// LLVM recognises the reversal of four bytes and permutes them in one instruction.
__global__ void byte_order(const unsigned *a, unsigned *out) {
    unsigned i = threadIdx.x;
    unsigned x = a[i];
    out[2 * i] = (x >> 24) | (x << 24) | ((x >> 8) & 0xff00) | ((x << 8) & 0xff0000);
    out[2 * i + 1] = __byte_perm(x, a[i + 1], 0x3254);
}
