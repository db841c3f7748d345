// An array of 64-bit elements behind an odd number of words starts on an even one.
__global__ void wide_behind_bytes(const signed char *a, long long *wide, long long *out) {
    int t = threadIdx.x;
    out[t] = wide[t] - a[t];
    wide[t] = a[t];
}
