// y = a * x + y on 16-bit integers, saturated to their range.
__global__ void saxpy16(short a, const short *x, short *y) {
    int i = threadIdx.x;
    int sum = a * x[i] + y[i];
    y[i] = max(-32768, min(sum, 32767));
}
