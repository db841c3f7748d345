// LLVM loads a byte or a half word where no more of a word is needed.
__global__ void narrowed_loads(const unsigned *a, unsigned *out) {
    unsigned i = threadIdx.x;
    unsigned r = a[i] >> 16;
    if (a[i + 2] & 2) r += 0x10000;
    out[2 * i] = r;
    out[2 * i + 1] = (a[i] >> 8) & 255;
}
