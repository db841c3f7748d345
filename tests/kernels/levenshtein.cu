// Edit distance by a wavefront: thread j owns letter j of b and runs one step behind its left neighbour.
__global__ void levenshtein(const char *a, int n, const char *b, int *distance) {
    __shared__ int column[8];
    int j = threadIdx.x;
    int letter = b[j];
    int diagonal = j;
    int mine = j + 1;
    column[j] = mine;
    for (int step = 0; step < n + blockDim.x; ++step) {
        __syncthreads();
        int row = step - j;
        int left = j == 0 ? step + 1 : column[j - 1];
        __syncthreads();
        if (row >= 0 && row < n) {
            int replaced = diagonal + (a[row] != letter);
            mine = min(min(mine, left) + 1, replaced);
            column[j] = mine;
            diagonal = left;
        }
    }
    if (j == blockDim.x - 1) *distance = mine;
}
