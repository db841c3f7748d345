// Sum of an array by a grid-stride loop: a tree in each block's shared memory, then one atomic a block.
#define THREADS 4

__global__ void reduce_blocks(const int *in, int *total, int n) {
    __shared__ int sums[THREADS];
    int local = threadIdx.x;
    int sum = 0;
    for (int i = blockIdx.x * THREADS + local; i < n; i += gridDim.x * THREADS) sum += in[i];
    sums[local] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (local < half) sums[local] += sums[local + half];
        __syncthreads();
    }
    if (local == 0) atomicAdd(total, sums[0]);
}
