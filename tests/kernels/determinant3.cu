// Determinants of 3 x 3 matrices, one a thread.
__global__ void determinant3(const int *matrices, int *out) {
    const int *m = matrices + 9 * threadIdx.x;
    int det = 0;
    for (int column = 0; column < 3; ++column) {
        int next = column == 2 ? 0 : column + 1;
        int last = column == 0 ? 2 : column - 1;
        det += m[column] * (m[3 + next] * m[6 + last] - m[3 + last] * m[6 + next]);
    }
    out[threadIdx.x] = det;
}
