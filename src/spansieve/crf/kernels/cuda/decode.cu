// Decoding in one launch: the best segments of each sentence and their probabilities, from scores to pinned memory.
//
// Axes: B sentences, L tokens, K widths, Y labels or tags, N candidates. Compiled for one head, by NVRTC, with
//   Y               labels, null included, or tags
//   SKIP, LABELS    of a filter: a path may leave candidates out; the labels that a span may be kept with
//   UNIT_NULL, BIO  of a semi-Markov model: null segments have width 1; of a linear chain: its tags are BIO, not BIOES
//   TERMS           of a dense sweep: the widths that a lane adds up
//
// What a sentence cannot be decoded of here (more candidates than fit, a score that is no number or far too large, no
// possible segmentation) gets the count ON_HOST: the host decodes it, and raises what there is to raise.

#define THREADS 128
#define TILE_SPANS 1024  // of one block of the filter
#define TILE_KEPT 512    // candidates of a block where a sentence has several
#define ON_HOST -1
#define NO_NODE -1
#define INFINITE __int_as_float(0x7f800000)

struct Task {
    const float* scores;          // (B, L, K, Y): the only ones, or the local ones of a filter
    const float* global_scores;   // (B, L, K, Y)
    const long long* lengths;     // (B,)
    const float* transition;      // (Y, Y)
    const float* start;           // (Y,): what may start and end a linear chain
    const float* end;
    const int* opened;            // (Y,): the label of which a tag opens a segment; 0: of none
    char* scratch;                // of each sentence `scratch_size` bytes
    int* done;                    // (B,): blocks that have filtered, 0 before and after
    int* counts;                  // (B,), pinned: segments, or ON_HOST
    int4* segments;               // (B, slots), pinned: start, end, label, and the bits of a probability
    long long scratch_size;
    int L, K, tiles, capacity, slots, with_probabilities;
};

// ---- Sums without exp and log: numbers m · 2^e, m in [1, 2) or 0 ------------------------------------------------------

// Products and sums of such numbers lose nothing to the range of a double, whatever the scores, and their exponents are
// integers: a sweep has no exp and no log on its path, only the conversion of each score has.

struct Real { double m; int e; int unused; };

#define ZERO_EXPONENT (-(1 << 30))

__device__ inline Real real(double m, int e) {
    Real x;
    x.m = m; x.e = e; x.unused = 0;
    return x;
}

__device__ inline Real zero() { return real(0.0, ZERO_EXPONENT); }

__device__ inline Real normal(double m, int e) {
    if (m == 0.0) return zero();
    int high = __double2hiint(m);
    int k = (high >> 20) - 1023;
    return real(__hiloint2double(high - (k << 20), __double2loint(m)), e + k);
}

__device__ inline double power(int e) { return __hiloint2double((1023 + max(e, -1022)) << 20, 0); }  // 2^e, e <= 0

__device__ inline Real times(Real a, Real b) { return normal(a.m * b.m, a.e + b.e); }

__device__ inline Real plus(Real a, Real b) {
    return a.e >= b.e ? normal(a.m + b.m * power(b.e - a.e), a.e) : normal(a.m * power(a.e - b.e) + b.m, b.e);
}

__device__ inline Real exp_of(float score) {
    if (!(score > -INFINITE)) return zero();
    double k = rint(score * 1.4426950408889634);
    double rest = fma(-k, 1.9082149292705877e-10, fma(-k, 0.6931471803691238, (double)score));
    return normal(exp(rest), (int)k);
}

__device__ inline float quotient(Real a, Real b) {  // of two numbers, a probability
    if (a.m == 0.0 || b.m == 0.0) return 0.0f;
    int e = a.e - b.e;
    return e > 1 ? 1.0f : (float)fmin(1.0, a.m / b.m * (e > 0 ? 2.0 : power(e)));
}

// Σ_y left[y] · link[y · stride]: one step of a sweep into one label, over a column of the transition, or back over a row.
__device__ inline Real step(const Real* left, const Real* link, int stride) {
    int top = 2 * ZERO_EXPONENT;
    for (int y = 0; y < Y; y++) top = max(top, left[y].e + link[y * stride].e);
    double sum = 0.0;
    for (int y = 0; y < Y; y++) sum += left[y].m * link[y * stride].m * power(left[y].e + link[y * stride].e - top);
    return normal(sum, top);
}

__device__ inline bool is_far(float score, int L) {  // the exponents of a sweep would leave an int
    return !(score < INFINITE) || (score > -INFINITE && fabsf(score) > (float)(1 << 28) / (L + 1));
}

__device__ inline int4 segment_of(int start, int end, int label, float probability) {
    int4 segment;
    segment.x = start; segment.y = end; segment.z = label; segment.w = __float_as_int(probability);
    return segment;
}

extern __shared__ double4 memory[];

#if defined(FILTERED)

// ---- The filter -------------------------------------------------------------------------------------------------------

__device__ inline bool is_kept(const float* row, int y) {
    if (!(row[y] > row[0])) return false;
    int rank = 0;
    if (LABELS < Y - 1)
        for (int other = 1; other < Y; other++)
            rank += row[other] > row[y] || (row[other] == row[y] && other < y);
    return rank < LABELS;
}

// The candidates among the spans low … high - 1, in order of (start, end, label): how many, or with `kept` which.
__device__ int filter_spans(const Task& t, int b, int length, int low, int high, int4* kept, int room, int* is_wrong) {
    int n = 0;
    for (int span = low; span < high; span++) {
        int start = span / t.K, end = start + span % t.K + 1;
        if (end > length) continue;
        long long at = ((long long)b * t.L * t.K + span) * Y;
        const float* row = t.scores + at;
        bool is_hit = false;
        for (int y = 1; y < Y; y++) is_hit |= !(row[y] <= row[0]);
        if (!is_hit) continue;
        for (int y = 0; y < Y; y++)
            if (!(row[y] < INFINITE)) *is_wrong = 1;
        for (int y = 1; y < Y; y++) {
            if (!is_kept(row, y)) continue;
            if (kept && n < room) {
                float score = t.global_scores[at + y];
                if (is_far(score, t.L)) *is_wrong = 1;
                kept[n] = segment_of(start, end, y, score);
            }
            n++;
        }
    }
    return n;
}

// The candidates of one tile in `kept`, by the whole block; how many. `sums` is (THREADS + 1,).
__device__ int filter_tile(const Task& t, int b, int length, int tile, int4* kept, int room, int* sums, int* is_wrong) {
    int thread = threadIdx.x, first = tile * TILE_SPANS, last = min(first + TILE_SPANS, length * t.K);
    int each = max(0, last - first + THREADS - 1) / THREADS;
    int low = min(first + thread * each, last), high = min(low + each, last);
    int n = filter_spans(t, b, length, low, high, 0, 0, is_wrong);
    sums[thread] = n;
    __syncthreads();
    for (int reach = 1; reach < THREADS; reach *= 2) {
        int before = thread >= reach ? sums[thread - reach] : 0;
        __syncthreads();
        sums[thread] += before;
        __syncthreads();
    }
    int total = sums[THREADS - 1], offset = sums[thread] - n;
    if (n && total <= room) filter_spans(t, b, length, low, high, kept + offset, n, is_wrong);
    __syncthreads();
    return total;
}

// The candidates of a sentence in shared memory: how many; -1 in all blocks of a sentence but the one that goes on.
__device__ int filter_sentence(const Task& t, int b, int length, int4* kept, int* sums, int* is_wrong) {
    if (t.tiles == 1) return filter_tile(t, b, length, 0, kept, t.capacity, sums, is_wrong);
    __shared__ int is_last;
    int4* tiles = (int4*)(t.scratch + b * t.scratch_size);  // (tiles, TILE_KEPT), and their counts
    int* counts = (int*)(tiles + t.tiles * TILE_KEPT);
    int n = filter_tile(t, b, length, blockIdx.x, tiles + blockIdx.x * TILE_KEPT, TILE_KEPT, sums, is_wrong);
    if (threadIdx.x == 0) {
        counts[blockIdx.x] = *is_wrong ? TILE_KEPT + 1 : n;
        __threadfence();
        is_last = atomicAdd(t.done + b, 1) == t.tiles - 1;
        __threadfence();
    }
    __syncthreads();
    if (!is_last) return -1;
    if (threadIdx.x == 0) t.done[b] = 0;
    int total = 0;
    for (int tile = 0; tile < t.tiles; tile++) {
        int here = __ldcg(counts + tile);
        if (here > TILE_KEPT || total + here > t.capacity) {
            *is_wrong = 1;
            break;
        }
        for (int k = threadIdx.x; k < here; k += THREADS) kept[total + k] = __ldcg(tiles + tile * TILE_KEPT + k);
        total += here;
    }
    __syncthreads();
    return total;
}

// ---- Candidates in order ----------------------------------------------------------------------------------------------

struct Nodes {
    int4* node;     // (N,): start, end, label, score, in order of (end, start, label)
    int* by_start;  // (N,): their indices in order of (start, end, label)
    int n;
};

__device__ inline bool ends_before(int4 a, int4 b) {
    return a.y != b.y ? a.y < b.y : a.x != b.x ? a.x < b.x : a.z < b.z;
}

// Those that are out of order begin within K tokens of each other.
__device__ void sort_by_end(const int4* kept, int K, Nodes& nodes) {
    for (int k = threadIdx.x; k < nodes.n; k += THREADS) {
        int4 own = kept[k];
        int rank = k;
        for (int j = k + 1; j < nodes.n && kept[j].x < own.y; j++) rank += ends_before(kept[j], own);
        for (int j = k - 1; j >= 0 && kept[j].x + K >= own.y; j--) rank -= ends_before(own, kept[j]);
        nodes.node[rank] = own;
        nodes.by_start[k] = rank;
    }
}

// A sweep from the left or from the right, where start and end change places.
template <bool BACK> struct Order {
    const Nodes& nodes;
    __device__ inline int beginning(int k) const { return BACK ? nodes.n - 1 - k : nodes.by_start[k]; }
    __device__ inline int finishing(int k) const { return BACK ? nodes.by_start[nodes.n - 1 - k] : k; }
    __device__ inline int begin(int c) const { return BACK ? -nodes.node[c].y : nodes.node[c].x; }
    __device__ inline int finish(int c) const { return BACK ? -nodes.node[c].x : nodes.node[c].y; }
};

#define BEYOND 0x7fffffff

// The window before a position, by the window theorem: of the candidates that are over, those that end after the latest
// start among them, or with SKIP all. `add` merges one, `clear` forgets all, the start of the sentence too.
template <bool BACK, class Window>
__device__ inline void slide(const Nodes& nodes, int position, int& over, int& latest, Window& window) {
    Order<BACK> order = {nodes};
    int before = over;
    while (over < nodes.n) {
        int c = order.finishing(over);
        if (order.finish(c) > position) break;
        if (SKIP) window.add(c);
        latest = max(latest, order.begin(c));
        over++;
    }
    if (SKIP || over == before) return;
    window.clear();
    int first = over;
    while (first > 0 && order.finish(order.finishing(first - 1)) > latest) first--;
    for (; first < over; first++) window.add(order.finishing(first));
}

struct Sums {
    const Nodes& nodes;
    Real *merged, *value;  // (Y,), where null stands for the start of the sentence; (N,)
    __device__ inline void clear() { for (int y = 0; y < Y; y++) merged[y] = zero(); }
    __device__ inline void add(int c) {
        int y = nodes.node[c].z;
        merged[y] = plus(merged[y], value[c]);
    }
};

// Forward or backward sums, by one thread: value[c], which is exp of the score before; the sum over all paths.
template <bool BACK> __device__ Real sum_paths(const Nodes& nodes, const Real* link, Real* merged, Real* value) {
    Sums window = {nodes, merged, value};
    window.clear();
    merged[0] = real(1.0, 0);
    Order<BACK> order = {nodes};
    int over = 0, latest = -BEYOND;
    for (int k = 0; k < nodes.n; k++) {
        int c = order.beginning(k);
        slide<BACK>(nodes, order.begin(c), over, latest, window);
        int y = nodes.node[c].z;
        value[c] = times(BACK ? step(merged, link + y * Y, 1) : step(merged, link + y, Y), value[c]);
    }
    slide<BACK>(nodes, BEYOND, over, latest, window);
    Real total = zero();
    for (int y = 0; y < Y; y++) total = plus(total, merged[y]);
    return total;
}

struct Maxima {
    const Nodes& nodes;
    float *top, *value;  // (Y,), (N,)
    int *winner, *runner_up, *origin;  // (Y,), (N,), (N,)
    bool opens;  // the start of the sentence is a way in

    __device__ inline void clear() { for (int y = 0; y < Y; y++) winner[y] = NO_NODE; opens = SKIP; }
    __device__ inline void add(int c) {
        int y = nodes.node[c].z;
        if (winner[y] != NO_NODE && !(value[c] > top[y])) return;
        runner_up[c] = winner[y];
        winner[y] = c;
        top[y] = value[c];
    }
    // The best way into a label, over a column of the transition, or with none into the end; and the first candidate in
    // order through which it is attained. One that was replaced may come out equal once the transition is added.
    __device__ inline float into(const float* column, int& from) {
        float best = opens ? 0.0f : -INFINITE;
        for (int y = 1; y < Y; y++)
            if (winner[y] != NO_NODE) best = fmaxf(best, top[y] + (column ? column[y * Y] : 0.0f));
        from = NO_NODE;
        if (best == -INFINITE || (opens && best == 0.0f)) return best;
        for (int y = 1; y < Y; y++) {
            float onward = column ? column[y * Y] : 0.0f;
            int c = winner[y];
            if (c == NO_NODE || top[y] + onward != best) continue;
            while (runner_up[c] != NO_NODE && value[runner_up[c]] + onward == best) c = runner_up[c];
            from = from == NO_NODE ? c : min(from, c);
        }
        return best;
    }
};

// The best path, by one thread, in the scores' own type: its last candidate, and its score.
__device__ int best_path(const Nodes& nodes, const float* transition, Maxima& window, float& best) {
    window.clear();
    window.opens = true;
    int over = 0, latest = -BEYOND, last;
    for (int k = 0; k < nodes.n; k++) {
        int c = nodes.by_start[k];
        slide<false>(nodes, nodes.node[c].x, over, latest, window);
        float into = window.into(transition + nodes.node[c].z, window.origin[c]);
        window.value[c] = into + __int_as_float(nodes.node[c].w);
    }
    slide<false>(nodes, BEYOND, over, latest, window);
    best = window.into(0, last);
    return last;
}

extern "C" __global__ void decode(const Task t) {
    __shared__ int is_wrong, last, sums[THREADS];
    __shared__ Real merged[2][Y], link[Y * Y], total;
    __shared__ float transition[Y * Y], top[Y], best;
    __shared__ int winner[Y];
    int thread = threadIdx.x, b = blockIdx.y, length = (int)t.lengths[b];
    if (thread == 0) is_wrong = 0;
    for (int k = thread; k < Y * Y; k += THREADS) {
        transition[k] = t.transition[k];
        link[k] = k < Y || k % Y == 0 ? real(1.0, 0) : exp_of(transition[k]);  // null is the start, or the end
    }
    Real* forward = (Real*)memory;
    Real* backward = forward + (t.with_probabilities ? t.capacity : 0);
    int4* kept = (int4*)forward;  // until they are in order
    Nodes nodes;
    nodes.node = (int4*)(backward + t.capacity);
    nodes.by_start = (int*)(nodes.node + t.capacity);
    float* value = (float*)(nodes.by_start + t.capacity);
    int *origin = (int*)(value + t.capacity), *runner_up = origin + t.capacity;
    __syncthreads();
    nodes.n = filter_sentence(t, b, length, kept, sums, &is_wrong);
    if (nodes.n < 0) return;
    if (is_wrong || nodes.n > t.capacity) {
        if (thread == 0) t.counts[b] = ON_HOST;
        return;
    }
    sort_by_end(kept, t.K, nodes);
    __syncthreads();
    if (t.with_probabilities)
        for (int c = thread; c < nodes.n; c += THREADS)
            forward[c] = backward[c] = exp_of(__int_as_float(nodes.node[c].w));
    __syncthreads();
    if (thread == 0) {
        Maxima window = {nodes, top, value, winner, runner_up, origin, true};
        last = best_path(nodes, transition, window, best);
    } else if (thread == 32 && t.with_probabilities) {
        total = sum_paths<false>(nodes, link, merged[0], forward);
    } else if (thread == 64 && t.with_probabilities) {
        sum_paths<true>(nodes, link, merged[1], backward);
    }
    __syncthreads();
    if (thread == 0) {
        int count = 0;
        for (int c = last; c != NO_NODE; c = origin[c]) runner_up[count++] = c;
        is_wrong = best > -INFINITE && count <= t.slots ? count : ON_HOST;
        t.counts[b] = is_wrong;
    }
    __syncthreads();
    for (int k = thread; k < is_wrong; k += THREADS) {
        int c = runner_up[is_wrong - 1 - k];
        int4 node = nodes.node[c];
        float p = 0.0f;
        if (t.with_probabilities)
            p = quotient(times(forward[c], backward[c]), times(exp_of(__int_as_float(node.w)), total));
        t.segments[(long long)b * t.slots + k] = segment_of(node.x, node.y, node.z, p);
    }
}

#endif

#if defined(DENSE)

// ---- Every span: the semi-Markov model, and the linear chain, its case K = 1 -------------------------------------------

// A warp for each sweep: the best segmentation, forward, backward. With e = 1 … length from where it comes:
//     arriving[e, y] = ⊕_w entering[e-w-1, y] ⊗ scores[…]        segments that end at e; lanes share the widths of a label
//     entering[e, y] = ⊕_y' arriving[e, y'] ⊗ transition[y', y]   what precedes a segment that starts at e

#define GROUPS (Y <= 1 ? 32 : Y <= 2 ? 16 : Y <= 4 ? 8 : Y <= 8 ? 4 : Y <= 16 ? 2 : 1)
#define SHARE (CHAIN ? 1 : GROUPS)               // lanes for one label
#define PER_LANE ((Y * SHARE + 31) / 32)         // labels, or parts of one, that a lane has
#define TRACED 4096                              // back-pointers in shared memory at once
#define PREFIXES (BIO ? 2 : 4)                   // tags of a label

struct Dense {
    const Task& t;
    const float* scores;
    int length;
    __device__ inline float at(int start, int w, int y) const {
        float score = scores[((long long)start * t.K + w) * Y + y];
        if (UNIT_NULL && y == 0 && w > 0) return -INFINITE;
        if (CHAIN && start == 0) score += t.start[y];
        if (CHAIN && start == length - 1) score += t.end[y];
        return score;
    }
};

struct Winner { float value; int origin; };  // width, and the label above it: of equals the widest, then the first label

__device__ inline Winner winner(float value, int origin) {
    Winner made;
    made.value = value; made.origin = origin;
    return made;
}

__device__ inline Winner better(Winner a, Winner b) {
    if (a.value != b.value) return a.value > b.value ? a : b;
    int widths = (a.origin & 0xffff) - (b.origin & 0xffff);
    return widths > 0 || (widths == 0 && a.origin <= b.origin) ? a : b;
}

// What a sweep computes with: a value of a part, ⊗ with a score, ⊕, and a step over the transition.
struct MaxSweep {
    typedef Winner Part;
    typedef float Value;
    const float* transition;
    int* origin;  // (L + 1, Y)
    __device__ static inline Part none() { return winner(-INFINITE, 1); }
    __device__ static inline Value one() { return 0.0f; }
    __device__ static inline Part extended(Value before, float score, int w, int y) {
        return winner(before + score, (w + 1) | y << 16);
    }
    __device__ static inline Part both(Part a, Part b) { return better(a, b); }
    __device__ inline void begin(int y) const {}
    __device__ inline Value entering(const Part* arriving, int e, int next) const {
        Part best = none();
        for (int y = 0; y < Y; y++) {
            Part part = arriving[y];
            part.value += next < 0 ? 0.0f : transition[y * Y + next];
            best = y ? better(best, part) : part;
        }
        origin[(long long)e * Y + max(next, 0)] = best.origin;
        return best.value;
    }
};

template <bool BACK> struct SumSweep {
    typedef Real Part;
    typedef Real Value;
    const Real* link;
    Real* entered;  // (L + 1, Y)
    __device__ static inline Part none() { return zero(); }
    __device__ static inline Value one() { return real(1.0, 0); }
    __device__ static inline Part extended(Value before, float score, int w, int y) {
        return times(before, exp_of(score));
    }
    __device__ static inline Part both(Part a, Part b) { return plus(a, b); }
    __device__ inline void begin(int y) const { entered[y] = one(); }
    __device__ inline Value entering(const Part* arriving, int e, int next) const {
        Value value;
        if (next < 0) {
            value = zero();
            for (int y = 0; y < Y; y++) value = plus(value, arriving[y]);
        } else {
            value = BACK ? step(arriving, link + next * Y, 1) : step(arriving, link + next, Y);
            entered[(long long)e * Y + next] = value;
        }
        return value;
    }
};

// One sweep, by one warp: ⊕ over all segmentations. `ring` is (K, Y), `parts` (PER_LANE · 32,), `arriving` (Y,).
template <bool BACK, class Sweep>
__device__ typename Sweep::Value sweep(const Dense& d, const Sweep& s, typename Sweep::Value* ring,
                                       typename Sweep::Part* parts, typename Sweep::Part* arriving, int* is_wrong) {
    typedef typename Sweep::Part Part;
    int lane = threadIdx.x % 32, K = d.t.K, length = d.length;
    for (int y = lane; y < Y; y += 32) ring[y] = Sweep::one();
    float next[PER_LANE][TERMS], score[PER_LANE][TERMS];
    int row = 0;  // of the ring: that of e - 1
    for (int e = 0; e <= length; e++) {
        // The scores of the next position are loaded before this position's arithmetic, which hides the latency.
        for (int j = 0; j < PER_LANE; j++)
            for (int k = 0; k < TERMS; k++) {
                int y = (lane + 32 * j) / SHARE, w = (lane + 32 * j) % SHARE + k * SHARE;
                score[j][k] = next[j][k];
                bool exists = y < Y && w < K && w <= e && e < length;
                next[j][k] = exists ? d.at(BACK ? length - e - 1 : e - w, w, y) : -INFINITE;
                if (is_wrong && is_far(next[j][k], d.t.L)) *is_wrong = 1;
            }
        if (e == 0) {
            for (int y = lane; y < Y; y += 32) s.begin(y);
            __syncwarp();
            continue;
        }
        for (int j = 0; j < PER_LANE; j++) {
            int y = (lane + 32 * j) / SHARE;
            Part part = Sweep::none();
            for (int k = 0; k < TERMS; k++) {
                int w = (lane + 32 * j) % SHARE + k * SHARE;
                if (y >= Y || w >= K || w >= e) continue;
                int at = row - w;
                Part one = Sweep::extended(ring[(at < 0 ? at + K : at) * Y + y], score[j][k], w, y);
                part = k ? Sweep::both(part, one) : one;
            }
            parts[lane + 32 * j] = part;
        }
        __syncwarp();
        for (int y = lane; y < Y; y += 32) {
            Part part = parts[y * SHARE];
            for (int k = 1; k < SHARE; k++) part = Sweep::both(part, parts[y * SHARE + k]);
            arriving[y] = part;
        }
        __syncwarp();
        row = row + 1 == K ? 0 : row + 1;
        if (e < length)
            for (int y = lane; y < Y; y += 32) ring[row * Y + y] = s.entering(arriving, e, y);
        __syncwarp();
    }
    return s.entering(arriving, length, NO_NODE);
}

// The tag of a token of a segment with a label.
__device__ inline int tag_of(int label, int i, int start, int end) {
    int first = 1 + (label - 1) * PREFIXES;
    if (BIO) return i == start ? first : first + 1;
    if (end - start == 1) return first + 3;
    return i == start ? first : i == end - 1 ? first + 2 : first + 1;
}

__device__ inline int opened_by(int tag) {  // the label of which a tag opens a segment; 0: of none
    int which = (tag - 1) % PREFIXES;
    return tag && (which == 0 || which == 3) ? 1 + (tag - 1) / PREFIXES : 0;
}

__device__ Real weight(const Dense& d, int4 segment, const Real* link, const Real* forward, const Real* backward) {
    int start = segment.x, end = segment.y, y = CHAIN ? tag_of(segment.z, start, start, end) : segment.z;
    Real x = times(forward[(long long)start * Y + y], exp_of(d.at(start, CHAIN ? 0 : end - start - 1, y)));
    for (int i = start + 1; CHAIN && i < end; i++) {
        int tag = tag_of(segment.z, i, start, end);
        x = times(times(x, link[y * Y + tag]), exp_of(d.at(i, 0, tag)));
        y = tag;
    }
    if (!CHAIN || !BIO || end == d.length) return times(x, backward[(long long)(d.length - end) * Y + y]);
    Real after = zero();  // all that may follow but the tag that would go on with the segment
    for (int tag = 0; tag < Y; tag++) {
        if (tag == tag_of(segment.z, end, start, end + 1)) continue;
        Real onward = times(exp_of(d.at(end, 0, tag)), backward[(long long)(d.length - end - 1) * Y + tag]);
        after = plus(after, times(link[y * Y + tag], onward));
    }
    return times(x, after);
}

extern "C" __global__ void decode(const Task t) {
    __shared__ int is_wrong, count, end, border;
    __shared__ Winner parts[PER_LANE * 32], arriving[Y];
    __shared__ Real sum_parts[2][PER_LANE * 32], sum_arriving[2][Y], total;
    __shared__ float best;
    int thread = threadIdx.x, b = blockIdx.y, length = (int)t.lengths[b];
    Dense d = {t, t.scores + (long long)b * t.L * t.K * Y, length};
    Real* forward = (Real*)(t.scratch + b * t.scratch_size);  // (L + 1, Y)
    Real* backward = forward + (long long)(t.L + 1) * Y;
    int4* found = (int4*)(backward + (long long)(t.L + 1) * Y);  // (L,), from right to left
    int* origin = (int*)(found + t.L);  // (L + 1, Y)
    Real* link = (Real*)memory;  // (Y, Y)
    Real* rings = link + Y * Y;  // 2 (K, Y)
    float* transition = (float*)(rings + 2 * t.K * Y);
    float* ring = transition + Y * Y;
    int* traced = (int*)rings;  // (TRACED,), later
    if (thread == 0) { is_wrong = 0; count = 0; end = border = length; }
    for (int k = thread; k < Y * Y; k += THREADS) {
        transition[k] = t.transition[k];
        link[k] = exp_of(transition[k]);
    }
    __syncthreads();
    if (thread < 32) {
        MaxSweep s = {transition, origin};
        float value = length ? sweep<false>(d, s, ring, parts, arriving, &is_wrong) : 0.0f;
        if (thread == 0) best = value;
    } else if (thread < 64 && t.with_probabilities && length) {
        SumSweep<false> s = {link, forward};
        Real value = sweep<false>(d, s, rings, sum_parts[0], sum_arriving[0], 0);
        if (thread == 32) total = value;
    } else if (thread >= 64 && thread < 96 && t.with_probabilities && length) {
        SumSweep<true> s = {link, backward};
        sweep<true>(d, s, rings + t.K * Y, sum_parts[1], sum_arriving[1], 0);
    }
    __syncthreads();
    if (is_wrong || !(best > -INFINITE)) {
        if (thread == 0) t.counts[b] = ON_HOST;
        return;
    }
    int label = 0;  // above `end`: at the end of the sentence there is none, which is written as 0
    while (end > 0) {
        int high = end, low = max(0, high + 1 - TRACED / Y);
        for (int k = thread; k < (high + 1 - low) * Y; k += THREADS) traced[k] = origin[(long long)low * Y + k];
        __syncthreads();
        if (thread == 0) {
            int i = high;
            while (i > 0 && i >= low) {
                int from = traced[(i - low) * Y + label], start = i - (from & 0xffff);
                label = from >> 16;
                int opened = CHAIN ? opened_by(label) : label;
                if (opened) found[count++] = segment_of(start, CHAIN ? border : i, opened, 0.0f);
                if (opened || label == 0) border = start;
                i = start;
            }
            end = i;
        }
        __syncthreads();
    }
    if (thread == 0) t.counts[b] = count;
    for (int k = thread; k < count; k += THREADS) {
        int4 segment = found[count - 1 - k];
        float p = t.with_probabilities ? quotient(weight(d, segment, link, forward, backward), total) : 0.0f;
        t.segments[(long long)b * t.slots + k] = segment_of(segment.x, segment.y, segment.z, p);
    }
}

#endif
