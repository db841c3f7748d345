// A shuffle from a lane whose thread has exited.
__global__ void wrong(const int *a, int *b, int n) {
    int i = threadIdx.x;
    if (a[i] == 1) return;
    b[i] = __shfl_sync(0xffffffff, a[i], 0);  // here
}

__global__ void right(const int *a, int *b, int n) {
    int i = threadIdx.x;
    int first = __shfl_sync(0xffffffff, a[i], 0);
    if (a[i] == 1) return;
    b[i] = first;
}
