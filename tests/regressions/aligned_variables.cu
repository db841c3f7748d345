// Addresses put together with `|`: a variable stands at a multiple of its alignment, whatever is before it.
struct __align__(16) Four { int v[4]; };
__constant__ unsigned char before[3] = {9, 8, 7};
__device__ Four table[2] = {{{1, 2, 3, 4}}, {{5, 6, 7, 8}}};
__global__ void aligned_variables(const int *x, const int4 *a, int *out) {
    int t = threadIdx.x;
    int4 v = a[t];
    out[2 * t] = v.x + v.w * 10 + before[t + 1] + x[0];
    out[2 * t + 1] = *(int *)((size_t)&table[t] | (t * 4 + 4));
}
