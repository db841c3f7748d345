// Steps until the Collatz sequence of each element reaches 1: another trip count in every lane.
__global__ void collatz(const unsigned *start, int *steps) {
    int i = threadIdx.x;
    unsigned n = start[i];
    int count = 0;
    while (n != 1) {
        n = n & 1 ? 3 * n + 1 : n >> 1;
        ++count;
    }
    steps[i] = count;
}
