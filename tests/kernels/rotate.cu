// Rotations by a variable amount and shifts of a pair of words.
__global__ void rotate(const unsigned *in, const unsigned *amount, unsigned *left, unsigned *right,
                       unsigned *pair) {
    int i = threadIdx.x;
    unsigned x = in[i];
    unsigned n = amount[i];
    left[i] = __funnelshift_l(x, x, n);
    right[i] = __funnelshift_r(x, x, n);
    pair[i] = __funnelshift_l(x, ~x, n) ^ __funnelshift_rc(x, ~x, n);
}
