// A loop that nobody ends.
__global__ void wrong(const int *a, int *b, int n) {
    volatile int *flag = b;
    while (flag[0] == 0) {}  // here
}

__global__ void right(const int *a, int *b, int n) {
    volatile int *flag = b;
    while (flag[0] == 1) {}
}
