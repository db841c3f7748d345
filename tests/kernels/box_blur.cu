// Sum of the 3 x 3 cells around each cell, zeros outside; a block stages its tile with a rim of one cell.
#define TILE 2
#define SIDE (TILE + 2)

__global__ void box_blur(const int *in, int *out, int width, int height) {
    __shared__ int tile[SIDE][SIDE];
    int first_x = blockIdx.x * TILE - 1, first_y = blockIdx.y * TILE - 1;
    for (int k = threadIdx.y * TILE + threadIdx.x; k < SIDE * SIDE; k += TILE * TILE) {
        int x = first_x + k % SIDE, y = first_y + k / SIDE;
        bool inside = x >= 0 && x < width && y >= 0 && y < height;
        tile[k / SIDE][k % SIDE] = inside ? in[y * width + x] : 0;
    }
    __syncthreads();
    int x = first_x + 1 + threadIdx.x, y = first_y + 1 + threadIdx.y;
    if (x < width && y < height) {
        int sum = 0;
#pragma unroll 1
        for (int k = 0; k < 9; ++k) sum += tile[threadIdx.y + k / 3][threadIdx.x + k % 3];
        out[y * width + x] = sum;
    }
}
