// 64-bit division: unsigned quotient and remainder.
__global__ void division64(const unsigned long long *a, const unsigned long long *b,
                           unsigned long long *quotient, unsigned long long *remainder) {
    int i = threadIdx.x;
    unsigned long long q = a[i] / b[i];
    quotient[i] = q;
    remainder[i] = a[i] - q * b[i];
}
