// Merges two sorted arrays: each thread finds its element's place in the other array by binary search.
__global__ void merge_sorted(const int *a, const int *b, int *out, int a_count, int b_count) {
    int i = threadIdx.x;
    bool from_a = i < a_count;
    int key = from_a ? a[i] : b[i - a_count];
    const int *other = from_a ? b : a;
    int low = 0, high = from_a ? b_count : a_count;
    while (low < high) {
        int middle = (low + high) / 2;
        // Of equal elements, those of a come first.
        if (other[middle] < key || (!from_a && other[middle] == key))
            low = middle + 1;
        else
            high = middle;
    }
    out[low + (from_a ? i : i - a_count)] = key;
}
