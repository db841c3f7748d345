// Every lane takes another way through two levels of branches; one way loops.
__global__ void nested_branches(const int *in, int *out, int *kind) {
    int i = threadIdx.x;
    int v = in[i];
    if (v < 0) {
        if (v & 1) {
            out[i] = -v;
            kind[i] = 1;
        } else {
            out[i] = v >> 1;
            kind[i] = 2;
        }
    } else {
        if (v < 100) {
            int left = v;
            while (left > 3) left -= left >> 2;
            out[i] = left;
            kind[i] = 3;
        } else {
            out[i] = v * 3 + 1;
            kind[i] = 4;
        }
    }
}
