// A bit field is read, with and without its sign, and another number's low bits are put in its place.
__global__ void bit_fields(const unsigned *in, const int *position, const int *width, const unsigned *field,
                           unsigned *plain, int *extended, unsigned *inserted) {
    int i = threadIdx.x;
    unsigned x = in[i];
    int p = position[i];
    int w = width[i];
    unsigned mask = (1u << w) - 1;
    unsigned bits = (x >> p) & mask;
    plain[i] = bits;
    extended[i] = (int)(bits << (32 - w)) >> (32 - w);
    inserted[i] = (x & ~(mask << p)) | ((field[i] & mask) << p);
}
