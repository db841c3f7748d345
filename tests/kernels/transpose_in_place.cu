// Transposes a square matrix in place: a thread below the diagonal swaps its element with the one across.
__global__ void transpose_in_place(int *matrix, int size) {
    for (int k = threadIdx.x; k < size * size; k += blockDim.x) {
        int row = k / size, column = k % size;
        if (row > column) {
            int other = column * size + row;
            int value = matrix[k];
            matrix[k] = matrix[other];
            matrix[other] = value;
        }
    }
}
