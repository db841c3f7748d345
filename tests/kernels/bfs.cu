// Breadth-first search by levels: vertex v has the neighbours edges[first[v]] to edges[first[v + 1] - 1].
// A thread a vertex; distance -1 means not reached.
__global__ void bfs(const int *first, const int *edges, int *distance, int *reached, int source) {
    int v = threadIdx.x;
    distance[v] = v == source ? 0 : -1;
    int found = v == source;
    for (int level = 1; __syncthreads_or(found); ++level) {
        bool frontier = distance[v] == level - 1;
        found = 0;
        __syncthreads();
        if (!frontier) continue;
        for (int e = first[v]; e < first[v + 1]; ++e)
            if (atomicCAS(&distance[edges[e]], -1, level) == -1) {
                atomicAdd(reached, 1);
                found = 1;
            }
    }
}
