// Every lane gets its warp's minimum, by exchanging with the lane whose number differs in one bit.
__global__ void reduce_butterfly(const int *in, int *out) {
    int i = threadIdx.x;
    int least = in[i];
    for (int bit = 1; bit < warpSize; bit *= 2) least = min(least, __shfl_xor_sync(0xffffffff, least, bit));
    out[i] = least;
}
