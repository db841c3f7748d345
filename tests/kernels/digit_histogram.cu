// The decimal digit that a number has most often (the smallest of them), counted in a local array.
__global__ void digit_histogram(const unsigned *in, int *digit, int *times) {
    int count[10] = {0};
    int i = threadIdx.x;
    unsigned x = in[i];
    do {
        ++count[x % 10];
        x /= 10;
    } while (x != 0);
    int best = 0;
    for (int d = 1; d < 10; ++d)
        if (count[d] > count[best]) best = d;
    digit[i] = best;
    times[i] = count[best];
}
