// Lanes with equal keys find each other: the group's size, and its sum, which the group's first lane adds up.
__global__ void match_groups(const int *key, const int *in, int *size, int *sum) {
    int lane = threadIdx.x;
    unsigned group = __match_any_sync(0xffffffffu, key[lane]);
    size[lane] = __popc(group);
    if (__ffs(group) - 1 == lane) {
        int total = 0;
        for (unsigned rest = group; rest != 0; rest &= rest - 1) total += in[__ffs(rest) - 1];
        sum[lane] = total;
    }
}
