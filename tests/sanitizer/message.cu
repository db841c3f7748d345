// A message to the other thread blocks: without fences the flag says nothing about the data.
__global__ void wrong(const int *a, int *b, int n) {
    if (threadIdx.x) return;
    if (blockIdx.x == 0) {
        b[1] = 42;  // first
        atomicExch(&b[0], 1);
    } else if (atomicAdd(&b[0], 0)) {
        b[2 + blockIdx.x] = b[1];  // second
    }
}

__global__ void right(const int *a, int *b, int n) {
    if (threadIdx.x) return;
    if (blockIdx.x == 0) {
        b[1] = 42;
        __threadfence();
        atomicExch(&b[0], 1);
    } else if (atomicAdd(&b[0], 0)) {
        __threadfence();
        b[2 + blockIdx.x] = b[1];
    }
}
