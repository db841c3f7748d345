// base ** exponent mod modulus by repeated squaring; the modulus has at most 16 bits.
__global__ void modular_power(const unsigned *base, const unsigned *exponent, const unsigned *modulus,
                              unsigned *out) {
    int i = threadIdx.x;
    unsigned m = modulus[i];
    unsigned square = base[i];
    unsigned result = 1;
    for (unsigned e = exponent[i]; e != 0; e >>= 1) {
        square %= m;
        if (e & 1) result = result * square % m;
        square *= square;
    }
    out[i] = result;
}
