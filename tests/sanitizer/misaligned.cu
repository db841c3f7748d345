// A word at an address that is not a multiple of four.
__global__ void wrong(const int *a, int *b, int n) {
    int i = threadIdx.x;
    const char *bytes = (const char *)a;
    b[i] = *(const int *)(bytes + i);  // here
}

__global__ void right(const int *a, int *b, int n) {
    int i = threadIdx.x;
    const char *bytes = (const char *)a;
    b[i] = *(const int *)(bytes + 4 * i);
}
