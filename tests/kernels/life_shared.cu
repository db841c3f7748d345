// Generations of the game of life on a 4-wide torus kept in shared memory, one thread a cell.
#define WIDTH 4
#define MAX_CELLS 32

__global__ void life_shared(int *cells, int generations) {
    __shared__ int now[MAX_CELLS];
    int i = threadIdx.x, n = blockDim.x;
    int x = i % WIDTH, row = i - x;
    int left = (x + WIDTH - 1) % WIDTH, right = (x + 1) % WIDTH;
    int up = (row > 0 ? row : n) - WIDTH, down = row + WIDTH < n ? row + WIDTH : 0;
    int alive = cells[i];
    for (int g = 0; g < generations; ++g) {
        now[i] = alive;
        __syncthreads();
        int neighbours = now[row + left] + now[row + right] + now[up + left] + now[up + x] + now[up + right] +
                         now[down + left] + now[down + x] + now[down + right];
        alive = (neighbours | alive) == 3;
        __syncthreads();
    }
    cells[i] = alive;
}
