// One element past the end of an array; the machine would read the next array there.
__global__ void wrong(const int *a, int *b, int n) {
    int i = threadIdx.x;
    b[i] = a[i + 1];  // here
}

__global__ void right(const int *a, int *b, int n) {
    int i = threadIdx.x;
    b[i] = i + 1 < n ? a[i + 1] : 0;
}
