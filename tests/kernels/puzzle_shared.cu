// Puzzle 8, shared memory: each thread adds 10 to an element that another thread of its block loaded.
#define THREADS 4

__global__ void puzzle_shared(int *out, const int *a, int size) {
    __shared__ int tile[THREADS];
    int i = blockIdx.x * THREADS + threadIdx.x;
    int other = threadIdx.x ^ 1;
    int i_other = blockIdx.x * THREADS + other;
    if (i < size) tile[threadIdx.x] = a[i];
    __syncthreads();
    if (i_other < size) out[i_other] = tile[other] + 10;
}
