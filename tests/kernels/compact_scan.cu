// Keeps the elements above a limit, in order: each thread's place is the prefix sum of the kept ones.
#define MAX_THREADS 32

__global__ void compact_scan(const int *in, int *out, int *count, int limit) {
    __shared__ int places[MAX_THREADS];
    int i = threadIdx.x;
    int value = in[i];
    int kept = value > limit;
    places[i] = kept;
    __syncthreads();
    for (int step = 1; step < blockDim.x; step *= 2) {
        int before = i >= step ? places[i - step] : 0;
        __syncthreads();
        places[i] += before;
        __syncthreads();
    }
    if (kept) out[places[i] - 1] = value;
    if (i == blockDim.x - 1) *count = places[i];
}
