// Quotient and remainder of unsigned numbers; where there is no quotient, zeros.
__global__ void division_unsigned(const unsigned *a, const unsigned *b, unsigned *quotient,
                                  unsigned *remainder) {
    int i = threadIdx.x;
    unsigned x = a[i];
    unsigned y = b[i];
    if (y == 0) return;
    quotient[i] = x / y;
    remainder[i] = x % y;
}
