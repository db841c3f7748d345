// The 0/1 knapsack problem: a thread a capacity, an item a round, the table in shared memory.
__global__ void knapsack(const int *weight, const int *value, int items, int *best) {
    __shared__ int table[32];
    int capacity = threadIdx.x;
    int mine = 0;
    table[capacity] = 0;
    for (int k = 0; k < items; ++k) {
        __syncthreads();
        int w = weight[k];
        if (w <= capacity) mine = max(mine, table[capacity - w] + value[k]);
        __syncthreads();
        table[capacity] = mine;
    }
    best[capacity] = mine;
}
