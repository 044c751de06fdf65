#include <float.h>
#include <math.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/mix.h"
#include "model/sampler.h"
#include "tests/support/test.h"

enum { SMALL = 20, MEDIUM = 60, N_DRAWS = 12000, LARGE = 151936 };

/* What a test asks for, with the defaults of the API, and a copy of the logits for each call. */
struct bench {
    struct lf_sampling params;
    struct lf_sample_input in;
    float logits[MEDIUM];
    float work[MEDIUM];
    uint64_t scratch[MEDIUM * 2];
};

static struct bench *bench_make(int n_vocab)
{
    struct bench *b = calloc(1, sizeof(*b));
    assert_true(lf_sampler_scratch_bytes(n_vocab) <= sizeof(b->scratch));
    b->params = (struct lf_sampling){.temperature = 1, .top_p = 1, .repetition_penalty = 1, .n_logprobs = -1};
    b->in.n_vocab = n_vocab;
    for (int i = 0; i < n_vocab; i++) b->logits[i] = (float)(lf_random64(3, (uint64_t)i) % 1000) / 150.0f;
    return b;
}

static struct lf_sampled sample(struct bench *b)
{
    struct lf_sampled out;
    memcpy(b->work, b->logits, sizeof(b->work));
    b->in.logits = b->work;
    lf_sample(&out, &b->params, &b->in, b->scratch);
    return out;
}

static struct lf_sampled sample_at(struct bench *b, uint64_t position)
{
    b->in.position = position;
    return sample(b);
}

/* The distribution that the parameters mean, by sorting: the textbook way. */
static void textbook(const struct bench *b, double p[MEDIUM])
{
    int order[MEDIUM], n = b->in.n_vocab;
    double w[MEDIUM], sum = 0, kept = 0;
    for (int i = 0; i < n; i++) {
        int at = i;
        for (; at > 0 && b->logits[i] > b->logits[order[at - 1]]; at--) order[at] = order[at - 1];
        order[at] = i;
        w[i] = exp((double)b->logits[i] / (double)b->params.temperature);
        p[i] = 0;
    }
    int k = b->params.top_k > 0 && b->params.top_k < n ? b->params.top_k : n;
    for (int i = 0; i < k; i++) sum += w[order[i]];
    double before = 0;
    for (int i = 0; i < k; i++) {
        bool in_top_p = i == 0 || before < (double)b->params.top_p * sum;
        if (in_top_p && w[order[i]] >= (double)b->params.min_p * w[order[0]]) p[order[i]] = w[order[i]];
        kept += p[order[i]];
        before += w[order[i]];
    }
    for (int i = 0; i < n; i++) p[i] /= kept;
}

/* Draws agree with the textbook distribution by a chi-square test, and nothing outside it is ever drawn. */
static void check_distribution(struct bench *b)
{
    double p[MEDIUM], chi = 0;
    int counts[MEDIUM] = {0}, n_cells = 0;
    textbook(b, p);
    for (int i = 0; i < N_DRAWS; i++) counts[sample_at(b, (uint64_t)i).id]++;
    for (int i = 0; i < b->in.n_vocab; i++) {
        double mean = p[i] * N_DRAWS;
        if (p[i] <= 0) assert_int_equal(counts[i], 0);
        if (mean < 5) continue;
        chi += (counts[i] - mean) * (counts[i] - mean) / mean;
        n_cells++;
    }
    /* the chi-square value passed once in 10^5 cases (Wilson & Hilferty 1931) */
    double n = n_cells > 1 ? n_cells - 1 : 1;
    assert_true(chi < n * pow(1 - 2 / (9 * n) + 4.3 * sqrt(2 / (9 * n)), 3));
}

static void draws_follow_the_distribution_of_every_combination_of_filters(void **state)
{
    (void)state;
    static const float temperatures[] = {1.0f, 0.6f, 2.0f}, top_ps[] = {1.0f, 0.9f, 0.3f}, min_ps[] = {0, 0.05f, 0.4f};
    static const int top_ks[] = {0, 7, 1};
    struct bench *b = bench_make(MEDIUM);
    for (int i = 0; i < 81; i++) {
        if (i % 2 == 1 && i % 9 != 0) continue; /* half of the grid */
        b->params.temperature = temperatures[i % 3];
        b->params.top_p = top_ps[i / 3 % 3];
        b->params.min_p = min_ps[i / 9 % 3];
        b->params.top_k = top_ks[i / 27];
        b->params.seed = (uint64_t)i;
        check_distribution(b);
    }
    free(b);
}

static void a_draw_depends_on_seed_and_position_only(void **state)
{
    (void)state;
    struct bench *b = bench_make(MEDIUM);
    int n_other_position = 0, n_other_seed = 0;
    for (uint64_t i = 0; i < 200; i++) {
        b->params.seed = 11;
        int32_t first = sample_at(b, i).id;
        assert_int_equal(sample_at(b, i).id, first);
        n_other_position += sample_at(b, i + 1000).id != first;
        b->params.seed = 12;
        n_other_seed += sample_at(b, i).id != first;
    }
    assert_true(n_other_position > 50 && n_other_seed > 50);
    free(b);
}

static void temperature_zero_takes_the_lowest_id_among_equals(void **state)
{
    (void)state;
    struct bench *b = bench_make(SMALL);
    b->params.temperature = 0;
    b->params.n_logprobs = 3;
    b->logits[4] = b->logits[9] = b->logits[17] = 50;
    struct lf_sampled s = sample(b);
    assert_int_equal(s.id, 4);
    assert_int_equal(s.n_top, 3);
    assert_int_equal(s.top_ids[0], 4);
    assert_int_equal(s.top_ids[1], 9);
    assert_int_equal(s.top_ids[2], 17);
    assert_true(fabs((double)s.logprob - log(1.0 / 3)) < 1e-5);
    free(b);
}

static void top_k_takes_the_lower_ids_among_equals(void **state)
{
    (void)state;
    struct bench *b = bench_make(SMALL);
    for (int i = 0; i < SMALL; i++) b->logits[i] = i % 2 ? 3 : -3;
    b->params.top_k = 4;
    bool seen[SMALL] = {false};
    for (uint64_t i = 0; i < 2000; i++) seen[sample_at(b, i).id] = true;
    for (int i = 0; i < SMALL; i++) assert_int_equal(seen[i], i % 2 == 1 && i < 8);
    free(b);
}

static void top_p_keeps_the_least_prefix_that_reaches_it(void **state)
{
    (void)state;
    struct bench *b = bench_make(4);
    const double p[] = {0.5, 0.25, 0.125, 0.125};
    static const struct {
        float top_p;
        int n_kept;
    } rows[] = {{0, 1}, {0.01f, 1}, {0.499f, 1}, {0.501f, 2}, {0.749f, 2}, {0.76f, 3}, {0.88f, 4}, {0.999f, 4}, {1, 4}};
    for (int i = 0; i < 4; i++) b->logits[3 - i] = (float)log(p[i]);
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        bool seen[4] = {false};
        int n = 0;
        b->params.top_p = rows[r].top_p;
        for (uint64_t i = 0; i < 500; i++) seen[sample_at(b, i).id] = true;
        for (int i = 0; i < 4; i++) n += seen[i];
        assert_int_equal(n, rows[r].n_kept);
        assert_true(seen[3]);
        /* of the two equal ones (ids 0 and 1) the lower id comes first */
        assert_true(rows[r].n_kept != 3 || (seen[0] && !seen[1]));
    }
    free(b);
}

static void log_probabilities_are_those_of_the_softmax_before_temperature(void **state)
{
    (void)state;
    struct bench *b = bench_make(SMALL);
    b->params.n_logprobs = SMALL;
    b->params.temperature = 0.3f;
    b->params.top_k = 2;
    double sum = 0;
    for (int i = 0; i < SMALL; i++) sum += exp((double)b->logits[i]);
    for (uint64_t at = 0; at < 50; at++) {
        struct lf_sampled s = sample_at(b, at);
        assert_int_equal(s.n_top, SMALL);
        assert_true(fabs((double)s.logprob - ((double)b->logits[s.id] - log(sum))) < 2e-6);
        for (int i = 0; i < SMALL; i++) {
            double want = (double)b->logits[s.top_ids[i]] - log(sum);
            assert_true(fabs((double)s.top_logprobs[i] - want) < 2e-6);
            assert_true(i == 0 || s.top_logprobs[i] <= s.top_logprobs[i - 1]);
        }
    }
    struct lf_sampled echoed;
    lf_logprobs(&echoed, b->logits, SMALL, 13, 4, b->scratch);
    assert_int_equal(echoed.id, 13);
    assert_int_equal(echoed.n_top, 4);
    assert_true(fabs((double)echoed.logprob - ((double)b->logits[13] - log(sum))) < 2e-6);
    free(b);
}

/* Ties, zeros of either sign and what cannot come included: the rank of an id is its place in the list of all. */
static void a_rank_is_the_place_in_the_list_of_the_likeliest(void **state)
{
    (void)state;
    struct bench *b = bench_make(SMALL);
    static const float some[] = {1.5f, 0.0f, -0.0f, -2.0f, 1.5f};
    for (int i = 0; i < SMALL; i++) b->logits[i] = some[i % 5] + (float)(i / 10);
    b->logits[7] = -INFINITY;
    for (int id = 0; id < SMALL; id++) {
        struct lf_sampled s;
        lf_logprobs(&s, b->logits, SMALL, id, SMALL, b->scratch);
        assert_int_equal(s.n_top, SMALL - 1);
        assert_int_equal(s.rank, id == 7 ? SMALL : s.rank);
        if (id != 7) assert_int_equal(s.top_ids[s.rank - 1], id);
    }
    free(b);
}

/* The formulas of transformers (repetition) and of the OpenAI API (presence, frequency), in this order. */
static void penalties_follow_their_formulas(void **state)
{
    (void)state;
    static const int32_t prompt[] = {1, 2, 3, 3}, output[] = {3, 5, 5, 5, 7};
    struct bench *b = bench_make(SMALL);
    for (int i = 0; i < SMALL; i++) b->logits[i] = i % 3 ? 0.5f * (float)i : -0.4f * (float)i;
    b->in.prompt = prompt;
    b->in.n_prompt = 4;
    b->in.output = output;
    b->in.n_output = 5;
    b->params.n_logprobs = SMALL;
    b->params.repetition_penalty = 1.3f;
    b->params.presence_penalty = 0.7f;
    b->params.frequency_penalty = 0.25f;
    b->params.n_bias = 2;
    b->params.bias[0] = (struct lf_logit_bias){5, 4.0f};
    b->params.bias[1] = (struct lf_logit_bias){11, -2.5f};
    double want[SMALL], sum = 0;
    for (int i = 0; i < SMALL; i++) {
        int n_prompt = 0, n_output = 0;
        for (int j = 0; j < 4; j++) n_prompt += prompt[j] == i;
        for (int j = 0; j < 5; j++) n_output += output[j] == i;
        want[i] = (double)b->logits[i] + (i == 5 ? 4.0 : 0) - (i == 11 ? 2.5 : 0);
        if (n_prompt + n_output) want[i] = want[i] > 0 ? want[i] / 1.3 : want[i] * 1.3;
        want[i] -= (n_output > 0 ? 0.7 : 0) + 0.25 * n_output;
        sum += exp(want[i]);
    }
    struct lf_sampled s = sample(b);
    for (int i = 0; i < SMALL; i++) {
        assert_true(fabs((double)s.top_logprobs[i] - (want[s.top_ids[i]] - log(sum))) < 1e-5);
    }
    free(b);
}

static void banned_tokens_are_never_drawn(void **state)
{
    (void)state;
    static const int32_t banned[] = {0, 2, 3, -1, 1000};
    struct bench *b = bench_make(5);
    for (int i = 0; i < 5; i++) b->logits[i] = i == 2 ? 90 : 1;
    b->in.banned = banned;
    b->in.n_banned = 5;
    for (uint64_t i = 0; i < 500; i++) {
        int32_t id = sample_at(b, i).id;
        assert_true(id == 1 || id == 4);
    }
    b->params.temperature = 0;
    assert_int_equal(sample(b).id, 1);
    free(b);
}

static void where_everything_is_banned_no_token_is_drawn(void **state)
{
    (void)state;
    static const int32_t banned[] = {0, 1, 2, 3};
    struct bench *b = bench_make(4);
    b->in.banned = banned;
    b->in.n_banned = 4;
    b->params.n_logprobs = 2;
    struct lf_sampled s = sample(b);
    assert_int_equal(s.id, LF_SAMPLED_NONE);
    assert_true(s.n_top == 0 && !(fabsf(s.logprob) > 0));
    b->in.n_banned = 3;
    assert_int_equal(sample(b).id, 3);
    free(b);
}

static void set_mask(uint32_t mask[2], const struct bench *b, int every, int first)
{
    mask[0] = mask[1] = 0;
    for (int i = first; i < b->in.n_vocab; i += every) mask[i / 32] |= 1u << i % 32;
}

/* What comes of a vocabulary that has just the tokens of a mask. */
static struct lf_sampled sample_small(const struct bench *b, const uint32_t mask[2], uint64_t position)
{
    struct bench small = *b;
    int32_t ids[MEDIUM];
    int n = 0;
    for (int i = 0; i < b->in.n_vocab; i++) {
        if (!(mask[i / 32] >> i % 32 & 1)) continue;
        small.logits[n] = b->logits[i];
        ids[n++] = i;
    }
    small.in.n_vocab = n;
    small.in.mask = NULL;
    struct lf_sampled s = sample_at(&small, position);
    s.id = ids[s.id];
    for (int i = 0; i < s.n_top; i++) s.top_ids[i] = ids[s.top_ids[i]];
    return s;
}

/* Sums of the same terms in another order. */
static void assert_same_but_for_rounding(const struct lf_sampled *got, const struct lf_sampled *want)
{
    assert_int_equal(got->id, want->id);
    assert_int_equal(got->n_top, want->n_top);
    assert_memory_equal(got->top_ids, want->top_ids, sizeof want->top_ids);
    assert_true(fabsf(got->logprob - want->logprob) < 1e-5f);
    for (int i = 0; i < want->n_top; i++) assert_true(fabsf(got->top_logprobs[i] - want->top_logprobs[i]) < 1e-5f);
}

/* As if the other tokens were not in the vocabulary, to the bit: draws, log-probabilities, and the list of the most
 * likely. And as if they could not come, which is how a GPU masks them. */
static void only_what_a_mask_allows_is_drawn_and_listed(void **state)
{
    (void)state;
    struct bench *b = bench_make(MEDIUM);
    uint32_t mask[2];
    float kept[MEDIUM];
    for (int every = 1; every <= 60; every += every < 4 ? 1 : 28) {
        for (int k = 0; k < 12; k++) {
            set_mask(mask, b, every, k % LF_MIN(every, 3));
            b->in.mask = mask;
            b->params.temperature = k % 2 == 0 ? 1.0f : 0.7f;
            b->params.top_k = k % 4 < 2 ? 0 : 10;
            b->params.top_p = k % 3 == 0 ? 1.0f : 0.8f;
            b->params.min_p = k % 6 == 5 ? 0.1f : 0;
            b->params.n_logprobs = 20;
            memcpy(kept, b->logits, sizeof kept);
            struct lf_sampled got[50], want;
            for (size_t i = 0; i < LF_N_ELEMS(got); i++) got[i] = sample_at(b, i);
            for (size_t i = 0; i < LF_N_ELEMS(got); i++) {
                want = sample_small(b, mask, i);
                assert_true(mask[got[i].id / 32] >> got[i].id % 32 & 1);
                assert_memory_equal(&got[i], &want, sizeof want);
            }
            for (int i = 0; i < MEDIUM; i++)
                if (!(mask[i / 32] >> i % 32 & 1)) b->logits[i] = -INFINITY;
            b->in.mask = NULL;
            for (size_t i = 0; i < LF_N_ELEMS(got); i++) {
                want = sample_at(b, i);
                assert_same_but_for_rounding(&got[i], &want);
                int n_allowed = __builtin_popcount(mask[0]) + __builtin_popcount(mask[1]);
                assert_int_equal(got[i].n_top, LF_MIN(n_allowed, 20));
                for (int t = 0; t < got[i].n_top; t++) assert_true(got[i].top_logprobs[t] > -100);
            }
            memcpy(b->logits, kept, sizeof kept);
        }
    }
    free(b);
}

static void a_mask_goes_with_biases_bans_and_penalties(void **state)
{
    (void)state;
    struct bench *b = bench_make(MEDIUM);
    uint32_t mask[2] = {1u << 3 | 1u << 5, 1u << 9};
    const int32_t banned[] = {5}, output[] = {41};
    b->in.mask = mask;
    b->params.temperature = 0;
    b->params.n_bias = 2;
    b->params.bias[0] = (struct lf_logit_bias){7, 100}; /* may not come, however likely */
    b->params.bias[1] = (struct lf_logit_bias){5, 50};
    assert_int_equal(sample(b).id, 5);
    b->in.banned = banned;
    b->in.n_banned = 1;
    b->logits[3] = 1;
    b->logits[41] = 2;
    assert_int_equal(sample(b).id, 41);
    b->in.output = output;
    b->in.n_output = 1;
    b->params.presence_penalty = 1.5f;
    b->params.n_logprobs = 5;
    struct lf_sampled s = sample(b);
    assert_true(s.id == 3 && s.n_top == 2 && s.top_ids[1] == 41);
    assert_true(fabs((double)s.logprob - (1 - log(exp(1) + exp(0.5)))) < 1e-5);
    mask[0] = mask[1] = 0;
    assert_int_equal(sample(b).id, LF_SAMPLED_NONE);
    mask[0] = 8;
    b->logits[20] = NAN; /* broken logits are seen under a mask, too */
    assert_int_equal(sample(b).id, LF_SAMPLED_NONE);
    free(b);
}

static void infinitely_unlikely_tokens_do_no_harm(void **state)
{
    (void)state;
    struct bench *b = bench_make(6);
    const float logits[] = {-INFINITY, -INFINITY, 1, -INFINITY, 2, -3e38f};
    memcpy(b->logits, logits, sizeof(logits));
    b->params.n_logprobs = 6;
    b->params.repetition_penalty = 2;
    b->params.presence_penalty = 2;
    static const int32_t output[] = {0, 1, 5};
    b->in.output = output;
    b->in.n_output = 3;
    for (uint64_t i = 0; i < 300; i++) {
        struct lf_sampled s = sample_at(b, i);
        assert_true(s.id == 2 || s.id == 4);
        for (int t = 0; t < s.n_top; t++) assert_true(isfinite(s.top_logprobs[t]));
    }
    b->logits[3] = FLT_MAX;
    for (uint64_t i = 0; i < 100; i++) assert_int_equal(sample_at(b, i).id, 3);
    free(b);
}

static void check_none(struct bench *b)
{
    uint32_t scratch[2 * SMALL];
    struct lf_sampled s = sample(b), given;
    assert_int_equal(s.id, LF_SAMPLED_NONE);
    assert_true(s.n_top == 0 && !(fabsf(s.logprob) > 0));
    lf_logprobs(&given, b->logits, b->in.n_vocab, 1, 2, scratch);
    assert_int_equal(given.id, LF_SAMPLED_NONE);
    assert_int_equal(given.n_top, 0);
}

/* Wherever it stands, whatever is asked for, and whatever a bias would make of it. */
static void from_logits_that_are_no_numbers_no_token_is_drawn(void **state)
{
    (void)state;
    static const float none[] = {NAN, -NAN, INFINITY};
    for (int at = 0; at < SMALL; at++) {
        for (int k = 0; k < 6; k++) {
            struct bench *b = bench_make(SMALL);
            b->logits[at] = none[k % 3];
            b->params.temperature = k < 3 ? 0 : 1;
            b->params.n_logprobs = k - 1;
            b->params.repetition_penalty = 1.5f;
            b->params.n_bias = 1;
            b->params.bias[0] = (struct lf_logit_bias){at, -100};
            check_none(b);
            b->params.n_bias = 0;
            check_none(b);
            free(b);
        }
    }
    struct bench *b = bench_make(SMALL);
    for (int i = 0; i < SMALL; i++) b->logits[i] = -INFINITY;
    check_none(b);
    b->logits[3] = 1;
    assert_int_equal(sample(b).id, 3);
    free(b);
}

static void extreme_parameters_leave_a_token_to_draw(void **state)
{
    (void)state;
    struct bench *b = bench_make(MEDIUM);
    static const float temperatures[] = {1e-4f, 1e-5f, 1e-30f, 100.0f};
    int best = 0;
    for (int i = 1; i < MEDIUM; i++) {
        if (b->logits[i] > b->logits[best]) best = i;
    }
    for (int t = 0; t < 4; t++) {
        b->params = (struct lf_sampling){
            .temperature = temperatures[t], .top_p = 1e-9f, .min_p = 1, .top_k = 1000000, .repetition_penalty = 1};
        for (uint64_t i = 0; i < 50; i++) assert_int_equal(sample_at(b, i).id, best);
    }
    b->params = (struct lf_sampling){.temperature = 1, .top_p = 0.9999999f, .repetition_penalty = 1};
    for (int i = 0; i < MEDIUM; i++) b->logits[i] = -1e30f;
    for (uint64_t i = 0; i < 50; i++) assert_true(sample_at(b, i).id < MEDIUM);
    free(b);
}

static int falling(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* Many candidates with many equals among them: draws stay within the k first in falling order, and reach all of them.
 */
static void top_k_of_many_candidates_is_exact(void **state)
{
    (void)state;
    enum { N = 4000, N_KS = 5, TRIES = 3000 };
    static const int ks[N_KS] = {1, 3, 40, 61, 100};
    static float logits[N], work[N], sorted[N];
    void *scratch = malloc(lf_sampler_scratch_bytes(N));
    for (int i = 0; i < N; i++) sorted[i] = logits[i] = (float)(lf_random64(6, (uint64_t)i) % 97) / 100.0f - 0.5f;
    qsort(sorted, N, sizeof(float), falling);
    for (int c = 0; c < N_KS; c++) {
        int k = ks[c], n_seen = 0, n_equal = 0;
        static bool seen[N], kept[N];
        memset(seen, 0, sizeof(seen));
        for (int i = 0; i < k; i++) n_equal += sorted[i] <= sorted[k - 1];
        for (int i = 0; i < N; i++) {
            kept[i] = logits[i] > sorted[k - 1] || (logits[i] >= sorted[k - 1] && n_equal-- > 0);
        }
        struct lf_sampling params = {
            .temperature = 1, .top_p = 1, .repetition_penalty = 1, .top_k = k, .n_logprobs = -1};
        for (uint64_t at = 0; at < TRIES; at++) {
            struct lf_sampled s;
            struct lf_sample_input in = {.logits = work, .n_vocab = N, .position = at};
            memcpy(work, logits, sizeof(work));
            lf_sample(&s, &params, &in, scratch);
            assert_true(kept[s.id]);
            n_seen += !seen[s.id];
            seen[s.id] = true;
        }
        assert_int_equal(n_seen, k);
    }
    free(scratch);
}

/* Not a limit, but a figure to look at: a large vocabulary with every filter on. */
static void a_large_vocabulary_is_sampled_without_sorting(void **state)
{
    (void)state;
    enum { N = 20 };
    float *logits = calloc(LARGE, sizeof(float)), *work = calloc(LARGE, sizeof(float));
    void *scratch = malloc(lf_sampler_scratch_bytes(LARGE));
    struct lf_sampling params = {
        .temperature = 0.8f, .top_p = 0.95f, .top_k = 0, .min_p = 0.01f, .repetition_penalty = 1.1f, .n_logprobs = 20};
    struct lf_sample_input in = {.logits = work, .n_vocab = LARGE};
    for (int i = 0; i < LARGE; i++) logits[i] = (float)(lf_random64(5, (uint64_t)i) % 100000) / 8000.0f;
    int64_t ns = 0;
    for (uint64_t i = 0; i < N; i++) {
        struct lf_sampled s;
        memcpy(work, logits, LARGE * sizeof(float));
        in.position = i;
        int64_t start = lf_clock_ns();
        lf_sample(&s, &params, &in, scratch);
        ns += lf_clock_ns() - start;
        assert_in_range(s.id, 0, LARGE - 1);
        assert_true(s.logprob < 0);
    }
    print_message("%d tokens, top_p and 20 log-probabilities: %.3f ms a draw\n", LARGE, (double)ns / N / 1e6);
    free(logits);
    free(work);
    free(scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_follow_the_distribution_of_every_combination_of_filters),
        cmocka_unit_test(a_draw_depends_on_seed_and_position_only),
        cmocka_unit_test(temperature_zero_takes_the_lowest_id_among_equals),
        cmocka_unit_test(top_k_takes_the_lower_ids_among_equals),
        cmocka_unit_test(top_p_keeps_the_least_prefix_that_reaches_it),
        cmocka_unit_test(log_probabilities_are_those_of_the_softmax_before_temperature),
        cmocka_unit_test(a_rank_is_the_place_in_the_list_of_the_likeliest),
        cmocka_unit_test(penalties_follow_their_formulas),
        cmocka_unit_test(banned_tokens_are_never_drawn),
        cmocka_unit_test(where_everything_is_banned_no_token_is_drawn),
        cmocka_unit_test(only_what_a_mask_allows_is_drawn_and_listed),
        cmocka_unit_test(a_mask_goes_with_biases_bans_and_penalties),
        cmocka_unit_test(infinitely_unlikely_tokens_do_no_harm),
        cmocka_unit_test(from_logits_that_are_no_numbers_no_token_is_drawn),
        cmocka_unit_test(extreme_parameters_leave_a_token_to_draw),
        cmocka_unit_test(top_k_of_many_candidates_is_exact),
        cmocka_unit_test(a_large_vocabulary_is_sampled_without_sorting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
