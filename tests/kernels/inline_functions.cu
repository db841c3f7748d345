// Inlined device functions: a template, a structure by value, results through references.
struct Range {
    int low, high;
};

template <typename T>
__device__ T clamp(T value, T low, T high) {
    return value < low ? low : value > high ? high : value;
}

__device__ __forceinline__ Range around(int centre, int radius) {
    Range range = {centre - radius, centre + radius};
    return range;
}

__device__ void order(int &a, int &b) {
    if (a > b) {
        int held = a;
        a = b;
        b = held;
    }
}

__global__ void inline_functions(const int *a, const int *b, int *out, unsigned *width) {
    int i = threadIdx.x;
    int x = a[i];
    int y = b[i];
    Range range = around(y, 10);
    out[i] = clamp(x, range.low, range.high);
    order(x, y);
    width[i] = clamp((unsigned)(y - x), 1u, 1000u);
}
