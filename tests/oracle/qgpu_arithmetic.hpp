// Types and integer intrinsics of CUDA in portable C++, each from its definition in the CUDA Math API.
#pragma once

#include <stdint.h>

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;

#define QGPU_VECTORS(T, E)                                                        \
    struct T##1 { E x; };                                                         \
    struct alignas(2 * sizeof(E)) T##2 { E x, y; };                               \
    struct T##3 { E x, y, z; };                                                   \
    struct alignas(sizeof(E) == 8 ? 16 : 4 * sizeof(E)) T##4 { E x, y, z, w; };   \
    static inline T##1 make_##T##1(E x) { return {x}; }                           \
    static inline T##2 make_##T##2(E x, E y) { return {x, y}; }                   \
    static inline T##3 make_##T##3(E x, E y, E z) { return {x, y, z}; }           \
    static inline T##4 make_##T##4(E x, E y, E z, E w) { return {x, y, z, w}; }
QGPU_VECTORS(char, signed char)
QGPU_VECTORS(uchar, unsigned char)
QGPU_VECTORS(short, short)
QGPU_VECTORS(ushort, unsigned short)
QGPU_VECTORS(int, int)
QGPU_VECTORS(uint, unsigned)
QGPU_VECTORS(longlong, long long)
QGPU_VECTORS(ulonglong, unsigned long long)
#undef QGPU_VECTORS

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

// The usual arithmetic conversions decide the type, as in CUDA's overloads.
template <typename A, typename B> static inline auto min(A a, B b) -> decltype(a + b) {
    decltype(a + b) x = a, y = b;
    return x < y ? x : y;
}
template <typename A, typename B> static inline auto max(A a, B b) -> decltype(a + b) {
    decltype(a + b) x = a, y = b;
    return x > y ? x : y;
}
static inline unsigned umin(unsigned a, unsigned b) { return min(a, b); }
static inline unsigned umax(unsigned a, unsigned b) { return max(a, b); }
static inline long long llmin(long long a, long long b) { return min(a, b); }
static inline long long llmax(long long a, long long b) { return max(a, b); }
static inline unsigned long long ullmin(unsigned long long a, unsigned long long b) { return min(a, b); }
static inline unsigned long long ullmax(unsigned long long a, unsigned long long b) { return max(a, b); }
static inline int abs(int a) { return a < 0 ? -a : a; }
static inline long long abs(long long a) { return a < 0 ? -a : a; }
static inline long long llabs(long long a) { return a < 0 ? -a : a; }

static inline int __popcll(unsigned long long a) {
    int count = 0;
    for (int i = 0; i < 64; ++i) count += (int)(a >> i & 1);
    return count;
}
static inline int __popc(unsigned a) { return __popcll(a); }
static inline int __clzll(long long a) {
    int count = 0;
    while (count < 64 && !((unsigned long long)a >> (63 - count) & 1)) ++count;
    return count;
}
static inline int __clz(int a) { return __clzll((long long)(unsigned)a) - 32; }
static inline int __ffsll(long long a) {
    for (int i = 0; i < 64; ++i)
        if ((unsigned long long)a >> i & 1) return i + 1;
    return 0;
}
static inline int __ffs(int a) { return __ffsll((long long)(unsigned)a); }
static inline unsigned long long __brevll(unsigned long long a) {
    unsigned long long reversed = 0;
    for (int i = 0; i < 64; ++i) reversed |= (a >> i & 1) << (63 - i);
    return reversed;
}
static inline unsigned __brev(unsigned a) { return (unsigned)(__brevll(a) >> 32); }
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        unsigned which = selector >> 4 * i & 7;
        unsigned byte = (which < 4 ? a >> 8 * which : b >> 8 * (which - 4)) & 0xff;
        result |= byte << 8 * i;
    }
    return result;
}

static inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
static inline long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline int __mul24(int a, int b) {  // of the 48-bit product of 24-bit numbers, the low half
    long long x = (long long)((uint64_t)(uint32_t)a << 40) >> 40, y = (long long)((uint64_t)(uint32_t)b << 40) >> 40;
    return (int)(x * y);
}
static inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
static inline unsigned __sad(int a, int b, unsigned c) {
    long long difference = (long long)a - b;
    return (unsigned)(difference < 0 ? -difference : difference) + c;
}
static inline unsigned __usad(unsigned a, unsigned b, unsigned c) { return (a < b ? b - a : a - b) + c; }
static inline int __hadd(int a, int b) { return (int)(((long long)a + b) >> 1); }
static inline int __rhadd(int a, int b) { return (int)(((long long)a + b + 1) >> 1); }
static inline unsigned __uhadd(unsigned a, unsigned b) { return (unsigned)(((uint64_t)a + b) >> 1); }
static inline unsigned __urhadd(unsigned a, unsigned b) { return (unsigned)(((uint64_t)a + b + 1) >> 1); }

// The 64-bit number hi:lo shifted; l keeps its high half, r its low half. The plain form takes the shift modulo 32.
static inline unsigned __funnelshift_lc(unsigned lo, unsigned hi, unsigned shift) {
    uint64_t both = (uint64_t)hi << 32 | lo;
    return (unsigned)(both << (shift < 32 ? shift : 32) >> 32);
}
static inline unsigned __funnelshift_rc(unsigned lo, unsigned hi, unsigned shift) {
    uint64_t both = (uint64_t)hi << 32 | lo;
    return (unsigned)(both >> (shift < 32 ? shift : 32));
}
static inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned shift) {
    return __funnelshift_lc(lo, hi, shift & 31);
}
static inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned shift) {
    return __funnelshift_rc(lo, hi, shift & 31);
}

// Dot products of the bytes of two words, or (dp2a) of two halfwords with the low or high two bytes.
static inline long long qgpu_byte(int word, int i) { return (signed char)(word >> 8 * i & 0xff); }
static inline long long qgpu_byte(unsigned word, int i) { return word >> 8 * i & 0xff; }
static inline long long qgpu_half(int word, int i) { return (short)(word >> 16 * i & 0xffff); }
static inline long long qgpu_half(unsigned word, int i) { return word >> 16 * i & 0xffff; }
#define QGPU_DOT(T)                                                                                             \
    static inline T __dp4a(T a, T b, T c) {                                                                     \
        long long sum = c;                                                                                      \
        for (int i = 0; i < 4; ++i) sum += qgpu_byte(a, i) * qgpu_byte(b, i);                                   \
        return (T)sum;                                                                                          \
    }                                                                                                           \
    static inline T __dp2a_lo(T a, T b, T c) {                                                                  \
        return (T)(c + qgpu_half(a, 0) * qgpu_byte(b, 0) + qgpu_half(a, 1) * qgpu_byte(b, 1));                  \
    }                                                                                                           \
    static inline T __dp2a_hi(T a, T b, T c) {                                                                  \
        return (T)(c + qgpu_half(a, 0) * qgpu_byte(b, 2) + qgpu_half(a, 1) * qgpu_byte(b, 3));                  \
    }
QGPU_DOT(int)
QGPU_DOT(unsigned)
#undef QGPU_DOT
