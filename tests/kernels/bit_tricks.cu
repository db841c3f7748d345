// Counts, reversal, shifts by a variable amount, and bitwise logic.
__global__ void bit_tricks(const unsigned *in, unsigned *counts, unsigned *mixed, int *shifted) {
    int i = threadIdx.x;
    unsigned x = in[i];
    unsigned amount = x & 31;
    counts[i] = __popc(x) | __clz(x) << 8;
    mixed[i] = (__brev(x) ^ ~(x << 3)) & ~(x >> 5) | x & -x;
    shifted[i] = ((int)x >> amount) ^ (x << amount);
}
