// Puzzle 12, block sums: each block sums its elements in log2(THREADS) steps and writes the total.
#define THREADS 8

__global__ void puzzle_prefix_sum(int *out, const int *a, int size) {
    __shared__ int cache[THREADS];
    int local = threadIdx.x;
    int i = blockIdx.x * THREADS + local;
    cache[local] = i < size ? a[i] : 0;
    __syncthreads();
    for (int step = 1; step < THREADS; step *= 2) {
        if (local % (2 * step) == 0) cache[local] += cache[local + step];
        __syncthreads();
    }
    if (local == 0) out[blockIdx.x] = cache[0];
}
