// Paths through the candidates: the best one, and sums over all of them, each by one thread, over few candidates.

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
    __shared__ int count, last;
    __shared__ Real merged[2][Y], link[Y * Y], total;
    __shared__ float transition[Y * Y], top[Y], best;
    __shared__ int winner[Y];
    int thread = threadIdx.x, b = blockIdx.y;
    for (int k = thread; k < Y * Y; k += THREADS) {
        transition[k] = t.transition[k];
        link[k] = k < Y || k % Y == 0 ? real(1.0, 0) : exp_of(transition[k]);  // null is the start, or the end
    }
    Real* forward = (Real*)memory;
    Real* backward = forward + (t.with_probabilities ? t.capacity : 0);
    Nodes nodes;
    nodes.node = (int4*)(backward + t.capacity);
    nodes.by_start = (int*)(nodes.node + t.capacity);
    float* value = (float*)(nodes.by_start + t.capacity);
    int *origin = (int*)(value + t.capacity), *runner_up = origin + t.capacity;
    if (!candidates_in_order(t, b, (int)t.lengths[b], (int4*)forward, nodes)) return;
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
        count = 0;
        for (int c = last; c != NO_NODE; c = origin[c]) runner_up[count++] = c;
        if (!(best > -INFINITE)) count = ON_HOST;
        t.counts[b] = count;
    }
    __syncthreads();
    for (int k = thread; k < count; k += THREADS) {
        int c = runner_up[count - 1 - k];
        int4 node = nodes.node[c];
        float p = 0.0f;
        if (t.with_probabilities)
            p = quotient(times(forward[c], backward[c]), times(exp_of(__int_as_float(node.w)), total));
        t.segments[(long long)b * t.slots + k] = segment_of(node.x, node.y, node.z, p);
    }
}
