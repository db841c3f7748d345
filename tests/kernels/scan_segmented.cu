// Prefix sums that start anew at each flagged element.
#define MAX_THREADS 16

__global__ void scan_segmented(const int *in, const int *flags, int *out) {
    __shared__ int sums[MAX_THREADS], starts[MAX_THREADS];
    int i = threadIdx.x;
    int sum = in[i], start = flags[i];
    for (int step = 1; step < blockDim.x; step *= 2) {
        sums[i] = sum;
        starts[i] = start;
        __syncthreads();
        if (i >= step && !start) {
            sum += sums[i - step];
            start = starts[i - step];
        }
        __syncthreads();
    }
    out[i] = sum;
}
