// A __syncwarp whose mask names lanes that never come.
__global__ void wrong(const int *a, int *b, int n) {
    int i = threadIdx.x;
    if (i % 2) __syncwarp(0xffffffff);  // here
    else __syncthreads();
    b[i] = a[i];
}

__global__ void right(const int *a, int *b, int n) {
    int i = threadIdx.x;
    if (i % 2) __syncwarp(0xaaaaaaaa);
    __syncthreads();
    b[i] = a[i];
}
