// Largest of each 2 x 2 square of cells.
__global__ void max_pool_2d(const int *in, int *out, int out_width) {
    int x = threadIdx.x, y = blockIdx.x * blockDim.y + threadIdx.y;
    int width = 2 * out_width;
    const int *corner = in + 2 * y * width + 2 * x;
    out[y * out_width + x] = max(max(corner[0], corner[1]), max(corner[width], corner[width + 1]));
}
