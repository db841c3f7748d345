// Each warp asks whether any and whether all of its lanes have a number above the limit, and who they are.
__global__ void warp_votes(const int *in, int limit, int *out) {
    int i = threadIdx.x;
    int above = in[i] > limit;
    unsigned votes = __ballot_sync(0xffffffffu, above);
    int any = __any_sync(0xffffffffu, above) != 0;
    int all = __all_sync(0xffffffffu, above) != 0;
    out[i] = any + 2 * all + 4 * __popc(votes);
}
