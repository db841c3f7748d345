// Inclusive prefix sum by doubling, in place, within one warp.
__global__ void prefix_sum(int *x) {
    int i = threadIdx.x;
    for (int distance = 1; distance < blockDim.x; distance *= 2) {
        int below = i >= distance ? x[i - distance] : 0;
        __syncwarp();
        x[i] += below;
        __syncwarp();
    }
}
