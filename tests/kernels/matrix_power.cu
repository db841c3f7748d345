// Powers of 2 x 2 matrices by squaring, in structures that are passed and returned.
struct Matrix {
    unsigned a, b, c, d;
};

__device__ Matrix operator*(const Matrix &x, const Matrix &y) {
    return {x.a * y.a + x.b * y.c, x.a * y.b + x.b * y.d, x.c * y.a + x.d * y.c, x.c * y.b + x.d * y.d};
}

__global__ void matrix_power(const Matrix *in, Matrix *out, int exponent) {
    Matrix base = in[threadIdx.x];
    Matrix result = {1, 0, 0, 1};
    for (int e = exponent; e > 0; e >>= 1) {
        if (e & 1) result = result * base;
        base = base * base;
    }
    out[threadIdx.x] = result;
}
