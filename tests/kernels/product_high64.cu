// The upper half of a 64 x 64-bit product from four products of halves.
__global__ void product_high64(const unsigned long long *a, const unsigned long long *b,
                               unsigned long long *out) {
    int i = threadIdx.x;
    unsigned a0 = (unsigned)a[i], a1 = a[i] >> 32;
    unsigned b0 = (unsigned)b[i], b1 = b[i] >> 32;
    unsigned long long middle = (unsigned long long)a1 * b0 + __umulhi(a0, b0);
    unsigned long long other = (unsigned long long)a0 * b1 + (unsigned)middle;
    out[i] = (unsigned long long)a1 * b1 + (middle >> 32) + (other >> 32);
}
