// Motion search: where in a row the pattern's absolute differences add up to the least.
__global__ void block_matching(const int *row, const int *pattern, int length, int *place, unsigned *least) {
    __shared__ unsigned best;
    int i = threadIdx.x;
    unsigned sum = 0;
    for (int k = 0; k < length; ++k) sum = __sad(row[i + k], pattern[k], sum);
    if (i == 0) best = 0xffffffffu;
    __syncthreads();
    atomicMin(&best, sum);
    __syncthreads();
    if (sum == best) atomicMin(place, i);
    if (i == 0) *least = best;
}
