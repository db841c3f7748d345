// Lanes that call with a mask in which they are not.
__global__ void wrong(const int *a, int *b, int n) {
    int i = threadIdx.x;
    b[i] = __any_sync(0x55555555, a[i] > 1);  // here
}

__global__ void right(const int *a, int *b, int n) {
    int i = threadIdx.x;
    b[i] = __any_sync(i % 2 ? 0xaaaaaaaa : 0x55555555, a[i] > 1);
}
