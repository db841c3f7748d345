// Sum, least and greatest element of an array by atomics on global memory, over several blocks.
__global__ void reduce_atomic(const int *in, int *sum, int *least, int *greatest, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        atomicAdd(sum, in[i]);
        atomicMin(least, in[i]);
        atomicMax(greatest, in[i]);
    }
}
