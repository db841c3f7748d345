// Each output is the sum of the five inputs around it; a block stages its part and two elements on each side.
#define THREADS 8
#define RADIUS 2

__global__ void stencil_1d(const int *in, int *out, int n) {
    __shared__ int tile[THREADS + 2 * RADIUS];
    int i = blockIdx.x * THREADS + threadIdx.x;
    int center = threadIdx.x + RADIUS;
    tile[center] = i < n ? in[i] : 0;
    if (threadIdx.x < RADIUS) {
        int left = i - RADIUS, right = i + THREADS;
        tile[center - RADIUS] = left >= 0 ? in[left] : 0;
        tile[center + THREADS] = right < n ? in[right] : 0;
    }
    __syncthreads();
    if (i < n) {
        int sum = 0;
        for (int offset = -RADIUS; offset <= RADIUS; ++offset) sum += tile[center + offset];
        out[i] = sum;
    }
}
