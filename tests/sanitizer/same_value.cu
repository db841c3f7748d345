// All threads store the same value: a note, hardware agrees on the outcome.
__global__ void wrong(const int *a, int *b, int n) {
    b[0] = 7;  // here
}

__global__ void right(const int *a, int *b, int n) {
    if (threadIdx.x + blockIdx.x == 0) b[0] = 7;
}
