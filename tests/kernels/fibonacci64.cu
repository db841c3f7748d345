// Fibonacci numbers of up to 64 bits.
__global__ void fibonacci64(const int *n, unsigned long long *out) {
    int i = threadIdx.x;
    unsigned long long a = 0;
    unsigned long long b = 1;
    for (int k = n[i]; k > 0; --k) {
        unsigned long long sum = a + b;
        a = b;
        b = sum;
    }
    out[i] = a;
}
