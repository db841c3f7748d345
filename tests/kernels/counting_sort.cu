// Counting sort of keys below KEYS: shared atomics count them, then each thread writes its key's stretch.
#define KEYS 8

__global__ void counting_sort(const int *in, int *out, int n) {
    __shared__ int counts[KEYS];
    int i = threadIdx.x;
    if (i < KEYS) counts[i] = 0;
    __syncthreads();
    for (int k = i; k < n; k += blockDim.x) atomicAdd(&counts[in[k]], 1);
    __syncthreads();
    if (i < KEYS) {
        int first = 0;
        for (int key = 0; key < i; ++key) first += counts[key];
        for (int k = 0; k < counts[i]; ++k) out[first + k] = i;
    }
}
