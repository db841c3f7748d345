// Sum of an array: one block halves its number of summing threads at each barrier.
#define MAX_THREADS 32

__global__ void reduce_tree(const int *in, int *total, int n) {
    __shared__ int sums[MAX_THREADS];
    int i = threadIdx.x;
    sums[i] = i < n ? in[i] : 0;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (i < half) sums[i] += sums[i + half];
        __syncthreads();
    }
    if (i == 0) *total = sums[0];
}
