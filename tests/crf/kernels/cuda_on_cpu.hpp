// What a CUDA kernel needs to run on a CPU: its blocks one after the other, and in a block its threads as fibers, which
// change at a barrier. A barrier that only some threads of a block or warp reach ends the program. With RACES, data races
// are found.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <ucontext.h>
#include <vector>

#ifdef RACES
#define __device__ __attribute__((always_inline))  // what a call writes as a whole is not seen
#else
#define __device__
#endif
#define __global__
#define __shared__ static __attribute__((section("shared_memory")))
extern char __start_shared_memory, __stop_shared_memory;
#define __launch_bounds__(n)

using std::max;
using std::min;
struct int4 { int x, y, z, w; };
struct double4 { double x, y, z, w; };
struct Index { unsigned x, y, z; };
static Index threadIdx, blockIdx, blockDim;

template <class To, class From> static To bits(From from) { To to; memcpy(&to, &from, sizeof to); return to; }
static float __int_as_float(int i) { return bits<float>(i); }
static int __float_as_int(float f) { return bits<int>(f); }
static int __double2hiint(double d) { return (int)(bits<int64_t>(d) >> 32); }
static int __double2loint(double d) { return (int)bits<int64_t>(d); }
static double __hiloint2double(int h, int l) { return bits<double>(((int64_t)h << 32) | (uint32_t)l); }
template <class T> static T __ldcg(const T* p) { return *p; }

enum State { READY, AT_BLOCK, AT_WARP, DONE };
struct Fiber { ucontext_t context; std::vector<char> stack; State state; };
static std::vector<Fiber> fibers;
static ucontext_t scheduler;
static unsigned current, block;  // thread in its block, and block
static bool is_inside;           // the kernel, and not what runs it
static std::function<void()> body;

#define UNSEEN __attribute__((no_sanitize("thread")))
#ifdef RACES
#include "races_on_cpu.hpp"
#else
static void begin_launch() {}
static void begin_block(unsigned, const char*, const char*) {}
static void pass(State) {}
static void pass_fence() {}
static void add(const int*) {}
#endif

UNSEEN static void leave(State state) {
    is_inside = false;
    fibers[current].state = state;
    swapcontext(&fibers[current].context, &scheduler);
    is_inside = true;
}
UNSEEN static void wait(State state) {
    pass(state);
    leave(state);
}
UNSEEN static void __syncthreads() { wait(AT_BLOCK); }
UNSEEN static void __syncwarp() { wait(AT_WARP); }
UNSEEN static void __threadfence() { pass_fence(); }
UNSEEN static int atomicAdd(int* p, int v) {
    add(p);
    int before = *p;
    *p += v;
    return before;
}
template <class T> UNSEEN static T exchange(T own, unsigned from) {
    static T exchanged[1024];
    exchanged[current] = own;
    leave(AT_WARP);
    T other = exchanged[from];
    leave(AT_WARP);
    return other;
}
static int __shfl_up_sync(unsigned, int own, unsigned reach) {
    return exchange(own, current % 32 >= reach ? current - reach : current);
}
static float __shfl_xor_sync(unsigned, float own, unsigned mask) { return exchange(own, current ^ mask); }
UNSEEN static void enter() {
    is_inside = true;
    body();
    wait(DONE);
}

// Let those go on that wait at a barrier which all of them have reached; whether any does.
static bool release(unsigned first, unsigned last, State barrier) {
    bool some = false;
    for (unsigned i = first; i < last; i++) {
        if (fibers[i].state != barrier && fibers[i].state != DONE) return false;
        some |= fibers[i].state == barrier;
    }
    for (unsigned i = first; i < last; i++)
        if (fibers[i].state == barrier) fibers[i].state = READY;
    return some;
}

static void run_block(unsigned threads) {
    memset(&__start_shared_memory, 0xa5, &__stop_shared_memory - &__start_shared_memory);  // nobody knows what is in it
    begin_block(threads, &__start_shared_memory, &__stop_shared_memory);
    fibers.resize(threads);
    for (Fiber& fiber : fibers) {
        fiber.stack.resize(128 * 1024);
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.data();
        fiber.context.uc_stack.ss_size = fiber.stack.size();
        makecontext(&fiber.context, enter, 0);
        fiber.state = READY;
    }
    for (bool is_running = true; is_running;) {
        for (current = 0; current < threads; current++)
            if (fibers[current].state == READY) {
                threadIdx = {current, 0, 0};
                swapcontext(&scheduler, &fibers[current].context);
            }
        is_running = false;
        for (unsigned first = 0; first < threads; first += 32)
            is_running |= release(first, min(first + 32, threads), AT_WARP);
        is_running |= !is_running && release(0, threads, AT_BLOCK);
    }
    for (Fiber& fiber : fibers)
        if (fiber.state != DONE) abort();
}

template <class Kernel, class Task> static void run(Kernel kernel, const Task& task, unsigned x, unsigned y, unsigned n) {
    blockDim = {n, 1, 1};
    block = 0;
    begin_launch();
    for (unsigned j = 0; j < y; j++)
        for (unsigned i = 0; i < x; i++, block++) {
            blockIdx = {i, j, 0};
            body = [&] { kernel(task); };
            run_block(n);
        }
}
