// Who is left when every k-th of n people in a circle steps out.
__global__ void josephus(const unsigned *people, const unsigned *k, unsigned *survivor) {
    int i = threadIdx.x;
    unsigned n = people[i];
    unsigned step = k[i];
    unsigned place = 0;
    for (unsigned size = 2; size <= n; ++size) place = (place + step) % size;
    survivor[i] = place;
}
