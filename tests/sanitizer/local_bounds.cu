// Past the end of a local array.
__global__ void wrong(const int *a, int *b, int n) {
    int i = threadIdx.x;
    volatile int stack[4];
    stack[a[i]] = i;  // here
}

__global__ void right(const int *a, int *b, int n) {
    int i = threadIdx.x;
    volatile int stack[5];
    stack[a[i]] = i;
}
