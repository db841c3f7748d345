// Puzzle 7, blocks 2D: map of a square matrix by a 2-D grid of 2-D blocks.
__global__ void puzzle_blocks_2d(int *out, const int *a, int size) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < size && column < size) out[row * size + column] = a[row * size + column] + 10;
}
