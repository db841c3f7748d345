// More threads than elements, and a last warp that is not full.
__global__ void guarded_copy(const int *in, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i];
}
