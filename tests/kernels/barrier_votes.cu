// Three barriers that vote: how many threads, whether all, and whether any.
__global__ void barrier_votes(const int *in, int *count, int *every, int *any) {
    int i = threadIdx.x;
    int value = in[i];
    count[i] = __syncthreads_count(value > 0);
    every[i] = __syncthreads_and(value != 0) != 0;
    any[i] = __syncthreads_or(value < 0) != 0;
}
