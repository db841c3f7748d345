// Puzzle 5, broadcast: out[row][column] is the sum of a row vector's and a column vector's element.
__global__ void puzzle_broadcast(int *out, const int *row_vector, const int *column_vector, int size) {
    int row = threadIdx.y, column = threadIdx.x;
    if (row < size && column < size) out[row * size + column] = row_vector[column] + column_vector[row];
}
