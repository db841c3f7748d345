// Vector types: four integers, two integers or four bytes a load or store.
__global__ void vector_loads(const int4 *quads, int4 *out, uint2 *sums, const uchar4 *bytes) {
    int i = threadIdx.x;
    int4 q = quads[i];
    uchar4 p = bytes[i];
    sums[i] = make_uint2(q.x + q.y + q.z + q.w, p.x + p.y + p.z + p.w);
    out[i] = make_int4(q.w * p.x, q.z * p.y, q.y * p.z, q.x * p.w);
}
