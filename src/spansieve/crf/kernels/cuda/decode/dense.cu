// Every span: the semi-Markov model, and the linear chain, its case K = 1.

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

// Width, and the label above it: of equals the widest, then the first label. Where two differ before the transition is
// added and are rounded to the same number after it, the larger one is taken, and not the first: their scores are equal.
struct Winner { float value; int origin; };

__device__ inline Winner winner(float value, int origin) {
    Winner made;
    made.value = value; made.origin = origin;
    return made;
}

__device__ inline Winner better(Winner a, Winner b) {  // b has the higher label
    bool is_wider = !CHAIN && b.value == a.value && (b.origin & 0xffff) > (a.origin & 0xffff);
    return b.value > a.value || is_wider ? b : a;
}

// What a sweep computes with: the weight of a score, a part that a segment ends, ⊕ of parts, and a step over the
// transition. A lane keeps its own label's column of the transition, backward its row, where there are not too many.
#define IN_REGISTERS (Y <= 24)
#define KEPT (IN_REGISTERS ? Y : 1)

struct MaxSweep {
    typedef Winner Part;
    typedef float Value;
    typedef float Weight;
    const float* transition;
    int* origin;  // (L + 1, Y)
    float kept[KEPT];
    __device__ MaxSweep(const float* transition, int* origin, int y) : transition(transition), origin(origin) {
        for (int k = 0; k < KEPT; k++) kept[k] = transition[k * Y + y];
    }
    __device__ static inline Weight weight(float score) { return score; }
    __device__ static inline Part none() { return winner(-INFINITE, 1); }
    __device__ static inline Value one() { return 0.0f; }
    __device__ static inline Part extended(Value before, Weight score, int w, int y) {
        return winner(before + score, (w + 1) | y << 16);
    }
    __device__ static inline Part both(Part a, Part b) { return better(a, b); }
    __device__ inline void begin(int y) const {}
    __device__ inline Value entering(const Part* arriving, int e, int next) const {
        Part best = arriving[0];
        best.value += IN_REGISTERS ? kept[0] : transition[next];
        for (int y = 1; y < Y; y++) {
            Part part = arriving[y];
            part.value += IN_REGISTERS ? kept[y % KEPT] : transition[y * Y + next];
            best = better(best, part);
        }
        origin[(long long)e * Y + next] = best.origin;
        return best.value;
    }
    __device__ inline Value total(const Part* arriving, int e) const {
        Part best = arriving[0];
        for (int y = 1; y < Y; y++) best = better(best, arriving[y]);
        origin[(long long)e * Y] = best.origin;
        return best.value;
    }
};

template <bool BACK> struct SumSweep {
    typedef Real Part;
    typedef Real Value;
    typedef Real Weight;
    const Real* link;
    Real* entered;  // (L + 1, Y)
    Real kept[KEPT];
    __device__ SumSweep(const Real* link, Real* entered, int y) : link(link), entered(entered) {
        for (int k = 0; k < KEPT; k++) kept[k] = link[BACK ? y * Y + k : k * Y + y];
    }
    __device__ static inline Weight weight(float score) { return exp_of(score); }
    __device__ static inline Part none() { return zero(); }
    __device__ static inline Value one() { return real(1.0, 0); }
    __device__ static inline Part extended(Value before, Weight weight, int w, int y) {
        return product(before, weight);
    }
    __device__ static inline Part both(Part a, Part b) { return sum(a, b); }
    __device__ inline void begin(int y) const { entered[y] = one(); }
    __device__ inline Value entering(const Part* arriving, int e, int next) const {
        Value value = IN_REGISTERS ? step(arriving, kept, 1)
                      : BACK       ? step(arriving, link + next * Y, 1)
                                   : step(arriving, link + next, Y);
        entered[(long long)e * Y + next] = value;
        return value;
    }
    __device__ inline Value total(const Part* arriving, int e) const {
        Value value = zero();
        for (int y = 0; y < Y; y++) value = plus(value, arriving[y]);
        return value;
    }
};

// One sweep, by one warp: ⊕ over all segmentations. `ring` is (K, Y), `parts` (PER_LANE · 32,), `arriving` (Y,).
template <bool BACK, class Sweep>
__device__ typename Sweep::Value sweep(const Dense& d, const Sweep& s, typename Sweep::Value* ring,
                                       typename Sweep::Part* parts, typename Sweep::Part* arriving, int* is_wrong) {
    typedef typename Sweep::Part Part;
    int lane = threadIdx.x % 32, K = d.t.K, length = d.length;
    for (int y = lane; y < Y; y += 32) {
        ring[y] = Sweep::one();
        s.begin(y);
    }
    __syncwarp();
    float loaded[PER_LANE][TERMS];
    typename Sweep::Weight next[PER_LANE][TERMS], weight[PER_LANE][TERMS];
    int row = 0;  // of the ring: that of e - 1
    for (int e = -1; e <= length; e++) {
        // Scores are loaded two positions ahead and converted one ahead, which hides the time that both take.
#pragma unroll
        for (int j = 0; j < PER_LANE; j++)
#pragma unroll
            for (int k = 0; k < TERMS; k++) {
                int y = (lane + 32 * j) / SHARE, w = (lane + 32 * j) % SHARE + k * SHARE, end = e + 2;
                weight[j][k] = next[j][k];
                next[j][k] = Sweep::weight(loaded[j][k]);
                bool exists = y < Y && w < K && w < end && end <= length;
                loaded[j][k] = exists ? d.at(BACK ? length - end : end - 1 - w, w, y) : -INFINITE;
                if (is_wrong && is_far(loaded[j][k], d.t.L)) *is_wrong = 1;
            }
        if (e < 1) continue;
        for (int j = 0; j < PER_LANE; j++) {
            int y = (lane + 32 * j) / SHARE;
            Part part = Sweep::none();
            for (int k = 0; k < TERMS; k++) {
                int w = (lane + 32 * j) % SHARE + k * SHARE, at = row - w;
                if (y >= Y || w >= K || w >= e) continue;
                Part one = Sweep::extended(ring[(at < 0 ? at + K : at) * Y + y], weight[j][k], w, y);
                part = k ? Sweep::both(part, one) : one;
            }
            if (SHARE == 1 && y < Y) arriving[y] = part;
            if (SHARE > 1) parts[lane + 32 * j] = part;
        }
        __syncwarp();
        if (SHARE > 1) {
            for (int y = lane; y < Y; y += 32) {
                Part part[SHARE];
#pragma unroll
                for (int k = 0; k < SHARE; k++) part[k] = parts[y * SHARE + k];
#pragma unroll
                for (int half = SHARE / 2; half > 0; half /= 2)
#pragma unroll
                    for (int k = 0; k < half; k++) part[k] = Sweep::both(part[k], part[k + half]);
                arriving[y] = part[0];
            }
            __syncwarp();
        }
        row = row + 1 == K ? 0 : row + 1;
        if (e < length)
            for (int y = lane; y < Y; y += 32) ring[row * Y + y] = s.entering(arriving, e, y);
        __syncwarp();
    }
    return s.total(arriving, length);
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
        MaxSweep s(transition, origin, min(thread, Y - 1));
        float value = length ? sweep<false>(d, s, ring, parts, arriving, &is_wrong) : 0.0f;
        if (thread == 0) best = value;
    } else if (thread < 64 && t.with_probabilities && length) {
        SumSweep<false> s(link, forward, min(thread - 32, Y - 1));
        Real value = sweep<false>(d, s, rings, sum_parts[0], sum_arriving[0], 0);
        if (thread == 32) total = value;
    } else if (thread >= 64 && thread < 96 && t.with_probabilities && length) {
        SumSweep<true> s(link, backward, min(thread - 64, Y - 1));
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
