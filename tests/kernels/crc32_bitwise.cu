// CRC-32 (reflected, polynomial 0xEDB88320) of each 32-bit word, a bit at a time.
__global__ void crc32_bitwise(const unsigned *in, unsigned *out) {
    int i = threadIdx.x;
    unsigned crc = ~in[i];
    for (int bit = 0; bit < 32; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0);
    out[i] = ~crc;
}
