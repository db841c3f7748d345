// 3 x 3 convolution with weights in constant memory; only cells whose neighbours all exist have an output.
__constant__ int weights[9] = {1, 2, 1, 2, 4, 2, 1, 2, 1};

__global__ void convolution_2d(const int *in, int *out, int width) {
    int x = threadIdx.x, y = blockIdx.x;
    int sum = 0;
    for (int dy = 0; dy < 3; ++dy)
#pragma unroll 1
        for (int dx = 0; dx < 3; ++dx) sum += weights[3 * dy + dx] * in[(y + dy) * width + x + dx];
    out[y * blockDim.x + x] = sum >> 4;
}
