/* Sampling: a row of logits to a token, in one launch.
 *
 * Work split: a cluster of eight thread blocks a row (before sm_90 one block). A warp owns a segment of neighbouring
 * ids, its lanes by turns; what blocks have to tell each other they read from one another's shared memory. A block
 * keeps its part of the logits in shared memory where there is room (160K ids by eight blocks), else they stay where
 * they are. They are passed over a few times:
 *
 *     prepare  bias, bans, penalties, a grammar's mask written back; largest and least
 *     [log-probabilities: Σ e^x, and the cut of the n largest]
 *     [top_k: its cut]  [top_p: Σ P and its cut]
 *     draw     Σ P of what is left, by warps; one warp walks the segment in which the drawn number lies
 *
 * With a top_k of up to 1024 one block does the rest alone, from the sorted list of candidates.
 *
 * Order. A candidate is the 64-bit number (bits of its logit made monotone, ~id): falling order is falling logit, then
 * rising id, and no two are equal. So what top_k and top_p keep is everything from one such number on, the cut; ties
 * need no care. A cut is found by narrowing an interval: eight numbers split it, one pass measures what lies at or
 * above each, and when few enough are left they are gathered and sorted. The first splits are fractions of the logits'
 * range, later ones are even.
 *
 * P is the softmax's probabilities before they are divided by their sum, e^((x - max) / temperature). Sums are whole
 * numbers, P times 2^41, so they do not depend on who adds when. P comes from the polynomial of model/sampler.c in the
 * same operations, bit by bit; that file is the CPU twin.
 *
 * Shared memory: 12 KiB, most of it the list, and the logits. Bound by latency: some 2 µs a pass, half of it barriers.
 */
#include "device/cuda/sample.cuh"

/* Entries of the same id follow one another in their order: the first of them sees to all. */
LF_GPU_FN void apply_bias(const row_work &r, const lf_sample_row &row, const lf_sample_params &p)
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
        float x = r.logits[id];
        if (!(x <= FLT_MAX)) continue; /* what is no number stays none, and prepare finds it */
        for (int j = i; j < n; j++)
            if (ids[j] == id) x = sane(__fadd_rn(x, bias[j].bias));
        r.logits[id] = x;
    }
}

/* Bans come after bias: the barrier between them also makes the writes known to the cluster. */
LF_GPU_FN void apply_bias_and_bans(const row_work &r, const lf_sample_row &row, const lf_sample_params &p)
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
    const uint32_t *counts; /* of tokens, of the row's slot; NULL: none */
    const int32_t *ahead;   /* [n_ahead] */
    int n_ahead;
    float repetition, presence, frequency;
    bool repeats;
};

LF_GPU_FN penalties penalties_of(const lf_sample_row &row, const lf_sample_params &p)
{
    penalties pen = {nullptr, nullptr, 0, row.repetition_penalty, row.presence_penalty, row.frequency_penalty, false};
    pen.repeats = pen.repetition < 1.0f || pen.repetition > 1.0f;
    bool subtracts = fabsf(pen.presence) > 0.0f || fabsf(pen.frequency) > 0.0f;
    if (row.slot < 0 || !(pen.repeats || subtracts)) return pen;
    pen.counts = p.counts + (size_t)row.slot * p.n_vocab;
    pen.ahead = p.ahead + row.ahead_first;
    pen.n_ahead = row.n_ahead;
    return pen;
}

LF_GPU_FN uint32_t count_of(const penalties &pen, int id)
{
    if (!pen.counts) return 0;
    uint32_t count = pen.counts[id];
    for (int i = 0; i < pen.n_ahead; i++) count += pen.ahead[i] == id;
    return count;
}

LF_GPU_FN float penalized(float logit, uint32_t count, const penalties &pen)
{
    float x = logit;
    uint32_t n = count & ~COUNT_IN_PROMPT;
    if (pen.repeats) x = x > 0.0f ? __fdiv_rn(x, pen.repetition) : __fmul_rn(x, pen.repetition);
    if (n > 0) x = __fsub_rn(x, __fadd_rn(pen.presence, __fmul_rn(pen.frequency, (float)n)));
    return logit >= -FLT_MAX ? sane(x) : -INFINITY;
}

/* The row's mask; NULL: none. */
LF_GPU_FN const uint32_t *mask_of(const lf_sample_row &row, const lf_sample_params &p)
{
    return row.mask < 0 ? nullptr : p.masks + (size_t)row.mask * ((p.n_vocab + 31) / 32);
}

/* Logits as they are drawn from, into values. The lanes of a warp have the ids of one word of the mask. Returns the
 * largest candidate (with -0 as 0) and sets max, low and the least candidate. A NaN or +inf counts as the largest rank
 * there is, whose logit is a NaN: so max says to the whole cluster that the row is not to be drawn from. */
LF_GPU_FN uint64_t prepare(row_work &r, const penalties &pen, const uint32_t *mask, uint64_t *least)
{
    uint64_t best = 0, inverse_least = 0;
    float low = INFINITY;
    visit_part(r, r.logits + r.base, [&](int id, float raw) {
        float x = sane(raw);
        uint32_t count = count_of(pen, id);
        if (count != 0) x = penalized(x, count, pen);
        if (mask && !(mask[id / 32] >> id % 32 & 1)) x = -INFINITY;
        r.values[id - r.base] = x;
        best = reduce_max::of(best, raw <= FLT_MAX ? rank_of(x, id, true) : ~0ull);
        inverse_least = reduce_max::of(inverse_least, ~rank_of(x, id, false));
        if (x >= -FLT_MAX && x < low) low = x;
    });
    uint64_t inverse_low = ~rank_of(low, 0, false);
    best = reduce_warp<reduce_max>(best);
    inverse_least = reduce_warp<reduce_max>(inverse_least);
    inverse_low = reduce_warp<reduce_max>(inverse_low);
    if (threadIdx.x % WARP == 0) {
        uint64_t *part = r.s->warp_part[threadIdx.x / WARP];
        r.s->best[threadIdx.x / WARP] = best;
        part[0] = best;
        part[1] = inverse_least;
        part[2] = inverse_low;
    }
    reduce_cluster<reduce_max, 3>(r);
    r.max = logit_of(r.s->total[0]);
    r.low = logit_of(~r.s->total[2]);
    *least = ~r.s->total[1];
    return r.s->total[0];
}

/* ---- cuts ---- */

/* What a cut is looked for in: the candidates least .. most, measured by their P or counted. */
struct cut_query {
    bool by_prob, bare_zero;
    bool few;  /* least is near the cut: what lies in between may fit the list */
    float low; /* about the least logit in question: where the first splits end */
    uint64_t least, most;
    uint64_t target; /* the cut is the first candidate, in falling order, with which the measure reaches it */
};

LF_GPU_FN uint64_t measure_of(const row_work &r, const cut_query &q, float x)
{
    return q.by_prob ? fixed_of(prob_of(x, r.max, r.inv_t)) : 1;
}

/* Candidates lo .. hi of the cluster, into the leader's list: as many as it has room for. Returns their number, or
 * one past the room. */
LF_GPU_FN unsigned gather(row_work &r, bool bare_zero, uint64_t lo, uint64_t hi)
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
LF_GPU_FN unsigned sort_list(sample_shared *s)
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

LF_GPU_FN uint64_t running_sum(uint64_t x)
{
    return warp_scan(x, reduce_sum::of);
}

/* Running sums of a list, up to the first and up to the second of the thread's two entries. */
struct running {
    uint64_t one, two;
};

/* Of the block's list of n entries. The total is then list_total(). */
template <class M> LF_GPU_FN running scan_list(sample_shared *s, unsigned n, M measure)
{
    unsigned i = 2 * threadIdx.x, warp = threadIdx.x / WARP;
    uint64_t second = i + 1 < n ? measure(s->list[i + 1]) : 0;
    uint64_t sum = running_sum((i < n ? measure(s->list[i]) : 0) + second);
    __syncthreads();
    if (threadIdx.x % WARP == WARP - 1) s->warp_part[warp][0] = sum;
    __syncthreads();
    for (unsigned w = 0; w < warp; w++) sum += s->warp_part[w][0];
    return {sum - second, sum};
}

LF_GPU_FN uint64_t list_total(const sample_shared *s)
{
    uint64_t total = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) total += s->warp_part[w][0];
    return total;
}

/* The first of n entries for which one of the thread's two flags is set; n - 1 where none is. */
LF_GPU_FN unsigned first_in_list(sample_shared *s, unsigned n, bool one, bool two)
{
    unsigned i = 2 * threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) s->found = n - 1;
    __syncthreads();
    if ((one && i < n) || (two && i + 1 < n)) atomicMin(&s->found, one ? i : i + 1);
    __syncthreads();
    return s->found;
}

/* The first entry of the leader's list, which it sorts, with which above plus the measure reaches the target. */
LF_GPU_FN void search_list(row_work &r, const cut_query &q, uint64_t above)
{
    (void)sort_list(r.s);
    running sums = scan_list(r.s, r.s->n_list, [&](uint64_t rank) { return measure_of(r, q, logit_of(rank)); });
    unsigned at = first_in_list(r.s, r.s->n_list, above + sums.one >= q.target, above + sums.two >= q.target);
    if (threadIdx.x == 0) r.s->answer = r.s->list[at];
}

LF_GPU_FN void make_splits(uint64_t split[SPLITS], float max, float low, uint64_t lo, uint64_t hi, bool first)
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
LF_GPU_FN void measure_splits(row_work &r, const cut_query &q, const uint64_t split[SPLITS], uint64_t lo, uint64_t hi)
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
    store_eight_sums(r.s, sums);
    n = __reduce_add_sync(ALL_LANES, n);
    if (threadIdx.x % WARP == 0) r.s->warp_part[threadIdx.x / WARP][SPLITS] = n;
    reduce_cluster<reduce_sum, SPLITS + 1>(r);
}

/* *is_top: the leader's sorted list then begins with the largest candidate of all. */
LF_GPU_FN uint64_t find_cut(row_work &r, const cut_query &q, bool *is_top)
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
        few = total[SPLITS] <= (SPLITS + 1) * LIST; /* about what the narrower interval holds */
    }
    if (cluster_ctarank() == 0) search_list(r, q, above);
    barrier_cluster();
    *is_top = hi == q.most;
    return *mapa(&r.s->answer, 0);
}

/* A candidate below which the k-th largest cannot be: the k-th of the warps' largest. 0 where there are too few. */
LF_GPU_FN uint64_t least_of_largest(row_work &r, int k)
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
LF_GPU_FN uint64_t count_cut(row_work &r, int k, bool bare_zero, uint64_t least, uint64_t most, bool *is_top)
{
    uint64_t bound = least_of_largest(r, k);
    /* A warp's largest counts -0 as 0; where that is not wanted, zeros of either sign are let in. */
    if (!bare_zero && logit_of(bound) == 0.0f) bound = rank_of(-0.0f, -1, false);
    bool few = bound != 0;
    return find_cut(r, {false, bare_zero, few, r.low, few ? bound : least, most, (uint64_t)k}, is_top);
}

/* Makes the leader's list begin with the k largest in falling order. */
LF_GPU_FN void list_largest(row_work &r, int k, bool bare_zero, uint64_t least, uint64_t most)
{
    bool is_top;
    uint64_t cut = count_cut(r, k, bare_zero, least, most, &is_top);
    if (is_top) return;
    (void)gather(r, bare_zero, cut, most);
    if (cluster_ctarank() == 0) (void)sort_list(r.s);
    barrier_cluster();
}

/* ---- the row ---- */

/* Natural log of Σ e^x. */
LF_GPU_FN double log_sum_exp(row_work &r)
{
    if (!(r.max >= -FLT_MAX)) return (double)-INFINITY;
    uint64_t sum = 0;
    visit_logits(r, [&](int, float x) { sum += fixed_of(prob_of(x, r.max, 1.0f)); });
    return (double)r.max + log((double)sum_cluster(r, sum) / (double)PROB_ONE);
}

/* From the leader's list, but for what is -inf: it cannot come. */
LF_GPU_FN void write_top(const row_work &r, lf_sampled *out, int n_top, double lse)
{
    if (cluster_ctarank() != 0) return;
    bool listed = (int)threadIdx.x < n_top && logit_of(r.s->list[threadIdx.x]) >= -FLT_MAX;
    int n_listed = __syncthreads_count(listed);
    if (threadIdx.x == 0) out->n_top = n_listed;
    if (!listed) return;
    uint64_t rank = r.s->list[threadIdx.x];
    out->top_ids[threadIdx.x] = id_of(rank);
    out->top_logprobs[threadIdx.x] = floored((double)logit_of(rank) - lse);
}

/* The leader's list begins with the k largest and more, -0 taken as 0. Whether its first k are also what top_k keeps,
 * to which -0 is less than 0: they are unless the last of them is a zero. */
LF_GPU_FN bool list_serves(row_work &r, int k)
{
    bool serves = logit_of(mapa(r.s->list, 0)[k - 1]) != 0.0f;
    barrier_cluster(); /* before the leader changes its list */
    return serves;
}

/* How many candidates come before id, and one. In all threads. */
LF_GPU_FN int place_of(row_work &r, int given)
{
    uint64_t its = rank_of(sane(r.logits[given]), given, true), n_before = 0;
    visit_logits(r, [&](int id, float x) { n_before += rank_of(x, id, true) > its; });
    return (int)sum_cluster(r, n_before) + 1;
}

/* A logit that top_p cannot reach down to, or -inf: as many candidates as there are, weighing what it weighs, make no
 * more than the part of the sum that is cut off. */
LF_GPU_FN float low_of_top_p(const row_work &r, float top_p, double sum)
{
    double cut_off = (1.0 - fmax((double)top_p, 0.0)) * sum * 0.99;
    float low = r.max + (float)log(cut_off / (double)PROB_ONE / r.n_vocab) / r.inv_t;
    bool holds = low < r.max && (double)fixed_of(prob_of(low, r.max, r.inv_t)) * r.n_vocab <= cut_off;
    return holds ? low : -INFINITY;
}

/* The least candidate that top_k and top_p leave. */
LF_GPU_FN uint64_t cut_of(row_work &r, const lf_sample_row &row, uint64_t least, uint64_t most)
{
    uint64_t cut = least;
    bool is_top;
    if (row.top_k > 0 && row.top_k < r.n_vocab) cut = count_cut(r, row.top_k, false, least, most, &is_top);
    if (!(row.top_p < 1.0f)) return cut;
    uint64_t part = 0;
    visit_logits(r, [&](int id, float x) {
        if (rank_of(x, id, false) >= cut) part += fixed_of(prob_of(x, r.max, r.inv_t));
    });
    double sum = (double)sum_cluster(r, part), target = ceil((double)row.top_p * sum);
    cut_query q = {true, false, false, r.low, cut, most, target > 1.0 ? (uint64_t)target : 1};
    float low = low_of_top_p(r, row.top_p, sum);
    if (low > r.low) q.low = low;
    q.least = reduce_max::of(cut, rank_of(low, -1, false));
    return find_cut(r, q, &is_top);
}

struct drawn {
    int id; /* -1 in all threads but one of the cluster */
    float logit;
};

/* What is left to draw from. */
struct urn {
    uint64_t cut;
    float floor; /* of P */
};

LF_GPU_FN uint64_t mass_of(const row_work &r, const urn &u, int id, float x)
{
    if (rank_of(x, id, false) < u.cut) return 0;
    float prob = prob_of(x, r.max, r.inv_t);
    return prob >= u.floor ? fixed_of(prob) : 0;
}

/* The lane of this warp at which the running sum of mine, begun at *below, passes target; -1: none does, and *below has
 * grown by all of them. Else *below is what lies before that lane. */
LF_GPU_FN int pass_lane(uint64_t mine, uint64_t target, uint64_t *below)
{
    uint64_t running = *below + running_sum(mine);
    unsigned passed = __ballot_sync(ALL_LANES, running > target);
    int lane = __ffs(passed) - 1;
    *below = __shfl_sync(ALL_LANES, running - (passed ? mine : 0), passed ? lane : WARP - 1);
    return lane;
}

/* The warp's segment in 32 parts, one a lane; then the part in which the target lies, 32 ids at a time. */
LF_GPU_FN drawn walk(const row_work &r, const urn &u, uint64_t target, uint64_t below)
{
    int lane = threadIdx.x % WARP, part = (r.end - r.first + WARP - 1) / WARP;
    uint64_t mine = 0;
    int first = min(r.end, r.first + lane * part), end = min(r.end, first + part);
#pragma unroll 8
    for (int id = first; id < end; id++) mine += mass_of(r, u, id, r.values[id - r.base]);
    int of = pass_lane(mine, target, &below);
    first = __shfl_sync(ALL_LANES, first, of);
    end = __shfl_sync(ALL_LANES, end, of);
    for (int base = first; base < end; base += WARP) {
        int id = base + lane;
        float x = id < end ? r.values[id - r.base] : 0.0f;
        int at = pass_lane(id < end ? mass_of(r, u, id, x) : 0, target, &below);
        if (at >= 0) return {lane == at ? id : -1, x};
    }
    return {-1, 0.0f};
}

/* A share of the total: random's upper 53 bits as a fraction of 1. */
LF_GPU_FN uint64_t share_of(uint64_t total, uint64_t random)
{
    uint64_t share = random >> 11;
    return __umul64hi(share, total) << 11 | (share * total) >> 53;
}

LF_GPU_FN uint64_t halves_swapped(uint64_t x)
{
    return x << 32 | x >> 32;
}

/* As draw(), from the first k of the leader's list, by the leader alone. Its order is that of falling P: what
 * top_p and min_p keep is a beginning of it. */
LF_GPU_FN drawn draw_from_list(row_work &r, const lf_sample_row &row, unsigned k, uint64_t random)
{
    sample_shared *s = r.s;
    unsigned n = k, i = 2 * threadIdx.x;
    auto prob = [&](uint64_t rank) { return prob_of(logit_of(rank), r.max, r.inv_t); };
    if (row.top_p < 1.0f) {
        running sums = scan_list(s, n, [&](uint64_t rank) { return fixed_of(prob(rank)); });
        double target = fmax(1.0, ceil((double)row.top_p * (double)list_total(s)));
        n = first_in_list(s, n, (double)sums.one >= target, (double)sums.two >= target) + 1;
    }
    if (row.min_p > 0.0f) {
        float floor = fminf(row.min_p, 1.0f);
        bool one = i < n && prob(s->list[i]) < floor, two = i + 1 < n && prob(s->list[i + 1]) < floor;
        if (__syncthreads_or(one || two)) n = first_in_list(s, n, one, two); /* the largest weighs 1 */
    }
    for (unsigned at = threadIdx.x; at < n; at += THREADS) s->list[at] = halves_swapped(s->list[at]); /* ids lead */
    if (threadIdx.x == 0) s->n_list = n;
    __syncthreads();
    (void)sort_list(s);
    running sums = scan_list(s, n, [&](uint64_t swapped) { return fixed_of(prob(halves_swapped(swapped))); });
    uint64_t target = share_of(list_total(s), random);
    uint64_t rank = halves_swapped(s->list[first_in_list(s, n, sums.one > target, sums.two > target)]);
    return {threadIdx.x == 0 ? id_of(rank) : -1, logit_of(rank)};
}

/* The first id at which the running sum of P passes the drawn share of the total. */
LF_GPU_FN drawn draw(row_work &r, const urn &u, uint64_t random)
{
    sample_shared *s = r.s;
    unsigned warp = threadIdx.x / WARP;
    uint64_t sum = 0;
    visit_logits(r, [&](int id, float x) { sum += mass_of(r, u, id, x); });
    sum = reduce_warp<reduce_sum>(sum);
    if (threadIdx.x % WARP == 0) s->warp_part[warp][0] = sum;
    const uint64_t *part = s->part[r.turn];
    reduce_cluster<reduce_sum, 1>(r);
    uint64_t target = share_of(s->total[0], random), below = 0;
#pragma unroll
    for (unsigned b = 0; b < BLOCKS; b++) below += b < cluster_ctarank() ? *mapa(part, b) : 0;
#pragma unroll
    for (unsigned w = 0; w < WARPS; w++) below += w < warp ? s->warp_part[w][0] : 0;
    if (target < below || target >= below + sum) return {-1, 0.0f};
    return walk(r, u, target, below);
}

LF_GPU_FN drawn draw_row(row_work &r, const lf_sample_row &row, bool listed, uint64_t least, uint64_t most)
{
    uint64_t random = lf_random64(row.seed, row.position);
    r.inv_t = __fdiv_rn(1.0f, row.temperature);
    if (row.top_k > 0 && row.top_k < r.n_vocab && row.top_k <= LIST) {
        if (!listed || !list_serves(r, row.top_k)) list_largest(r, row.top_k, false, least, most);
        if (cluster_ctarank() != 0) return {-1, 0.0f};
        return draw_from_list(r, row, (unsigned)row.top_k, random);
    }
    uint64_t cut = cut_of(r, row, least, most);
    return draw(r, {cut, row.min_p > 0.0f ? fminf(row.min_p, 1.0f) : 0.0f}, random);
}

/* No token can be drawn. The next step may embed one all the same, which nobody reads. */
LF_GPU_FN void write_none(const lf_sample_params &p, int row_idx)
{
    p.ids_out[row_idx] = 0;
    p.out[row_idx].id = LF_SAMPLED_NONE;
    p.out[row_idx].logprob = 0.0f;
    p.out[row_idx].n_top = 0;
}

LF_GPU_FN void sample_row(row_work &r, const lf_sample_row &row, const lf_sample_params &p, int row_idx)
{
    uint64_t least;
    double lse = 0.0;
    apply_bias_and_bans(r, row, p);
    uint64_t most = prepare(r, penalties_of(row, p), mask_of(row, p), &least);
    bool leads = cluster_ctarank() == 0 && threadIdx.x == 0;
    if (!(r.max >= -FLT_MAX)) {
        if (leads) write_none(p, row_idx);
        return;
    }
    bool draws = row.given < 0 && row.temperature >= GREEDY_TEMPERATURE;
    int n_top = min(min(row.n_logprobs, (int)LF_TOP_LOGPROBS_N), r.n_vocab), n_listed = 0;
    if (row.n_logprobs >= 0) lse = log_sum_exp(r);
    if (n_top > 0) {
        bool both = draws && row.top_k < r.n_vocab && row.top_k <= BLOCKS * WARPS;
        n_listed = both ? max(n_top, row.top_k) : n_top;
        list_largest(r, n_listed, true, least, most);
    }
    if (row.n_logprobs >= 0) write_top(r, p.out + row_idx, n_top, lse);
    drawn d = {leads ? id_of(most) : -1, r.max};
    if (row.given >= 0) {
        int place = place_of(r, row.given);
        if (leads) p.out[row_idx].rank = place;
        d = {leads ? row.given : -1, sane(r.logits[row.given])};
    }
    if (draws) d = draw_row(r, row, row.top_k <= n_listed, least, most);
    if (d.id < 0) return;
    p.ids_out[row_idx] = d.id;
    p.out[row_idx].id = d.id;
    if (row.n_logprobs >= 0) p.out[row_idx].logprob = floored((double)d.logit - lse);
    if (row.slot >= 0 && row.is_tried == 0) p.counts[(size_t)row.slot * p.n_vocab + d.id]++;
}

/* Ids of a warp's segment. */
LF_GPU_HOST_FN int segment_of(int n_vocab, int n_blocks)
{
    int n_lanes = n_blocks * WARPS * WARP;
    return (n_vocab + n_lanes - 1) / n_lanes * WARP;
}

struct sample_place {
    bool is_local; /* a block's logits have room in its shared memory */
};

__global__ void __launch_bounds__(THREADS)
    sample(const __grid_constant__ lf_sample_params p, const __grid_constant__ sample_place place)
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
    r.values = place.is_local ? local : r.logits + r.base;
    r.first = min(p.n_vocab, r.base + (int)threadIdx.x / WARP * segment);
    r.end = min(p.n_vocab, r.first + segment);
    sample_row(r, row, p, row_idx);
    barrier_cluster(); /* nobody leaves whose shared memory may still be read */
}

/* ---- token counts ---- */

__global__ void __launch_bounds__(THREADS) clear_counts(const lf_sample_counts_params p)
{
    start_successor();
    wait_predecessor();
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < p.n_vocab; i += gridDim.x * THREADS) p.counts[i] = 0;
}

__global__ void __launch_bounds__(THREADS) set_counts(const lf_sample_counts_params p)
{
    int first = blockIdx.x * THREADS + threadIdx.x, step = gridDim.x * THREADS;
    start_successor();
    wait_predecessor();
    for (int i = first; i < p.n_prompt; i += step)
        if (p.prompt[i] >= 0 && p.prompt[i] < p.n_vocab) atomicOr(p.counts + p.prompt[i], COUNT_IN_PROMPT);
    for (int i = first; i < p.n_output; i += step)
        if (p.output[i] >= 0 && p.output[i] < p.n_vocab) atomicAdd(p.counts + p.output[i], 1);
}

/* ---- launching ---- */

int lf_cuda_sample_setup(void)
{
    int rc = load_kernel(sample, LOCAL_BYTES);
    return rc == 0 ? load_kernels(clear_counts, set_counts) : rc;
}

int lf_cuda_sample(const struct lf_sample_params *p, struct lf_cuda_launch how)
{
    if (p->n_rows == 0) return 0;
    unsigned blocks = how.overlaps ? BLOCKS : 1; /* sm_90 has both */
    size_t local_bytes = (size_t)segment_of(p->n_vocab, (int)blocks) * WARPS * sizeof(float);
    bool is_local = local_bytes <= LOCAL_BYTES;
    sample_place place = {is_local};
    launch_shape shape = {(unsigned)p->n_rows * blocks, THREADS, is_local ? local_bytes : 0, blocks};
    return queue_kernel(sample, shape, how, *p, place);
}

/* For n counts: further ones in strides of the grid. */
static launch_shape counts_shape(int n)
{
    const unsigned most = 256;
    return {max(1u, min(blocks_for(n, THREADS), most)), THREADS};
}

int lf_cuda_sample_counts(const struct lf_sample_counts_params *p, struct lf_cuda_launch how)
{
    int n = p->n_prompt > p->n_output ? p->n_prompt : p->n_output;
    int rc = p->adds ? 0 : queue_kernel(clear_counts, counts_shape(p->n_vocab), how, *p);
    return rc != 0 || n == 0 ? rc : queue_kernel(set_counts, counts_shape(n), how, *p);
}
