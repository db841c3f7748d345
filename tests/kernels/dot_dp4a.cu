// Dot product of vectors of signed bytes, four to a word.
__global__ void dot_dp4a(const int *a, const int *b, int n, int *out) {
    int sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum = __dp4a(a[i], b[i], sum);
    atomicAdd(out, sum);
}
