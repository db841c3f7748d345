// A cubic in 0.32 fixed point by Horner's rule, and its signed counterpart.
__global__ void polynomial_mulhi(const unsigned *c, const unsigned *x, unsigned *out, int *out_signed) {
    int i = threadIdx.x;
    unsigned p = c[3];
    int q = (int)c[3];
    for (int k = 2; k >= 0; --k) {
        p = __umulhi(p, x[i]) + c[k];
        q = __mulhi(q, (int)x[i]) + (int)c[k];
    }
    out[i] = p;
    out_signed[i] = q;
}
