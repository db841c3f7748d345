// A plain read beside atomic updates.
__global__ void wrong(const int *a, int *b, int n) {
    atomicAdd(&b[0], 1);  // first
    if (threadIdx.x == 3) b[3] = b[0];  // second
}

__global__ void right(const int *a, int *b, int n) {
    atomicAdd(&b[0], 1);
    __syncthreads();
    if (threadIdx.x == 3) b[3] = b[0];
}
