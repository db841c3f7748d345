// Puzzle 1, map: each thread adds 10 to one element.
__global__ void puzzle_map(int *out, const int *a) {
    int i = threadIdx.x;
    out[i] = a[i] + 10;
}
