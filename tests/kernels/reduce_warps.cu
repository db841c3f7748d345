// Sum of a block: shuffles in each warp, the warps' sums through shared memory, then thread 0.
#define MAX_WARPS 8

__global__ void reduce_warps(const int *in, int *total) {
    __shared__ int sums[MAX_WARPS];
    int i = threadIdx.x;
    int sum = in[i];
    for (int offset = warpSize / 2; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffff, sum, offset);
    if (i % warpSize == 0) sums[i / warpSize] = sum;
    __syncthreads();
    if (i == 0) {
        int warps = blockDim.x / warpSize;
        for (int w = 1; w < warps; ++w) sum += sums[w];
        *total = sum;
    }
}
