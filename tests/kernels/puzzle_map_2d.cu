// Puzzle 4, map 2D: a square matrix under a larger square of threads.
__global__ void puzzle_map_2d(int *out, const int *a, int size) {
    int row = threadIdx.y, column = threadIdx.x;
    if (row < size && column < size) out[row * size + column] = a[row * size + column] + 10;
}
