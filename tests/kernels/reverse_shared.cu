// Reverses an array in place through shared memory of a size the launch decides.
extern __shared__ int buffer[];

__global__ void reverse_shared(int *data) {
    int i = threadIdx.x;
    buffer[i] = data[i];
    __syncthreads();
    data[i] = buffer[blockDim.x - 1 - i];
}
