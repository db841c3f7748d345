// Division by constants, which compilers turn into multiplications: signed and unsigned, both results.
__global__ void divide_constants(const int *in, int *out, unsigned *unsigned_out) {
    int i = threadIdx.x;
    int x = in[i];
    out[3 * i] = x / 7;
    out[3 * i + 1] = x % 10;
    out[3 * i + 2] = x / -16;
    unsigned u = x;
    unsigned_out[2 * i] = u / 3;
    unsigned_out[2 * i + 1] = u % 1000;
}
