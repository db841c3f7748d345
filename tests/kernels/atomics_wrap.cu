// Counters that wrap at a bound: up from zero, and down to zero and back to the bound.
__global__ void atomics_wrap(unsigned *up, unsigned *down, int *drawn, unsigned bound) {
    unsigned mine = atomicInc(up, bound);
    atomicAdd(&drawn[mine & 7], 1);
    atomicDec(down, bound);
}
