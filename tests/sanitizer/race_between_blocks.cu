// Every thread block writes the same word; no barrier reaches over thread blocks.
__global__ void wrong(const int *a, int *b, int n) {
    if (threadIdx.x == 0) b[0] = blockIdx.x;  // here
}

__global__ void right(const int *a, int *b, int n) {
    if (threadIdx.x == 0) atomicMax(&b[0], (int)blockIdx.x);
}
