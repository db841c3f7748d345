// Base64: three bytes in, four characters out, from an alphabet in constant memory.
__constant__ char alphabet[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

__global__ void base64(const unsigned char *in, char *out) {
    int i = threadIdx.x;
    unsigned bits = in[3 * i] << 16 | in[3 * i + 1] << 8 | in[3 * i + 2];
    for (int k = 3; k >= 0; --k) {
        out[4 * i + k] = alphabet[bits & 63];
        bits >>= 6;
    }
}
