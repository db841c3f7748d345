// Bits counted without an instruction for it, the next power of two, the next number with as many bits.
__global__ void popcount_tricks(const unsigned *in, unsigned *count, unsigned *power, unsigned *next) {
    int i = threadIdx.x;
    unsigned x = in[i];
    unsigned c = x - ((x >> 1) & 0x55555555u);
    c = (c & 0x33333333u) + ((c >> 2) & 0x33333333u);
    c = (c + (c >> 4)) & 0x0f0f0f0fu;
    count[i] = (c * 0x01010101u) >> 24;

    unsigned p = x - 1;
    p |= p >> 1;
    p |= p >> 2;
    p |= p >> 4;
    p |= p >> 8;
    p |= p >> 16;
    power[i] = p + 1;

    unsigned low = x & (0u - x);
    unsigned ripple = x + low;
    next[i] = ripple | (((x ^ ripple) >> 2) >> (__ffs(x) - 1));
}
