// Exclusive prefix sums (Blelloch): a tree of sums upwards, then the parts' offsets downwards.
#define MAX_COUNT 32

__global__ void scan_exclusive(const int *in, int *out, int n) {
    __shared__ int tree[MAX_COUNT];
    int i = threadIdx.x;
    tree[2 * i] = in[2 * i];
    tree[2 * i + 1] = in[2 * i + 1];
    int stride = 1;
    for (int active = n / 2; active > 0; active /= 2) {
        __syncthreads();
        if (i < active) tree[stride * (2 * i + 2) - 1] += tree[stride * (2 * i + 1) - 1];
        stride *= 2;
    }
    if (i == 0) tree[n - 1] = 0;
    for (int active = 1; active < n; active *= 2) {
        stride /= 2;
        __syncthreads();
        if (i < active) {
            int left = stride * (2 * i + 1) - 1, right = stride * (2 * i + 2) - 1;
            int sum = tree[left];
            tree[left] = tree[right];
            tree[right] += sum;
        }
    }
    __syncthreads();
    out[2 * i] = tree[2 * i];
    out[2 * i + 1] = tree[2 * i + 1];
}
