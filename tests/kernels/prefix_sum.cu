// Inclusive prefix sum by doubling, in place, within one warp: its lanes run in step.
__global__ void prefix_sum(volatile int *x) {
    int i = threadIdx.x;
    for (int distance = 1; distance < blockDim.x; distance *= 2) {
        if (i >= distance) {
            int below = x[i - distance];
            x[i] = x[i] + below;
        }
    }
}
