// Puzzle 9, pooling: each thread sums its element and the two before it, through shared memory.
#define THREADS 8

__global__ void puzzle_pooling(int *out, const int *a, int size) {
    __shared__ int tile[THREADS];
    int i = threadIdx.x;
    if (i < size) tile[i] = a[i];
    __syncthreads();
    if (i >= size) return;
    int sum = tile[i];
    if (i >= 1) sum += tile[i - 1];
    if (i >= 2) sum += tile[i - 2];
    out[i] = sum;
}
