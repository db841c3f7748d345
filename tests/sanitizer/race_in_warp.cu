// Two lanes of a warp: running in step orders nothing since Volta.
__global__ void wrong(const int *a, int *b, int n) {
    int i = threadIdx.x;
    b[i] = a[i];  // first
    int other = b[i ^ 1];  // second
    __syncwarp();
    b[i] = other;
}

__global__ void right(const int *a, int *b, int n) {
    int i = threadIdx.x;
    b[i] = a[i];
    __syncwarp();
    int other = b[i ^ 1];
    __syncwarp();
    b[i] = other;
}
