// Bitonic sort of each warp's elements by shuffles, one element a lane.
__global__ void bitonic_warp(int *data) {
    int i = threadIdx.x;
    int lane = i % warpSize;
    int key = data[i];
    for (int size = 2; size <= warpSize; size *= 2) {
        for (int stride = size / 2; stride > 0; stride /= 2) {
            int other = __shfl_xor_sync(0xffffffff, key, stride);
            bool keep_low = ((lane & stride) == 0) == ((lane & size) == 0);
            key = keep_low ? min(key, other) : max(key, other);
        }
    }
    data[i] = key;
}
