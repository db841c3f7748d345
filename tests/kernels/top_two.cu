// The two largest elements: a tree over sorted pairs in shared memory.
#define MAX_THREADS 16

__global__ void top_two(const int *in, int *out) {
    __shared__ int firsts[MAX_THREADS], seconds[MAX_THREADS];
    int i = threadIdx.x;
    firsts[i] = max(in[2 * i], in[2 * i + 1]);
    seconds[i] = min(in[2 * i], in[2 * i + 1]);
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (i < half) {
            int first = firsts[i], other = firsts[i + half];
            firsts[i] = max(first, other);
            seconds[i] = max(min(first, other), max(seconds[i], seconds[i + half]));
        }
        __syncthreads();
    }
    if (i < 2) out[i] = i == 0 ? firsts[0] : seconds[0];
}
