// A five-way switch with a default.
__global__ void switch5(const int *op, const int *a, const int *b, int *out) {
    int i = threadIdx.x;
    int x = a[i];
    int y = b[i];
    int r;
    switch (op[i]) {
        case 0: r = x + y; break;
        case 1: r = x - y; break;
        case 2: r = x * y; break;
        case 3: r = x & y; break;
        case 4: r = x < y ? x : y; break;
        default: r = -1;
    }
    out[i] = r;
}
