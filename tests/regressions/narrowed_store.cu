// LLVM stores a byte where the others of the word are put back as they were.
__global__ void narrowed_store(const unsigned *a, unsigned *out) {
    unsigned i = threadIdx.x;
    out[i] = (out[i] & ~255u) | (a[i] & 255);
}
