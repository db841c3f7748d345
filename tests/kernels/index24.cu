// Row-major indices with 24-bit multiplications, and a hash of them.
__global__ void index24(const int *x, const int *y, int width, int *index, unsigned *hash) {
    int i = threadIdx.x;
    int at = __mul24(y[i], width) + x[i];
    index[i] = at;
    hash[i] = __umul24(at, 0x9e3779u) ^ __umulhi(at, 0x85ebca6bu);
}
