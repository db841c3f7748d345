// Morton codes: the bits of x and y interleaved, and taken apart again.
__device__ unsigned spread(unsigned x) {
    x = (x | x << 8) & 0x00ff00ffu;
    x = (x | x << 4) & 0x0f0f0f0fu;
    x = (x | x << 2) & 0x33333333u;
    return (x | x << 1) & 0x55555555u;
}

__global__ void morton(const unsigned short *x, const unsigned short *y, unsigned *code, unsigned *parity) {
    int i = threadIdx.x;
    unsigned c = spread(x[i]) | spread(y[i]) << 1;
    code[i] = c;
    parity[i] = __popc(c) & 1;
}
