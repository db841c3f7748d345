// Puzzle 11, 1D convolution: out[i] = sum of a[i + k] * b[k]; each block stages its part of a and its halo.
#define THREADS 4
#define MAX_CONV 4

__global__ void puzzle_conv_1d(int *out, const int *a, const int *b, int a_size, int b_size) {
    __shared__ int a_tile[THREADS + MAX_CONV];
    __shared__ int b_tile[MAX_CONV];
    int local = threadIdx.x;
    int i = blockIdx.x * THREADS + local;
    a_tile[local] = i < a_size ? a[i] : 0;
    if (local < MAX_CONV) {
        a_tile[THREADS + local] = i + THREADS < a_size ? a[i + THREADS] : 0;
        b_tile[local] = local < b_size ? b[local] : 0;
    }
    __syncthreads();
    if (i < a_size) {
        int sum = 0;
        for (int k = 0; k < b_size; ++k) sum += a_tile[local + k] * b_tile[k];
        out[i] = sum;
    }
}
