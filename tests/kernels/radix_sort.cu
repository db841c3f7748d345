// Radix sort, a bit a round: the zeros keep their order before the ones, placed by a prefix sum.
#define MAX_THREADS 16

__global__ void radix_sort(unsigned *data, int bits) {
    __shared__ unsigned keys[MAX_THREADS];
    __shared__ int ones[MAX_THREADS];
    int i = threadIdx.x, n = blockDim.x;
    unsigned key = data[i];
    for (int bit = 0; bit < bits; ++bit) {
        int one = key >> bit & 1;
        ones[i] = one;
        __syncthreads();
        for (int step = 1; step < n; step *= 2) {
            int before = i >= step ? ones[i - step] : 0;
            __syncthreads();
            ones[i] += before;
            __syncthreads();
        }
        int zeros = n - ones[n - 1];
        keys[one ? zeros + ones[i] - 1 : i - ones[i]] = key;
        __syncthreads();
        key = keys[i];
    }
    data[i] = key;
}
