// Escape times of the Mandelbrot set in fixed point with 12 fraction bits, one block a row.
#define ONE (1 << 12)

__global__ void mandelbrot(int *counts, int left, int top, int step, int limit) {
    int cx = left + threadIdx.x * step, cy = top - blockIdx.x * step;
    int x = 0, y = 0, count = 0;
    while (count < limit) {
        int xx = x * x >> 12, yy = y * y >> 12;
        if (xx + yy > 4 * ONE) break;
        y = (x * y >> 11) + cy;
        x = xx - yy + cx;
        ++count;
    }
    counts[blockIdx.x * blockDim.x + threadIdx.x] = count;
}
