// All shortest paths in a graph of up to 4 vertices, a thread a row of the distance matrix.
__global__ void floyd_warshall(int *distance, int n) {
    int i = threadIdx.x;
    for (int k = 0; k < n; ++k) {
        int first = distance[i * n + k];
        for (int j = 0; j < n; ++j) {
            int through = first + distance[k * n + j];
            if (through < distance[i * n + j]) distance[i * n + j] = through;
        }
        __syncthreads();
    }
}
