// Bitonic sort of a power of two of elements in shared memory, one thread an element.
#define MAX_THREADS 32

__global__ void bitonic_sort(int *data) {
    __shared__ int keys[MAX_THREADS];
    int i = threadIdx.x;
    keys[i] = data[i];
    __syncthreads();
    for (int size = 2; size <= blockDim.x; size *= 2) {
        for (int stride = size / 2; stride > 0; stride /= 2) {
            int other = i ^ stride;
            if (other > i) {
                int low = min(keys[i], keys[other]), high = max(keys[i], keys[other]);
                bool ascending = (i & size) == 0;
                keys[i] = ascending ? low : high;
                keys[other] = ascending ? high : low;
            }
            __syncthreads();
        }
    }
    data[i] = keys[i];
}
