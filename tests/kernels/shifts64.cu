// 64-bit shifts by a variable amount: left, right, and right with the sign.
__global__ void shifts64(const unsigned long long *in, unsigned long long *out, const int *amount) {
    int i = threadIdx.x;
    unsigned long long x = in[i];
    int n = amount[i];
    out[3 * i] = x << n;
    out[3 * i + 1] = x >> n;
    out[3 * i + 2] = (long long)x >> n;
}
