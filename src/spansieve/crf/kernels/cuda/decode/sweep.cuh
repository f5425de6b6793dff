// Sweeps over candidates, each by one thread: sums over all paths, and the best one.

#define BEYOND 0x7fffffff

// Candidates low … high - 1, as a sweep meets them from the left or from the right, where start and end change places.
template <bool BACK> struct Order {
    const Nodes& nodes;
    int low, high;
    __device__ inline int beginning(int k) const { return BACK ? high - 1 - k : nodes.by_start[low + k]; }
    __device__ inline int finishing(int k) const { return BACK ? nodes.by_start[high - 1 - k] : low + k; }
    __device__ inline int over(int k) const {  // how many are, where the k-th begins
        return BACK ? high - nodes.right[high - 1 - k] : nodes.left[low + k] - low;
    }
    // The bound of a window is the latest start of those that are over, from the right the earliest end. Without any sign:
    // of a maximum of three, of which two are negated, ptxas 13.0 forgets one.
    __device__ inline int bound() const { return BACK ? BEYOND : -BEYOND; }
    __device__ inline int bound_with(int bound, int c) const {
        return BACK ? min(bound, nodes.node[c].y) : max(bound, nodes.node[c].x);
    }
    __device__ inline bool is_beyond(int bound, int c) const {
        return BACK ? nodes.node[c].x < bound : nodes.node[c].y > bound;
    }
};

// How many candidates end before each starts, and which is the first to start behind its end: by the whole block, by
// bisection.
__device__ void find_neighbours(Nodes& nodes) {
    for (int k = threadIdx.x; k < nodes.n; k += THREADS) {
        int start = nodes.node[nodes.by_start[k]].x, end = nodes.node[k].y;
        int low = 0, high = nodes.n;
        while (low < high) {
            int middle = (low + high) / 2;
            if (nodes.node[middle].y <= start) low = middle + 1; else high = middle;
        }
        nodes.left[k] = low;
        for (low = 0, high = nodes.n; low < high;) {
            int middle = (low + high) / 2;
            if (nodes.node[nodes.by_start[middle]].x < end) low = middle + 1; else high = middle;
        }
        nodes.right[k] = low;
    }
}

// A sweep over candidates. The window before a position are, by the window theorem, of the candidates that are over those
// that end after the latest start among them, or with SKIP all. `window.add` merges one, `window.clear` forgets all,
// `window.reach` is the way into one, and `window.expect` says early which it will be. Each turn of the loop reaches one,
// so that the lanes of a warp do so together.
template <bool BACK, class Window>
__device__ inline void sweep(const Nodes& nodes, int low, int high, Window& window) {
    Order<BACK> order = {nodes, low, high};
    int n = high - low, first = 0, bound = order.bound();
    for (int begun = 0, over = 0; begun <= n; begun++) {
        int c = begun < n ? order.beginning(begun) : NO_NODE, before = over;
        over = begun < n ? order.over(begun) : n;
        if (begun < n) window.expect(c);
        if (!SKIP && before < over) {
#pragma unroll 1  // there are few
            for (int k = before; k < over; k++) bound = order.bound_with(bound, order.finishing(k));
            window.clear();
            for (first = over; first > 0 && order.is_beyond(bound, order.finishing(first - 1));) first--;
        }
        for (; first < over; first++) {
            int done = order.finishing(first);
            window.add(done, nodes.node[done].z);
        }
        if (begun < n) window.reach(c, nodes.node[c]);
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

// Add to the one of a label; of doubles each in its place, which takes less than to look it up.
__device__ inline void add_at(double* values, int y, double own) {
#pragma unroll
    for (int k = 0; k < Y; k++)
        if (k == y) values[k] += own;
}

__device__ inline void add_at(Real* values, int y, Real own) { put(values, y, plus(at(values, y), own)); }

// Every EACH-th value is the sweep's. It counts in `Number`, a Real or, where no sum can leave its range, a double.
template <class Number, bool BACK, int EACH> struct Sums {
    const Number* link;  // (Y, Y): exp of the transition
    const Real* weight;  // (N,): exp of the scores
    Real* value;         // (N, EACH)
    Number merged[Y], expected;
    // With nothing but one label before, null at the start of a sentence.
    __device__ Sums(const Number* link, const Real* weight, Real* value, int label)
        : link(link), weight(weight), value(value) {
        start(label);
    }
    __device__ inline void start(int label) {
#pragma unroll
        for (int y = 0; y < Y; y++) load(y == label ? real(1.0, 0) : zero(), merged[y]);
    }
    __device__ inline void clear() { start(NO_NODE); }
    __device__ inline void expect(int c) { load(weight[c], expected); }
    __device__ inline void add(int c, int y) {
        Number own;
        load(value[c * EACH], own);
        add_at(merged, y, own);
    }
    __device__ inline void reach(int c, int4 node) {
        Number into = BACK ? step(merged, link + node.z * Y, 1) : step(merged, link + node.z, Y);
        value[c * EACH] = stored(times(into, expected));
    }
};

// Maxima in the scores' own type, or in chunks, whose values are added up in another order, in double. `kept` has the
// value of each candidate, the candidate before it and, in the first case, its runner-up: the one that it replaced, which
// may yet come out equal, and goes first then.
template <class Score, class Kept> struct Maxima {
    const Score* transition;  // (Y, Y)
    Kept kept;
    Score top[Y];
    int winner[Y];  // which candidate
    __device__ Maxima(const Score* transition, Kept kept, int label) : transition(transition), kept(kept) { start(label); }
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
        Score own = kept.top(c);
#pragma unroll
        for (int k = 0; k < Y; k++)
            if (k == y && own > top[k]) {
                kept.replaced(c, top[k] > -INFINITE ? winner[k] : NO_NODE);
                winner[k] = c;
                top[k] = own;
            }
    }
    // The best way into a label, or the end: the first candidate in order through which it is attained.
    __device__ inline Score into(int label, int& from) {
        Score best = -INFINITE, way[Y], onward[Y];
#pragma unroll
        for (int y = 0; y < Y; y++) {
            onward[y] = label ? transition[y * Y + label] : 0.0f;
            way[y] = top[y] + onward[y];
            best = fmax(best, way[y]);
        }
        from = best == -INFINITE ? NO_NODE : BEYOND;
#pragma unroll
        for (int y = 0; y < Y; y++)
            if (way[y] == best) from = min(from, kept.first_equal(winner[y], best, onward[y]));
        return best;
    }
    __device__ inline void reach(int c, int4 node) {
        int from;
        Score best = into(node.z, from);
        kept.keep(c, best + __int_as_float(node.w), from);
    }
};
