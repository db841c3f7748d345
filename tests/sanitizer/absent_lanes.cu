// The mask promises lanes that are elsewhere.
__global__ void wrong(const int *a, int *b, int n) {
    int i = threadIdx.x;
    if (i % 2) b[i] = __ballot_sync(0xffffffff, a[i] > 1);  // here
    else b[i] = a[i];
}

__global__ void right(const int *a, int *b, int n) {
    int i = threadIdx.x;
    if (i % 2) b[i] = __ballot_sync(0xaaaaaaaa, a[i] > 1);
    else b[i] = a[i];
}
