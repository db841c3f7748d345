// CUDA for the host: a kernel file compiled as C++17, every CUDA thread with a stack of its own.
//
// Threads are coroutines of one OS thread: one runs until it waits (a barrier, a warp operation), makes an atomic
// or ends. So barriers, shuffles, votes and atomics are real, and a launch gives the same result every time:
//   - thread blocks run one after another, x fastest; shared memory is poisoned before each;
//   - a warp runs until all its threads have ended or wait at a barrier, then the next one in cyclic order;
//   - in a warp, threads take turns, lowest lane first, after every atomic, fence and warp operation;
//   - a warp operation waits for all lanes of its mask that exist and have not ended.
// The program reads launches from its standard input and answers a line each (`qgpu::serve`); each launch runs in
// a process of its own, so that a crash, an endless loop or a changed global stays in its launch.
//
// Sources: CUDA C++ Programming Guide (built-in functions), CUDA Math API (integer intrinsics), PTX ISA (shfl, prmt).
#pragma once

#include <limits.h>
#include <link.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "qgpu_arithmetic.hpp"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __shared__ thread_local  // static storage even inside a function, and one OS thread has all CUDA threads
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __CUDACC__ 1

static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
static int warpSize;

namespace qgpu {

constexpr unsigned kMaximumLanes = 32;
constexpr size_t kStackBytes = 256 * 1024;
constexpr size_t kGuardBytes = 256;      // before and after every array, checked after the launch
constexpr size_t kDynamicBytes = 48 * 1024;
constexpr itimerval kTimePerLaunch = {{0, 0}, {2, 0}};  // of the processor: two seconds
constexpr unsigned kTurnsPerWarp = 4096;  // turns after which a warp that does not come to rest lets another run
constexpr unsigned char kPoison = 0xA5;

enum class State { ready, barrier, warp_operation, active_mask, ended };

// What a warp operation hands each of its lanes: which lanes took part, and what each of them gave.
struct Gathered {
    unsigned lanes;
    uint64_t value[kMaximumLanes];
    bool has(unsigned lane) const { return lane < kMaximumLanes && (lanes >> lane & 1); }
};

// What a barrier hands each thread: how many threads met there, and how many gave a nonzero value.
struct Met {
    unsigned threads, nonzero;
};

struct Thread {
    ucontext_t context;
    uint3 index;
    unsigned number, lane, warp;
    State state;
    const char *operation;  // the name of what it waits in
    const void *site;       // of an __activemask
    unsigned mask;
    uint64_t offered;
    Gathered gathered;
    Met met;
};

[[noreturn]] inline void fault(const char *format, ...) __attribute__((format(printf, 1, 2)));
[[noreturn]] inline void fault(const char *format, ...) {
    __builtin_va_list arguments;
    __builtin_va_start(arguments, format);
    printf("fault ");
    vprintf(format, arguments);
    printf("\n");
    fflush(stdout);
    _exit(0);
}

// --- One thread block

struct Block {
    Thread *threads;
    unsigned count, warps;
    ucontext_t scheduler;
    Thread *current;
    void (*body)();
};
static Block block;
alignas(16) static unsigned char dynamic_shared[kDynamicBytes + kGuardBytes];

inline void enter_thread() {
    block.body();
    block.current->state = State::ended;
    swapcontext(&block.current->context, &block.scheduler);
}

// Gives the turn back. Whoever calls this reads memory anew afterwards.
__attribute__((noinline)) inline void rest(State state) {
    block.current->state = state;
    __asm__ volatile("" ::: "memory");
    swapcontext(&block.current->context, &block.scheduler);
    __asm__ volatile("" ::: "memory");
}

inline void take_turn() { rest(State::ready); }

inline const Gathered &gather(const char *operation, unsigned mask, uint64_t value) {
    Thread *self = block.current;
    if (!(mask >> self->lane & 1))
        fault("thread %u calls %s with a mask %#x that leaves it out", self->number, operation, mask);
    self->operation = operation;
    self->mask = mask;
    self->offered = value;
    rest(State::warp_operation);
    return self->gathered;
}

inline const Met &meet(const char *operation, int value) {
    Thread *self = block.current;
    self->operation = operation;
    self->offered = value != 0;
    rest(State::barrier);
    return self->met;
}

__attribute__((noinline)) inline unsigned active_lanes() {
    Thread *self = block.current;
    self->operation = "__activemask";
    self->site = __builtin_return_address(0);
    rest(State::active_mask);
    return self->gathered.lanes;
}

// The threads of a warp: lanes first .. last of block.threads.
struct Warp {
    Thread *first;
    unsigned lanes;
};

inline Warp warp_of(unsigned number) {
    unsigned size = (unsigned)warpSize, first = number * size, left = block.count - first;
    return {block.threads + first, left < size ? left : size};
}

// Lets a warp operation happen whose lanes are all there. False if there is none.
inline bool finish_warp_operation(Warp warp) {
    for (unsigned i = 0; i < warp.lanes; ++i) {
        const Thread &one = warp.first[i];
        if (one.state != State::warp_operation) continue;
        Gathered gathered = {0, {}};
        bool complete = true;
        for (unsigned lane = 0; lane < warp.lanes; ++lane) {
            const Thread &other = warp.first[lane];
            if (!(one.mask >> lane & 1) || other.state == State::ended) continue;
            complete &= other.state == State::warp_operation && other.mask == one.mask &&
                        strcmp(other.operation, one.operation) == 0;
            gathered.lanes |= 1u << lane;
            gathered.value[lane] = other.offered;
        }
        if (!complete) continue;
        for (unsigned lane = 0; lane < warp.lanes; ++lane)
            if (gathered.has(lane)) {
                warp.first[lane].gathered = gathered;
                warp.first[lane].state = State::ready;
            }
        return true;
    }
    return false;
}

// __activemask: the lanes that came to the same call while nothing else of the warp could run.
inline bool finish_active_mask(Warp warp) {
    const void *site = nullptr;
    unsigned lanes = 0;
    for (unsigned lane = 0; lane < warp.lanes; ++lane) {
        const Thread &thread = warp.first[lane];
        if (thread.state == State::active_mask && (site == nullptr || thread.site == site)) {
            site = thread.site;
            lanes |= 1u << lane;
        }
    }
    for (unsigned lane = 0; lane < warp.lanes; ++lane)
        if (lanes >> lane & 1) {
            warp.first[lane].gathered.lanes = lanes;
            warp.first[lane].state = State::ready;
        }
    return lanes != 0;
}

// The next thread of the warp to run, lowest lane after `lane` first in cyclic order; null if the warp rests.
inline Thread *next_thread(Warp warp, unsigned lane) {
    do {
        for (unsigned step = 1; step <= warp.lanes; ++step) {
            Thread *thread = warp.first + (lane + step) % warp.lanes;
            if (thread->state == State::ready) return thread;
        }
        lane = warp.lanes - 1;
    } while (finish_warp_operation(warp) || finish_active_mask(warp));
    return nullptr;
}

[[noreturn]] inline void report_deadlock() {
    char text[1024];
    size_t used = 0;
    for (unsigned i = 0; i < block.count && used < sizeof text - 80; ++i) {
        const Thread &thread = block.threads[i];
        if (thread.state == State::ended) continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "; thread %u waits in %s", i, thread.operation);
        if (thread.state == State::warp_operation)
            used += (size_t)snprintf(text + used, sizeof text - used, " of lanes %#x", thread.mask);
    }
    fault("deadlock in block (%u, %u, %u)%s", blockIdx.x, blockIdx.y, blockIdx.z, text);
}

// All threads that have not ended wait at a barrier: lets them go. False if all have ended.
inline bool release_barrier() {
    Met met = {0, 0};
    const char *operation = nullptr;
    for (unsigned i = 0; i < block.count; ++i) {
        const Thread &thread = block.threads[i];
        if (thread.state == State::ended) continue;
        if (thread.state != State::barrier) report_deadlock();
        if (operation != nullptr && strcmp(operation, thread.operation) != 0) report_deadlock();
        operation = thread.operation;
        ++met.threads;
        met.nonzero += (unsigned)thread.offered;
    }
    for (unsigned i = 0; i < block.count; ++i)
        if (block.threads[i].state == State::barrier) {
            block.threads[i].met = met;
            block.threads[i].state = State::ready;
        }
    return operation != nullptr;
}

inline void run_thread(Thread *thread) {
    block.current = thread;
    threadIdx = thread->index;
    swapcontext(&block.scheduler, &thread->context);
}

// Runs warps, from `warp` on in cyclic order, until all rest.
inline void run_warps() {
    bool ran = true;
    while (ran) {
        ran = false;
        for (unsigned number = 0; number < block.warps; ++number) {
            Warp warp = warp_of(number);
            unsigned lane = warp.lanes - 1, turns = 0;
            while (Thread *thread = turns < kTurnsPerWarp ? next_thread(warp, lane) : nullptr) {
                run_thread(thread);
                lane = thread->lane;
                ++turns;
                ran = true;
            }
        }
    }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_UNDEFINED__) || defined(QGPU_SANITIZE)
inline void poison_shared() { memset(dynamic_shared, kPoison, sizeof dynamic_shared); }
#else
// The program's thread-local storage is shared memory and nothing else.
inline int poison_segment(dl_phdr_info *info, size_t, void *) {
    for (int i = 0; i < info->dlpi_phnum; ++i)
        if (info->dlpi_phdr[i].p_type == PT_TLS && info->dlpi_tls_data != nullptr)
            memset(info->dlpi_tls_data, kPoison, info->dlpi_phdr[i].p_memsz);
    return 1;  // the program itself comes first; libraries are left alone
}

inline void poison_shared() {
    dl_iterate_phdr(poison_segment, nullptr);
    memset(dynamic_shared, kPoison, sizeof dynamic_shared);
}
#endif

inline void run_block(unsigned char *stacks) {
    poison_shared();
    for (unsigned i = 0; i < block.count; ++i) {
        Thread &thread = block.threads[i];
        thread.number = i;
        thread.index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
        thread.lane = i % (unsigned)warpSize;
        thread.warp = i / (unsigned)warpSize;
        thread.state = State::ready;
        getcontext(&thread.context);
        thread.context.uc_stack.ss_sp = stacks + i * kStackBytes;
        thread.context.uc_stack.ss_size = kStackBytes;
        thread.context.uc_link = nullptr;
        makecontext(&thread.context, enter_thread, 0);
    }
    do run_warps();
    while (release_barrier());
}

inline void *pages(size_t bytes) {
    void *start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) fault("no memory for the launch");
    return start;
}

inline void run_grid(void (*body)(), size_t dynamic_bytes) {
    block.count = blockDim.x * blockDim.y * blockDim.z;
    block.warps = (block.count + (unsigned)warpSize - 1) / (unsigned)warpSize;
    block.threads = (Thread *)pages(block.count * sizeof(Thread));
    block.body = body;
    unsigned char *stacks = (unsigned char *)pages(block.count * kStackBytes);
    for (unsigned z = 0; z < gridDim.z; ++z)
        for (unsigned y = 0; y < gridDim.y; ++y)
            for (unsigned x = 0; x < gridDim.x; ++x) {
                blockIdx = {x, y, z};
                run_block(stacks);
                for (size_t i = dynamic_bytes; i < sizeof dynamic_shared; ++i)
                    if (dynamic_shared[i] != kPoison) fault("a store past the dynamic shared memory");
            }
}

// --- Launches, as lines of text

struct Array {
    unsigned char *data;
    size_t bytes;
};

constexpr unsigned kMaximumArrays = 32;
static Array arrays[kMaximumArrays];
static unsigned array_count;

[[noreturn]] inline void bad_request() { fault("a launch this program cannot read"); }

inline unsigned read_unsigned() {
    unsigned value;
    if (scanf("%u", &value) != 1) bad_request();
    return value;
}

// `array BYTES HEX...` into memory of its own, guarded on both sides.
inline void *read_array() {
    size_t bytes;
    if (scanf(" array %zu", &bytes) != 1 || array_count == kMaximumArrays) bad_request();
    unsigned char *data = (unsigned char *)pages(bytes + 2 * kGuardBytes);
    memset(data, kPoison, bytes + 2 * kGuardBytes);
    data += kGuardBytes;
    for (size_t i = 0; i < bytes; ++i) {
        unsigned byte;
        if (scanf("%2x", &byte) != 1) bad_request();
        data[i] = (unsigned char)byte;
    }
    arrays[array_count++] = {data, bytes};
    return data;
}

template <typename T> struct Reader {
    static T read() {
        unsigned long long value;
        if (scanf(" scalar %llu", &value) != 1) bad_request();
        return (T)value;
    }
};
template <typename T> struct Reader<T *> {
    static T *read() { return (T *)read_array(); }
};

inline void check_guards(const Array &array, unsigned number) {
    for (size_t i = 0; i < kGuardBytes; ++i)
        if (array.data[-(ptrdiff_t)i - 1] != kPoison || array.data[array.bytes + i] != kPoison)
            fault("a store outside array %u", number);
}

inline void print_arrays() {
    for (unsigned i = 0; i < array_count; ++i) check_guards(arrays[i], i);
    printf("ok");
    for (unsigned i = 0; i < array_count; ++i) {
        printf(" :");
        for (size_t j = 0; j < arrays[i].bytes; ++j) printf("%02x", arrays[i].data[j]);
    }
    printf("\n");
    fflush(stdout);
}

// The arguments of a kernel, and a call of it with them, in order.
template <typename... P> struct Parameters;
template <> struct Parameters<> {
    void read() {}
    template <typename F, typename... A> void call(F kernel, A... arguments) { kernel(arguments...); }
};
template <typename P, typename... Rest> struct Parameters<P, Rest...> {
    P first;
    Parameters<Rest...> rest;
    void read() {
        first = Reader<P>::read();
        rest.read();
    }
    template <typename F, typename... A> void call(F kernel, A... arguments) {
        rest.call(kernel, arguments..., first);
    }
};

template <auto kernel> struct Entry;
template <typename... P, void (*kernel)(P...)> struct Entry<kernel> {
    static inline Parameters<P...> parameters;
    static void body() { parameters.call(kernel); }
    static void launch(size_t dynamic_bytes) {
        parameters.read();
        run_grid(body, dynamic_bytes);
    }
};

using Launcher = void (*)(size_t dynamic_bytes);

// One line: KERNEL LANES gx gy gz bx by bz DYNAMIC_BYTES ARGUMENT...
inline void run_launch(const Launcher *kernels, unsigned count) {
    unsigned kernel = read_unsigned();
    warpSize = (int)read_unsigned();
    unsigned gx = read_unsigned(), gy = read_unsigned(), gz = read_unsigned();
    unsigned bx = read_unsigned(), by = read_unsigned(), bz = read_unsigned(), dynamic_bytes = read_unsigned();
    if (kernel >= count || (unsigned)warpSize > kMaximumLanes || dynamic_bytes > kDynamicBytes) bad_request();
    gridDim = {gx, gy, gz};
    blockDim = {bx, by, bz};
    kernels[kernel](dynamic_bytes);
    print_arrays();
}

// Answers each line of standard input with `ok :HEX ...`, the arrays after the launch, or `fault TEXT`.
inline int serve(const Launcher *kernels, unsigned count) {
    static char line[1 << 20];
    while (fgets(line, sizeof line, stdin) != nullptr) {
        pid_t child = fork();
        if (child == 0) {
            setitimer(ITIMER_PROF, &kTimePerLaunch, nullptr);
            stdin = fmemopen(line, strlen(line), "r");
            run_launch(kernels, count);
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (WIFSIGNALED(status)) {
            int signal = WTERMSIG(status);
            const char *why = signal == SIGPROF ? "the launch did not end in time"
                              : signal == SIGFPE ? "a division by zero, or of the least integer by -1"
                                                 : "the launch crashed";
            printf("fault %s (signal %d)\n", why, signal);
        } else if (WEXITSTATUS(status) != 0) {
            printf("fault undefined behaviour, see standard error\n");
        }
        fflush(stdout);
    }
    return 0;
}

}  // namespace qgpu

#include "qgpu_threads.hpp"
