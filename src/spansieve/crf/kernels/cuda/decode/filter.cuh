// The filter: which spans stand above null, and with which labels; and what is kept of a sentence, in order.

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

// Add up the numbers of all threads before, and of each thread itself; the sum of all. `sums` is (MAX_THREADS,).
__device__ int scan(int* sums, int own) {
    int thread = threadIdx.x, lane = thread % 32, before = 0;
    for (int reach = 1; reach < 32; reach *= 2) {
        int other = __shfl_up_sync(~0u, own, reach);
        if (lane >= reach) own += other;
    }
    sums[thread] = own;
    __syncthreads();
    for (int k = 31; k < thread - lane; k += 32) before += sums[k];  // of the warps before
    __syncthreads();
    sums[thread] = before + own;
    __syncthreads();
    return sums[THREADS - 1];
}

// The candidates of one tile in `kept`, by the whole block; how many.
__device__ int filter_tile(const Task& t, int b, int length, int tile, int4* kept, int room, int* sums, int* is_wrong) {
    int thread = threadIdx.x, threads = THREADS;
    int first = tile * t.tile_spans, last = min(first + t.tile_spans, length * t.K);
    int each = (max(0, last - first) + threads - 1) / threads;
    int low = min(first + thread * each, last), high = min(low + each, last);
    int n = filter_spans(t, b, length, low, high, 0, 0, is_wrong);
    int total = scan(sums, n);
    if (n && total <= room) filter_spans(t, b, length, low, high, kept + sums[thread] - n, n, is_wrong);
    __syncthreads();
    return total;
}

// The candidates of a sentence in one place: how many; -1 in all blocks of a sentence but the one that goes on.
__device__ int filter_sentence(const Task& t, int b, int length, int4* kept, int* sums, int* is_wrong) {
    if (t.tiles == 1) return filter_tile(t, b, length, 0, kept, t.capacity, sums, is_wrong);
    __shared__ int is_last;
    int thread = threadIdx.x, threads = THREADS;
    int4* tiles = (int4*)(t.scratch + b * t.scratch_size);  // (tiles, TILE_KEPT), and their counts
    int* counts = (int*)(tiles + t.tiles * TILE_KEPT);
    int n = filter_tile(t, b, length, blockIdx.x, tiles + blockIdx.x * TILE_KEPT, TILE_KEPT, sums, is_wrong);
    __threadfence();
    __syncthreads();
    if (thread == 0) {
        counts[blockIdx.x] = *is_wrong ? TILE_KEPT + 1 : n;
        __threadfence();
        is_last = atomicAdd(t.done + b, 1) == t.tiles - 1;
    }
    __syncthreads();
    if (!is_last) return -1;
    __threadfence();
    if (thread == 0) t.done[b] = 0;
    int own = thread < t.tiles ? __ldcg(counts + thread) : 0;
    if (own > TILE_KEPT) *is_wrong = 1;
    int total = scan(sums, own);
    if (*is_wrong || total > t.capacity) return total;
    for (int tile = thread / 32; tile < t.tiles; tile += threads / 32) {
        int first = tile ? sums[tile - 1] : 0;
        for (int k = thread % 32; k < sums[tile] - first; k += 32) kept[first + k] = __ldcg(tiles + tile * TILE_KEPT + k);
    }
    __syncthreads();
    return total;
}

// ---- Candidates in order ----------------------------------------------------------------------------------------------

struct Nodes {
    int4* node;     // (N,): start, end, label, score, in order of (end, start, label)
    int* by_start;  // (N,): their indices in order of (start, end, label)
    int* left;      // (N,): how many end before the k-th of these starts
    int* right;     // (N,): where in that order those begin that start behind the end of each
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

// The candidates of a sentence in shared memory, by the whole block; false where the block has nothing more to do.
// `kept` is (N,), `sums` (MAX_THREADS,).
__device__ bool candidates_in_order(const Task& t, int b, int length, int4* kept, int* sums, Nodes& nodes) {
    __shared__ int is_wrong;
    if (threadIdx.x == 0) is_wrong = 0;
    __syncthreads();
    nodes.n = filter_sentence(t, b, length, kept, sums, &is_wrong);
    if (nodes.n < 0) return false;
    if (is_wrong || nodes.n > t.capacity) {
        if (threadIdx.x == 0) t.counts[b] = ON_HOST;
        return false;
    }
    sort_by_end(kept, t.K, nodes);
    __syncthreads();
    return true;
}
