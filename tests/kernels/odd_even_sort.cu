// Odd-even transposition sort: n rounds that order neighbours, one thread a pair.
#define MAX_COUNT 32

__global__ void odd_even_sort(int *data, int n) {
    __shared__ int keys[MAX_COUNT];
    for (int k = threadIdx.x; k < n; k += blockDim.x) keys[k] = data[k];
    __syncthreads();
    for (int round = 0; round < n; ++round) {
        int i = 2 * threadIdx.x + round % 2;
        if (i + 1 < n && keys[i] > keys[i + 1]) {
            int key = keys[i];
            keys[i] = keys[i + 1];
            keys[i + 1] = key;
        }
        __syncthreads();
    }
    for (int k = threadIdx.x; k < n; k += blockDim.x) data[k] = keys[k];
}
