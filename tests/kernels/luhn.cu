// The Luhn check of decimal numbers, eight digits a thread: whether each one's check digit is right.
__global__ void luhn(const char *digits, int *valid) {
    const char *mine = digits + 8 * threadIdx.x;
    int sum = 0;
    for (int k = 0; k < 8; ++k) {
        int digit = mine[k] - '0';
        if (k % 2 == 0) digit = digit > 4 ? 2 * digit - 9 : 2 * digit;
        sum += digit;
    }
    valid[threadIdx.x] = sum % 10 == 0;
}
