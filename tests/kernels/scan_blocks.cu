// Prefix sums of an array longer than a block: each block adds up what lies before its part, then scans it.
#define THREADS 4

__global__ void scan_blocks(const int *in, int *out, int n) {
    __shared__ int before;
    __shared__ int sums[THREADS];
    int local = threadIdx.x;
    int first = blockIdx.x * THREADS;
    int i = first + local;
    if (local == 0) before = 0;
    sums[local] = i < n ? in[i] : 0;
    __syncthreads();
    int mine = 0;
    for (int k = local; k < first; k += THREADS) mine += in[k];
    atomicAdd(&before, mine);
    __syncthreads();
    int sum = before;
    for (int k = 0; k <= local; ++k) sum += sums[k];
    if (i < n) out[i] = sum;
}
