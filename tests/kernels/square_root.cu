// Integer square roots, a bit of the root at a time.
__global__ void square_root(const unsigned *in, unsigned *out) {
    int i = threadIdx.x;
    unsigned rest = in[i];
    unsigned root = 0;
    for (unsigned bit = 1u << 30; bit != 0; bit >>= 2) {
        unsigned trial = root + bit;
        root >>= 1;
        if (rest >= trial) {
            rest -= trial;
            root += bit;
        }
    }
    out[i] = root;
}
