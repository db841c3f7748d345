// One generation of Conway's game of life on a torus, one thread a cell.
__global__ void life(const int *now, int *next, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int neighbours = 0;
    for (int dy = height - 1; dy <= height + 1; ++dy)
#pragma unroll 1
        for (int dx = width - 1; dx <= width + 1; ++dx)
            neighbours += now[(y + dy) % height * width + (x + dx) % width];
    int alive = now[y * width + x];
    neighbours -= alive;
    next[y * width + x] = neighbours == 3 || (alive && neighbours == 2);
}
