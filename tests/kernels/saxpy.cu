// y = alpha * x + y, in integers that wrap.
__global__ void saxpy(int alpha, const int *x, int *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = alpha * x[i] + y[i];
}
