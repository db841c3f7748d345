// What CUDA threads tell each other: barriers, shuffles, votes, matches, atomics. Included by qgpu_host.hpp.
#pragma once

// Barriers and fences.
inline void __syncthreads() { qgpu::meet("__syncthreads", 0); }
inline int __syncthreads_count(int p) { return (int)qgpu::meet("__syncthreads_count", p).nonzero; }
inline int __syncthreads_or(int p) { return qgpu::meet("__syncthreads_or", p).nonzero != 0; }
inline int __syncthreads_and(int p) {
    const qgpu::Met &met = qgpu::meet("__syncthreads_and", p);
    return met.nonzero == met.threads;
}
inline void __syncwarp(unsigned mask = 0xffffffffu) { qgpu::gather("__syncwarp", mask, 0); }
inline void __threadfence() { qgpu::take_turn(); }
inline void __threadfence_block() { qgpu::take_turn(); }
inline void __threadfence_system() { qgpu::take_turn(); }
inline void __nanosleep(unsigned) { qgpu::take_turn(); }
inline void __trap() { qgpu::fault("thread %u traps", qgpu::block.current->number); }

// Shuffles. A lane that does not take part cannot be read: the reader keeps its own value, as for a lane outside
// its segment of `width` lanes.
namespace qgpu {
inline uint64_t bits_of(const void *value, size_t size) {
    uint64_t bits = 0;
    memcpy(&bits, value, size);
    return bits;
}

// `source(lane, first, width)`: the lane to read, negative if it is out of the segment that begins at `first`.
template <typename T, typename S>
inline T shuffle(const char *name, unsigned mask, T value, int width, S source) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 32 or 64 bits");
    if (width < 1 || width > 32 || (width & (width - 1)) != 0)
        fault("%s: the width %d is not 1, 2, 4 ... 32", name, width);
    int lane = (int)block.current->lane;
    int from = source(lane, lane - lane % width, width);
    const Gathered &gathered = gather(name, mask, bits_of(&value, sizeof value));
    if (from < 0 || !gathered.has((unsigned)from)) return value;
    T result;
    memcpy(&result, &gathered.value[from], sizeof result);
    return result;
}
template <typename T> using Promoted = decltype(+T());  // bytes and halfwords move as int
}  // namespace qgpu

template <typename T> inline qgpu::Promoted<T> __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
    return qgpu::shuffle("__shfl_sync", mask, +value, width,
                         [=](int, int first, int w) { return first + (int)((unsigned)lane % (unsigned)w); });
}
template <typename T> inline qgpu::Promoted<T> __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    int by = (int)(delta & 31);
    return qgpu::shuffle("__shfl_up_sync", mask, +value, width,
                         [=](int self, int first, int) { return self - by < first ? -1 : self - by; });
}
template <typename T>
inline qgpu::Promoted<T> __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    int by = (int)(delta & 31);
    return qgpu::shuffle("__shfl_down_sync", mask, +value, width,
                         [=](int self, int first, int w) { return self + by >= first + w ? -1 : self + by; });
}
template <typename T> inline qgpu::Promoted<T> __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
    return qgpu::shuffle("__shfl_xor_sync", mask, +value, width, [=](int self, int first, int w) {
        int from = self ^ (bits & 31);
        return from >= first + w ? -1 : from;  // earlier segments may be read, later ones not
    });
}

// Votes and matches.
inline unsigned __ballot_sync(unsigned mask, int p) {
    const qgpu::Gathered &all = qgpu::gather("__ballot_sync", mask, p != 0);
    unsigned result = 0;
    for (unsigned lane = 0; lane < qgpu::kMaximumLanes; ++lane)
        if (all.has(lane) && all.value[lane]) result |= 1u << lane;
    return result;
}
namespace qgpu {
// Which lanes gave the value of the first of them.
inline unsigned like_first(const Gathered &all) {
    unsigned result = 0, first = 0;
    while (!all.has(first)) ++first;
    for (unsigned lane = 0; lane < kMaximumLanes; ++lane)
        if (all.has(lane) && all.value[lane] == all.value[first]) result |= 1u << lane;
    return result;
}
}  // namespace qgpu
inline int __any_sync(unsigned mask, int p) {
    const qgpu::Gathered &all = qgpu::gather("__any_sync", mask, p != 0);
    for (unsigned lane = 0; lane < qgpu::kMaximumLanes; ++lane)
        if (all.has(lane) && all.value[lane]) return 1;
    return 0;
}
inline int __all_sync(unsigned mask, int p) {
    const qgpu::Gathered &all = qgpu::gather("__all_sync", mask, p != 0);
    for (unsigned lane = 0; lane < qgpu::kMaximumLanes; ++lane)
        if (all.has(lane) && !all.value[lane]) return 0;
    return 1;
}
inline int __uni_sync(unsigned mask, int p) {
    const qgpu::Gathered &all = qgpu::gather("__uni_sync", mask, p != 0);
    return qgpu::like_first(all) == all.lanes;
}
__attribute__((always_inline)) inline unsigned __activemask() { return qgpu::active_lanes(); }
template <typename T> inline unsigned __match_any_sync(unsigned mask, T value) {
    auto promoted = +value;
    uint64_t own = qgpu::bits_of(&promoted, sizeof promoted);
    const qgpu::Gathered &all = qgpu::gather("__match_any_sync", mask, own);
    unsigned result = 0;
    for (unsigned lane = 0; lane < qgpu::kMaximumLanes; ++lane)
        if (all.has(lane) && all.value[lane] == own) result |= 1u << lane;
    return result;
}
template <typename T> inline unsigned __match_all_sync(unsigned mask, T value, int *all_equal) {
    auto promoted = +value;
    uint64_t own = qgpu::bits_of(&promoted, sizeof promoted);
    const qgpu::Gathered &all = qgpu::gather("__match_all_sync", mask, own);
    *all_equal = qgpu::like_first(all) == all.lanes;
    return *all_equal ? all.lanes : 0;
}

// Reductions over the lanes of a mask.
namespace qgpu {
template <typename T, typename F> inline T reduce(const char *name, unsigned mask, T value, F combine) {
    const Gathered &all = gather(name, mask, bits_of(&value, sizeof value));
    T result = value;
    for (unsigned lane = 0; lane < kMaximumLanes; ++lane)
        if (all.has(lane) && lane != block.current->lane) result = combine(result, (T)all.value[lane]);
    return result;
}
}  // namespace qgpu
#define QGPU_REDUCE(NAME, T, EXPRESSION)                                                                \
    inline T NAME(unsigned mask, T value) {                                                             \
        return qgpu::reduce(#NAME, mask, value, [](T a, T b) -> T { return EXPRESSION; });              \
    }
QGPU_REDUCE(__reduce_add_sync, int, a + b)
QGPU_REDUCE(__reduce_add_sync, unsigned, a + b)
QGPU_REDUCE(__reduce_min_sync, int, min(a, b))
QGPU_REDUCE(__reduce_min_sync, unsigned, min(a, b))
QGPU_REDUCE(__reduce_max_sync, int, max(a, b))
QGPU_REDUCE(__reduce_max_sync, unsigned, max(a, b))
QGPU_REDUCE(__reduce_and_sync, unsigned, a & b)
QGPU_REDUCE(__reduce_or_sync, unsigned, a | b)
QGPU_REDUCE(__reduce_xor_sync, unsigned, a ^ b)
#undef QGPU_REDUCE

// Atomics: nothing else runs meanwhile; afterwards it is another thread's turn, so that a spinning one ends.
namespace qgpu {
template <typename T> struct Same { using type = T; };
template <typename T> using Value = typename Same<T>::type;  // deduced from the pointer alone
template <typename T> inline T update(T *place, T value) {
    T old = *place;
    *place = value;
    take_turn();
    return old;
}
}  // namespace qgpu
#define QGPU_ATOMIC(NAME, EXPRESSION)                                                                   \
    template <typename T> inline T NAME(T *place, qgpu::Value<T> value) {                               \
        T old = *place;                                                                                 \
        return qgpu::update(place, (T)(EXPRESSION));                                                    \
    }                                                                                                   \
    template <typename T> inline T NAME##_block(T *place, qgpu::Value<T> value) { return NAME(place, value); } \
    template <typename T> inline T NAME##_system(T *place, qgpu::Value<T> value) { return NAME(place, value); }
QGPU_ATOMIC(atomicAdd, old + value)
QGPU_ATOMIC(atomicSub, old - value)
QGPU_ATOMIC(atomicMin, old < value ? old : value)
QGPU_ATOMIC(atomicMax, old > value ? old : value)
QGPU_ATOMIC(atomicAnd, old & value)
QGPU_ATOMIC(atomicOr, old | value)
QGPU_ATOMIC(atomicXor, old ^ value)
QGPU_ATOMIC(atomicExch, ((void)old, value))
QGPU_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
QGPU_ATOMIC(atomicDec, old == 0 || old > value ? value : old - 1)
#undef QGPU_ATOMIC
template <typename T> inline T atomicCAS(T *place, qgpu::Value<T> compare, qgpu::Value<T> value) {
    return qgpu::update(place, *place == compare ? value : *place);
}
template <typename T> inline T atomicCAS_block(T *place, qgpu::Value<T> compare, qgpu::Value<T> value) {
    return atomicCAS(place, compare, value);
}
template <typename T> inline T atomicCAS_system(T *place, qgpu::Value<T> compare, qgpu::Value<T> value) {
    return atomicCAS(place, compare, value);
}

// Loads with a cache hint.
template <typename T> inline T __ldg(const T *place) { return *place; }
template <typename T> inline T __ldca(const T *place) { return *place; }
template <typename T> inline T __ldcg(const T *place) { return *place; }
template <typename T> inline T __ldcs(const T *place) { return *place; }
