/* Sampling: a row of logits to a token, in one launch.
 *
 * Work split: a cluster of eight thread blocks a row (before sm_90 one block). A warp owns a segment of neighbouring
 * ids, its lanes by turns; what blocks have to tell each other they read from one another's shared memory. A block
 * keeps its part of the logits in shared memory where there is room (160K ids by eight blocks), else they stay where
 * they are. They are passed over a few times:
 *
 *     prepare  bias, bans, penalties written back; largest and least
 *     [log-probabilities: Σ e^x, and the cut of the n largest]
 *     [top_k: its cut]  [top_p: Σ weights and its cut]
 *     draw     Σ weights of what is left, by warps; one warp walks the segment in which the drawn number lies
 *
 * Order. A candidate is the 64-bit number (bits of its logit made monotone, ~id): falling order is falling logit, then
 * rising id, and no two are equal. So what top_k and top_p keep is everything from one such number on, the cut; ties
 * need no care. A cut is found by narrowing an interval: eight numbers split it, one pass measures what lies at or
 * above each, and when few enough are left they are gathered and sorted. The first splits are fractions of the logits'
 * range, later ones are even.
 *
 * Sums are whole numbers, weights times 2^41, so they do not depend on who adds when. Weights come from the
 * polynomial of model/sampler.c in the same operations, bit by bit; that file is the CPU twin.
 *
 * Shared memory: 12 KiB, most of it the list, and the logits. Bound by latency: some 2 µs a pass, half of it barriers.
 */
#include <float.h>

#include "device/cuda/launch.cuh"
#include "device/cuda/ptx_cluster.cuh"
#include "device/cuda/reduce.cuh"

enum {
    THREADS = 512,
    WARPS = THREADS / WARP,
    BLOCKS = 8,  /* of a cluster */
    SPLITS = 8,  /* of an interval */
    LIST = 1024, /* candidates that are sorted */
    UNROLL = 8,
    LOCAL_BYTES = 80 * 1024 /* of logits in shared memory at most */
};
static_assert(LIST == 2 * THREADS, "a thread scans two");

static const float WEIGHT_UNIT = 2199023255552.0f; /* 2^41: the sum of 2^22 weights fits */
static const float LOGPROB_FLOOR = -9999.0f, GREEDY_TEMPERATURE = 1e-5f;
static const uint32_t MARK_PROMPT = 0x80000000u;

struct sample_shared {
    uint64_t list[LIST];
    uint64_t warp_part[WARPS][SPLITS + 1];
    uint64_t part[2][SPLITS + 1]; /* of the block, by turns: a neighbour may still read the other */
    uint64_t total[SPLITS + 1];   /* of the cluster */
    uint64_t best[WARPS];         /* of each warp: its largest candidate, -0 as 0 */
    uint64_t bests[BLOCKS * WARPS];
    uint64_t answer; /* of the leader */
    unsigned n_list, found;
    int32_t bias_ids[LF_LOGIT_BIAS_N];
};

/* What all threads of a row know. */
struct row_work {
    sample_shared *s;
    float *logits; /* of the row */
    float *values; /* the block's part of them, [id - base]: in shared memory, or where logits are */
    int n_vocab;
    int base;       /* the block's first id */
    int first, end; /* of this warp's segment, end not past n_vocab */
    int turn;       /* of part[] */
    float max, low; /* the largest logit and the least that is finite */
    float inv_t;
};

/* ---- numbers ---- */

__device__ inline float sane(float x)
{
    if (!(x >= -FLT_MAX)) return -INFINITY; /* NaN too */
    return x > FLT_MAX ? FLT_MAX : x;
}

/* Falling order of candidates. bare_zero: -0 counts as 0. */
__device__ inline uint64_t rank_of(float x, int id, bool bare_zero)
{
    uint32_t bits = __float_as_uint(bare_zero ? __fadd_rn(x, 0.0f) : x);
    uint32_t key = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (uint64_t)key << 32 | (uint32_t)~id;
}

__device__ inline float logit_of(uint64_t rank)
{
    uint32_t key = (uint32_t)(rank >> 32);
    return __uint_as_float(key & 0x80000000u ? key & ~0x80000000u : ~key);
}

__device__ inline int id_of(uint64_t rank)
{
    return (int)~(uint32_t)rank;
}

/* e^((x - max) · inv_t), at most 1: the operations of exp_lanes() in model/sampler.c. */
__device__ inline float weight_of(float x, float max, float inv_t)
{
    const float magic = 12582912.0f;
    float in = __fmul_rn(__fsub_rn(x, max), inv_t);
    float t = __fmul_rn(in > -88.1f ? in : -88.1f, 1.44269504f);
    float whole = __fsub_rn(__fadd_rn(t, magic), magic), f = __fsub_rn(t, whole);
    float p = 1.5403530e-4f;
    p = __fadd_rn(__fmul_rn(p, f), 1.3333558e-3f);
    p = __fadd_rn(__fmul_rn(p, f), 9.6181291e-3f);
    p = __fadd_rn(__fmul_rn(p, f), 5.5504109e-2f);
    p = __fadd_rn(__fmul_rn(p, f), 2.4022651e-1f);
    p = __fadd_rn(__fmul_rn(p, f), 6.9314718e-1f);
    p = __fadd_rn(__fmul_rn(p, f), 1.0f);
    return __fmul_rn(p, __uint_as_float((uint32_t)((int)whole + 127) << 23));
}

__device__ inline uint64_t units(float weight)
{
    return __float2ull_rn(weight * WEIGHT_UNIT);
}

__device__ inline uint64_t mix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* lf_random64 of core/hash.h. */
__device__ inline uint64_t random64(uint64_t seed, uint64_t counter)
{
    return mix64(mix64(seed) ^ mix64(counter ^ 0xd1b54a32d192ed03u));
}

__device__ inline float floored(double logprob)
{
    return logprob >= (double)LOGPROB_FLOOR ? (float)logprob : LOGPROB_FLOOR;
}

/* ---- joining ---- */

struct join_sum {
    __device__ static uint64_t of(uint64_t a, uint64_t b)
    {
        return a + b;
    }
};

struct join_max {
    __device__ static uint64_t of(uint64_t a, uint64_t b)
    {
        return a > b ? a : b;
    }
};

template <class J> __device__ inline uint64_t join_warp(uint64_t x)
{
#pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2) x = J::of(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}

/* What each warp has put into warp_part[], N values, joined over the cluster into total[]. */
template <class J, int N> __device__ inline void join_cluster(row_work &r)
{
    sample_shared *s = r.s;
    __syncthreads();
    uint64_t *part = s->part[r.turn];
    r.turn = 1 - r.turn;
    if (threadIdx.x < N) {
        uint64_t x = s->warp_part[0][threadIdx.x];
#pragma unroll
        for (int w = 1; w < WARPS; w++) x = J::of(x, s->warp_part[w][threadIdx.x]);
        part[threadIdx.x] = x;
    }
    barrier_cluster();
    if (threadIdx.x < N) {
        uint64_t x[BLOCKS];
#pragma unroll
        for (unsigned b = 0; b < BLOCKS; b++) x[b] = b < cluster_nctarank() ? mapa(part, b)[threadIdx.x] : 0;
#pragma unroll
        for (unsigned b = 1; b < BLOCKS; b++) x[0] = J::of(x[0], x[b]); /* 0 changes neither sum nor maximum */
        s->total[threadIdx.x] = x[0];
    }
    __syncthreads();
}

/* Eight sums of 32 lanes at a time: in each of three steps a lane gives half of its values away and adds what it gets
 * for the rest. Into warp_part[warp][0 .. 7]. */
__device__ inline void put_eight_sums(sample_shared *s, uint64_t v[SPLITS])
{
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int half = SPLITS / 2, mask = WARP / 2; half > 0; half /= 2, mask /= 2) {
        bool upper = lane & mask;
#pragma unroll
        for (int i = 0; i < SPLITS / 2; i++) {
            if (i >= half) continue;
            uint64_t give = upper ? v[i] : v[i + half], keep = upper ? v[i + half] : v[i];
            v[i] = keep + __shfl_xor_sync(0xffffffffu, give, mask);
        }
    }
    uint64_t sum = v[0];
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    if (lane % 4 == 0) s->warp_part[threadIdx.x / WARP][lane / 4] = sum;
}

/* The same sum in all threads of the cluster. */
__device__ inline uint64_t sum_cluster(row_work &r, uint64_t x)
{
    x = join_warp<join_sum>(x);
    if (threadIdx.x % WARP == 0) r.s->warp_part[threadIdx.x / WARP][0] = x;
    join_cluster<join_sum, 1>(r);
    return r.s->total[0];
}

/* ---- passes ---- */

/* Calls visit(id, x[id]) for each of the lane's ids, in rising order; eight loads are under way at a time. x begins at
 * the block's first id. */
template <class V> __device__ inline void visit_part(const row_work &r, const float *part, V visit)
{
    for (int base = r.first + threadIdx.x % WARP; base < r.end; base += UNROLL * WARP) {
        float x[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; i++)
            if (base + i * WARP < r.end) x[i] = part[base + i * WARP - r.base];
#pragma unroll
        for (int i = 0; i < UNROLL; i++)
            if (base + i * WARP < r.end) visit(base + i * WARP, x[i]);
    }
}

/* Of the logits as prepare() leaves them. */
template <class V> __device__ inline void visit_logits(const row_work &r, V visit)
{
    visit_part(r, r.values, visit);
}

/* Entries of the same id follow one another in their order: the first of them sees to all. */
__device__ inline void apply_bias(const row_work &r, const lf_sample_row &row, const lf_sample_params &p)
{
    const lf_logit_bias *bias = p.bias + row.bias_first;
    int32_t *ids = r.s->bias_ids;
    int n = min(row.n_bias, (int)LF_LOGIT_BIAS_N);
    for (int i = threadIdx.x; i < n; i += THREADS) ids[i] = bias[i].id;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += THREADS) {
        int32_t id = ids[i];
        bool mine = id >= 0 && id < p.n_vocab && cluster_ctarank() == (unsigned)i % cluster_nctarank();
        for (int j = 0; j < i && mine; j++) mine = ids[j] != id;
        if (!mine) continue;
        float x = sane(r.logits[id]);
        for (int j = i; j < n; j++)
            if (ids[j] == id) x = sane(__fadd_rn(x, bias[j].bias));
        r.logits[id] = x;
    }
}

/* Bans come after bias: the barrier between them also makes the writes known to the cluster. */
__device__ inline void apply_bias_and_bans(const row_work &r, const lf_sample_row &row, const lf_sample_params &p)
{
    if (row.n_bias > 0) {
        apply_bias(r, row, p);
        barrier_cluster();
    }
    if (row.n_banned == 0) return;
    for (int i = threadIdx.x; i < row.n_banned; i += THREADS) {
        int32_t id = p.banned[row.banned_first + i];
        if (id >= 0 && id < p.n_vocab) r.logits[id] = -INFINITY;
    }
    barrier_cluster();
}

struct penalties {
    const uint32_t *marks; /* of the row's slot, NULL: none */
    float repetition, presence, frequency;
    bool repeats;
};

__device__ inline penalties penalties_of(const lf_sample_row &row, const lf_sample_params &p)
{
    penalties pen = {nullptr, row.repetition_penalty, row.presence_penalty, row.frequency_penalty, false};
    pen.repeats = pen.repetition < 1.0f || pen.repetition > 1.0f;
    bool counts = fabsf(pen.presence) > 0.0f || fabsf(pen.frequency) > 0.0f;
    if (row.slot >= 0 && (pen.repeats || counts)) pen.marks = p.marks + (size_t)row.slot * p.n_vocab;
    return pen;
}

__device__ inline float penalized(float logit, uint32_t mark, const penalties &pen)
{
    float x = logit;
    uint32_t n = mark & ~MARK_PROMPT;
    if (pen.repeats) x = x > 0.0f ? __fdiv_rn(x, pen.repetition) : __fmul_rn(x, pen.repetition);
    if (n > 0) x = __fsub_rn(x, __fadd_rn(pen.presence, __fmul_rn(pen.frequency, (float)n)));
    return logit >= -FLT_MAX ? sane(x) : -INFINITY;
}

/* Logits as they are drawn from, into values. Returns the largest candidate (with -0 as 0) and sets
 * max, low and the least candidate. */
__device__ inline uint64_t prepare(row_work &r, const penalties &pen, uint64_t *least)
{
    uint64_t best = 0, inverse_least = 0;
    float low = INFINITY;
    visit_part(r, r.logits + r.base, [&](int id, float raw) {
        float x = sane(raw);
        uint32_t mark = pen.marks ? pen.marks[id] : 0;
        if (mark != 0) x = penalized(x, mark, pen);
        r.values[id - r.base] = x;
        best = join_max::of(best, rank_of(x, id, true));
        inverse_least = join_max::of(inverse_least, ~rank_of(x, id, false));
        if (x >= -FLT_MAX && x < low) low = x;
    });
    uint64_t inverse_low = ~rank_of(low, 0, false);
    best = join_warp<join_max>(best);
    inverse_least = join_warp<join_max>(inverse_least);
    inverse_low = join_warp<join_max>(inverse_low);
    if (threadIdx.x % WARP == 0) {
        uint64_t *part = r.s->warp_part[threadIdx.x / WARP];
        r.s->best[threadIdx.x / WARP] = best;
        part[0] = best;
        part[1] = inverse_least;
        part[2] = inverse_low;
    }
    join_cluster<join_max, 3>(r);
    r.max = logit_of(r.s->total[0]);
    r.low = logit_of(~r.s->total[2]);
    *least = ~r.s->total[1];
    return r.s->total[0];
}

/* ---- cuts ---- */

/* What a cut is looked for in: the candidates least .. most, measured by their weights or counted. */
struct cut_query {
    bool weighted, bare_zero;
    bool few;  /* least is near the cut: what lies in between may fit the list */
    float low; /* about the least logit in question: where the first splits end */
    uint64_t least, most;
    uint64_t target; /* the cut is the first candidate, in falling order, with which the measure reaches it */
};

__device__ inline uint64_t measure_of(const row_work &r, const cut_query &q, float x)
{
    return q.weighted ? units(weight_of(x, r.max, r.inv_t)) : 1;
}

/* Candidates lo .. hi of the cluster, into the leader's list: as many as it has room for. Returns their number, or
 * one past the room. */
__device__ inline unsigned gather(row_work &r, bool bare_zero, uint64_t lo, uint64_t hi)
{
    unsigned *n_list = mapa(&r.s->n_list, 0), lane = threadIdx.x % WARP;
    uint64_t *list = mapa(r.s->list, 0);
    bool full = false;
    if (cluster_ctarank() == 0 && threadIdx.x == 0) r.s->n_list = 0;
    barrier_cluster();
    visit_logits(r, [&](int id, float x) {
        uint64_t rank = rank_of(x, id, bare_zero);
        bool in = rank >= lo && rank <= hi;
        unsigned now = __activemask(), takers = __ballot_sync(now, in), at = 0;
        if (takers == 0 || full) return;
        if (lane == (unsigned)__ffs(now) - 1) at = atomicAdd(n_list, __popc(takers));
        at = __shfl_sync(now, at, __ffs(now) - 1) + __popc(takers & ((1u << lane) - 1));
        if (in && at < LIST) list[at] = rank;
        full = __any_sync(now, at >= LIST);
    });
    barrier_cluster();
    unsigned n = *mapa(&r.s->n_list, 0);
    return n <= LIST ? n : LIST + 1;
}

/* Sorts the block's list, falling (a bitonic network; zeros behind the last). Returns the network's length. In steps up
 * to 32 a warp stays among its own 64 entries. */
__device__ inline unsigned sort_list(sample_shared *s)
{
    unsigned n = 2;
    while (n < s->n_list) n *= 2;
    for (unsigned i = s->n_list + threadIdx.x; i < n; i += THREADS) s->list[i] = 0;
    __syncthreads();
    for (unsigned size = 2; size <= n; size *= 2) {
        for (unsigned step = size / 2; step > 0; step /= 2) {
            if (step > WARP || (step == WARP && size > 2 * WARP))
                __syncthreads();
            else
                __syncwarp();
            if (threadIdx.x >= n / 2) continue;
            unsigned a = threadIdx.x / step * 2 * step + threadIdx.x % step, b = a + step;
            uint64_t x = s->list[a], y = s->list[b];
            bool falls = (a & size) == 0;
            if ((x < y) == falls) {
                s->list[a] = y;
                s->list[b] = x;
            }
        }
    }
    __syncthreads();
    return n;
}

/* The first entry of the leader's sorted list with which above plus the measure reaches the target. */
__device__ inline void search_list(row_work &r, const cut_query &q, uint64_t above)
{
    sample_shared *s = r.s;
    unsigned n = sort_list(s), i = 2 * threadIdx.x, lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    if (threadIdx.x == 0) s->found = s->n_list - 1;
    uint64_t m0 = i < s->n_list && i < n ? measure_of(r, q, logit_of(s->list[i])) : 0;
    uint64_t m1 = i + 1 < s->n_list ? measure_of(r, q, logit_of(s->list[i + 1])) : 0;
    uint64_t sum = m0 + m1;
#pragma unroll
    for (unsigned step = 1; step < WARP; step *= 2) {
        uint64_t below = __shfl_up_sync(0xffffffffu, sum, step);
        if (lane >= step) sum += below;
    }
    if (lane == WARP - 1) s->warp_part[warp][0] = sum;
    __syncthreads();
    for (unsigned w = 0; w < warp; w++) sum += s->warp_part[w][0];
    if (i < s->n_list && above + sum - m1 >= q.target)
        atomicMin(&s->found, i);
    else if (i + 1 < s->n_list && above + sum >= q.target)
        atomicMin(&s->found, i + 1);
    __syncthreads();
    if (threadIdx.x == 0) s->answer = s->list[s->found];
}

__device__ inline void make_splits(uint64_t split[SPLITS], float max, float low, uint64_t lo, uint64_t hi, bool first)
{
    static constexpr float share[SPLITS] = {1.0f / 2, 3.0f / 8,  1.0f / 4,  3.0f / 16,
                                            1.0f / 8, 3.0f / 32, 1.0f / 16, 1.0f / 32};
    float range = max - low;
#pragma unroll
    for (int i = 0; i < SPLITS; i++) {
        split[i] = lo + (hi - lo) / (SPLITS + 1) * (i + 1);
        if (first && range > 0.0f && range <= FLT_MAX) split[i] = rank_of(max - share[i] * range, -1, false);
    }
}

/* Measures what lies at or above each split, and candidates lo .. hi altogether: into total[]. */
__device__ inline void measure_splits(row_work &r, const cut_query &q, const uint64_t split[SPLITS], uint64_t lo,
                                      uint64_t hi)
{
    uint64_t sums[SPLITS] = {};
    unsigned n = 0;
    visit_logits(r, [&](int id, float x) {
        uint64_t rank = rank_of(x, id, q.bare_zero);
        if (rank < lo || rank > hi) return;
        uint64_t measure = measure_of(r, q, x);
        n++;
#pragma unroll
        for (int i = 0; i < SPLITS; i++)
            if (rank >= split[i]) sums[i] += measure;
    });
    put_eight_sums(r.s, sums);
    n = __reduce_add_sync(0xffffffffu, n);
    if (threadIdx.x % WARP == 0) r.s->warp_part[threadIdx.x / WARP][SPLITS] = n;
    join_cluster<join_sum, SPLITS + 1>(r);
}

/* *is_top: the leader's sorted list then begins with the largest candidate of all. */
__device__ inline uint64_t find_cut(row_work &r, const cut_query &q, bool *is_top)
{
    uint64_t lo = q.least, hi = q.most, above = 0, split[SPLITS];
    bool few = q.few, first = true;
    while (!few || gather(r, q.bare_zero, lo, hi) > LIST) {
        make_splits(split, r.max, q.low, lo, hi, first);
        first = false;
        measure_splits(r, q, split, lo, hi);
        const uint64_t *total = r.s->total;
        uint64_t beyond = above, below = hi; /* what lies over the splits looked at, and where they end */
        bool found = false;
#pragma unroll
        for (int i = SPLITS - 1; i >= 0; i--) {
            if (found || split[i] > hi || split[i] <= lo) continue;
            if (above + total[i] >= q.target) {
                lo = split[i];
                found = true;
            } else {
                beyond = above + total[i];
                below = split[i] - 1;
            }
        }
        hi = below;
        above = beyond;
        few = total[SPLITS] <= LIST;
    }
    if (cluster_ctarank() == 0) search_list(r, q, above);
    barrier_cluster();
    *is_top = hi == q.most;
    return *mapa(&r.s->answer, 0);
}

/* A candidate below which the k-th largest cannot be: the k-th of the warps' largest. 0 where there are too few. */
__device__ inline uint64_t least_of_largest(row_work &r, int k)
{
    sample_shared *s = r.s;
    unsigned n = cluster_nctarank() * WARPS;
    if (k > (int)n) return 0;
    __syncthreads();
    if (threadIdx.x < n) s->bests[threadIdx.x] = mapa(s->best, threadIdx.x / WARPS)[threadIdx.x % WARPS];
    __syncthreads();
    if (threadIdx.x < n) {
        uint64_t mine = s->bests[threadIdx.x];
        int n_above = 0;
        for (unsigned i = 0; i < n; i++) n_above += s->bests[i] > mine || (s->bests[i] == mine && i < threadIdx.x);
        if (n_above == k - 1) s->total[0] = mine;
    }
    __syncthreads();
    return s->total[0];
}

/* The cut behind the k largest. */
__device__ inline uint64_t count_cut(row_work &r, int k, bool bare_zero, uint64_t least, uint64_t most, bool *is_top)
{
    uint64_t bound = least_of_largest(r, k);
    /* A warp's largest counts -0 as 0; where that is not wanted, zeros of either sign are let in. */
    if (!bare_zero && logit_of(bound) == 0.0f) bound = rank_of(-0.0f, -1, false);
    bool few = bound != 0;
    return find_cut(r, {false, bare_zero, few, r.low, few ? bound : least, most, (uint64_t)k}, is_top);
}

/* ---- the row ---- */

/* Natural log of Σ e^x. */
__device__ inline double log_sum_exp(row_work &r)
{
    if (!(r.max >= -FLT_MAX)) return (double)-INFINITY;
    uint64_t sum = 0;
    visit_logits(r, [&](int, float x) { sum += units(weight_of(x, r.max, 1.0f)); });
    return (double)r.max + log((double)sum_cluster(r, sum) / (double)WEIGHT_UNIT);
}

__device__ inline void find_top(row_work &r, lf_sampled *out, int n_top, uint64_t least, uint64_t most, double lse)
{
    n_top = min(min(n_top, (int)LF_TOP_LOGPROBS_N), r.n_vocab);
    bool is_top = true;
    if (n_top > 0) {
        uint64_t cut = count_cut(r, n_top, true, least, most, &is_top);
        if (!is_top) {
            (void)gather(r, true, cut, most);
            if (cluster_ctarank() == 0) sort_list(r.s);
        }
    }
    if (cluster_ctarank() != 0) return;
    if (threadIdx.x == 0) out->n_top = n_top;
    if ((int)threadIdx.x < n_top) {
        uint64_t rank = r.s->list[threadIdx.x];
        out->top_ids[threadIdx.x] = id_of(rank);
        out->top_logprobs[threadIdx.x] = floored((double)logit_of(rank) - lse);
    }
}

/* A logit that top_p cannot reach down to, or -inf: as many candidates as there are, weighing what it weighs, make no
 * more than the part of the sum that is cut off. */
__device__ inline float low_of_top_p(const row_work &r, float top_p, double sum)
{
    double cut_off = (1.0 - fmax((double)top_p, 0.0)) * sum * 0.99;
    float low = r.max + (float)log(cut_off / (double)WEIGHT_UNIT / r.n_vocab) / r.inv_t;
    bool holds = low < r.max && (double)units(weight_of(low, r.max, r.inv_t)) * r.n_vocab <= cut_off;
    return holds ? low : -INFINITY;
}

/* The least candidate that top_k and top_p leave. */
__device__ inline uint64_t cut_of(row_work &r, const lf_sample_row &row, uint64_t least, uint64_t most)
{
    uint64_t cut = least;
    bool is_top, few = row.top_k > 0 && row.top_k < r.n_vocab;
    if (few) cut = count_cut(r, row.top_k, false, least, most, &is_top);
    if (!(row.top_p < 1.0f)) return cut;
    uint64_t part = 0;
    visit_logits(r, [&](int id, float x) {
        if (rank_of(x, id, false) >= cut) part += units(weight_of(x, r.max, r.inv_t));
    });
    double sum = (double)sum_cluster(r, part), target = ceil((double)row.top_p * sum);
    cut_query q = {true, false, few && row.top_k <= LIST, r.low, cut, most, target > 1.0 ? (uint64_t)target : 1};
    float low = low_of_top_p(r, row.top_p, sum);
    if (low > r.low) q.low = low;
    q.least = join_max::of(cut, rank_of(low, -1, false));
    return find_cut(r, q, &is_top);
}

struct drawn {
    int id; /* -1 in all threads but one of the cluster */
    float logit;
};

/* What is left to draw from. */
struct urn {
    uint64_t cut;
    float floor; /* of the weight */
};

__device__ inline uint64_t mass_of(const row_work &r, const urn &u, int id, float x)
{
    if (rank_of(x, id, false) < u.cut) return 0;
    float weight = weight_of(x, r.max, r.inv_t);
    return weight >= u.floor ? units(weight) : 0;
}

__device__ inline uint64_t running_sum(uint64_t x)
{
#pragma unroll
    for (int step = 1; step < WARP; step *= 2) {
        uint64_t left = __shfl_up_sync(0xffffffffu, x, step);
        if ((int)threadIdx.x % WARP >= step) x += left;
    }
    return x;
}

/* The lane of this warp at which the running sum of mine, begun at *below, passes target; -1: none does, and *below has
 * grown by all of them. Else *below is what lies before that lane. */
__device__ inline int pass_lane(uint64_t mine, uint64_t target, uint64_t *below)
{
    uint64_t running = *below + running_sum(mine);
    unsigned passed = __ballot_sync(0xffffffffu, running > target);
    int lane = __ffs(passed) - 1;
    *below = __shfl_sync(0xffffffffu, running - (passed ? mine : 0), passed ? lane : WARP - 1);
    return lane;
}

/* The warp's segment in 32 parts, one a lane; then the part in which the target lies, 32 ids at a time. */
__device__ inline drawn walk(const row_work &r, const urn &u, uint64_t target, uint64_t below)
{
    int lane = threadIdx.x % WARP, part = (r.end - r.first + WARP - 1) / WARP;
    uint64_t mine = 0;
    int first = min(r.end, r.first + lane * part), end = min(r.end, first + part);
#pragma unroll 8
    for (int id = first; id < end; id++) mine += mass_of(r, u, id, r.values[id - r.base]);
    int of = pass_lane(mine, target, &below);
    first = __shfl_sync(0xffffffffu, first, of);
    end = __shfl_sync(0xffffffffu, end, of);
    for (int base = first; base < end; base += WARP) {
        int id = base + lane;
        float x = id < end ? r.values[id - r.base] : 0.0f;
        int at = pass_lane(id < end ? mass_of(r, u, id, x) : 0, target, &below);
        if (at >= 0) return {lane == at ? id : -1, x};
    }
    return {-1, 0.0f};
}

/* The first id at which the running sum of weights passes the drawn share of the total. */
__device__ inline drawn draw(row_work &r, const urn &u, uint64_t random)
{
    sample_shared *s = r.s;
    unsigned warp = threadIdx.x / WARP;
    uint64_t sum = 0;
    visit_logits(r, [&](int id, float x) { sum += mass_of(r, u, id, x); });
    sum = join_warp<join_sum>(sum);
    if (threadIdx.x % WARP == 0) s->warp_part[warp][0] = sum;
    const uint64_t *part = s->part[r.turn];
    join_cluster<join_sum, 1>(r);
    uint64_t total = s->total[0], share = random >> 11, below = 0;
    uint64_t target = __umul64hi(share, total) << 11 | (share * total) >> 53;
#pragma unroll
    for (unsigned b = 0; b < BLOCKS; b++) below += b < cluster_ctarank() ? *mapa(part, b) : 0;
#pragma unroll
    for (unsigned w = 0; w < WARPS; w++) below += w < warp ? s->warp_part[w][0] : 0;
    if (target < below || target >= below + sum) return {-1, 0.0f};
    return walk(r, u, target, below);
}

__device__ inline void sample_row(row_work &r, const lf_sample_row &row, const lf_sample_params &p, int row_idx)
{
    uint64_t least;
    double lse = 0.0;
    apply_bias_and_bans(r, row, p);
    uint64_t most = prepare(r, penalties_of(row, p), &least);
    if (row.n_logprobs >= 0) {
        lse = log_sum_exp(r);
        find_top(r, p.out + row_idx, row.n_logprobs, least, most, lse);
    }
    bool leads = cluster_ctarank() == 0 && threadIdx.x == 0;
    drawn d = {leads ? id_of(most) : -1, r.max};
    if (row.given >= 0) {
        d = {leads ? row.given : -1, sane(r.logits[row.given])};
    } else if (row.temperature >= GREEDY_TEMPERATURE && r.max >= -FLT_MAX) {
        r.inv_t = __fdiv_rn(1.0f, row.temperature);
        uint64_t cut = cut_of(r, row, least, most);
        d = draw(r, {cut, row.min_p > 0.0f ? fminf(row.min_p, 1.0f) : 0.0f}, random64(row.seed, row.position));
    }
    if (d.id < 0) return;
    p.ids_out[row_idx] = d.id;
    p.out[row_idx].id = d.id;
    if (row.n_logprobs >= 0) p.out[row_idx].logprob = floored((double)d.logit - lse);
    if (row.slot >= 0) p.marks[(size_t)row.slot * p.n_vocab + d.id]++;
}

/* Ids of a warp's segment. */
__host__ __device__ inline int segment_of(int n_vocab, int n_blocks)
{
    int n_lanes = n_blocks * WARPS * WARP;
    return (n_vocab + n_lanes - 1) / n_lanes * WARP;
}

__global__ void __launch_bounds__(THREADS) sample(const __grid_constant__ lf_sample_params p, bool is_local)
{
    extern __shared__ float local[];
    __shared__ sample_shared s;
    int row_idx = blockIdx.x / cluster_nctarank();
    start_successor();
    wait_predecessor();
    lf_sample_row row = p.rows[row_idx];
    if (row.position == LF_SAMPLE_INACTIVE) return;
    int segment = segment_of(p.n_vocab, (int)cluster_nctarank());
    row_work r = {&s, p.logits + (size_t)row_idx * p.n_vocab};
    r.n_vocab = p.n_vocab;
    r.base = min(p.n_vocab, (int)cluster_ctarank() * WARPS * segment);
    r.values = is_local ? local : r.logits + r.base;
    r.first = min(p.n_vocab, r.base + (int)threadIdx.x / WARP * segment);
    r.end = min(p.n_vocab, r.first + segment);
    sample_row(r, row, p, row_idx);
    barrier_cluster(); /* nobody leaves whose shared memory may still be read */
}

/* ---- marks ---- */

__global__ void __launch_bounds__(THREADS) clear_marks(uint32_t *marks, int n)
{
    start_successor();
    wait_predecessor();
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) marks[i] = 0;
}

__global__ void __launch_bounds__(THREADS) set_marks(lf_sample_marks_params p)
{
    int first = blockIdx.x * THREADS + threadIdx.x, step = gridDim.x * THREADS;
    start_successor();
    wait_predecessor();
    for (int i = first; i < p.n_prompt; i += step)
        if (p.prompt[i] >= 0 && p.prompt[i] < p.n_vocab) atomicOr(p.marks + p.prompt[i], MARK_PROMPT);
    for (int i = first; i < p.n_generated; i += step)
        if (p.generated[i] >= 0 && p.generated[i] < p.n_vocab) atomicAdd(p.marks + p.generated[i], 1);
}

/* ---- launching ---- */

int lf_cuda_sample_setup(void)
{
    int rc = load_kernel(sample);
    if (rc == 0) rc = (int)cudaFuncSetAttribute(sample, cudaFuncAttributeMaxDynamicSharedMemorySize, LOCAL_BYTES);
    if (rc == 0) rc = load_kernel(clear_marks);
    if (rc == 0) rc = load_kernel(set_marks);
    return rc;
}

int lf_cuda_sample(const struct lf_sample_params *p, struct lf_cuda_launch how)
{
    if (p->n_rows == 0) return 0;
    unsigned blocks = how.overlaps ? BLOCKS : 1; /* sm_90 has both */
    size_t local_bytes = (size_t)segment_of(p->n_vocab, (int)blocks) * WARPS * sizeof(float);
    bool is_local = local_bytes <= LOCAL_BYTES;
    return queue_any(sample, dim3((unsigned)p->n_rows * blocks), THREADS, blocks, is_local ? local_bytes : 0, how, *p,
                     is_local);
}

static unsigned blocks_for(int n)
{
    const int most = 256;
    int blocks = (n + THREADS - 1) / THREADS;
    return (unsigned)(blocks < 1 ? 1 : blocks > most ? most : blocks);
}

int lf_cuda_sample_marks(const struct lf_sample_marks_params *p, struct lf_cuda_launch how)
{
    int n = p->n_prompt > p->n_generated ? p->n_prompt : p->n_generated;
    int rc = queue_kernel(clear_marks, dim3(blocks_for(p->n_vocab)), THREADS, how, p->marks, p->n_vocab);
    return rc != 0 || n == 0 ? rc : queue_kernel(set_marks, dim3(blocks_for(n)), THREADS, how, *p);
}
