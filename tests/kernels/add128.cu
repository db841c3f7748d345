// 128-bit additions with carry, four words a number.
__global__ void add128(const unsigned *a, const unsigned *b, unsigned *sum) {
    int i = 4 * threadIdx.x;
    unsigned long long carry = 0;
    for (int k = 0; k < 4; ++k) {
        carry += (unsigned long long)a[i + k] + b[i + k];
        sum[i + k] = (unsigned)carry;
        carry >>= 32;
    }
}
