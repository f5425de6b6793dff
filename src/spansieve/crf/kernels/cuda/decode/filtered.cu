// Paths through the candidates: the best one, and sums over all of them.
//
// A sweep is one thread's: of few candidates there are three, of the best path, forward and backward. Many candidates are
// cut into chunks, where none lies across the cut, so that all that a chunk needs of those before it is a value for each
// label. A thread for each label before each chunk finds what comes out of it, and what reaches each candidate in it; from
// that follows what goes into each chunk, and with both the values of a candidate are sums over the labels before its
// chunk. `null` stands for the start of the sentence throughout.

// More chunks are shorter, but each takes its time to be joined, and with many their threads get into each other's way.
__device__ inline int chunks_of(int n) { return max(1, min(CHUNKS, max(min(n / 8, CHUNKS / 2), n / 56))); }

struct Chunks {
    int count;
    int first[CHUNKS + 1];
    float range[CHUNKS];  // how far sums over its paths may lie from 1, as logarithms
    __device__ inline int of(int c) const {
        int low = 0, high = count;
        while (high - low > 1) {
            int middle = (low + high) / 2;
            if (first[middle] <= c) low = middle; else high = middle;
        }
        return low;
    }
    __device__ inline bool is_plain(int g) const { return range[g] < PLAIN_RANGE; }
};

// Cut near to equal numbers of candidates, where none lies across: the k that end first are over where the k-th begins.
__device__ void cut(const Nodes& nodes, Chunks& chunks, int count) {
    int g = threadIdx.x;
    if (g == 0) chunks.count = count;
    if (g > count) return;
    int k = (int)((long long)g * nodes.n / count);
    while (k > 0 && k < nodes.n && nodes.node[k - 1].y > nodes.node[nodes.by_start[k]].x) k++;
    chunks.first[g] = k;
}

// How far sums may lie from 1: each candidate changes them by its score and a transition, and the number of paths by at
// most twice. A warp for each chunk. What is impossible changes nothing.
__device__ void measure(const Nodes& nodes, Chunks& chunks, const float* transition) {
    int lane = threadIdx.x % 32;
    float steepest = 0.0f;
    for (int k = lane; k < Y * Y; k += 32)
        if (fabsf(transition[k]) < INFINITE) steepest = fmaxf(steepest, fabsf(transition[k]));
    for (int reach = 1; reach < 32; reach *= 2) steepest = fmaxf(steepest, __shfl_xor_sync(~0u, steepest, reach));
    for (int g = threadIdx.x / 32; g < chunks.count; g += THREADS / 32) {
        float range = 0.0f;
        for (int c = chunks.first[g] + lane; c < chunks.first[g + 1]; c += 32) {
            float score = __int_as_float(nodes.node[c].w);
            range += (score > -INFINITE ? fabsf(score) : 0.0f) + steepest + 0.7f;
        }
        for (int reach = 1; reach < 32; reach *= 2) range += __shfl_xor_sync(~0u, range, reach);
        if (lane == 0) chunks.range[g] = range;
    }
}

// The best of several ways, and the last candidate on it.
struct Way {
    double top;
    int winner;  // NO_NODE: none in this chunk
};

__device__ inline Way way_of(double top, int winner) {
    Way way;
    way.top = top;
    way.winner = winner;
    return way;
}

// Of equals that whose last candidate comes first in order. What has none in its chunk has that of the way before.
__device__ inline Way step(const Way* left, const Way* link, int stride) {
    double tops[Y], best = -INFINITE;
    int winner = BEYOND;
#pragma unroll
    for (int y = 0; y < Y; y++) best = fmax(best, tops[y] = left[y].top + link[y * stride].top);
#pragma unroll
    for (int y = 0; y < Y; y++) {
        int last = link[y * stride].winner;
        if (tops[y] == best) winner = min(winner, last < 0 ? left[y].winner : last);
    }
    return way_of(best, best == -INFINITE ? NO_NODE : winner);
}

__device__ inline Way normal(Way way) { return way; }

__device__ inline void set_start(Real& cell, bool is_start) { cell = is_start ? real(1.0, 0) : zero(); }

__device__ inline void set_start(Way& cell, bool is_start) { cell = way_of(is_start ? 0.0 : -INFINITE, NO_NODE); }

// What flows through the chunks of a sentence, by labels: sums, as Reals, or the best path, as Ways.
template <bool BACK, class Cell> struct Flow {
    Cell* out;    // (CHUNKS, Y, Y): what comes out of a chunk, for each label before it
    Cell* in;     // (CHUNKS + 1, Y): what goes into it
    Cell* value;  // (N, Y): what reaches a candidate, for each label before its chunk
    __device__ Flow(char*& memory, int capacity) {
        out = (Cell*)memory;
        in = out + CHUNKS * Y * Y;
        value = in + (CHUNKS + 1) * Y;
        memory = (char*)(value + (size_t)capacity * Y);
    }
    // By a warp: from what comes out of each chunk what goes into the next. What comes out of the next one is read
    // meanwhile. `states` is (2, Y); the one at the end.
    __device__ Cell* join(int n, Cell* states) const {
        int lane = threadIdx.x % 32;
        Cell ahead[Y], now[Y];
        for (int y = lane; y < Y; y += 32) set_start(states[y], y == 0);
        if (lane < Y) read_ahead(ahead, 0, n, lane);
        for (int k = 0; k < n; k++) {
            Cell *row = states + k % 2 * Y, *next = states + (k + 1) % 2 * Y;
            __syncwarp();
            for (int y = lane; y < Y; y += 32) {
                copy(now, ahead);
                if (y + 32 < Y) read_ahead(ahead, k, n, y + 32);
                else if (k + 1 < n) read_ahead(ahead, k + 1, n, lane);
                in[(BACK ? n - k : k) * Y + y] = row[y];
                next[y] = step(row, now, 1);
            }
        }
        __syncwarp();
        return states + n % 2 * Y;
    }
    __device__ inline void read_ahead(Cell* ahead, int k, int n, int y) const {
#pragma unroll
        for (int from = 0; from < Y; from++) ahead[from] = out[((BACK ? n - 1 - k : k) * Y + from) * Y + y];
    }
    __device__ inline Cell at(const Chunks& chunks, int c) const {
        Cell own[Y];
#pragma unroll
        for (int y = 0; y < Y; y++) own[y] = normal(value[(size_t)c * Y + y]);
        return step(in + (chunks.of(c) + BACK) * Y, own, 1);
    }
};

struct Tables {              // (Y, Y): the transition
    float single[Y * Y];
    double twice[Y * Y];     // in double
    Real link[Y * Y];        // exp of it
    double plain_link[Y * Y];
    __device__ void set(int k, float transition) {  // the way out of the start, and into null, is free
        twice[k] = single[k] = k < Y ? 0.0f : transition;
        link[k] = k < Y || k % Y == 0 ? real(1.0, 0) : exp_of(transition);
        plain_link[k] = k < Y || k % Y == 0 ? 1.0 : exp((double)transition);
    }
};

// Sums over chunk g with nothing but one label before it: what comes out of it, (Y,), and every EACH-th value in it.
template <bool BACK, int EACH>
__device__ void sum_up(const Nodes& nodes, const Chunks& chunks, int g, const Tables& tables, const Real* weight, int label,
                       Real* value, Real* out) {
    int low = chunks.first[g], high = chunks.first[g + 1];
    if (chunks.is_plain(g)) {
        Sums<double, BACK, EACH> window(tables.plain_link, weight, value, label);
        sweep<BACK>(nodes, low, high, window);
#pragma unroll
        for (int y = 0; y < Y; y++) out[y] = normal(stored(window.merged[y]));
    } else {
        Sums<Real, BACK, EACH> window(tables.link, weight, value, label);
        sweep<BACK>(nodes, low, high, window);
#pragma unroll
        for (int y = 0; y < Y; y++) out[y] = window.merged[y];
    }
}

struct KeptWays {  // of one label before a chunk
    Way* way;      // (N, Y)
    __device__ inline double top(int c) const { return way[c * Y].top; }
    __device__ inline void keep(int c, double top, int from) const { way[c * Y] = way_of(top, from); }
    __device__ inline void replaced(int, int) const {}
    __device__ inline int first_equal(int c, double, double) const { return c; }
};

struct KeptInOrder {
    float* value;               // (N,)
    int *origin, *runner_up;    // (N,)
    __device__ inline float top(int c) const { return value[c]; }
    __device__ inline void keep(int c, float top, int from) const { value[c] = top; origin[c] = from; }
    __device__ inline void replaced(int c, int by) const { runner_up[c] = by; }
    __device__ inline int first_equal(int c, float best, float onward) const {
        while (c >= 0 && runner_up[c] >= 0 && value[runner_up[c]] + onward == best) c = runner_up[c];
        return c;
    }
};

__device__ void find_best(const Nodes& nodes, const Chunks& chunks, int g, const Tables& tables, int label, Way* value,
                          Way* out) {
    Maxima<double, KeptWays> window(tables.twice, {value}, label);
    sweep<false>(nodes, chunks.first[g], chunks.first[g + 1], window);
#pragma unroll
    for (int y = 0; y < Y; y++) out[y] = way_of(window.top[y], window.winner[y]);
}

__device__ inline Real total_of(const Real* values) {
    Real total = values[0];
    for (int y = 1; y < Y; y++) total = plus(total, values[y]);
    return total;
}

// The path that ends with `last`, in order, by the whole block; how many. Each candidate is marked that 1, 2, 4, … steps
// lead to from one that is marked; a mark that others see early leads no farther than to the path. `origin`, `jump` and
// `mark` are (N,), and written over; `path` is one of them.
__device__ int trace(int n, int last, int* origin, int* jump, int* mark, int* sums, int*& path) {
    int thread = threadIdx.x, threads = THREADS;
    for (int c = thread; c < n; c += threads) mark[c] = c == last;
    __syncthreads();
    volatile int* marks = mark;  // while others set them
    for (int reach = 1; reach < n; reach *= 2) {
        for (int c = thread; c < n; c += threads) {
            int before = origin[c];
            if (before >= 0 && marks[c]) marks[before] = 1;
            jump[c] = before < 0 ? NO_NODE : origin[before];
        }
        __syncthreads();
        int* other = origin;
        origin = jump;
        jump = other;
    }
    int each = (n + threads - 1) / threads, low = min(thread * each, n), high = min(low + each, n), own = 0;
    for (int c = low; c < high; c++) own += mark[c];
    int count = scan(sums, own), k = sums[thread] - own;
    path = jump;
    for (int c = low; c < high; c++)
        if (mark[c]) path[k++] = c;
    return count;
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS) decode(const Task t) {
    __shared__ int count, last, sums[MAX_THREADS];
    __shared__ Real total, ends[2][2 * Y];
    __shared__ Way states[2 * Y];
    __shared__ double best;
    __shared__ Chunks chunks;
    int thread = threadIdx.x, b = blockIdx.y;
#if OWN_TABLES
    __shared__ Tables tables;
#else
    Tables& tables = *(Tables*)memory;
#endif
    for (int k = thread; k < Y * Y; k += THREADS) tables.set(k, t.transition[k]);
    Nodes nodes;
    nodes.node = (int4*)memory + (OWN_TABLES ? 0 : (sizeof(Tables) + 15) / 16);
    nodes.by_start = (int*)(nodes.node + t.capacity);
    float* value = (float*)(nodes.by_start + t.capacity);
    int *origin = (int*)(value + t.capacity), *runner_up = origin + t.capacity, *path = runner_up;
    char* scratch = t.scratch + b * t.scratch_size + t.tiles * (TILE_KEPT * sizeof(int4) + 16);
    // Of a long sentence the sums are no longer in shared memory.
    Real* forward = t.tiles == 1 ? (Real*)(runner_up + t.capacity) : (Real*)scratch;
    Real* backward = forward + (t.with_probabilities ? t.capacity : 0);
    scratch = (char*)(backward + t.capacity);
    if (!candidates_in_order(t, b, (int)t.lengths[b], (int4*)forward, sums, nodes)) return;
    int n = t.tiles == 1 ? 1 : chunks_of(nodes.n), sweeps = t.with_probabilities ? 3 : 1;
    // Chunks leave `value` and `origin` alone until their paths are joined.
    nodes.left = t.tiles == 1 ? (int*)(backward + t.capacity) : n == 1 ? (int*)scratch : (int*)value;
    nodes.right = nodes.left + t.capacity;
    cut(nodes, chunks, n);
    find_neighbours(nodes);
    __syncthreads();
    if (sweeps > 1) {
        measure(nodes, chunks, tables.single);
        __syncthreads();
        for (int c = thread; c < nodes.n; c += THREADS) {
            float score = __int_as_float(nodes.node[c].w);
            forward[c] = backward[c] = chunks.is_plain(chunks.of(c)) ? stored(exp((double)score)) : exp_of(score);
        }
        __syncthreads();
    }
    Flow<false, Way> middle(scratch, t.capacity);
    Flow<false, Real> left(scratch, t.capacity);
    Flow<true, Real> right(scratch, t.capacity);
    if (n == 1) {
        if (thread == 0) {
            Maxima<float, KeptInOrder> window(tables.single, {value, origin, runner_up}, 0);
            sweep<false>(nodes, 0, nodes.n, window);
            best = window.into(0, last);
            count = 0;
            for (int c = last; c != NO_NODE; c = origin[c]) path[count++] = c;  // from its end
        } else if (thread == 32 && sweeps > 1) {
            sum_up<false, 1>(nodes, chunks, 0, tables, forward, 0, forward, ends[0]);
            total = total_of(ends[0]);
        } else if (thread == 64 && sweeps > 1) {
            sum_up<true, 1>(nodes, chunks, 0, tables, backward, 0, backward, ends[1]);
        }
    } else {
        for (int k = thread; k < sweeps * n * Y; k += THREADS) {
            int sweep = k / (n * Y), g = k / Y % n, y = k % Y, out = (g * Y + y) * Y;
            if (sweep == 0) find_best(nodes, chunks, g, tables, y, middle.value + y, middle.out + out);
            else if (sweep == 1)
                sum_up<false, Y>(nodes, chunks, g, tables, forward, y, left.value + y, left.out + out);
            else sum_up<true, Y>(nodes, chunks, g, tables, backward, y, right.value + y, right.out + out);
        }
        __syncthreads();
        if (thread < 32) {
            Way* ways = middle.join(n, states);
            if (thread == 0) {
                best = -INFINITE;
                last = NO_NODE;
                for (int y = 0; y < Y; y++)
                    if (ways[y].top > best || (ways[y].top == best && ways[y].winner < last)) {
                        best = ways[y].top;
                        last = ways[y].winner;
                    }
            }
        } else if (thread < 64 && sweeps > 1) {
            Real* row = left.join(n, ends[0]);
            if (thread == 32) total = total_of(row);
        } else if (thread < 96 && sweeps > 1) {
            right.join(n, ends[1]);
        }
        __syncthreads();
        for (int c = thread; c < nodes.n; c += THREADS) origin[c] = middle.at(chunks, c).winner;
        int found = trace(nodes.n, last, origin, (int*)value, runner_up, sums, path);
        if (thread == 0) count = found;
    }
    if (thread == 0) {
        if (!(best > -INFINITE)) count = ON_HOST;
        t.counts[b] = count;
    }
    __syncthreads();
    for (int k = thread; k < count; k += THREADS) {
        int c = path[n == 1 ? count - 1 - k : k];
        int4 node = nodes.node[c];
        float p = 0.0f;
        if (sweeps > 1) {
            Real before = n == 1 ? normal(forward[c]) : left.at(chunks, c);
            Real after = n == 1 ? normal(backward[c]) : right.at(chunks, c);
            p = quotient(times(before, after), times(exp_of(__int_as_float(node.w)), total));
        }
        t.segments[(long long)b * t.slots + k] = segment_of(node.x, node.y, node.z, p);
    }
}
