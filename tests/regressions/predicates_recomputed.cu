// Values that are computed again keep predicates alive: one more than there are.
__global__ void predicates_recomputed(const int *a, int *out) {
    int t = threadIdx.x, v = a[t];
    unsigned m = __activemask();
    out[t] = __ballot_sync(m, v & 1) | __popc(m) << 8;
    out[8 + t] = __match_any_sync(m, v);
    int p; out[16 + t] = __match_all_sync(m, v & 2, &p) * 2 + p;
    out[24 + t] = __reduce_add_sync(m, v) * 1000 + __reduce_max_sync(m, v - 5) * 10 + (int)__reduce_xor_sync(m, (unsigned)v);
    if (v & 1) out[32 + t] = __all_sync(__activemask(), v == 3) * 2 + __any_sync(__activemask(), v == 7) + 4 * __popc(__activemask());
}
