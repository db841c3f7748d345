// Some lanes of a warp come to a barrier without the others.
__global__ void wrong(const int *a, int *b, int n) {
    int i = threadIdx.x;
    if (a[i] > 2) __syncthreads();  // here
    b[i] = 1;
}

__global__ void right(const int *a, int *b, int n) {
    int i = threadIdx.x;
    if (n == 4) __syncthreads();
    b[i] = 1;
}
