// Element i of thread block b is scaled by b + 1 and tagged with the size of the grid.
__global__ void three_blocks(const int *in, int *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i] * (blockIdx.x + 1) + gridDim.x;
}
