// A tile one element too small.
__global__ void wrong(const int *a, int *b, int n) {
    __shared__ volatile int tile[4];
    tile[threadIdx.x + 1] = a[threadIdx.x];  // here
}

__global__ void right(const int *a, int *b, int n) {
    __shared__ volatile int tile[5];
    tile[threadIdx.x + 1] = a[threadIdx.x];
}
