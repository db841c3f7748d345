// Euclid's algorithm with the remainder operator on signed numbers; the result is never negative.
__global__ void gcd_signed(const int *a, const int *b, int *out) {
    int i = threadIdx.x;
    int x = a[i];
    int y = b[i];
    while (y != 0) {
        int r = x % y;
        x = y;
        y = r;
    }
    out[i] = x < 0 ? -x : x;
}
