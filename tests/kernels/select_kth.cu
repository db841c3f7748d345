// The k-th smallest element, found bit by bit: __syncthreads_count says how many lie below the guess.
__global__ void select_kth(const unsigned *in, unsigned *out, int k) {
    unsigned value = in[threadIdx.x];
    unsigned guess = 0;
    for (unsigned bit = 0x80000000; bit != 0; bit /= 2) {
        int below = __syncthreads_count(value < (guess | bit));
        if (below <= k) guess |= bit;
    }
    if (threadIdx.x == 0) *out = guess;
}
