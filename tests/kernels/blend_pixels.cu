// Blends two images of four-byte pixels with a weight of 0 to 256.
__global__ void blend_pixels(const uchar4 *a, const uchar4 *b, uchar4 *out, int weight) {
    int i = threadIdx.x;
    uchar4 p = a[i];
    uchar4 q = b[i];
    int other = 256 - weight;
    out[i] = make_uchar4((p.x * weight + q.x * other) >> 8, (p.y * weight + q.y * other) >> 8,
                         (p.z * weight + q.z * other) >> 8, (p.w * weight + q.w * other) >> 8);
}
