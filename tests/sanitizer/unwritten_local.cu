// Every other element of a local array is written, all are read.
__global__ void wrong(const int *a, int *b, int n) {
    volatile int stack[4];
    stack[0] = 1;
    stack[2] = 2;
    b[threadIdx.x] = stack[threadIdx.x];  // here
}

__global__ void right(const int *a, int *b, int n) {
    volatile int stack[4];
    for (int i = 0; i < 4; ++i) stack[i] = i;
    b[threadIdx.x] = stack[threadIdx.x];
}
