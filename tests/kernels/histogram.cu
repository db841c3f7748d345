// Histogram: each block counts in shared memory with atomics, then adds its counts to global memory.
#define BINS 4

__global__ void histogram(const unsigned *in, unsigned *counts, int n) {
    __shared__ unsigned local[BINS];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x < BINS) local[threadIdx.x] = 0;
    __syncthreads();
    if (i < n) atomicAdd(&local[in[i] % BINS], 1u);
    __syncthreads();
    if (threadIdx.x < BINS) atomicAdd(&counts[threadIdx.x], local[threadIdx.x]);
}
