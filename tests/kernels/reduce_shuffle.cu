// Sum of each warp's elements by shuffles; lane 0 writes it.
__global__ void reduce_shuffle(const int *in, int *sums, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int sum = i < n ? in[i] : 0;
    for (int offset = warpSize / 2; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffff, sum, offset);
    if (i % warpSize == 0) sums[i / warpSize] = sum;
}
