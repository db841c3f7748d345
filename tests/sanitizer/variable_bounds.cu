// Before the first element of a module's variable.
__device__ int table[4];

__global__ void wrong(const int *a, int *b, int n) {
    int i = threadIdx.x;
    atomicAdd(&table[i - 1], 1);  // here
}

__global__ void right(const int *a, int *b, int n) {
    int i = threadIdx.x;
    atomicAdd(&table[i], 1);
}
