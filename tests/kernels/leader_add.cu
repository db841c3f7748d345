// Warp-aggregated atomics: of the lanes with an odd number, the first adds for all and hands out the places.
__global__ void leader_add(const int *in, int *counter, int *out) {
    int lane = threadIdx.x;
    int value = in[lane];
    if (value & 1) {
        unsigned active = __activemask();
        int leader = __ffs(active) - 1;
        int base = 0;
        if (lane == leader) base = atomicAdd(counter, __popc(active));
        base = __shfl_sync(active, base, leader);
        out[base + __popc(active & ((1u << lane) - 1))] = value;
    }
}
