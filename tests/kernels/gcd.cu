// Greatest common divisors by subtraction.
__global__ void gcd(const unsigned *a, const unsigned *b, unsigned *out) {
    int i = threadIdx.x;
    unsigned x = a[i];
    unsigned y = b[i];
    while (x != y) {
        if (x > y) {
            x -= y;
        } else {
            y -= x;
        }
    }
    out[i] = x;
}
