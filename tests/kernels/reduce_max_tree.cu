// Largest element and its first index: a tree over (value, index) pairs in shared memory.
#define MAX_THREADS 16

__global__ void reduce_max_tree(const int *in, int *best, int *where) {
    __shared__ int values[MAX_THREADS], indices[MAX_THREADS];
    int i = threadIdx.x;
    values[i] = in[i];
    indices[i] = i;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (i < half) {
            int value = values[i + half], index = indices[i + half];
            if (value > values[i] || (value == values[i] && index < indices[i])) {
                values[i] = value;
                indices[i] = index;
            }
        }
        __syncthreads();
    }
    if (i == 0) {
        *best = values[0];
        *where = indices[0];
    }
}
