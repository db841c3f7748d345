// Whether all lanes of a warp hold the same number; if they do not, which lanes hold the first one's.
__global__ void agreement(const int *in, int *agreed, int *like_first) {
    int lane = threadIdx.x;
    int all;
    unsigned lanes = __match_all_sync(0xffffffffu, in[lane], &all);
    agreed[lane] = all ? __popc(lanes) : 0;
    int first = __shfl_sync(0xffffffffu, in[lane], 0);
    like_first[lane] = __popc(__ballot_sync(0xffffffffu, in[lane] == first));
}
