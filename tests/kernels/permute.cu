// Scatters elements to their places, then gathers them back the other way round.
__global__ void permute(const int *in, const int *places, int *scattered, int *gathered) {
    int i = threadIdx.x;
    scattered[places[i]] = in[i];
    gathered[i] = in[places[i]];
}
