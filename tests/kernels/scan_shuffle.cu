// Inclusive prefix sums of each warp by shuffles.
__global__ void scan_shuffle(const int *in, int *out) {
    int i = threadIdx.x;
    int lane = i % warpSize;
    int sum = in[i];
    for (int step = 1; step < warpSize; step *= 2) {
        int before = __shfl_up_sync(0xffffffff, sum, step);
        if (lane >= step) sum += before;
    }
    out[i] = sum;
}
