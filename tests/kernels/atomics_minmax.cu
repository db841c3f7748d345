// Least and greatest of all numbers, signed and unsigned, by atomics in shared memory, then in global.
__global__ void atomics_minmax(const int *in, int *result, unsigned *unsigned_result) {
    __shared__ int low, high;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int value = in[i];
    if (threadIdx.x == 0) low = high = value;
    __syncthreads();
    atomicMin(&low, value);
    atomicMax(&high, value);
    atomicMin(&unsigned_result[0], (unsigned)value);
    atomicMax(&unsigned_result[1], (unsigned)value);
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicMin(&result[0], low);
        atomicMax(&result[1], high);
    }
}
