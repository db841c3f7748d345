// An interpreter of a small instruction set: each thread runs the program on its own input, a switch a step.
__global__ void bytecode(const int *program, const int *in, int *out) {
    int i = threadIdx.x;
    int accumulator = in[i];
    int saved = 0;
    int pc = 0;
    bool running = true;
    while (running) {
        int instruction = program[pc++];
        int operand = instruction >> 4;
        switch (instruction & 15) {
            case 0: running = false; break;
            case 1: accumulator += operand; break;
            case 2: accumulator *= operand; break;
            case 3: saved = accumulator; break;
            case 4: accumulator ^= saved; break;
            case 5: accumulator >>= operand; break;
            case 6: if (accumulator > 0) pc = operand; break;
            default: accumulator = -1; running = false;
        }
    }
    out[i] = accumulator;
}
