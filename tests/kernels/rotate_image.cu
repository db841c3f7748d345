// Turns an image by 90 degrees clockwise.
__global__ void rotate_image(const int *in, int *out, int width, int height) {
    int x = threadIdx.x, y = blockIdx.x;
    out[x * height + height - 1 - y] = in[y * width + x];
}
