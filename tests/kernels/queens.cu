// In how many ways n queens stand on an n x n board with the first in the thread's column: backtracking, with
// the columns of the queens so far in a local array.
__global__ void queens(int *ways, int n) {
    int column[6];
    int count = 0;
    int row = 1;
    column[0] = threadIdx.x;
    column[1] = -1;
    while (row > 0) {
        int c = ++column[row];
        if (c == n) {
            --row;
            continue;
        }
        bool safe = true;
        for (int r = 0; r < row; ++r) {
            int apart = abs(c - column[r]);
            safe = safe && apart != 0 && apart != row - r;
        }
        if (!safe) continue;
        if (row == n - 1)
            ++count;
        else
            column[++row] = -1;
    }
    ways[threadIdx.x] = count;
}
