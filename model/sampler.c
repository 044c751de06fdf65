/* Sampling without sorting.
 *
 * Idea. top_k, top_p and min_p each keep a prefix of the candidates in order of falling logit (the lower id first among
 * equals). So a filter is a cut at one logit, found by radix selection: the bits of a float, made monotone, are read in
 * three digits, and for each digit a histogram of counts (top_k) or of probability (top_p) says in which bucket the cut
 * lies. Candidates stay in order of their ids throughout; the draw walks them once. A vocabulary of 150,000 costs a few
 * linear passes whatever the parameters are. Under a mask the candidates are what it allows, gathered first: a token
 * that is forced costs one exponential and not one for each of the vocabulary.
 *
 * A row with a NaN or +inf in it, even where a mask lies over it, comes from broken weights or arithmetic: no
 * token is drawn from it. Sums with biases and penalties stay within the largest float, so no NaN arises. P is e^((x -
 * max) / temperature), the probabilities before they are divided by their sum; sums are double. */
#include "model/sampler.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/check.h"
#include "core/mix.h"

enum {
    DIGIT_BITS = 11,
    N_BUCKETS = 1 << DIGIT_BITS,
    EXP_LANES = 16,
    SUM_LANES = 8,
    SUM_BLOCK = 1024,
    SIEVE_BLOCK = 64
};

/* What a JSON number can hold where a probability is 0; the value clients of the API expect. */
#define LOGPROB_FLOOR (-9999.0f)
/* Below this a temperature is 0. */
#define GREEDY_TEMPERATURE 1e-5f

/* The caller's scratch: two words an id. The counts of the penalties and the ids of the candidates are never alive at
 * the same time. */
struct scratch {
    uint32_t *counts; /* bit 31: in the prompt; below: how often in the output */
    int32_t *ids;     /* of the candidates, ascending */
    float *probs;     /* of the candidates */
};

/* Candidates of the draw; logits and ids in step, ids ascending. */
struct candidates {
    float *logits;
    int32_t *ids;
    float *probs;
    int n;
};

#define COUNT_IN_PROMPT 0x80000000u

size_t lf_sampler_scratch_bytes(int n_vocab)
{
    return (size_t)n_vocab * (sizeof(uint32_t) + sizeof(float));
}

static struct scratch cut_scratch(void *scratch, int n_vocab)
{
    return (struct scratch){.counts = scratch, .ids = scratch, .probs = (float *)scratch + n_vocab};
}

static float sane(float x)
{
    if (!(x >= -FLT_MAX)) return -INFINITY; /* NaN too */
    return x > FLT_MAX ? FLT_MAX : x;
}

/* e^x for x <= 0: 2^n · 2^f with |f| <= 1/2, the latter by a polynomial (relative error under 2e-7). Where n would pass
 * the range of the exponent, 2^n becomes 0: below -88, -inf included. */
static void exp_lanes(float out[EXP_LANES], const float x[EXP_LANES])
{
    for (int i = 0; i < EXP_LANES; i++) {
        const float magic = 12582912.0f; /* 1.5 · 2^23: adding it rounds to a whole number */
        float t = (x[i] > -88.1f ? x[i] : -88.1f) * 1.44269504f;
        float whole = (t + magic) - magic, f = t - whole;
        float p = 1.5403530e-4f;
        p = p * f + 1.3333558e-3f;
        p = p * f + 9.6181291e-3f;
        p = p * f + 5.5504109e-2f;
        p = p * f + 2.4022651e-1f;
        p = p * f + 6.9314718e-1f;
        p = p * f + 1.0f;
        uint32_t bits = (uint32_t)((int32_t)whole + 127) << 23;
        float scale;
        memcpy(&scale, &bits, sizeof(scale));
        out[i] = p * scale;
    }
}

/* Σ e^((x[i] - max) · inv_t); the terms go to probs where that is not NULL. max is finite and no less than any x. */
static double sum_exp(const float *x, int n, float max, float inv_t, float *probs)
{
    double sum = 0;
    for (int first = 0; first < n; first += EXP_LANES) {
        int m = LF_MIN(EXP_LANES, n - first);
        float in[EXP_LANES], out[EXP_LANES];
        for (int i = 0; i < m; i++) in[i] = (x[first + i] - max) * inv_t;
        for (int i = m; i < EXP_LANES; i++) in[i] = -INFINITY;
        exp_lanes(out, in);
        float part = 0;
        for (int i = 0; i < EXP_LANES; i++) part += out[i];
        sum += (double)part;
        if (probs) memcpy(probs + first, out, (size_t)m * sizeof(float));
    }
    return sum;
}

/* The index of the largest, the lowest among equals. No NaN. */
static int argmax(const float *x, int n)
{
    float lanes[EXP_LANES], max = x[0];
    int i = 0;
    for (int j = 0; j < EXP_LANES; j++) lanes[j] = x[0];
    for (; i + EXP_LANES <= n; i += EXP_LANES) {
        for (int j = 0; j < EXP_LANES; j++) lanes[j] = x[i + j] > lanes[j] ? x[i + j] : lanes[j];
    }
    for (; i < n; i++) max = x[i] > max ? x[i] : max;
    for (int j = 0; j < EXP_LANES; j++) max = lanes[j] > max ? lanes[j] : max;
    for (i = 0; i < n - 1 && x[i] < max; i++) continue;
    return i;
}

static float floored(double logprob)
{
    return logprob >= (double)LOGPROB_FLOOR ? (float)logprob : LOGPROB_FLOOR;
}

/* The n_top largest logits, by insertion into a short list: past its start almost no candidate gets in. What is -inf
 * cannot come, and is not listed. */
static void find_top(struct lf_sampled *out, const float *logits, int n, int n_top, double lse)
{
    float values[LF_TOP_LOGPROBS_N];
    int len = 0;
    n_top = LF_MIN(LF_MIN(n_top, n), (int)LF_TOP_LOGPROBS_N);
    for (int id = 0; id < n && n_top > 0; id++) {
        if (len == n_top ? !(logits[id] > values[len - 1]) : !(logits[id] >= -FLT_MAX)) continue;
        int at = len < n_top ? len++ : len - 1;
        for (; at > 0 && logits[id] > values[at - 1]; at--) {
            values[at] = values[at - 1];
            out->top_ids[at] = out->top_ids[at - 1];
        }
        values[at] = logits[id];
        out->top_ids[at] = id;
    }
    for (int i = 0; i < len; i++) out->top_logprobs[i] = floored((double)values[i] - lse);
    out->n_top = len;
}

/* Natural log of Σ e^x. -inf where nothing is possible. */
static double log_sum_exp(const float *logits, int n)
{
    float max = logits[argmax(logits, n)];
    if (!(max >= -FLT_MAX)) return (double)-INFINITY;
    return (double)max + log(sum_exp(logits, n, max, 1.0f, NULL));
}

/* Whether all are numbers, or -inf. */
static bool are_numbers(const float *logits, int n)
{
    int n_others = 0; /* no branch, so that it runs in lanes */
    for (int i = 0; i < n; i++) n_others += !(logits[i] <= FLT_MAX);
    return n_others == 0;
}

static void apply_bias(const struct lf_sampling *params, const struct lf_sample_input *in)
{
    for (int i = 0; i < params->n_bias; i++) {
        int32_t id = params->bias[i].id;
        if (id < 0 || id >= in->n_vocab || !(in->logits[id] <= FLT_MAX)) continue; /* what is no number stays none */
        in->logits[id] = sane(in->logits[id] + params->bias[i].bias);
    }
    for (int i = 0; i < in->n_banned; i++) {
        int32_t id = in->banned[i];
        if (id >= 0 && id < in->n_vocab) in->logits[id] = -INFINITY;
    }
}

/* The candidates that a mask lets through, in place: what follows costs as much as there are of them, and finds them as
 * if the vocabulary had no others. Words of all ones, of which masks mostly consist where much may come, go as they
 * are.
 */
static int keep_allowed(float *logits, int32_t *ids, const uint32_t *mask, int n_vocab)
{
    int n = 0;
    for (int first = 0; first < n_vocab; first += 32) {
        uint32_t word = mask[first / 32];
        if (n_vocab - first < 32) word &= (1u << (n_vocab - first)) - 1;
        if (word == UINT32_MAX) {
            memmove(logits + n, logits + first, 32 * sizeof *logits);
            for (int i = 0; i < 32; i++) ids[n + i] = first + i;
            n += 32;
            continue;
        }
        for (; word != 0; word &= word - 1) {
            int id = first + __builtin_ctz(word);
            logits[n] = logits[id];
            ids[n++] = id;
        }
    }
    return n;
}

/* Repetition: a logit of any token seen is divided where positive, multiplied where negative (Keskar et al. 2019).
 * Presence and frequency: subtracted for tokens of the output, once and for each occurrence. */
static void apply_penalties(const struct lf_sampling *params, const struct lf_sample_input *in, uint32_t *counts)
{
    float r = params->repetition_penalty;
    bool repeats = r < 1.0f || r > 1.0f;
    bool subtracts = fabsf(params->presence_penalty) > 0 || fabsf(params->frequency_penalty) > 0;
    if (!repeats && !subtracts) return;
    memset(counts, 0, (size_t)in->n_vocab * sizeof(*counts));
    for (int i = 0; i < in->n_prompt && repeats; i++) {
        if (in->prompt[i] >= 0 && in->prompt[i] < in->n_vocab) counts[in->prompt[i]] = COUNT_IN_PROMPT;
    }
    for (int i = 0; i < in->n_output; i++) {
        if (in->output[i] >= 0 && in->output[i] < in->n_vocab) counts[in->output[i]]++;
    }
    for (int id = 0; id < in->n_vocab; id++) {
        if (counts[id] == 0) continue;
        float x = in->logits[id];
        uint32_t n = counts[id] & ~COUNT_IN_PROMPT;
        if (repeats) x = x > 0 ? x / r : x * r;
        if (n > 0) x -= params->presence_penalty + params->frequency_penalty * (float)n;
        in->logits[id] = in->logits[id] >= -FLT_MAX ? sane(x) : -INFINITY;
    }
}

/* The bits of a float as a number that rises with it. */
static uint32_t rising(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static uint32_t digit_of(uint32_t key, int level)
{
    static const int shift[] = {21, 10, 0};
    return key >> shift[level] & (level == 2 ? 0x3ffu : N_BUCKETS - 1u);
}

static uint32_t digits_above(uint32_t key, int level)
{
    return level == 0 ? 0 : key >> (level == 1 ? 21 : 10);
}

/* Where the shortest prefix in falling order ends whose measure (Σ probs, or the count where NULL) reaches target:
 * its last logit, and how many of those that equal it belong to it. */
struct cut {
    uint32_t key;
    int n_equal;
};

static struct cut find_cut(const struct candidates *c, const float *probs, double target)
{
    struct cut cut = {0, c->n};
    double above = 0; /* measure of what lies over the bucket in hand */
    uint32_t prefix = 0;
    for (int level = 0; level < 3; level++) {
        double sums[N_BUCKETS] = {0};
        for (int i = 0; i < c->n; i++) {
            uint32_t key = rising(c->logits[i]);
            if (digits_above(key, level) == prefix) sums[digit_of(key, level)] += probs ? (double)probs[i] : 1.0;
        }
        int b = N_BUCKETS - 1, last = 0;
        for (; b >= 0; b--) {
            if (sums[b] <= 0) continue;
            if (above + sums[b] >= target) break;
            above += sums[b];
            last = b;
        }
        if (b < 0) { /* rounding: the sum of all falls short of the target by an ulp */
            b = last;
            above -= sums[b];
        }
        prefix = prefix << (level == 2 ? 10 : DIGIT_BITS) | (uint32_t)b;
    }
    cut.key = prefix;
    int n_equal = 0;
    double each = 1;
    for (int i = 0; i < c->n; i++) {
        if (rising(c->logits[i]) != cut.key) continue;
        n_equal++;
        if (probs) each = (double)probs[i];
    }
    double n = each > 0 ? ceil((target - above) / each) : n_equal;
    cut.n_equal = n < 1 ? 1 : (n > n_equal ? n_equal : (int)n);
    return cut;
}

/* Drops what lies behind the cut; order stays. */
static void keep_prefix(struct candidates *c, struct cut cut)
{
    int n = 0;
    for (int i = 0; i < c->n; i++) {
        uint32_t key = rising(c->logits[i]);
        if (key < cut.key || (key == cut.key && cut.n_equal-- <= 0)) continue;
        c->logits[n] = c->logits[i];
        c->ids[n] = c->ids[i];
        c->probs[n] = c->probs[i];
        n++;
    }
    c->n = n;
}

/* Sum of up to SUM_BLOCK probabilities, in lanes. */
static double block_sum(const float *p, int n)
{
    double lanes[SUM_LANES] = {0}, sum = 0;
    int i = 0;
    for (; i + SUM_LANES <= n; i += SUM_LANES) {
        for (int j = 0; j < SUM_LANES; j++) lanes[j] += (double)p[i + j];
    }
    for (; i < n; i++) sum += (double)p[i];
    for (int j = 0; j < SUM_LANES; j++) sum += lanes[j];
    return sum;
}

static double total(const struct candidates *c)
{
    double sum = 0;
    for (int i = 0; i < c->n; i += SUM_BLOCK) sum += block_sum(c->probs + i, LF_MIN(SUM_BLOCK, c->n - i));
    return sum;
}

/* Drops candidates whose value (their logit or P) is below the floor. */
static void keep_from(struct candidates *c, const float *values, float floor)
{
    int n = 0;
    for (int i = 0; i < c->n; i++) { /* no branch: whether one stays is anyone's guess */
        bool stays = values[i] >= floor;
        c->logits[n] = c->logits[i];
        c->ids[n] = c->ids[i];
        c->probs[n] = c->probs[i];
        n += stays;
    }
    c->n = n;
}

/* The k largest. A first sieve makes the rest cheap: of the maxima of n / SIEVE_BLOCK blocks the k-th largest cannot be
 * more than the k-th largest of all, and few candidates pass it. */
static void keep_top_k(struct candidates *c, int k)
{
    int n_blocks = c->n / SIEVE_BLOCK;
    if (n_blocks > k) {
        struct candidates maxima = {.logits = c->probs, .n = n_blocks}; /* probs are not computed yet */
        for (int b = 0; b < n_blocks; b++) {
            const float *x = c->logits + (size_t)b * SIEVE_BLOCK;
            c->probs[b] = x[argmax(x, SIEVE_BLOCK)];
        }
        uint32_t key = find_cut(&maxima, NULL, k).key, bits = key & 0x80000000u ? key & ~0x80000000u : ~key;
        float floor;
        memcpy(&floor, &bits, sizeof(floor));
        keep_from(c, c->logits, floor);
    }
    keep_prefix(c, find_cut(c, NULL, k));
}

/* The least prefix whose Σ P reaches p of all. Candidates below (1 - p) · sum / n are behind it: all of them together
 * have no more than what is cut off. */
static void keep_top_p(struct candidates *c, double p)
{
    double sum = total(c);
    keep_from(c, c->probs, (float)((1 - p) * sum / c->n * 0.999));
    keep_prefix(c, find_cut(c, c->probs, p * sum));
}

/* Index of the candidate where the running sum of P passes u · total: first the block, then the index in it. */
static int draw(const struct candidates *c, uint64_t random)
{
    double target = (double)(random >> 11) * 0x1p-53 * total(c), sum = 0;
    int first = 0, last = 0;
    for (; first + SUM_BLOCK < c->n; first += SUM_BLOCK) {
        double block = block_sum(c->probs + first, SUM_BLOCK);
        if (sum + block > target) break;
        sum += block;
    }
    for (int i = first; i < c->n; i++) {
        if (!(c->probs[i] > 0)) continue;
        sum += (double)c->probs[i];
        if (sum > target) return i;
        last = i;
    }
    for (int i = first; i > 0 && last == 0; i--) { /* rounding: all of the rest is 0 */
        if (c->probs[i - 1] > 0) last = i - 1;
    }
    return last;
}

static int draw_from(struct candidates *c, const struct lf_sampling *params, float max, uint64_t position)
{
    if (params->top_k > 0 && params->top_k < c->n) keep_top_k(c, params->top_k);
    sum_exp(c->logits, c->n, max, 1.0f / params->temperature, c->probs);
    if (params->top_p < 1.0f) keep_top_p(c, (double)params->top_p);
    if (params->min_p > 0.0f) keep_from(c, c->probs, LF_MIN(params->min_p, 1.0f)); /* the largest P is 1 */
    return draw(c, lf_random64(params->seed, position));
}

void lf_sample(struct lf_sampled *out, const struct lf_sampling *params, const struct lf_sample_input *in,
               void *scratch)
{
    struct scratch s = cut_scratch(scratch, in->n_vocab);
    struct candidates c = {.logits = in->logits, .ids = s.ids, .probs = s.probs, .n = in->n_vocab};
    double lse = 0;
    LF_ASSERT(c.n > 0);
    *out = (struct lf_sampled){.id = LF_SAMPLED_NONE};
    apply_bias(params, in);
    if (!are_numbers(in->logits, c.n)) return;
    apply_penalties(params, in, s.counts);
    if (in->mask) c.n = keep_allowed(c.logits, c.ids, in->mask, c.n);
    if (c.n == 0) return;
    int at = argmax(c.logits, c.n);
    float max = c.logits[at];
    if (!(max >= -FLT_MAX)) return;
    out->id = in->mask ? c.ids[at] : at;
    if (params->n_logprobs >= 0) {
        lse = log_sum_exp(c.logits, c.n);
        find_top(out, c.logits, c.n, params->n_logprobs, lse);
        for (int i = 0; i < out->n_top && in->mask; i++) out->top_ids[i] = c.ids[out->top_ids[i]];
    }
    if (params->temperature >= GREEDY_TEMPERATURE) {
        for (int i = 0; i < c.n && !in->mask; i++) c.ids[i] = i;
        at = draw_from(&c, params, max, in->position);
        out->id = c.ids[at];
    }
    if (params->n_logprobs >= 0) out->logprob = floored((double)c.logits[at] - lse);
}

/* How many come before id in the order in which find_top lists them, and one. No branch, so that it runs in lanes. */
static int rank_of(const float *logits, int n, int32_t id)
{
    float x = logits[id];
    int n_before = 0;
    for (int i = 0; i < id; i++) n_before += logits[i] >= x;
    for (int i = id + 1; i < n; i++) n_before += logits[i] > x;
    return n_before + 1;
}

void lf_logprobs(struct lf_sampled *out, const float *logits, int n_vocab, int32_t id, int n_top, void *scratch)
{
    float *copy = scratch;
    LF_ASSERT(id >= 0 && id < n_vocab);
    *out = (struct lf_sampled){.id = LF_SAMPLED_NONE};
    if (!are_numbers(logits, n_vocab) || !(logits[argmax(logits, n_vocab)] >= -FLT_MAX)) return;
    memcpy(copy, logits, (size_t)n_vocab * sizeof(*copy));
    double lse = log_sum_exp(copy, n_vocab);
    out->id = id;
    out->logprob = floored((double)copy[id] - lse);
    out->rank = rank_of(copy, n_vocab, id);
    find_top(out, copy, n_vocab, n_top, lse);
}
