// The greatest sum of neighbouring elements (Kadane), each thread on its own row.
__global__ void max_subarray(const int *in, int length, int *out) {
    int i = threadIdx.x;
    int best = in[i * length];
    int ending = 0;
    for (int k = 0; k < length; ++k) {
        ending = max(ending, 0) + in[i * length + k];
        best = max(best, ending);
    }
    out[i] = best;
}
