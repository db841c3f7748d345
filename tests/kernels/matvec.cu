// y = A x, a warp a row: its lanes stride over the columns and add up by shuffles.
__global__ void matvec(const int *a, const int *x, int *y, int columns) {
    int lane = threadIdx.x % warpSize, row = threadIdx.x / warpSize;
    int sum = 0;
    for (int k = lane; k < columns; k += warpSize) sum += a[row * columns + k] * x[k];
    for (int bit = warpSize / 2; bit > 0; bit /= 2) sum += __shfl_xor_sync(0xffffffff, sum, bit);
    if (lane == 0) y[row] = sum;
}
