// Keeps one of each run of equal elements of a sorted array and counts how many are left.
#define MAX_THREADS 32

__global__ void unique_sorted(const int *in, int *out, int *count, int n) {
    __shared__ int first[MAX_THREADS];
    int i = threadIdx.x;
    first[i] = i < n && (i == 0 || in[i] != in[i - 1]);
    __syncthreads();
    if (first[i]) {
        int place = 0;
        for (int k = 0; k < i; ++k) place += first[k];
        out[place] = in[i];
        atomicAdd(count, 1);
    }
}
