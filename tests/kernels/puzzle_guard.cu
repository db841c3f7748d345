// Puzzle 3, guard: map with more threads than elements.
__global__ void puzzle_guard(int *out, const int *a, int size) {
    int i = threadIdx.x;
    if (i < size) out[i] = a[i] + 10;
}
