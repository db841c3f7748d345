// The CUDA names a kernel uses, for clang without NVIDIA's headers. Force-included before the user's file.
// Everything inlines to single PTX instructions; `nodebug` leaves them at the caller's source line.
#pragma once
#pragma clang system_header

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __noinline__  // the machine has no calls: everything is inlined
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __align__(n) __attribute__((aligned(n)))
#define __restrict __restrict__
#define __managed__ __device__
#define __grid_constant__
#define __CUDACC__ 1
#define warpSize (qgpuc_warp_size())

#define QGPUC_FN static __attribute__((device, always_inline, nodebug, unused)) inline

// Integer types (no system header is needed).
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef __INTPTR_TYPE__ intptr_t;
typedef __UINTPTR_TYPE__ uintptr_t;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
#define INT8_MIN (-128)
#define INT8_MAX 127
#define UINT8_MAX 255
#define INT16_MIN (-32768)
#define INT16_MAX 32767
#define UINT16_MAX 65535
#define INT32_MAX 2147483647
#define INT32_MIN (-INT32_MAX - 1)
#define UINT32_MAX 4294967295u
#define INT_MAX INT32_MAX
#define INT_MIN INT32_MIN
#define UINT_MAX UINT32_MAX
#define INT64_MAX 9223372036854775807ll
#define INT64_MIN (-INT64_MAX - 1)
#define UINT64_MAX 18446744073709551615ull
#ifndef NULL
#define NULL 0
#endif

// Vector types.
#define QGPUC_VECTORS(T, E)                                                                              \
    struct T##1 { E x; };                                                                                \
    struct __attribute__((aligned(2 * sizeof(E)))) T##2 { E x, y; };                                     \
    struct T##3 { E x, y, z; };                                                                          \
    struct __attribute__((aligned(sizeof(E) < 4 ? 4 * sizeof(E) : 16))) T##4 { E x, y, z, w; };          \
    QGPUC_FN T##1 make_##T##1(E x) { T##1 v; v.x = x; return v; }                                        \
    QGPUC_FN T##2 make_##T##2(E x, E y) { T##2 v; v.x = x; v.y = y; return v; }                          \
    QGPUC_FN T##3 make_##T##3(E x, E y, E z) { T##3 v; v.x = x; v.y = y; v.z = z; return v; }            \
    QGPUC_FN T##4 make_##T##4(E x, E y, E z, E w) { T##4 v; v.x = x; v.y = y; v.z = z; v.w = w; return v; }
QGPUC_VECTORS(char, signed char)
QGPUC_VECTORS(uchar, unsigned char)
QGPUC_VECTORS(short, short)
QGPUC_VECTORS(ushort, unsigned short)
QGPUC_VECTORS(int, int)
QGPUC_VECTORS(uint, unsigned int)
QGPUC_VECTORS(longlong, long long)
QGPUC_VECTORS(ulonglong, unsigned long long)
#undef QGPUC_VECTORS

struct dim3 {
    unsigned x, y, z;
    __host__ __device__ constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

// threadIdx, blockIdx, blockDim, gridDim: reading a member reads the special register.
#define QGPUC_INDEX(NAME, SREG)                                                                          \
    struct qgpuc_##NAME {                                                                                \
        __attribute__((device, always_inline, nodebug)) static unsigned get_x() {                        \
            return __nvvm_read_ptx_sreg_##SREG##_x();                                                    \
        }                                                                                                \
        __attribute__((device, always_inline, nodebug)) static unsigned get_y() {                        \
            return __nvvm_read_ptx_sreg_##SREG##_y();                                                    \
        }                                                                                                \
        __attribute__((device, always_inline, nodebug)) static unsigned get_z() {                        \
            return __nvvm_read_ptx_sreg_##SREG##_z();                                                    \
        }                                                                                                \
        __declspec(property(get = get_x)) unsigned x;                                                    \
        __declspec(property(get = get_y)) unsigned y;                                                    \
        __declspec(property(get = get_z)) unsigned z;                                                    \
        __attribute__((device, always_inline, nodebug)) operator dim3() const {                          \
            return dim3(get_x(), get_y(), get_z());                                                      \
        }                                                                                                \
        __attribute__((device, always_inline, nodebug)) operator uint3() const {                         \
            return make_uint3(get_x(), get_y(), get_z());                                                \
        }                                                                                                \
    };                                                                                                   \
    extern const __attribute__((device, weak)) qgpuc_##NAME NAME;
QGPUC_INDEX(threadIdx, tid)
QGPUC_INDEX(blockIdx, ctaid)
QGPUC_INDEX(blockDim, ntid)
QGPUC_INDEX(gridDim, nctaid)
#undef QGPUC_INDEX

// Arithmetic.
QGPUC_FN int abs(int x) { return x < 0 ? -x : x; }
QGPUC_FN long abs(long x) { return x < 0 ? -x : x; }
QGPUC_FN long long abs(long long x) { return x < 0 ? -x : x; }
QGPUC_FN long labs(long x) { return x < 0 ? -x : x; }
QGPUC_FN long long llabs(long long x) { return x < 0 ? -x : x; }
#define QGPUC_MINMAX(A, B, T)                                                                            \
    QGPUC_FN T min(A a, B b) { return (T)a < (T)b ? (T)a : (T)b; }                                       \
    QGPUC_FN T max(A a, B b) { return (T)a > (T)b ? (T)a : (T)b; }
QGPUC_MINMAX(int, int, int)
QGPUC_MINMAX(unsigned, unsigned, unsigned)
QGPUC_MINMAX(int, unsigned, unsigned)
QGPUC_MINMAX(unsigned, int, unsigned)
QGPUC_MINMAX(long long, long long, long long)
QGPUC_MINMAX(unsigned long long, unsigned long long, unsigned long long)
QGPUC_MINMAX(long long, unsigned long long, unsigned long long)
QGPUC_MINMAX(unsigned long long, long long, unsigned long long)
QGPUC_MINMAX(long, long, long)
QGPUC_MINMAX(unsigned long, unsigned long, unsigned long)
#undef QGPUC_MINMAX
QGPUC_FN unsigned umin(unsigned a, unsigned b) { return a < b ? a : b; }
QGPUC_FN unsigned umax(unsigned a, unsigned b) { return a > b ? a : b; }
QGPUC_FN long long llmin(long long a, long long b) { return min(a, b); }
QGPUC_FN long long llmax(long long a, long long b) { return max(a, b); }
QGPUC_FN unsigned long long ullmin(unsigned long long a, unsigned long long b) { return min(a, b); }
QGPUC_FN unsigned long long ullmax(unsigned long long a, unsigned long long b) { return max(a, b); }
QGPUC_FN int __popc(unsigned x) { return __builtin_popcount(x); }
QGPUC_FN int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
QGPUC_FN int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
QGPUC_FN int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
QGPUC_FN int __ffs(int x) { return __builtin_ffs(x); }
QGPUC_FN int __ffsll(long long x) { return __builtin_ffsll(x); }
QGPUC_FN unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
QGPUC_FN unsigned long long __brevll(unsigned long long x) { return __builtin_bitreverse64(x); }
QGPUC_FN int __mulhi(int a, int b) { return __nvvm_mulhi_i(a, b); }
QGPUC_FN unsigned __umulhi(unsigned a, unsigned b) { return __nvvm_mulhi_ui(a, b); }
QGPUC_FN long long __mul64hi(long long a, long long b) { return __nvvm_mulhi_ll(a, b); }
QGPUC_FN unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return __nvvm_mulhi_ull(a, b);
}
QGPUC_FN int __mul24(int a, int b) { return __nvvm_mul24_i(a, b); }
QGPUC_FN unsigned __umul24(unsigned a, unsigned b) { return __nvvm_mul24_ui(a, b); }
QGPUC_FN unsigned __sad(int a, int b, unsigned c) { return __nvvm_sad_i(a, b, (int)c); }
QGPUC_FN unsigned __usad(unsigned a, unsigned b, unsigned c) { return __nvvm_sad_ui(a, b, c); }
QGPUC_FN unsigned __byte_perm(unsigned a, unsigned b, unsigned s) { return __nvvm_prmt(a, b, s & 0x7777); }
QGPUC_FN int __hadd(int a, int b) { return (int)(((long long)a + b) >> 1); }
QGPUC_FN int __rhadd(int a, int b) { return (int)(((long long)a + b + 1) >> 1); }
QGPUC_FN unsigned __uhadd(unsigned a, unsigned b) { return (a & b) + ((a ^ b) >> 1); }
QGPUC_FN unsigned __urhadd(unsigned a, unsigned b) { return (a | b) - ((a ^ b) >> 1); }
#define QGPUC_SHF(NAME, PTX)                                                                             \
    QGPUC_FN unsigned NAME(unsigned lo, unsigned hi, unsigned shift) {                                   \
        unsigned r;                                                                                      \
        __asm__(PTX " %0, %1, %2, %3;" : "=r"(r) : "r"(lo), "r"(hi), "r"(shift));                        \
        return r;                                                                                        \
    }
QGPUC_SHF(__funnelshift_l, "shf.l.wrap.b32")
QGPUC_SHF(__funnelshift_lc, "shf.l.clamp.b32")
QGPUC_SHF(__funnelshift_r, "shf.r.wrap.b32")
QGPUC_SHF(__funnelshift_rc, "shf.r.clamp.b32")
#undef QGPUC_SHF

// Dot products of bytes, and of halfwords with bytes.
#define QGPUC_DOT(NAME, T, PTX)                                                                          \
    QGPUC_FN T NAME(T a, T b, T c) {                                                                     \
        T r;                                                                                             \
        __asm__(PTX " %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));                              \
        return r;                                                                                        \
    }
QGPUC_DOT(__dp4a, int, "dp4a.s32.s32")
QGPUC_DOT(__dp4a, unsigned, "dp4a.u32.u32")
QGPUC_DOT(__dp2a_lo, int, "dp2a.lo.s32.s32")
QGPUC_DOT(__dp2a_lo, unsigned, "dp2a.lo.u32.u32")
QGPUC_DOT(__dp2a_hi, int, "dp2a.hi.s32.s32")
QGPUC_DOT(__dp2a_hi, unsigned, "dp2a.hi.u32.u32")
#undef QGPUC_DOT
#define QGPUC_DOT(NAME, T, A, B)                                                                         \
    QGPUC_FN T NAME(A a, B b, T c) {                                                                     \
        return NAME(__builtin_bit_cast(T, a), __builtin_bit_cast(T, b), c);                              \
    }
QGPUC_DOT(__dp4a, int, char4, char4)
QGPUC_DOT(__dp4a, unsigned, uchar4, uchar4)
QGPUC_DOT(__dp2a_lo, int, short2, char4)
QGPUC_DOT(__dp2a_lo, unsigned, ushort2, uchar4)
QGPUC_DOT(__dp2a_hi, int, short2, char4)
QGPUC_DOT(__dp2a_hi, unsigned, ushort2, uchar4)
#undef QGPUC_DOT

// Loads with a cache hint: there is no cache.
#define QGPUC_LOAD(NAME)                                                                                 \
    template <typename T> QGPUC_FN T NAME(const T *p) { return *p; }
QGPUC_LOAD(__ldg)
QGPUC_LOAD(__ldca)
QGPUC_LOAD(__ldcg)
QGPUC_LOAD(__ldcs)
QGPUC_LOAD(__ldcv)
QGPUC_LOAD(__ldlu)
#undef QGPUC_LOAD

// Barriers and fences.
#if !__has_builtin(__syncthreads)
QGPUC_FN void __syncthreads() { __nvvm_bar_sync(0); }
#endif
QGPUC_FN int __syncthreads_count(int p) { return __nvvm_bar0_popc(p); }
QGPUC_FN int __syncthreads_and(int p) { return __nvvm_bar0_and(p); }
QGPUC_FN int __syncthreads_or(int p) { return __nvvm_bar0_or(p); }
QGPUC_FN void __syncwarp(unsigned mask = 0xffffffffu) { __nvvm_bar_warp_sync(mask); }
QGPUC_FN void __threadfence() { __nvvm_membar_gl(); }
QGPUC_FN void __threadfence_block() { __nvvm_membar_cta(); }
QGPUC_FN void __threadfence_system() { __nvvm_membar_sys(); }
QGPUC_FN void __nanosleep(unsigned) {}

// Warp shuffles, votes and matches. `width` segments: the clamp operand of shfl (PTX ISA, shfl.sync).
#define QGPUC_SHFL(NAME, KIND, LIMIT)                                                                    \
    QGPUC_FN int NAME(unsigned mask, int v, int lane, int width = 32) {                                  \
        return __nvvm_shfl_sync_##KIND##_i32(mask, v, lane, ((32 - width) << 8) | LIMIT);                \
    }                                                                                                    \
    QGPUC_FN unsigned NAME(unsigned mask, unsigned v, int lane, int width = 32) {                        \
        return (unsigned)NAME(mask, (int)v, lane, width);                                                \
    }                                                                                                    \
    QGPUC_FN unsigned long long NAME(unsigned mask, unsigned long long v, int lane, int width = 32) {    \
        unsigned low = NAME(mask, (unsigned)v, lane, width);                                             \
        return (unsigned long long)NAME(mask, (unsigned)(v >> 32), lane, width) << 32 | low;             \
    }                                                                                                    \
    QGPUC_FN long long NAME(unsigned mask, long long v, int lane, int width = 32) {                      \
        return (long long)NAME(mask, (unsigned long long)v, lane, width);                                \
    }
QGPUC_SHFL(__shfl_sync, idx, 0x1f)
QGPUC_SHFL(__shfl_up_sync, up, 0)
QGPUC_SHFL(__shfl_down_sync, down, 0x1f)
QGPUC_SHFL(__shfl_xor_sync, bfly, 0x1f)
#undef QGPUC_SHFL
QGPUC_FN unsigned __ballot_sync(unsigned mask, int p) { return __nvvm_vote_ballot_sync(mask, p); }
QGPUC_FN int __any_sync(unsigned mask, int p) { return __nvvm_vote_any_sync(mask, p); }
QGPUC_FN int __all_sync(unsigned mask, int p) { return __nvvm_vote_all_sync(mask, p); }
QGPUC_FN int __uni_sync(unsigned mask, int p) { return __nvvm_vote_uni_sync(mask, p); }
QGPUC_FN unsigned __activemask() {
    unsigned r;
    __asm__ volatile("activemask.b32 %0;" : "=r"(r));
    return r;
}
QGPUC_FN unsigned __match_any_sync(unsigned mask, unsigned v) { return __nvvm_match_any_sync_i32(mask, v); }
QGPUC_FN unsigned __match_any_sync(unsigned mask, int v) { return __nvvm_match_any_sync_i32(mask, v); }
QGPUC_FN unsigned __match_all_sync(unsigned mask, unsigned v, int *p) {
    return __nvvm_match_all_sync_i32p(mask, v, p);
}
QGPUC_FN unsigned __match_all_sync(unsigned mask, int v, int *p) {
    return __nvvm_match_all_sync_i32p(mask, v, p);
}
#define QGPUC_MATCH(T)                                                                                   \
    QGPUC_FN unsigned __match_any_sync(unsigned mask, T v) { return __nvvm_match_any_sync_i64(mask, v); }\
    QGPUC_FN unsigned __match_all_sync(unsigned mask, T v, int *p) {                                     \
        return __nvvm_match_all_sync_i64p(mask, v, p);                                                   \
    }
QGPUC_MATCH(long long)
QGPUC_MATCH(unsigned long long)
#undef QGPUC_MATCH
#define QGPUC_REDUCE(NAME, T, PTX)                                                                       \
    QGPUC_FN T NAME(unsigned mask, T v) {                                                                \
        T r;                                                                                             \
        __asm__ volatile("redux.sync." PTX " %0, %1, %2;" : "=r"(r) : "r"(v), "r"(mask));                \
        return r;                                                                                        \
    }
QGPUC_REDUCE(__reduce_add_sync, int, "add.s32")
QGPUC_REDUCE(__reduce_add_sync, unsigned, "add.u32")
QGPUC_REDUCE(__reduce_min_sync, int, "min.s32")
QGPUC_REDUCE(__reduce_min_sync, unsigned, "min.u32")
QGPUC_REDUCE(__reduce_max_sync, int, "max.s32")
QGPUC_REDUCE(__reduce_max_sync, unsigned, "max.u32")
QGPUC_REDUCE(__reduce_and_sync, unsigned, "and.b32")
QGPUC_REDUCE(__reduce_or_sync, unsigned, "or.b32")
QGPUC_REDUCE(__reduce_xor_sync, unsigned, "xor.b32")
#undef QGPUC_REDUCE
QGPUC_FN int qgpuc_warp_size() {  // not the builtin, which LLVM takes for 32
    int r;
    __asm__("mov.u32 %0, WARP_SZ;" : "=r"(r));
    return r;
}

// Atomics: relaxed, as CUDA's are. A scope (_block, _system) changes nothing: there is one memory.
#define QGPUC_ATOMIC(NAME, T, BUILTIN)                                                                   \
    QGPUC_FN T NAME(T *p, T v) { return (T)BUILTIN; }                                                    \
    QGPUC_FN T NAME##_block(T *p, T v) { return NAME(p, v); }                                            \
    QGPUC_FN T NAME##_system(T *p, T v) { return NAME(p, v); }
#define QGPUC_BOTH(NAME, OP)                                                                             \
    QGPUC_ATOMIC(NAME, int, __nvvm_atom_##OP##_gen_i(p, v))                                              \
    QGPUC_ATOMIC(NAME, unsigned, __nvvm_atom_##OP##_gen_i((int *)p, (int)v))                             \
    QGPUC_ATOMIC(NAME, unsigned long long, __nvvm_atom_##OP##_gen_ll((long long *)p, (long long)v))
#define QGPUC_ORDERED(NAME, OP)                                                                          \
    QGPUC_ATOMIC(NAME, int, __nvvm_atom_##OP##_gen_i(p, v))                                              \
    QGPUC_ATOMIC(NAME, unsigned, __nvvm_atom_##OP##_gen_ui(p, v))                                        \
    QGPUC_ATOMIC(NAME, long long, __nvvm_atom_##OP##_gen_ll(p, v))                                       \
    QGPUC_ATOMIC(NAME, unsigned long long, __nvvm_atom_##OP##_gen_ull(p, v))
QGPUC_BOTH(atomicAdd, add)
QGPUC_BOTH(atomicAnd, and)
QGPUC_BOTH(atomicOr, or)
QGPUC_BOTH(atomicXor, xor)
QGPUC_BOTH(atomicExch, xchg)
QGPUC_ORDERED(atomicMin, min)
QGPUC_ORDERED(atomicMax, max)
QGPUC_ATOMIC(atomicSub, int, __nvvm_atom_add_gen_i(p, -v))
QGPUC_ATOMIC(atomicSub, unsigned, __nvvm_atom_add_gen_i((int *)p, -(int)v))
QGPUC_ATOMIC(atomicInc, unsigned, __nvvm_atom_inc_gen_ui(p, v))
QGPUC_ATOMIC(atomicDec, unsigned, __nvvm_atom_dec_gen_ui(p, v))
#undef QGPUC_ORDERED
#undef QGPUC_BOTH
#undef QGPUC_ATOMIC
QGPUC_FN int qgpuc_cas(int *p, int compare, int v) {  // the builtin is ordered, at the price of two fences
    __atomic_compare_exchange_n(p, &compare, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return compare;
}
#if __SIZEOF_POINTER__ == 8
#define QGPUC_POINTER "l"
#else
#define QGPUC_POINTER "r"
#endif
QGPUC_FN unsigned short qgpuc_cas(unsigned short *p, unsigned short compare, unsigned short v) {
    unsigned short old;  // not the builtin, which LLVM makes a loop over the whole word
    __asm__ volatile("atom.cas.b16 %0, [%1], %2, %3;"
                     : "=h"(old) : QGPUC_POINTER(p), "h"(compare), "h"(v) : "memory");
    return old;
}
#define QGPUC_CAS(T, AS, BUILTIN)                                                                        \
    QGPUC_FN T atomicCAS(T *p, T compare, T v) { return (T)BUILTIN((AS *)p, (AS)compare, (AS)v); }       \
    QGPUC_FN T atomicCAS_block(T *p, T compare, T v) { return atomicCAS(p, compare, v); }                \
    QGPUC_FN T atomicCAS_system(T *p, T compare, T v) { return atomicCAS(p, compare, v); }
QGPUC_CAS(int, int, qgpuc_cas)
QGPUC_CAS(unsigned, int, qgpuc_cas)
QGPUC_CAS(unsigned long long, long long, __nvvm_atom_cas_gen_ll)
QGPUC_CAS(unsigned short, unsigned short, qgpuc_cas)
#undef QGPUC_POINTER
#undef QGPUC_CAS

// Declared so that a kernel that uses them is refused at its own line.
extern "C" __host__ __device__ int printf(const char *format, ...);
extern "C" __host__ __device__ void *malloc(size_t);
extern "C" __host__ __device__ void free(void *);
extern "C" __device__ __attribute__((noreturn)) void __assertfail(const char *, const char *, unsigned, const char *,
                                                                  size_t);
#ifdef NDEBUG
#define assert(CONDITION) ((void)0)
#else
#define assert(CONDITION) ((CONDITION) ? (void)0 : __assertfail(#CONDITION, __FILE__, __LINE__, __func__, sizeof(char)))
#endif
QGPUC_FN void __trap() { __asm__ volatile("trap;"); }
QGPUC_FN void __brkpt() { __asm__ volatile("brkpt;"); }
QGPUC_FN int clock() {
    int r;
    __asm__ volatile("mov.u32 %0, %%clock;" : "=r"(r));
    return r;
}
QGPUC_FN long long clock64() {
    long long r;
    __asm__ volatile("mov.u64 %0, %%clock64;" : "=l"(r));
    return r;
}

// Host code in the same file is read and dropped: these are the names it uses most.
typedef int cudaError_t;
typedef struct CUstream_st *cudaStream_t;
enum { cudaSuccess = 0 };
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
extern "C" cudaError_t cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t);
extern "C" int cudaConfigureCall(dim3, dim3, size_t = 0, cudaStream_t = 0);
extern "C" unsigned __cudaPushCallConfiguration(dim3, dim3, size_t = 0, cudaStream_t = 0);
template <typename T> cudaError_t cudaMalloc(T **, size_t);
template <typename T> cudaError_t cudaMallocManaged(T **, size_t);
cudaError_t cudaMemcpy(void *, const void *, size_t, cudaMemcpyKind);
cudaError_t cudaMemset(void *, int, size_t);
cudaError_t cudaFree(void *);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaGetLastError();
const char *cudaGetErrorString(cudaError_t);
