// Laminar sets of candidates: the best one, and sums over all of them.
//
// A candidate contains what lies within it on another span; the sentence contains all. With the candidates in order of
// their ends, what may lie within c is a run, ended[c] … ended_by_end[c] - 1, and over that run
//     row[k + 1] = row[k] ⊕ row[ended[d]] ⊗ (score[d] ⊗ within[d] ⊗ transition[label c, label d])   d the k-th, if within c
// are all sets among the first k + 1: the last one is within[c]. `back` are the same from the right, in order of starts.
// A thread for each container, one width after the other; then the sentence, which is as wide as it is long.

#define ROWS_EACH 8  // numbers in the rows of a candidate, on average

struct Laminar {
    Nodes nodes;
    int *ended, *ended_by_end, *begun, *begun_by_end;  // (N,): how many end by the start, by the end; start before them
    int *offset, *back_offset;                         // (N + 1,): of the rows; last that of the sentence
    float *best_row, *best;                            // rows; (N,): score and the best within
    Real *row, *back, *weight, *outside;               // rows; (N,): exp of the score times all within; all around it
    const float* transition;
    const Real* link;

    __device__ inline bool is_within(int d, int c) const {
        int4 inner = nodes.node[d], outer = nodes.node[c];
        return inner.x >= outer.x && inner.y <= outer.y && (inner.x > outer.x || inner.y < outer.y);
    }
    __device__ inline bool takes(int c, int d) const { return c == nodes.n || is_within(d, c); }
    __device__ inline int label(int c) const { return c == nodes.n ? 0 : nodes.node[c].z; }
    __device__ inline int low(int c) const { return c == nodes.n ? 0 : ended[c]; }
    __device__ inline int high(int c) const { return c == nodes.n ? nodes.n : ended_by_end[c]; }
    __device__ inline int back_low(int c) const { return c == nodes.n ? 0 : begun[c]; }
    __device__ inline int back_high(int c) const { return c == nodes.n ? nodes.n : begun_by_end[c]; }

    __device__ float best_within(int c) {
        float* r = best_row + offset[c] - low(c);
        r[low(c)] = 0.0f;
        for (int d = low(c); d < high(c); d++) {
            r[d + 1] = r[d];
            if (takes(c, d)) r[d + 1] = fmaxf(r[d], r[ended[d]] + (best[d] + transition[label(c) * Y + nodes.node[d].z]));
        }
        return r[high(c)];
    }
    __device__ inline Real part(int c, int d) { return times(weight[d], link[label(c) * Y + nodes.node[d].z]); }
    __device__ Real sum_within(int c) {
        Real* r = row + offset[c] - low(c);
        r[low(c)] = real(1.0, 0);
        for (int d = low(c); d < high(c); d++)
            r[d + 1] = takes(c, d) ? plus(r[d], times(r[ended[d]], part(c, d))) : r[d];
        return r[high(c)];
    }
    __device__ void sum_back(int c) {
        Real* r = back + back_offset[c] - back_low(c);
        r[back_high(c)] = real(1.0, 0);
        for (int k = back_high(c) - 1; k >= back_low(c); k--) {
            int d = nodes.by_start[k];
            r[k] = takes(c, d) ? plus(r[k + 1], times(r[begun_by_end[d]], part(c, d))) : r[k + 1];
        }
    }
    // All around d where c is right above it: the sets of c's content left and right of d, and what is around c.
    __device__ inline Real around(int c, int d) {
        Real beside = times(row[offset[c] + ended[d] - low(c)], back[back_offset[c] + begun_by_end[d] - back_low(c)]);
        return times(times(c == nodes.n ? real(1.0, 0) : outside[c], beside), link[label(c) * Y + nodes.node[d].z]);
    }
    __device__ void sum_around(int d, int K) {
        int4 node = nodes.node[d];
        Real sum = around(nodes.n, d);
        for (int k = begun[d]; k < nodes.n && nodes.node[nodes.by_start[k]].x == node.x; k++)
            if (is_within(d, nodes.by_start[k])) sum = plus(sum, around(nodes.by_start[k], d));
        for (int k = begun[d] - 1; k >= 0 && nodes.node[nodes.by_start[k]].x + K >= node.y; k--)
            if (is_within(d, nodes.by_start[k])) sum = plus(sum, around(nodes.by_start[k], d));
        outside[d] = times(sum, exp_of(__int_as_float(node.w)));
    }
    // How many end, or with BEGIN start, before a position; those that end at it do, too.
    template <bool BEGIN> __device__ inline int before(int position) const {
        int low = 0, high = nodes.n;
        while (low < high) {
            int middle = (low + high) / 2;
            bool is_before = BEGIN ? nodes.node[nodes.by_start[middle]].x < position : nodes.node[middle].y <= position;
            if (is_before) low = middle + 1; else high = middle;
        }
        return low;
    }
    // The best set, outermost first. Of equals, that whose last outermost segment comes first in order, and none before
    // any; then likewise what is before it, and what is within it. `stack` and `chosen` are (N,) each; how many.
    __device__ int trace(int* stack, int* chosen) {
        int open = 0, count = 0, c = nodes.n;
        for (;;) {
            float* r = best_row + offset[c] - low(c);
            for (int k = high(c); k > low(c);) {
                if (r[k] == r[k - 1]) { k--; continue; }
                chosen[count++] = k - 1;
                stack[open++] = k - 1;
                k = ended[k - 1];
            }
            if (open == 0) return count;
            c = stack[--open];
        }
    }
};

extern "C" __global__ void __launch_bounds__(MAX_THREADS) decode(const Task t) {
    __shared__ int count, rows, sums[MAX_THREADS];
    __shared__ Real total;
    int thread = threadIdx.x, b = blockIdx.y, room = ROWS_EACH * t.capacity;
    Real* link = (Real*)memory;  // (Y, Y)
    float* transition = (float*)(link + Y * Y);
    for (int k = thread; k < Y * Y; k += THREADS) {
        transition[k] = t.transition[k];
        link[k] = exp_of(transition[k]);
    }
    Laminar s;
    s.weight = link + Y * Y + (Y * Y + 3) / 4;
    s.outside = s.weight + t.capacity;
    s.nodes.node = (int4*)(s.outside + t.capacity);
    int* numbers = (int*)(s.nodes.node + t.capacity);
    s.nodes.by_start = numbers;
    s.ended = numbers + t.capacity; s.ended_by_end = numbers + 2 * t.capacity;
    s.begun = numbers + 3 * t.capacity; s.begun_by_end = numbers + 4 * t.capacity;
    s.best = (float*)(numbers + 5 * t.capacity);
    s.offset = numbers + 6 * t.capacity; s.back_offset = numbers + 7 * t.capacity + 1;
    s.row = (Real*)(t.scratch + b * t.scratch_size + t.scratch_size - 36ll * room);
    s.back = s.row + room;
    s.best_row = (float*)(s.back + room);
    s.transition = transition;
    s.link = link;
    if (!candidates_in_order(t, b, (int)t.lengths[b], (int4*)s.weight, sums, s.nodes)) return;
    int n = s.nodes.n;
    for (int c = thread; c < n; c += THREADS) {
        int4 node = s.nodes.node[c];
        s.ended[c] = s.before<false>(node.x);
        s.ended_by_end[c] = s.before<false>(node.y);
        s.begun[c] = s.before<true>(node.x);
        s.begun_by_end[c] = s.before<true>(node.y);
    }
    __syncthreads();
    if (thread == 0) {
        int used = 0, back_used = 0;
        for (int c = 0; c <= n; c++) {
            s.offset[c] = used;
            s.back_offset[c] = back_used;
            used += s.high(c) - s.low(c) + 1;
            back_used += s.back_high(c) - s.back_low(c) + 1;
        }
        rows = max(used, back_used);
    }
    __syncthreads();
    if (rows > room) {
        if (thread == 0) t.counts[b] = ON_HOST;
        return;
    }
    for (int width = 1; width <= t.K; width++) {
        for (int c = thread; c < n; c += THREADS) {
            int4 node = s.nodes.node[c];
            if (node.y - node.x != width) continue;
            float score = __int_as_float(node.w);
            s.best[c] = score + s.best_within(c);
            if (!t.with_probabilities) continue;
            s.weight[c] = times(exp_of(score), s.sum_within(c));
            s.sum_back(c);
        }
        __syncthreads();
    }
    if (thread == 0) s.best_within(n);
    if (thread == 32 && t.with_probabilities) total = s.sum_within(n);
    if (thread == 64 && t.with_probabilities) s.sum_back(n);
    __syncthreads();
    for (int width = t.K; width > 0 && t.with_probabilities; width--) {
        for (int d = thread; d < n; d += THREADS)
            if (s.nodes.node[d].y - s.nodes.node[d].x == width) s.sum_around(d, t.K);
        __syncthreads();
    }
    int *chosen = s.begun, *stack = s.begun_by_end;  // which are of no more use
    if (thread == 0) {
        count = s.trace(stack, chosen);
        t.counts[b] = count;
    }
    __syncthreads();
    for (int k = thread; k < count; k += THREADS) {
        int4 node = s.nodes.node[chosen[k]];
        int rank = 0;  // from left to right, a container before what it contains
        for (int j = 0; j < count; j++) {
            int4 other = s.nodes.node[chosen[j]];
            rank += other.x < node.x || (other.x == node.x && other.y > node.y);
        }
        float p = 0.0f;
        if (t.with_probabilities) {
            Real score = exp_of(__int_as_float(node.w));
            p = quotient(times(s.outside[chosen[k]], s.weight[chosen[k]]), times(score, total));
        }
        t.segments[(long long)b * t.slots + rank] = segment_of(node.x, node.y, node.z, p);
    }
}
