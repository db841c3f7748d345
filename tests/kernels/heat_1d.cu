// Heat along a rod whose ends keep their temperature: `steps` steps in shared memory, one thread a point.
#define MAX_POINTS 32

__global__ void heat_1d(int *rod, int steps) {
    __shared__ int now[MAX_POINTS];
    int i = threadIdx.x, n = blockDim.x;
    int value = rod[i];
    for (int step = 0; step < steps; ++step) {
        now[i] = value;
        __syncthreads();
        if (i > 0 && i < n - 1) value = (now[i - 1] + 2 * value + now[i + 1]) >> 2;
        __syncthreads();
    }
    rod[i] = value;
}
