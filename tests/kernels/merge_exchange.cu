// Batcher's merge exchange (Knuth's algorithm 5.2.2 M) on any number of elements in shared memory.
#define MAX_COUNT 32

__global__ void merge_exchange(int *data, int n, int top) {
    __shared__ int keys[MAX_COUNT];
    int i = threadIdx.x;
    if (i < n) keys[i] = data[i];
    __syncthreads();
    for (int p = top; p > 0; p /= 2) {
        int r = 0, d = p;
        for (int q = top; q >= p; q /= 2) {
            if (i + d < n && (i & p) == r && keys[i] > keys[i + d]) {
                int key = keys[i];
                keys[i] = keys[i + d];
                keys[i + d] = key;
            }
            __syncthreads();
            d = q - p;
            r = p;
        }
    }
    if (i < n) data[i] = keys[i];
}
