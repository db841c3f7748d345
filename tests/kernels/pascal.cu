// A row of Pascal's triangle, a thread an entry, grown in shared memory.
__global__ void pascal(int *out, int row) {
    __shared__ int entries[32];
    int i = threadIdx.x;
    entries[i] = i == 0;
    __syncthreads();
    for (int r = 1; r <= row; ++r) {
        int left = i == 0 ? 0 : entries[i - 1];
        __syncthreads();
        entries[i] += left;
        __syncthreads();
    }
    out[i] = entries[i];
}
