// Puzzle 6, blocks: map by several blocks, the last of them partly outside.
__global__ void puzzle_blocks(int *out, const int *a, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) out[i] = a[i] + 10;
}
