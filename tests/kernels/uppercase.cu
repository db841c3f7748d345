// Letters to upper case and the string reversed, with byte loads and byte stores.
__global__ void uppercase(char *text, char *reversed, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    char c = text[i];
    if (c >= 'a' && c <= 'z') c -= 'a' - 'A';
    text[i] = c;
    reversed[n - 1 - i] = c;
}
