// 64-bit comparisons: the value of each row nearest to a limit from below, and how many lie above it.
__global__ void limits64(const long long *rows, const long long *limit, long long *nearest, int *above,
                         int length) {
    int t = threadIdx.x;
    long long bound = limit[t];
    long long best = -9223372036854775807ll - 1;
    int count = 0;
    for (int k = 0; k < length; ++k) {
        long long value = rows[t * length + k];
        if (value > bound)
            ++count;
        else
            best = max(best, value);
    }
    nearest[t] = best;
    above[t] = count;
}
