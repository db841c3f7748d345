// One generation of the game of life on a torus 32 cells wide: a word a row, all its cells counted at once.
__device__ unsigned majority(unsigned a, unsigned b, unsigned c) { return (a & b) | (a & c) | (b & c); }

__global__ void life_bits(const unsigned *now, unsigned *next) {
    int i = threadIdx.x, n = blockDim.x;
    unsigned ones = 0, twos = 0, fours = 0;
    unsigned alive = now[i];
#pragma unroll 1
    for (int k = n - 1; k <= n + 1; ++k) {
        unsigned row = now[(i + k) % n];
        unsigned left = __funnelshift_l(row, row, 1), right = __funnelshift_r(row, row, 1);
        unsigned middle = k == n ? 0 : row;
        unsigned carry = majority(left, middle, right);
        unsigned sum = left ^ middle ^ right;
        unsigned carry2 = ones & sum;
        ones ^= sum;
        fours |= majority(twos, carry, carry2);
        twos ^= carry ^ carry2;
    }
    next[i] = twos & ~fours & (ones | alive);
}
