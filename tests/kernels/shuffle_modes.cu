// All four shuffles in pairs of lanes.
__global__ void shuffle_modes(const int *in, int *out) {
    int i = threadIdx.x;
    int n = blockDim.x;
    int value = in[i];
    out[i] = __shfl_sync(0xffffffffu, value, value, 2);
    out[n + i] = __shfl_up_sync(0xffffffffu, value, 1, 2);
    out[2 * n + i] = __shfl_down_sync(0xffffffffu, value, 1, 2);
    out[3 * n + i] = __shfl_xor_sync(0xffffffffu, value, 1, 2);
}
