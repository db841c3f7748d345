// 64-bit division of signed numbers by 32-bit ones: means of large sums.
__global__ void division64_signed(const long long *sum, long long *mean, const int *count) {
    int i = threadIdx.x;
    mean[i] = sum[i] / count[i];
}
