// Differences of neighbouring halfwords, signed and unsigned, through shared halfwords.
__global__ void delta16(const short *in, short *delta, unsigned short *magnitude) {
    __shared__ short values[33];
    int i = threadIdx.x;
    values[i + 1] = in[i];
    if (i == 0) values[0] = 0;
    __syncthreads();
    int difference = values[i + 1] - values[i];
    delta[i] = difference;
    magnitude[i] = abs(difference);
}
