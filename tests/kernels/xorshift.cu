// Marsaglia's xorshift32 generator: each thread advances its own state by `steps` and sums what it drew.
__global__ void xorshift(unsigned *state, unsigned *sum, int steps) {
    int i = threadIdx.x;
    unsigned x = state[i];
    unsigned total = 0;
    for (int k = 0; k < steps; ++k) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        total += x;
    }
    state[i] = x;
    sum[i] = total;
}
