// Decoding in one launch: the best segments of each sentence and their probabilities, from scores to pinned memory.
//
// Axes: B sentences, L tokens, K widths, Y labels or tags, N candidates. Compiled for one head, by NVRTC: this file, for a
// head that filters filter.cuh, for one with paths sweep.cuh, and filtered.cu, nested.cu or dense.cu, with
//   Y               labels, null included, or tags
//   MAX_THREADS     of a block
//   LABELS, SKIP    of a filter: the labels that a span may be kept with; a path may leave candidates out
//   CHUNKS          of paths: in how many the candidates of a long sentence are cut at most
//   OWN_TABLES      of paths: what is made of the transition fits the 48 KB of shared memory that a kernel has by itself
//   CHAIN, BIO      of a dense sweep: it is over tags; these are BIO, not BIOES
//   UNIT_NULL       of a dense sweep: null segments have width 1
//   TERMS           of a dense sweep: the widths that a lane adds up
//
// What a sentence cannot be decoded of here (more candidates than fit, a score that is no number or far too large, no
// possible segmentation) gets the count ON_HOST: the host decodes it, and raises what there is to raise.

#define THREADS blockDim.x
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
    char* scratch;                // of each sentence `scratch_size` bytes
    int* done;                    // (B,): blocks that have filtered, 0 before and after
    int* counts;                  // (B,), pinned: segments, or ON_HOST
    int4* segments;               // (B, slots), pinned: start, end, label, and the bits of a probability
    long long scratch_size;
    int L, K, tiles, tile_spans, capacity, slots, with_probabilities;
};

// ---- Sums without exp and log: numbers m · 2^e, m >= 0 ----------------------------------------------------------------

// Products and sums of such numbers lose nothing to the range of a double, whatever the scores, and their exponents are
// integers: a sweep has no exp and no log on its path, only the conversion of each score has. m is in [1, 2), or 0, where
// a number is `normal`; a few products and sums of normal ones need not be. Nothing here branches.

struct Real { double m; int e; int unused; };

#define ZERO_EXPONENT (-(1 << 28))

__device__ inline Real real(double m, int e) {
    Real x;
    x.m = m; x.e = e; x.unused = 0;
    return x;
}

__device__ inline Real zero() { return real(0.0, ZERO_EXPONENT); }

__device__ inline Real normal(Real x) {
    int high = __double2hiint(x.m), k = (high >> 20) - 1023;
    bool is_zero = x.m == 0.0;
    return real(__hiloint2double(is_zero ? 0 : high - (k << 20), __double2loint(x.m)), is_zero ? ZERO_EXPONENT : x.e + k);
}

__device__ inline double power(int e) { return __hiloint2double((1023 + max(e, -1022)) << 20, 0); }  // 2^e, e <= 0

__device__ inline Real product(Real a, Real b) { return real(a.m * b.m, a.e + b.e); }

__device__ inline Real sum(Real a, Real b) {
    int top = max(a.e, b.e);
    return real(fma(a.m, power(a.e - top), b.m * power(b.e - top)), top);
}

__device__ inline Real times(Real a, Real b) { return normal(product(a, b)); }

__device__ inline Real plus(Real a, Real b) { return normal(sum(a, b)); }

__device__ inline Real exp_of(float score) {
    if (!(score > -INFINITE)) return zero();
    double k = rint(score * 1.4426950408889634);
    double rest = fma(-k, 1.9082149292705877e-10, fma(-k, 0.6931471803691238, (double)score));
    return normal(real(exp(rest), (int)k));
}

__device__ inline float quotient(Real a, Real b) {  // of two numbers, a probability
    if (a.m == 0.0 || b.m == 0.0) return 0.0f;
    int e = a.e - b.e;
    return e > 1 ? 1.0f : (float)fmin(1.0, a.m / b.m * (e > 0 ? 2.0 : power(e)));
}

// Σ_y left[y] · link[y · stride]: one step of a sweep into one label, over a column of the transition, or back over a row.
// Four partial maxima and sums, so that one need not wait for the other.
__device__ inline Real step(const Real* left, const Real* link, int stride) {
    int top[4] = {7 * ZERO_EXPONENT, 7 * ZERO_EXPONENT, 7 * ZERO_EXPONENT, 7 * ZERO_EXPONENT};
    double sums[4] = {0.0, 0.0, 0.0, 0.0};
#pragma unroll
    for (int y = 0; y < Y; y++) top[y % 4] = max(top[y % 4], left[y].e + link[y * stride].e);
    int highest = max(max(top[0], top[1]), max(top[2], top[3]));
#pragma unroll
    for (int y = 0; y < Y; y++)
        sums[y % 4] = fma(left[y].m * link[y * stride].m, power(left[y].e + link[y * stride].e - highest), sums[y % 4]);
    return normal(real((sums[0] + sums[1]) + (sums[2] + sums[3]), highest));
}

// The same in plain doubles, where sums cannot leave their range: a fraction of the work. In memory such a number is a
// Real that is not normal, m · 2^0.

#define PLAIN_RANGE 600.0f  // how far such sums may lie from 1, as logarithms

__device__ inline double times(double a, double b) { return a * b; }

__device__ inline double plus(double a, double b) { return a + b; }

__device__ inline double step(const double* left, const double* link, int stride) {
    double sums[2] = {0.0, 0.0};
#pragma unroll
    for (int y = 0; y < Y; y++) sums[y % 2] = fma(left[y], link[y * stride], sums[y % 2]);
    return sums[0] + sums[1];
}

__device__ inline void load(Real from, Real& to) { to = from; }

__device__ inline void load(Real from, double& to) { to = from.m; }

__device__ inline Real stored(Real x) { return x; }

__device__ inline Real stored(double x) { return real(x, 0); }

__device__ inline bool is_far(float score, int L) {  // the exponents of a sweep would leave an int
    return !(score < INFINITE) || (score > -INFINITE && fabsf(score) > (float)(1 << 26) / (L + 1));
}

__device__ inline int4 segment_of(int start, int end, int label, float probability) {
    int4 segment;
    segment.x = start; segment.y = end; segment.z = label; segment.w = __float_as_int(probability);
    return segment;
}

extern __shared__ double4 memory[];
