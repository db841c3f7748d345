// Inclusive prefix sums in place (Hillis and Steele): each step adds the element `step` before.
#define MAX_THREADS 32

__global__ void scan_inclusive(int *data) {
    __shared__ int sums[MAX_THREADS];
    int i = threadIdx.x;
    sums[i] = data[i];
    __syncthreads();
    for (int step = 1; step < blockDim.x; step *= 2) {
        int before = i >= step ? sums[i - step] : 0;
        __syncthreads();
        sums[i] += before;
        __syncthreads();
    }
    data[i] = sums[i];
}
