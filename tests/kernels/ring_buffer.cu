// A queue in a ring: threads claim a slot by compare-and-swap, put a number in, and later take one out.
__device__ int claim(int *end) {
    int seen;
    int found = 0;
    do {
        seen = found;
        found = atomicCAS(end, seen, seen + 1);
    } while (found != seen);
    return seen;
}

__global__ void ring_buffer(const int *in, int *taken, int *ends) {
    __shared__ int slots[8];
    slots[claim(&ends[0]) & 7] = in[threadIdx.x];
    __syncthreads();
    atomicAdd(&taken[slots[claim(&ends[1]) & 7]], 1);
}
