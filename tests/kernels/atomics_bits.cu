// And, or and exclusive or of all threads' numbers by atomics.
__global__ void atomics_bits(const unsigned *in, unsigned *result) {
    __shared__ unsigned odd;
    unsigned value = in[threadIdx.x];
    if (threadIdx.x == 0) odd = 0;
    __syncthreads();
    atomicAnd(&result[0], value);
    atomicOr(&result[1], value);
    atomicXor(&odd, value);
    __syncthreads();
    if (threadIdx.x == 0) result[2] = odd;
}
