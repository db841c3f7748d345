// A store to constant memory, through a pointer that has lost its const.
__constant__ int table[4] = {1, 2, 3, 4};

__global__ void wrong(const int *a, int *b, int n) {
    int *p = a[0] == 100 ? b : (int *)table;
    p[threadIdx.x] = 5;  // here
}

__global__ void right(const int *a, int *b, int n) {
    int *p = a[0] == 1 ? b : (int *)table;
    p[threadIdx.x] = 5;
}
