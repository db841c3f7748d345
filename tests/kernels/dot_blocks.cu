// Dot product over several blocks: shuffles in each warp, one atomic a warp.
__global__ void dot_blocks(const int *a, const int *b, int *total, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int sum = i < n ? a[i] * b[i] : 0;
    for (int offset = warpSize / 2; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffff, sum, offset);
    if (i % warpSize == 0) atomicAdd(total, sum);
}
