// n factorial in 64 bits, wrapping.
__global__ void factorial64(const unsigned *n, unsigned long long *out) {
    int i = threadIdx.x;
    unsigned long long product = 1;
    for (unsigned k = n[i]; k > 1; --k) product *= k;
    out[i] = product;
}
