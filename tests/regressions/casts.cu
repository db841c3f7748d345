// Casts to 8 and 16 bits and back, of values that stay in registers.
__global__ void casts(const int *a, int *out) {
    int i = threadIdx.x;
    out[2 * i] = (short)a[i] + (unsigned char)(a[i] * 3);
    out[2 * i + 1] = (signed char)(a[i] >> 8);
}
