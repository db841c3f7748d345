// The operations of the expression language (docs/CHAT.md), one block, any number of threads.
// A stride of 0 makes an operand of one word serve for all. Sums and products are modulo 2**32.

#define EACH(i, n) (int i = threadIdx.x; i < (n); i += blockDim.x)

extern "C" __global__ void add(const int *a, int a_stride, const int *b, int b_stride, int *out, int n) {
    for EACH (i, n)
        out[i] = a[i * a_stride] + b[i * b_stride];
}

extern "C" __global__ void subtract(const int *a, int a_stride, const int *b, int b_stride, int *out, int n) {
    for EACH (i, n)
        out[i] = a[i * a_stride] - b[i * b_stride];
}

extern "C" __global__ void multiply(const int *a, int a_stride, const int *b, int b_stride, int *out, int n) {
    for EACH (i, n)
        out[i] = a[i * a_stride] * b[i * b_stride];
}

// out[rows][columns] = a[rows][inner] b[inner][columns]
extern "C" __global__ void product(const int *a, const int *b, int *out, int rows, int inner, int columns) {
    int row = 0, column = threadIdx.x;
    for EACH (i, rows * columns) {
        for (; column >= columns; column -= columns)
            row++;
        int total = 0;
        for (int k = 0; k < inner; k++)
            total += a[row * inner + k] * b[k * columns + column];
        out[i] = total;
        column += blockDim.x;
    }
}

extern "C" __global__ void sum(const int *a, int *out, int n) {
    int total = 0;
    for (int i = 0; i < n; i++)
        total += a[i];
    out[0] = total;
}

extern "C" __global__ void minimum(const int *a, int *out, int n) {
    int least = a[0];
    for (int i = 1; i < n; i++)
        least = min(least, a[i]);
    out[0] = least;
}

extern "C" __global__ void maximum(const int *a, int *out, int n) {
    int most = a[0];
    for (int i = 1; i < n; i++)
        most = max(most, a[i]);
    out[0] = most;
}

// Every element finds its place: as many as are smaller, or equal and before it.
extern "C" __global__ void sort(const int *a, int *out, int n) {
    for EACH (i, n) {
        int value = a[i], place = 0;
        for (int k = 0; k < n; k++)
            place += a[k] < value || (a[k] == value && k < i);
        out[place] = value;
    }
}

extern "C" __global__ void scan(const int *a, int *out, int n) {
    for EACH (i, n) {
        int total = 0;
        for (int k = 0; k <= i; k++)
            total += a[k];
        out[i] = total;
    }
}

extern "C" __global__ void count_equal(const int *a, const int *k, int *out, int n) {
    int found = 0;
    for (int i = 0; i < n; i++)
        found += a[i] == k[0];
    out[0] = found;
}

extern "C" __global__ void count_above(const int *a, const int *k, int *out, int n) {
    int found = 0;
    for (int i = 0; i < n; i++)
        found += a[i] > k[0];
    out[0] = found;
}

extern "C" __global__ void count_below(const int *a, const int *k, int *out, int n) {
    int found = 0;
    for (int i = 0; i < n; i++)
        found += a[i] < k[0];
    out[0] = found;
}
