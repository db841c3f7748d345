// Stream compaction by one warp: the lanes vote, and a lane's place is the number of kept lanes below it.
__global__ void compact_ballot(const int *in, int n, int *out, int *kept) {
    int lane = threadIdx.x;
    unsigned below = (1u << lane) - 1;
    int base = 0;
    for (int start = 0; start < n; start += blockDim.x) {
        int i = start + lane;
        int value = i < n ? in[i] : 0;
        unsigned votes = __ballot_sync(0xffffffffu, value > 0);
        if (value > 0) out[base + __popc(votes & below)] = value;
        base += __popc(votes);
    }
    if (lane == 0) *kept = base;
}
