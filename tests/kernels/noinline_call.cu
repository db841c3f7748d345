// A device function that must not be inlined, called from two places.
__device__ __noinline__ unsigned power(unsigned base, unsigned exponent) {
    unsigned result = 1;
    for (unsigned k = 0; k < exponent; ++k) result *= base;
    return result;
}

__global__ void noinline_call(const unsigned *a, const unsigned *b, unsigned *out) {
    int i = threadIdx.x;
    out[i] = power(a[i], 3) - power(3, b[i]);
}
