// Discrete Laplacian of a grid whose border repeats its outermost cells.
__global__ void stencil_2d(const int *in, int *out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int left = max(x - 1, 0), right = min(x + 1, width - 1);
    int up = max(y - 1, 0), down = min(y + 1, height - 1);
    int sum = in[y * width + left] + in[y * width + right] + in[up * width + x] + in[down * width + x];
    out[y * width + x] = sum - 4 * in[y * width + x];
}
