// The neighbour's element without a barrier.
__global__ void wrong(const int *a, int *b, int n) {
    __shared__ int tile[4];
    int i = threadIdx.x;
    tile[i] = a[i];  // first
    b[i] = tile[(i + 2) % 4];  // second
}

__global__ void right(const int *a, int *b, int n) {
    __shared__ int tile[4];
    int i = threadIdx.x;
    tile[i] = a[i];
    __syncthreads();
    b[i] = tile[(i + 2) % 4];
}
