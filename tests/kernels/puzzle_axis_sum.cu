// Puzzle 13, axis sum: block `batch` sums row `batch` of the matrix.
#define THREADS 8

__global__ void puzzle_axis_sum(int *out, const int *a, int size) {
    __shared__ int cache[THREADS];
    int i = threadIdx.x, batch = blockIdx.y;
    cache[i] = i < size ? a[batch * size + i] : 0;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (i < half) cache[i] += cache[i + half];
        __syncthreads();
    }
    if (i == 0) out[batch] = cache[0];
}
