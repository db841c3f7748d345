// C = A B for 3 x 3 matrices, one thread an element.
__global__ void matmul3x3(const int *a, const int *b, int *c) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int sum = 0;
    for (int k = 0; k < 3; ++k) sum += a[3 * row + k] * b[3 * k + column];
    c[3 * row + column] = sum;
}
