// The sieve of Eratosthenes: prime[i] becomes 1 where i is prime. The threads share each prime's multiples.
__global__ void sieve(int *prime, int n) {
    int t = threadIdx.x;
    int step = blockDim.x;
    for (int i = t; i < n; i += step) prime[i] = i > 1;
    __syncthreads();
    for (int p = 2; p * p < n; ++p) {
        if (prime[p])
            for (int i = p * (p + t); i < n; i += p * step) prime[i] = 0;
        __syncthreads();
    }
}
