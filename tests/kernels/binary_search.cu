// The first position in a sorted array whose element is not below the thread's key.
__global__ void binary_search(const int *sorted, int n, const int *key, int *position) {
    int i = threadIdx.x;
    int wanted = key[i];
    int low = 0;
    int high = n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (sorted[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    position[i] = low;
}
