// Histogram of values in [low, low + bins * width) by atomics on global memory; others are counted apart.
__global__ void histogram_range(const int *in, int *counts, int *outside, int n, int low, int width, int bins) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        int bin = in[i] < low ? -1 : (in[i] - low) / width;
        if (bin >= 0 && bin < bins)
            atomicAdd(&counts[bin], 1);
        else
            atomicAdd(outside, 1);
    }
}
