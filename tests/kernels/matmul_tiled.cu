// C = A B for an m x k and a k x n matrix, tile by tile through shared memory, zeros beyond the edges.
#define TILE 2

__global__ void matmul_tiled(const int *a, const int *b, int *c, int m, int n, int k) {
    __shared__ int a_tile[TILE][TILE], b_tile[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    int sum = 0;
    for (int first = 0; first < k; first += TILE) {
        a_tile[y][x] = row < m && first + x < k ? a[row * k + first + x] : 0;
        b_tile[y][x] = first + y < k && column < n ? b[(first + y) * n + column] : 0;
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += a_tile[y][i] * b_tile[i][x];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}
