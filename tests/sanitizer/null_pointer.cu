// A pointer that points nowhere.
__global__ void wrong(const int *a, int *b, int n) {
    int *p = n > 100 ? b : (int *)(a[0] - 1);
    p[0] = 1;  // here
}

__global__ void right(const int *a, int *b, int n) {
    int *p = n > 100 ? b : (int *)(a[0] - 1);
    if (p) p[0] = 1;
}
