// One warp waits here, the other there.
__global__ void wrong(const int *a, int *b, int n) {
    if (threadIdx.x / warpSize == 0) {
        b[1] = 1;
        __syncthreads();  // first
    } else {
        b[2] = 2;
        __syncthreads();  // second
    }
}

__global__ void right(const int *a, int *b, int n) {
    if (threadIdx.x / warpSize == 0) atomicExch(&b[1], 1);
    __syncthreads();
    if (threadIdx.x / warpSize == 1) atomicExch(&b[2], 2);
}
