// LLVM computes small remainders, and truth values that become indices, on 16 bits.
__global__ void narrowed_arithmetic(const unsigned *a, unsigned *out) {
    unsigned i = threadIdx.x;
    out[2 * i] = (a[i] & 255) % 10;
    out[2 * i + 1] = a[i + (a[i] == 0)];
}
