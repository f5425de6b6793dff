// Data races of a kernel that runs on the CPU. The compiler puts a call before each access to memory, as it does for its
// own thread sanitizer; here they end at a table of who has read and written what.
//
// Two accesses to a word by two threads, of which one writes, race unless something orders them: a barrier of the block,
// a barrier of the warp that both are of, or, between blocks, an atomic addition that the first block makes behind its
// access, a fence and a barrier, and the second before its own. A shuffle orders nothing. Two that write the same do not
// race, nor do two that are volatile, which says that any order will do. What counts is the order that is guaranteed and
// not what happened to come first, so that one run shows every race on its way.
#include <cstdio>
#include <dlfcn.h>
#include <string>
#include <unordered_map>

struct Passed { unsigned block_barriers, warp_barriers, fences; };  // by a thread so far
enum Kind { READ, WRITE, VOLATILE_READ, VOLATILE_WRITE };
struct Access {
    unsigned block, thread;
    Passed passed;
    Kind kind;
    const char* place;
    UNSEEN bool writes() const { return kind == WRITE || kind == VOLATILE_WRITE; }
    UNSEEN bool is_volatile() const { return kind >= VOLATILE_READ; }
};
struct Addition { const int* to; unsigned thread, block_barriers; std::vector<Passed> passed; };

static std::unordered_map<uintptr_t, std::vector<Access>> accesses;  // by the word, of 4 bytes
static std::vector<Passed> passed;                                   // by the threads of the block that runs
static std::vector<Addition> additions;                              // of each block
static struct { const void* at; size_t size; char before[16]; Access first, second; } written_twice;
static std::string races;

UNSEEN static void tell(const Access& first, const Access& second) {
    if (races.size() > 5000) return;
    for (const Access* access : {&first, &second}) {
        Dl_info library;
        dladdr(access->place, &library);
        char row[99];
        snprintf(row, sizeof row, "%zx %s in thread %u of block %u%c", (size_t)(access->place - (char*)library.dli_fbase - 1),
                 access->writes() ? "writes" : "reads", access->thread, access->block, access == &first ? '\t' : '\n');
        races += row;
    }
}

// What was written twice is a race if it has changed by that.
UNSEEN static void settle() {
    auto& w = written_twice;
    if (w.at && memcmp(w.at, w.before, w.size)) tell(w.first, w.second);
    w.at = nullptr;
}

UNSEEN static bool is_in_one_warp(const Access& a, const Access& b) { return a.thread / 32 == b.thread / 32; }

UNSEEN static bool are_ordered(const Access& first, const Access& second) {
    if (first.thread == second.thread && first.block == second.block) return true;
    if (first.block == second.block)
        return first.passed.block_barriers != second.passed.block_barriers ||
               (is_in_one_warp(first, second) && first.passed.warp_barriers != second.passed.warp_barriers);
    const Addition &theirs = additions[first.block], &ours = additions[second.block];
    return theirs.to && theirs.to == ours.to && first.passed.fences < theirs.passed[first.thread].fences &&
           (first.thread == theirs.thread || first.passed.block_barriers < theirs.block_barriers) &&
           (second.thread == ours.thread || second.passed.block_barriers > ours.block_barriers);
}

UNSEEN static void watch(const void* at, size_t size, Kind kind, const void* place) {
    settle();
    const Access own = {block, current, passed[current], kind, (const char*)place};
    for (uintptr_t word = (uintptr_t)at / 4; word <= ((uintptr_t)at + size - 1) / 4; word++) {
        std::vector<Access>& before = accesses[word];
        const Access* reader = nullptr;  // in the same time between two barriers
        bool is_needed = true;
        for (size_t i = 0; i < before.size();) {
            const Access one = before[i];
            bool is_ordered = are_ordered(one, own), is_here = one.block == block;
            if (!is_ordered && (one.writes() || own.writes()) && !(one.is_volatile() && own.is_volatile())) {
                if (one.writes() && own.writes()) {
                    written_twice = {at, size, {}, one, own};
                    memcpy(written_twice.before, at, size);
                } else {
                    tell(one, own);
                }
            }
            if (is_here && is_ordered && (own.writes() || !one.writes()) && one.is_volatile() >= own.is_volatile()) {
                before[i] = before.back();  // what races with that will race with this, too
                before.pop_back();
                continue;
            }
            // What writes at that time races with one of two readers of different warps, whoever else there is.
            if (is_here && one.kind == READ && own.kind == READ && one.passed.block_barriers == own.passed.block_barriers) {
                is_needed &= !reader || is_in_one_warp(*reader, one);
                reader = &before[i];
            }
            i++;
        }
        if (is_needed) before.push_back(own);
    }
}

UNSEEN static void begin_block(unsigned threads, const char* shared, const char* end) {
    passed.assign(threads, Passed());
    additions.resize(block + 1);
    for (auto it = accesses.begin(); it != accesses.end();)  // a block has shared memory of its own
        it = it->first >= (uintptr_t)shared / 4 && it->first < (uintptr_t)end / 4 ? accesses.erase(it) : std::next(it);
}

UNSEEN static void begin_launch() {
    accesses.clear();
    additions.clear();
}

// ---- What the kernel calls, and the compiler for it -------------------------------------------------------------------

struct Outside {  // what is read and written here is not the kernel's
    UNSEEN Outside() { is_inside = false; }
    UNSEEN ~Outside() { is_inside = true; }
};

UNSEEN static void pass(State state) {  // a barrier, or the end
    Outside outside;
    settle();
    (state == AT_BLOCK ? passed[current].block_barriers : passed[current].warp_barriers)++;
}

UNSEEN static void pass_fence() {
    Outside outside;
    passed[current].fences++;
}

UNSEEN static void add(const int* to) {
    Outside outside;
    additions[block] = {to, current, passed[current].block_barriers, passed};
}

UNSEEN static void see(const void* at, size_t size, Kind kind, const void* place) {
    if (!is_inside) return;
    Outside outside;
    const std::vector<char>& stack = fibers[current].stack;
    bool is_own = at >= stack.data() && at < stack.data() + stack.size();
    bool is_index = at >= (void*)&threadIdx && at < (void*)(&threadIdx + 1);
    if (!is_own && !is_index && at != &blockIdx && at != &blockDim) watch(at, size, kind, place);
}

#define SEE(name, size, kind) \
    extern "C" UNSEEN void __tsan_##name(void* at) { see(at, size, kind, __builtin_return_address(0)); }
#define SEE_ALL(bytes) \
    SEE(read##bytes, bytes, READ) SEE(unaligned_read##bytes, bytes, READ) SEE(volatile_read##bytes, bytes, VOLATILE_READ) \
    SEE(write##bytes, bytes, WRITE) SEE(unaligned_write##bytes, bytes, WRITE) \
    SEE(volatile_write##bytes, bytes, VOLATILE_WRITE)
SEE_ALL(1) SEE_ALL(2) SEE_ALL(4) SEE_ALL(8) SEE_ALL(16)
extern "C" UNSEEN void __tsan_read_range(void* at, size_t n) { see(at, n, READ, __builtin_return_address(0)); }
extern "C" UNSEEN void __tsan_write_range(void* at, size_t n) { see(at, n, WRITE, __builtin_return_address(0)); }
extern "C" UNSEEN void __tsan_func_entry(void*) {}
extern "C" UNSEEN void __tsan_func_exit() {}
extern "C" UNSEEN void __tsan_init() {}

extern "C" UNSEEN const char* races_found() {
    static std::string told;
    told.swap(races);
    races.clear();
    return told.c_str();
}
