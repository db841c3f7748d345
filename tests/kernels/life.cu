// One generation of Conway's game of life on a torus, one thread a cell.
__global__ void life(const int *now, int *next, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int left = (x > 0 ? x : width) - 1, right = x + 1 < width ? x + 1 : 0;
    int up = ((y > 0 ? y : height) - 1) * width, row = y * width, down = y + 1 < height ? row + width : 0;
    int neighbours = now[up + left] + now[up + x] + now[up + right] + now[row + left] + now[row + right] +
                     now[down + left] + now[down + x] + now[down + right];
    int alive = now[row + x];
    next[row + x] = neighbours == 3 || (alive && neighbours == 2);
}
