// Sweeps over candidates, each by one thread: sums over all paths, and the best one.

#define BEYOND 0x7fffffff

// Candidates low … high - 1, as a sweep meets them from the left or from the right, where start and end change places.
template <bool BACK> struct Order {
    const Nodes& nodes;
    int low, high;
    __device__ inline int beginning(int k) const { return BACK ? high - 1 - k : nodes.by_start[low + k]; }
    __device__ inline int finishing(int k) const { return BACK ? nodes.by_start[high - 1 - k] : low + k; }
    __device__ inline int begin(int4 node) const { return BACK ? -node.y : node.x; }
    __device__ inline int finish(int4 node) const { return BACK ? -node.x : node.y; }
};

// A sweep over candidates. The window before a position are, by the window theorem, of the candidates that are over those
// that end after the latest start among them, or with SKIP all. `window.add` merges one, `window.clear` forgets all,
// `window.reach` is the way into one, and `window.expect` says early which it will be. Each turn of the loop reaches one,
// so that the lanes of a warp do so together.
template <bool BACK, class Window>
__device__ inline void sweep(const Nodes& nodes, int low, int high, Window& window) {
    Order<BACK> order = {nodes, low, high};
    int n = high - low, over = 0, latest = -BEYOND;
    if (n == 0) return;
    int4 closing = nodes.node[order.finishing(0)];
    for (int begun = 0; begun <= n; begun++) {
        int c = order.beginning(min(begun, n - 1)), first = over;
        int4 opening = nodes.node[c];
        window.expect(c);
        while (over < n && (begun == n || order.finish(closing) <= order.begin(opening))) {
            latest = max(latest, order.begin(closing));
            closing = nodes.node[order.finishing(min(++over, n - 1))];
        }
        if (!SKIP && first < over) {
            window.clear();
            for (first = over; first > 0 && order.finish(nodes.node[order.finishing(first - 1)]) > latest;) first--;
        }
#pragma unroll 2  // so that the values of two are read at once
        for (; first < over; first++) window.add(order.finishing(first), nodes.node[order.finishing(first)].z);
        if (begun < n) window.reach(c, opening);
    }
}

// A window has a value of each label, in registers: so no index into it may be a variable.
template <class T> __device__ inline T at(const T* values, int y) {
    T value = values[0];
#pragma unroll
    for (int k = 1; k < Y; k++)
        if (k == y) value = values[k];
    return value;
}

template <class T> __device__ inline void put(T* values, int y, T value) {
#pragma unroll
    for (int k = 0; k < Y; k++)
        if (k == y) values[k] = value;
}

template <class T> __device__ inline void copy(T* to, const T* from) {
#pragma unroll
    for (int y = 0; y < Y; y++) to[y] = from[y];
}

// Every EACH-th value is the sweep's.
template <bool BACK, int EACH> struct Sums {
    const Real *link, *weight;  // (Y, Y), (N,): exp of the scores
    Real* value;                // (N, EACH)
    Real merged[Y], expected;
    __device__ Sums(const Real* link, const Real* weight, Real* value) : link(link), weight(weight), value(value) {
        start(0);
    }
    __device__ inline void start(int label) {  // with nothing but one label before, null: at the start of a sentence
#pragma unroll
        for (int y = 0; y < Y; y++) merged[y] = y == label ? real(1.0, 0) : zero();
    }
    __device__ inline void clear() { start(NO_NODE); }
    __device__ inline void expect(int c) { expected = weight[c]; }
    __device__ inline void add(int c, int y) { put(merged, y, plus(at(merged, y), value[c * EACH])); }
    __device__ inline void reach(int c, int4 node) {
        Real into = BACK ? step(merged, link + node.z * Y, 1) : step(merged, link + node.z, Y);
        value[c * EACH] = times(into, expected);
    }
    __device__ inline Real total() const {
        Real total = merged[0];
#pragma unroll
        for (int y = 1; y < Y; y++) total = plus(total, merged[y]);
        return total;
    }
};

// Maxima in the scores' own type, or in chunks, whose values are added up in another order, in double.
template <class Score, int EACH> struct Maxima {
    const float* transition;  // (Y, Y)
    Score* value;             // (N, EACH)
    int* origin;              // (N, EACH): the candidate before each
    int* runner_up;           // (N,): the one that was replaced; it may yet come out equal, and goes first then
    Score top[Y];
    int winner[Y];  // which candidate
    __device__ Maxima(const float* transition, Score* value, int* origin, int* runner_up)
        : transition(transition), value(value), origin(origin), runner_up(runner_up) {
        start(0);
    }
    __device__ inline void start(int label) {
#pragma unroll
        for (int y = 0; y < Y; y++) {
            top[y] = y == label ? 0.0f : -INFINITE;
            winner[y] = NO_NODE;
        }
    }
    __device__ inline void clear() { start(NO_NODE); }
    __device__ inline void expect(int) {}
    __device__ inline void add(int c, int y) {
        Score before = at(top, y), own = value[c * EACH];
        if (!(own > before)) return;
        if (runner_up) runner_up[c] = before > -INFINITE ? at(winner, y) : NO_NODE;
        put(winner, y, c);
        put(top, y, own);
    }
    // The best way into a label, or the end: the first candidate in order through which it is attained.
    __device__ inline Score into(int label, int& from) {
        Score best = -INFINITE;
#pragma unroll
        for (int y = 0; y < Y; y++) best = fmax(best, top[y] + (label ? transition[y * Y + label] : 0.0f));
        from = best == -INFINITE ? NO_NODE : BEYOND;
#pragma unroll
        for (int y = 0; y < Y; y++) {
            float onward = label ? transition[y * Y + label] : 0.0f;
            int c = winner[y];
            if (top[y] + onward != best) continue;
            while (runner_up && c >= 0 && runner_up[c] >= 0 && value[runner_up[c] * EACH] + onward == best) c = runner_up[c];
            from = min(from, c);
        }
        return best;
    }
    __device__ inline void reach(int c, int4 node) {
        value[c * EACH] = into(node.z, origin[c * EACH]) + __int_as_float(node.w);
    }
};
