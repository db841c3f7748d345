// The largest element and its first place.
__global__ void maximum(const int *a, int *best, int n) {
    int value = a[0];
    int place = 0;
    for (int i = 1; i < n; ++i) {
        bool larger = a[i] > value;
        value = larger ? a[i] : value;
        place = larger ? i : place;
    }
    best[0] = value;
    best[1] = place;
}
