// Threads that have exited are missed by no barrier: a note.
__global__ void wrong(const int *a, int *b, int n) {
    if (threadIdx.x >= n - 1) return;
    __syncthreads();  // here
    b[threadIdx.x] = 1;
}

__global__ void right(const int *a, int *b, int n) {
    __syncthreads();
    if (threadIdx.x >= n - 1) return;
    b[threadIdx.x] = 1;
}
