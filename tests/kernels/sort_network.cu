// Sorts each thread's four elements with a network of five comparators.
__device__ void order(int &a, int &b) {
    int low = min(a, b);
    b = max(a, b);
    a = low;
}

__global__ void sort_network(int *data) {
    int *mine = data + 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    int a = mine[0], b = mine[1], c = mine[2], d = mine[3];
    order(a, b);
    order(c, d);
    order(a, c);
    order(b, d);
    order(b, c);
    mine[0] = a;
    mine[1] = b;
    mine[2] = c;
    mine[3] = d;
}
