// Paths through the candidates: the best one, and sums over all of them.
//
// A sweep is one thread's: of few candidates there are three, of the best path, forward and backward. Many candidates are
// cut into chunks, where none lies across the cut, so that all that a chunk needs of those before it is a value for each
// label. A thread for each label before each chunk finds what comes out of it; from that follows what goes into each
// chunk, and then a thread for each chunk has its paths. `null` stands for the start of the sentence throughout.

#define CHUNKS 64
#define CHUNK_NODES 16  // candidates that are worth a chunk
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
// that end after the latest start among them, or with SKIP all. `window.add` merges one, `window.clear` forgets all, and
// `window.reach` is the way into one.
template <bool BACK, class Window>
__device__ inline void sweep(const Nodes& nodes, int low, int high, Window& window) {
    Order<BACK> order = {nodes, low, high};
    int n = high - low, begun = 0, over = 0, latest = -BEYOND;
    if (n == 0) return;
    bool is_stale = false;
    int c = order.beginning(0), d = order.finishing(0);
    int4 opening = nodes.node[c], closing = nodes.node[d];
    for (;;) {
        bool is_over = begun == n || order.finish(closing) <= order.begin(opening);
        if (!SKIP && is_stale && !is_over) {
            window.clear();
            int first = over;
            while (first > 0 && order.finish(nodes.node[order.finishing(first - 1)]) > latest) first--;
            for (; first < over; first++) window.add(order.finishing(first), nodes.node[order.finishing(first)].z);
            is_stale = false;
        }
        if (is_over) {
            if (SKIP) window.add(d, closing.z);
            latest = max(latest, order.begin(closing));
            is_stale = true;
            if (++over == n) break;
            d = order.finishing(over);
            closing = nodes.node[d];
        } else {
            window.reach(c, opening);
            if (++begun == n) continue;
            c = order.beginning(begun);
            opening = nodes.node[c];
        }
    }
    if (SKIP) return;
    window.clear();
    int first = over;
    while (first > 0 && order.finish(nodes.node[order.finishing(first - 1)]) > latest) first--;
    for (; first < over; first++) window.add(order.finishing(first), nodes.node[order.finishing(first)].z);
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

template <bool BACK> struct Sums {
    const Real *link, *weight;  // (Y, Y), (N,): exp of the scores
    Real* value;                // (N,)
    Real merged[Y];
    __device__ Sums(const Real* link, const Real* weight, Real* value) : link(link), weight(weight), value(value) {
        start(0);
    }
    __device__ inline void start(int label) {  // with nothing but one label before, null: at the start of a sentence
#pragma unroll
        for (int y = 0; y < Y; y++) merged[y] = y == label ? real(1.0, 0) : zero();
    }
    __device__ inline void clear() { start(NO_NODE); }
    __device__ inline void add(int c, int y) { put(merged, y, plus(at(merged, y), value[c])); }
    __device__ inline void reach(int c, int4 node) {
        Real into = BACK ? step(merged, link + node.z * Y, 1) : step(merged, link + node.z, Y);
        value[c] = times(into, weight[c]);
    }
    __device__ inline Real total() const {
        Real total = merged[0];
#pragma unroll
        for (int y = 1; y < Y; y++) total = plus(total, merged[y]);
        return total;
    }
};

// Maxima in the scores' own type, or in chunks, whose values are added up in another order, in double.
template <class Score> struct Maxima {
    const float* transition;  // (Y, Y)
    Score* value;             // (N,)
    int* origin;              // (N,): the candidate before each
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
    __device__ inline void add(int c, int y) {
        Score before = at(top, y), own = value[c];
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
            while (runner_up && c >= 0 && runner_up[c] >= 0 && value[runner_up[c]] + onward == best) c = runner_up[c];
            from = min(from, c);
        }
        return best;
    }
    __device__ inline void reach(int c, int4 node) {
        int from;
        value[c] = into(node.z, from) + __int_as_float(node.w);
        if (origin) origin[c] = from;
    }
};

// ---- Chunks -----------------------------------------------------------------------------------------------------------

struct Chunks {
    int count;
    int first[CHUNKS + 1];
};

// Cut where no candidate lies across, near to equal numbers of them.
__device__ void cut(const Nodes& nodes, int K, Chunks& chunks) {
    int g = threadIdx.x;
    if (g > chunks.count) return;
    int k = (int)((long long)g * nodes.n / chunks.count);
    for (; k > 0 && k < nodes.n; k++) {
        int start = nodes.node[nodes.by_start[k]].x, j = k - 1;
        while (j >= 0 && nodes.node[nodes.by_start[j]].x + K > start && nodes.node[nodes.by_start[j]].y <= start) j--;
        if (j < 0 || nodes.node[nodes.by_start[j]].x + K <= start) break;
    }
    chunks.first[g] = k;
}

// What comes out of each chunk for each label before it, (CHUNKS, Y, Y), and what goes into it, (CHUNKS + 1, Y).
struct Flow {
    Real *out, *in, *value;        // (…), (…), (Y, N)
    double *top_out, *top_in, *top_value;
    int *winner_out, *winner_in;
    __device__ Flow(char* memory, int capacity, int which) {
        size_t square = CHUNKS * Y * Y, line = (CHUNKS + 1) * Y, sums = square + line + (size_t)Y * capacity;
        out = (Real*)memory + which * sums;
        in = out + square;
        value = in + line;
        top_out = (double*)((Real*)memory + 2 * sums);
        top_in = top_out + square;
        top_value = top_in + line;
        winner_out = (int*)(top_value + (size_t)Y * capacity);
        winner_in = winner_out + square;
    }
};

template <bool BACK> struct SumFlow {
    Flow flow;
    const Nodes& nodes;
    const Real* link;
    Real* value;  // (N,): exp of the scores, then the sums
    int capacity;
    __device__ void unit(const Chunks& chunks, int g, int y) {
        Sums<BACK> window(link, value, flow.value + (size_t)y * capacity);
        window.start(y);
        sweep<BACK>(nodes, chunks.first[g], chunks.first[g + 1], window);
        copy(flow.out + (g * Y + y) * Y, window.merged);
    }
    __device__ Real join(const Chunks& chunks) {  // by a warp
        int lane = threadIdx.x % 32;
        Real* in = flow.in + (BACK ? chunks.count : 0) * Y;
        for (int y = lane; y < Y; y += 32) in[y] = y ? zero() : real(1.0, 0);
        __syncwarp();
        for (int k = 0; k < chunks.count; k++) {
            int g = BACK ? chunks.count - 1 - k : k;
            Real* next = flow.in + (BACK ? g : g + 1) * Y;
            for (int y = lane; y < Y; y += 32) next[y] = step(in, flow.out + g * Y * Y + y, Y);
            in = next;
            __syncwarp();
        }
        Sums<BACK> window(link, value, value);
        copy(window.merged, in);
        return window.total();
    }
    __device__ void whole(const Chunks& chunks, int g) {
        Sums<BACK> window(link, value, value);
        copy(window.merged, flow.in + (BACK ? g + 1 : g) * Y);
        sweep<BACK>(nodes, chunks.first[g], chunks.first[g + 1], window);
    }
};

struct MaxFlow {
    Flow flow;
    const Nodes& nodes;
    const float* transition;
    int* origin;
    int capacity;
    __device__ void unit(const Chunks& chunks, int g, int y) {
        Maxima<double> window(transition, flow.top_value + (size_t)y * capacity, 0, 0);
        window.start(y);
        sweep<false>(nodes, chunks.first[g], chunks.first[g + 1], window);
        copy(flow.top_out + (g * Y + y) * Y, window.top);
        copy(flow.winner_out + (g * Y + y) * Y, window.winner);
    }
    __device__ int join(const Chunks& chunks, double& best) {  // by a warp
        int lane = threadIdx.x % 32;
        for (int y = lane; y < Y; y += 32) { flow.top_in[y] = y ? -INFINITE : 0.0; flow.winner_in[y] = NO_NODE; }
        __syncwarp();
        for (int g = 0; g < chunks.count; g++) {
            for (int y = lane; y < Y; y += 32) {
                double top = -INFINITE;
                int winner = NO_NODE;
                for (int k = 0; k < Y; k++) {
                    int at = (g * Y + k) * Y + y, from = flow.winner_out[at];
                    double value = flow.top_in[g * Y + k] + flow.top_out[at];
                    from = from == NO_NODE ? flow.winner_in[g * Y + k] : from;
                    if (value > top || (value == top && from < winner)) { top = value; winner = from; }
                }
                flow.top_in[(g + 1) * Y + y] = top;
                flow.winner_in[(g + 1) * Y + y] = winner;
            }
            __syncwarp();
        }
        int last;
        Maxima<double> window(transition, 0, 0, 0);
        enter(window, chunks.count);
        best = window.into(0, last);
        return last;
    }
    __device__ inline void enter(Maxima<double>& window, int g) {
        copy(window.top, flow.top_in + g * Y);
        copy(window.winner, flow.winner_in + g * Y);
    }
    __device__ void whole(const Chunks& chunks, int g) {
        Maxima<double> window(transition, flow.top_value, origin, 0);
        enter(window, g);
        sweep<false>(nodes, chunks.first[g], chunks.first[g + 1], window);
    }
};

extern "C" __global__ void __launch_bounds__(MAX_THREADS) decode(const Task t) {
    __shared__ int count, last;
    __shared__ Real link[Y * Y], total;
    __shared__ float transition[Y * Y];
    __shared__ double best;
    __shared__ Chunks chunks;
    int thread = threadIdx.x, b = blockIdx.y;
    for (int k = thread; k < Y * Y; k += THREADS) {
        transition[k] = k < Y ? 0.0f : t.transition[k];
        link[k] = k < Y || k % Y == 0 ? real(1.0, 0) : exp_of(transition[k]);
    }
    Nodes nodes;
    nodes.node = (int4*)memory;
    nodes.by_start = (int*)(nodes.node + t.capacity);
    float* value = (float*)(nodes.by_start + t.capacity);
    int *origin = (int*)(value + t.capacity), *runner_up = origin + t.capacity;
    char* scratch = t.scratch + b * t.scratch_size + t.tiles * (TILE_KEPT * sizeof(int4) + 16);
    // Of a long sentence the sums are no longer in shared memory.
    Real* forward = t.tiles == 1 ? (Real*)(runner_up + t.capacity) : (Real*)scratch;
    Real* backward = forward + (t.with_probabilities ? t.capacity : 0);
    scratch = (char*)(backward + t.capacity);
    if (!candidates_in_order(t, b, (int)t.lengths[b], (int4*)forward, nodes)) return;
    if (t.with_probabilities)
        for (int c = thread; c < nodes.n; c += THREADS)
            forward[c] = backward[c] = exp_of(__int_as_float(nodes.node[c].w));
    if (thread == 0) chunks.count = t.tiles == 1 ? 1 : max(1, min(CHUNKS, nodes.n / CHUNK_NODES));
    __syncthreads();
    int sweeps = t.with_probabilities ? 3 : 1;
    if (chunks.count == 1) {
        if (thread == 0) {
            Maxima<float> window(transition, value, origin, runner_up);
            sweep<false>(nodes, 0, nodes.n, window);
            best = window.into(0, last);
        } else if (thread == 32 && sweeps > 1) {
            Sums<false> window(link, forward, forward);
            sweep<false>(nodes, 0, nodes.n, window);
            total = window.total();
        } else if (thread == 64 && sweeps > 1) {
            Sums<true> window(link, backward, backward);
            sweep<true>(nodes, 0, nodes.n, window);
        }
    } else {
        MaxFlow best_flow = {Flow(scratch, t.capacity, 0), nodes, transition, origin, t.capacity};
        SumFlow<false> left = {Flow(scratch, t.capacity, 0), nodes, link, forward, t.capacity};
        SumFlow<true> right = {Flow(scratch, t.capacity, 1), nodes, link, backward, t.capacity};
        cut(nodes, t.K, chunks);
        __syncthreads();
        int each = chunks.count * Y;
        for (int k = thread; k < sweeps * each; k += THREADS) {
            int g = k % each / Y, y = k % Y;
            if (k < each) best_flow.unit(chunks, g, y);
            else if (k < 2 * each) left.unit(chunks, g, y);
            else right.unit(chunks, g, y);
        }
        __syncthreads();
        if (thread < 32) {
            double value;
            int node = best_flow.join(chunks, value);
            if (thread == 0) { last = node; best = value; }
        } else if (thread < 64 && sweeps > 1) {
            Real sum = left.join(chunks);
            if (thread == 32) total = sum;
        } else if (thread < 96 && sweeps > 1) {
            right.join(chunks);
        }
        __syncthreads();
        int g = thread % CHUNKS, which = thread / CHUNKS;
        if (g < chunks.count && which < sweeps) {
            if (which == 0) best_flow.whole(chunks, g);
            else if (which == 1) left.whole(chunks, g);
            else right.whole(chunks, g);
        }
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
