// The last element of the tile is read, and nobody wrote it.
__global__ void wrong(const int *a, int *b, int n) {
    __shared__ int tile[5];
    int i = threadIdx.x;
    tile[i] = a[i];
    __syncthreads();
    b[i] = tile[i + 1];  // here
}

__global__ void right(const int *a, int *b, int n) {
    __shared__ int tile[5];
    int i = threadIdx.x;
    tile[i] = a[i];
    if (i == 0) tile[4] = 0;
    __syncthreads();
    b[i] = tile[i + 1];
}
