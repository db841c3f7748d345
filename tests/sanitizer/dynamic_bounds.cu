// More dynamic shared memory than the launch asks for (16 bytes).
extern __shared__ int buffer[];

__global__ void wrong(const int *a, int *b, int n) {
    buffer[threadIdx.x + 1] = a[threadIdx.x];  // here
}

__global__ void right(const int *a, int *b, int n) {
    buffer[threadIdx.x] = a[threadIdx.x];
}
