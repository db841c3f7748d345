// Puzzle 14, matrix product: square matrices, both staged through shared memory tile by tile.
#define TILE 2

__global__ void puzzle_matmul(int *out, const int *a, const int *b, int size) {
    __shared__ int a_tile[TILE][TILE], b_tile[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int column = blockIdx.x * TILE + x, row = blockIdx.y * TILE + y;
    int sum = 0;
    for (int k = 0; k < size; k += TILE) {
        a_tile[y][x] = row < size && k + x < size ? a[row * size + k + x] : 0;
        b_tile[y][x] = k + y < size && column < size ? b[(k + y) * size + column] : 0;
        __syncthreads();
        for (int t = 0; t < TILE; ++t) sum += a_tile[y][t] * b_tile[t][x];
        __syncthreads();
    }
    if (row < size && column < size) out[row * size + column] = sum;
}
