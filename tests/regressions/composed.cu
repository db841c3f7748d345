// The prelude's functions whose PTX instructions take several operations.
__global__ void composed(const int *a, int *out) {
    int i = threadIdx.x;
    out[2 * i] = __sad(a[i], a[i + 1], 5);
    out[2 * i + 1] = __mul24(a[i], a[i + 1]);
}
