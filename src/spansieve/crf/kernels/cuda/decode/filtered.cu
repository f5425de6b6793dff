// Paths through the candidates: the best one, and sums over all of them.
//
// A sweep is one thread's: of few candidates there are three, of the best path, forward and backward. Many candidates are
// cut into chunks, where none lies across the cut, so that all that a chunk needs of those before it is a value for each
// label. A thread for each label before each chunk finds what comes out of it, and what reaches each candidate in it; from
// that follows what goes into each chunk, and with both the values of a candidate are sums over the labels before its
// chunk. `null` stands for the start of the sentence throughout.

#define CHUNKS 64
#define CHUNK_NODES 8  // candidates that are worth a chunk

struct Chunks {
    int count;
    int first[CHUNKS + 1];
    __device__ inline int of(int c) const {
        int low = 0, high = count;
        while (high - low > 1) {
            int middle = (low + high) / 2;
            if (first[middle] <= c) low = middle; else high = middle;
        }
        return low;
    }
};

// Cut near to equal numbers of candidates, where none lies across: the k that end first are over where the k-th begins.
__device__ void cut(const Nodes& nodes, Chunks& chunks) {
    int g = threadIdx.x;
    if (g > chunks.count) return;
    int k = (int)((long long)g * nodes.n / chunks.count);
    while (k > 0 && k < nodes.n && nodes.node[k - 1].y > nodes.node[nodes.by_start[k]].x) k++;
    chunks.first[g] = k;
}

// What comes out of each chunk for each label before it, (CHUNKS, Y, Y); what goes into it, (CHUNKS + 1, Y); and what
// reaches each candidate for each label before its chunk, (N, Y).
template <class T> struct Flow {
    T *out, *in, *value;
    __device__ Flow(char*& memory, int capacity) {
        out = (T*)memory;
        in = out + CHUNKS * Y * Y;
        value = in + (CHUNKS + 1) * Y;
        memory = (char*)(value + (size_t)capacity * Y);
    }
};

template <bool BACK> struct SumFlow {
    Flow<Real> sums;
    const Nodes& nodes;
    const Real *link, *weight;
    __device__ void unit(const Chunks& chunks, int g, int y) {
        Sums<BACK, Y> window(link, weight, sums.value + y);
        window.start(y);
        sweep<BACK>(nodes, chunks.first[g], chunks.first[g + 1], window);
        copy(sums.out + (g * Y + y) * Y, window.merged);
    }
    // By a warp: from what comes out of each chunk what goes into the next; all at the end. `state` is (2, Y).
    __device__ Real join(const Chunks& chunks, Real* state) {
        int lane = threadIdx.x % 32, n = chunks.count;
        for (int y = lane; y < Y; y += 32) sums.in[(BACK ? n : 0) * Y + y] = state[y] = y ? zero() : real(1.0, 0);
        __syncwarp();
        for (int k = 0; k < n; k++) {
            Real *from = state + k % 2 * Y, *to = state + (k + 1) % 2 * Y;
            int g = BACK ? n - 1 - k : k, next = (BACK ? g : g + 1) * Y;
            for (int y = lane; y < Y; y += 32) sums.in[next + y] = to[y] = step(from, sums.out + g * Y * Y + y, Y);
            __syncwarp();
        }
        Real total = zero();
        for (int y = 0; y < Y; y++) total = plus(total, state[n % 2 * Y + y]);
        return total;
    }
    __device__ inline Real at(const Chunks& chunks, int c) const {
        return step(sums.in + (chunks.of(c) + BACK) * Y, sums.value + (size_t)c * Y, 1);
    }
};

// The best of several ways; of equals that whose last candidate comes first in order.
struct Best {
    double top;
    int winner;
    __device__ Best() : top(-INFINITE), winner(NO_NODE) {}
    __device__ inline void meet(double value, int from) {
        if (!(value > top || (value == top && from < winner))) return;
        top = value;
        winner = from;
    }
};

struct MaxFlow {
    Flow<double> tops;
    Flow<int> winners;  // NO_NODE: none of the chunk; of a value, the candidate before it
    const Nodes& nodes;
    const float* transition;
    __device__ void unit(const Chunks& chunks, int g, int y) {
        Maxima<double, Y> window(transition, tops.value + y, winners.value + y, 0);
        window.start(y);
        sweep<false>(nodes, chunks.first[g], chunks.first[g + 1], window);
        copy(tops.out + (g * Y + y) * Y, window.top);
        copy(winners.out + (g * Y + y) * Y, window.winner);
    }
    // By a warp, as the sums are joined: the best path, and its last candidate.
    __device__ Best join(const Chunks& chunks, double* top, int* winner) {
        int lane = threadIdx.x % 32;
        for (int y = lane; y < Y; y += 32) {
            tops.in[y] = top[y] = y ? -INFINITE : 0.0;
            winners.in[y] = winner[y] = NO_NODE;
        }
        __syncwarp();
        for (int g = 0; g < chunks.count; g++) {
            int from = g % 2 * Y, to = (g + 1) % 2 * Y;
            for (int y = lane; y < Y; y += 32) {
                Best best;
#pragma unroll
                for (int k = 0; k < Y; k++) {
                    int at = (g * Y + k) * Y + y, who = winners.out[at];
                    best.meet(top[from + k] + tops.out[at], who < 0 ? winner[from + k] : who);
                }
                tops.in[(g + 1) * Y + y] = top[to + y] = best.top;
                winners.in[(g + 1) * Y + y] = winner[to + y] = best.winner;
            }
            __syncwarp();
        }
        Best best;
        for (int y = 0; y < Y; y++) best.meet(top[chunks.count % 2 * Y + y], winner[chunks.count % 2 * Y + y]);
        return best;
    }
    // The candidate before c on the best path to it.
    __device__ inline int origin(const Chunks& chunks, int c) const {
        int at = chunks.of(c) * Y;
        Best best;
#pragma unroll
        for (int y = 0; y < Y; y++) {
            int from = winners.value[(size_t)c * Y + y];
            best.meet(tops.in[at + y] + tops.value[(size_t)c * Y + y], from < 0 ? winners.in[at + y] : from);
        }
        return best.winner;
    }
};

// The path that ends with `last`, in order, by the whole block; how many. Each candidate is marked that 1, 2, 4, … steps
// lead to from one that is marked. `origin`, `jump` and `mark` are (N,), and written over; `path` is one of them.
__device__ int trace(int n, int last, int* origin, int* jump, int* mark, int* sums, int*& path) {
    int thread = threadIdx.x, threads = THREADS;
    for (int c = thread; c < n; c += threads) mark[c] = c == last;
    __syncthreads();
    for (int reach = 1; reach < n; reach *= 2) {
        for (int c = thread; c < n; c += threads) {
            int before = origin[c];
            if (before >= 0 && mark[c]) mark[before] = 1;
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
    __shared__ Real link[Y * Y], total, states[2][2 * Y];
    __shared__ float transition[Y * Y];
    __shared__ double best, tops[2 * Y];
    __shared__ int winners[2 * Y];
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
    int *origin = (int*)(value + t.capacity), *runner_up = origin + t.capacity, *path = runner_up;
    char* scratch = t.scratch + b * t.scratch_size + t.tiles * (TILE_KEPT * sizeof(int4) + 16);
    // Of a long sentence the sums are no longer in shared memory.
    Real* forward = t.tiles == 1 ? (Real*)(runner_up + t.capacity) : (Real*)scratch;
    Real* backward = forward + (t.with_probabilities ? t.capacity : 0);
    scratch = (char*)(backward + t.capacity);
    if (!candidates_in_order(t, b, (int)t.lengths[b], (int4*)forward, sums, nodes)) return;
    if (t.with_probabilities)
        for (int c = thread; c < nodes.n; c += THREADS)
            forward[c] = backward[c] = exp_of(__int_as_float(nodes.node[c].w));
    if (thread == 0) chunks.count = t.tiles == 1 ? 1 : max(1, min(CHUNKS, nodes.n / CHUNK_NODES));
    __syncthreads();
    int sweeps = t.with_probabilities ? 3 : 1;
    SumFlow<false> left = {Flow<Real>(scratch, t.capacity), nodes, link, forward};
    SumFlow<true> right = {Flow<Real>(scratch, t.capacity), nodes, link, backward};
    Flow<double> best_flow(scratch, t.capacity);
    MaxFlow middle = {best_flow, Flow<int>(scratch, t.capacity), nodes, transition};
    if (chunks.count == 1) {
        if (thread == 0) {
            Maxima<float, 1> window(transition, value, origin, runner_up);
            sweep<false>(nodes, 0, nodes.n, window);
            best = window.into(0, last);
        } else if (thread == 32 && sweeps > 1) {
            Sums<false, 1> window(link, forward, forward);
            sweep<false>(nodes, 0, nodes.n, window);
            total = window.total();
        } else if (thread == 64 && sweeps > 1) {
            Sums<true, 1> window(link, backward, backward);
            sweep<true>(nodes, 0, nodes.n, window);
        }
        __syncthreads();
        if (thread == 0) {
            count = 0;
            for (int c = last; c != NO_NODE; c = origin[c]) path[count++] = c;  // from its end
        }
    } else {
        cut(nodes, chunks);
        __syncthreads();
        int each = chunks.count * Y;
        for (int k = thread; k < sweeps * each; k += THREADS) {
            int g = k % each / Y, y = k % Y;
            if (k < each) middle.unit(chunks, g, y);
            else if (k < 2 * each) left.unit(chunks, g, y);
            else right.unit(chunks, g, y);
        }
        __syncthreads();
        if (thread < 32) {
            Best found = middle.join(chunks, tops, winners);
            if (thread == 0) { last = found.winner; best = found.top; }
        } else if (thread < 64 && sweeps > 1) {
            Real sum = left.join(chunks, states[0]);
            if (thread == 32) total = sum;
        } else if (thread < 96 && sweeps > 1) {
            right.join(chunks, states[1]);
        }
        __syncthreads();
        for (int c = thread; c < nodes.n; c += THREADS) origin[c] = middle.origin(chunks, c);
        int found = trace(nodes.n, last, origin, (int*)value, runner_up, sums, path);
        if (thread == 0) count = found;
    }
    __syncthreads();
    if (thread == 0) {
        if (!(best > -INFINITE)) count = ON_HOST;
        t.counts[b] = count;
    }
    __syncthreads();
    for (int k = thread; k < count; k += THREADS) {
        int c = path[chunks.count == 1 ? count - 1 - k : k];
        int4 node = nodes.node[c];
        float p = 0.0f;
        if (t.with_probabilities) {
            Real before = chunks.count == 1 ? forward[c] : left.at(chunks, c);
            Real after = chunks.count == 1 ? backward[c] : right.at(chunks, c);
            p = quotient(times(before, after), times(exp_of(__int_as_float(node.w)), total));
        }
        t.segments[(long long)b * t.slots + k] = segment_of(node.x, node.y, node.z, p);
    }
}
