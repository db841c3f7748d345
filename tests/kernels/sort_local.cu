// Each thread sorts its row by insertion in an array of its own.
#define LENGTH 4
__global__ void sort_local(int *rows) {
    int row[LENGTH];
    int *mine = rows + LENGTH * threadIdx.x;
    for (int i = 0; i < LENGTH; ++i) {
        int value = mine[i];
        int j = i;
        while (j > 0 && row[j - 1] > value) {
            row[j] = row[j - 1];
            --j;
        }
        row[j] = value;
    }
    for (int i = 0; i < LENGTH; ++i) mine[i] = row[i];
}
