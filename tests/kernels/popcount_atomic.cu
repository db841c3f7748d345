// Bits set in an array: each thread block counts in shared memory and adds its count to the total.
__global__ void popcount_atomic(const unsigned *in, int n, int *total) {
    __shared__ int count;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    if (i < n) atomicAdd(&count, __popc(in[i]));
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(total, count);
}
