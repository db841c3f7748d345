// Run-length encoding: the threads find where runs begin, and each run's first thread measures it.
__global__ void run_length(const int *in, int n, int *value, int *length, int *runs) {
    __shared__ int begins[32];
    int i = threadIdx.x;
    int head = i < n && (i == 0 || in[i] != in[i - 1]);
    begins[i] = head;
    int count = __syncthreads_count(head);
    if (head) {
        int before = 0;
        for (int j = 0; j < i; ++j) before += begins[j];
        int end = i + 1;
        while (end < n && begins[end] == 0) ++end;
        value[before] = in[i];
        length[before] = end - i;
    }
    if (i == 0) *runs = count;
}
