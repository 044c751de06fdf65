/* Sampling on a GPU against model/sampler.c on the host, from the same logits: equal ids over some 20,000 random cases
 * of all parameters, log-probabilities within 1e-5, and what sample.h promises of counts, batches and graphs.
 *
 *     test_sample [PATTERN]   (of the names of tests) */
#include "tests/gpu/gpu_fixture.h"

#include <float.h>

#include "model/sampler.h"

enum {
    ROWS = 64,
    HISTORY = 200,
    BANNED = 8,
    AHEAD = 15,
    MOST_VOCAB = 262144,
    MASK_WORDS = MOST_VOCAB / 32,
    REPEATS = 200
};

/* One row as the host sees it. */
struct request {
    struct lf_sampling params;
    int32_t prompt[HISTORY], output[HISTORY], banned[BANNED];
    int n_prompt, n_output, n_banned;
    int n_ahead; /* the last ones of the output are not in the slot's counts, but tried before this row */
    bool is_tried, has_mask;
    uint32_t mask[MASK_WORDS];
    uint64_t position;
};

/* A step's rows, on the host and in device memory. */
struct batch {
    int n_rows, n_vocab;
    float *logits; /* [ROWS, MOST_VOCAB] room */
    struct request *requests;
    struct lf_sampled *expected;
    struct lf_buffer dev_logits, dev_rows, dev_bias, dev_banned, dev_ahead, dev_counts, dev_ids, dev_out, dev_history,
        dev_masks;
};

static struct batch batch;

static struct lf_buffer alloc(size_t bytes)
{
    struct lf_buffer buf = {0};
    assert_int_equal(lf_buffer_alloc(gpu, &buf, bytes, "batch", NULL), LF_OK);
    return buf;
}

static int make_batch(void **state)
{
    (void)state;
    size_t n_logits = (size_t)ROWS * MOST_VOCAB;
    batch.logits = fixture_alloc(n_logits * sizeof(float));
    batch.requests = fixture_alloc(ROWS * sizeof *batch.requests);
    batch.expected = fixture_alloc(ROWS * sizeof *batch.expected);
    batch.dev_logits = alloc(n_logits * sizeof(float));
    batch.dev_counts = alloc(n_logits * sizeof(uint32_t));
    batch.dev_rows = alloc(ROWS * sizeof(struct lf_sample_row));
    batch.dev_bias = alloc(ROWS * LF_LOGIT_BIAS_N * sizeof(struct lf_logit_bias));
    batch.dev_banned = alloc(ROWS * BANNED * sizeof(int32_t));
    batch.dev_ahead = alloc(ROWS * AHEAD * sizeof(int32_t));
    batch.dev_masks = alloc((size_t)ROWS * MASK_WORDS * sizeof(uint32_t));
    batch.dev_ids = alloc(ROWS * sizeof(int32_t));
    batch.dev_out = alloc(ROWS * sizeof(struct lf_sampled));
    batch.dev_history = alloc(2 * ROWS * HISTORY * sizeof(int32_t));
    return 0;
}

static int free_batch(void **state)
{
    (void)state;
    struct lf_buffer *all[] = {&batch.dev_logits, &batch.dev_rows, &batch.dev_bias, &batch.dev_banned,
                               &batch.dev_counts, &batch.dev_ids,  &batch.dev_out,  &batch.dev_history,
                               &batch.dev_masks,  &batch.dev_ahead};
    for (size_t i = 0; i < LF_N_ELEMS(all); i++) lf_buffer_free(gpu, all[i]);
    free(batch.logits);
    free(batch.requests);
    free(batch.expected);
    return 0;
}

/* ---- random requests and logits ---- */

static float pick(uint64_t *seed, const float *from, int n)
{
    return from[fixture_between(seed, 0, n - 1)];
}

static void random_logits(uint64_t *seed, float *x, int n)
{
    static const float scales[] = {0.01f, 1.0f, 2.5f, 10.0f, 100.0f};
    static const float odd[] = {-INFINITY, FLT_MAX, -FLT_MAX, 0.0f, -0.0f, 1e-40f}, none[] = {NAN, -NAN, INFINITY};
    static const float few[] = {0.0f, -0.0f, 1.0f, -1.0f, 0.5f};
    int kind = fixture_between(seed, 0, 9);
    float scale = pick(seed, scales, (int)LF_N_ELEMS(scales));
    for (int i = 0; i < n; i++) {
        x[i] = fixture_normal(seed) * scale;
        if (kind == 1) x[i] = lf_f32_from_bf16(lf_bf16_from_f32(x[i])); /* many ties */
        if (kind == 2) x[i] = pick(seed, few, (int)LF_N_ELEMS(few));
        if (kind == 3) x[i] = scale; /* nothing but ties */
        if (kind == 4 && fixture_between(seed, 0, 99) == 0) x[i] = pick(seed, odd, (int)LF_N_ELEMS(odd));
        if (kind == 5 && fixture_between(seed, 0, 9) != 0) x[i] = -INFINITY;
    }
    if (kind == 6 && fixture_between(seed, 0, 3) == 0)
        for (int i = 0; i < n; i++) x[i] = -INFINITY;
    if (kind == 7 && fixture_between(seed, 0, 3) == 0)
        x[fixture_between(seed, 0, n - 1)] = pick(seed, none, (int)LF_N_ELEMS(none));
}

static void random_history(uint64_t *seed, int32_t *ids, int *n, int n_vocab)
{
    *n = fixture_between(seed, 0, 3) ? fixture_between(seed, 0, HISTORY) : 0;
    for (int i = 0; i < *n; i++) ids[i] = fixture_between(seed, -1, LF_MIN(n_vocab, 300));
}

/* Half of the rows: a grammar allows nearly all, few, whole words, one, or nothing at all. */
static void random_mask(uint64_t *seed, struct request *r, int n_vocab)
{
    int kind = fixture_between(seed, 0, 9);
    r->has_mask = kind < 5;
    for (int i = 0; i < (n_vocab + 31) / 32 && r->has_mask; i++) {
        uint32_t bits = (uint32_t)fixture_random(seed);
        if (kind == 0) bits |= (uint32_t)fixture_random(seed) | (uint32_t)fixture_random(seed);
        if (kind == 1) bits &= (uint32_t)fixture_random(seed) & (uint32_t)fixture_random(seed);
        if (kind == 2) bits = bits & 1 ? UINT32_MAX : 0;
        r->mask[i] = kind > 2 ? 0 : bits;
    }
    int32_t only = fixture_between(seed, 0, n_vocab - 1);
    if (kind == 3) r->mask[only / 32] = 1u << only % 32;
    if (r->has_mask && n_vocab % 32 != 0) r->mask[n_vocab / 32] &= (1u << n_vocab % 32) - 1;
}

static void random_request(uint64_t *seed, struct request *r, int n_vocab)
{
    static const float temperatures[] = {0.0f, 1e-6f, 0.1f, 0.7f, 1.0f, 1.0f, 1.5f, 100.0f};
    static const float top_ps[] = {1.0f, 1.0f, 0.95f, 0.9f, 0.5f, 0.1f, 0.0f, 0.999f, 1.5f};
    static const float min_ps[] = {0.0f, 0.0f, 0.0f, 0.02f, 0.1f, 0.5f, 1.0f, 2.0f};
    static const int top_ks[] = {0, 0, 0, 1, 2, 20, 50, 1000, 3000};
    static const int logprobs[] = {-1, -1, 0, 1, 5, 20};
    memset(r, 0, sizeof *r);
    r->params.temperature = pick(seed, temperatures, (int)LF_N_ELEMS(temperatures));
    r->params.top_p = pick(seed, top_ps, (int)LF_N_ELEMS(top_ps));
    r->params.min_p = pick(seed, min_ps, (int)LF_N_ELEMS(min_ps));
    r->params.top_k = top_ks[fixture_between(seed, 0, (int)LF_N_ELEMS(top_ks) - 1)];
    if (fixture_between(seed, 0, 9) == 0) r->params.top_k = n_vocab + fixture_between(seed, -1, 1);
    r->params.n_logprobs = logprobs[fixture_between(seed, 0, (int)LF_N_ELEMS(logprobs) - 1)];
    r->params.repetition_penalty =
        fixture_between(seed, 0, 2) ? 1.0f : 0.5f + (float)fixture_between(seed, 0, 20) * 0.07f;
    if (fixture_between(seed, 0, 2) == 0) r->params.presence_penalty = (float)fixture_between(seed, -20, 20) * 0.1f;
    if (fixture_between(seed, 0, 2) == 0) r->params.frequency_penalty = (float)fixture_between(seed, -20, 20) * 0.1f;
    if (fixture_between(seed, 0, 3) == 0) r->params.n_bias = fixture_between(seed, 1, LF_LOGIT_BIAS_N);
    for (int i = 0; i < r->params.n_bias; i++) {
        r->params.bias[i].id = fixture_between(seed, -1, n_vocab);
        if (fixture_between(seed, 0, 3) == 0) r->params.bias[i].id = fixture_between(seed, 0, 3); /* the same again */
        r->params.bias[i].bias = (float)fixture_between(seed, -1000, 1000) * 0.1f;
    }
    if (fixture_between(seed, 0, 2) == 0) r->n_banned = fixture_between(seed, 1, BANNED);
    for (int i = 0; i < r->n_banned; i++) r->banned[i] = fixture_between(seed, -1, n_vocab);
    random_mask(seed, r, n_vocab);
    random_history(seed, r->prompt, &r->n_prompt, n_vocab);
    random_history(seed, r->output, &r->n_output, n_vocab);
    r->is_tried = fixture_between(seed, 0, 2) == 0;
    if (fixture_between(seed, 0, 2) == 0) r->n_ahead = fixture_between(seed, 0, LF_MIN(AHEAD, r->n_output));
    r->params.seed = (uint64_t)fixture_random(seed) << 33 | fixture_random(seed);
    r->position = (uint64_t)fixture_between(seed, 0, 1 << 20);
}

static void fill_batch(uint64_t *seed, int n_rows, int n_vocab)
{
    batch.n_rows = n_rows;
    batch.n_vocab = n_vocab;
    for (int i = 0; i < n_rows; i++) {
        random_logits(seed, batch.logits + (size_t)i * (size_t)n_vocab, n_vocab);
        random_request(seed, &batch.requests[i], n_vocab);
    }
}

/* ---- the device's side ---- */

static struct lf_sample_params device_params(void)
{
    return (struct lf_sample_params){.logits = batch.dev_logits.ptr,
                                     .n_rows = batch.n_rows,
                                     .n_vocab = batch.n_vocab,
                                     .rows = batch.dev_rows.ptr,
                                     .bias = batch.dev_bias.ptr,
                                     .banned = batch.dev_banned.ptr,
                                     .ahead = batch.dev_ahead.ptr,
                                     .masks = batch.dev_masks.ptr,
                                     .counts = batch.dev_counts.ptr,
                                     .ids_out = batch.dev_ids.ptr,
                                     .out = batch.dev_out.ptr};
}

/* Row i of the device is request order[i]; -1: inactive. Slot i belongs to request i. */
static void upload_rows(const int *order, int n)
{
    static struct lf_sample_row rows[ROWS];
    static struct lf_logit_bias bias[ROWS * LF_LOGIT_BIAS_N];
    static int32_t banned[ROWS * BANNED], ahead[ROWS * AHEAD];
    int n_bias = 0, n_banned = 0;
    for (int i = 0; i < n; i++) {
        rows[i] = (struct lf_sample_row){.position = LF_SAMPLE_INACTIVE};
        if (order[i] < 0) continue;
        const struct request *r = &batch.requests[order[i]];
        rows[i] = (struct lf_sample_row){.temperature = r->params.temperature,
                                         .top_p = r->params.top_p,
                                         .min_p = r->params.min_p,
                                         .repetition_penalty = r->params.repetition_penalty,
                                         .presence_penalty = r->params.presence_penalty,
                                         .frequency_penalty = r->params.frequency_penalty,
                                         .top_k = r->params.top_k,
                                         .n_logprobs = r->params.n_logprobs,
                                         .slot = order[i],
                                         .ahead_first = i * AHEAD,
                                         .n_ahead = r->n_ahead,
                                         .is_tried = r->is_tried,
                                         .given = -1,
                                         .bias_first = n_bias,
                                         .n_bias = r->params.n_bias,
                                         .banned_first = n_banned,
                                         .n_banned = r->n_banned,
                                         .mask = r->has_mask ? order[i] : -1,
                                         .seed = r->params.seed,
                                         .position = r->position};
        for (int k = 0; k < r->params.n_bias; k++)
            bias[n_bias++] = (struct lf_logit_bias){r->params.bias[k].id, r->params.bias[k].bias};
        for (int k = 0; k < r->n_ahead; k++) ahead[i * AHEAD + k] = r->output[r->n_output - r->n_ahead + k];
        for (int k = 0; k < r->n_banned; k++) banned[n_banned++] = r->banned[k];
        lf_upload(gpu, (float *)batch.dev_logits.ptr + (size_t)i * (size_t)batch.n_vocab,
                  batch.logits + (size_t)order[i] * (size_t)batch.n_vocab, (size_t)batch.n_vocab * sizeof(float));
    }
    for (int i = 0; i < batch.n_rows; i++) {
        size_t words = (size_t)(batch.n_vocab + 31) / 32;
        lf_upload(gpu, (uint32_t *)batch.dev_masks.ptr + (size_t)i * words, batch.requests[i].mask,
                  words * sizeof(uint32_t));
    }
    lf_upload(gpu, batch.dev_rows.ptr, rows, sizeof rows);
    lf_upload(gpu, batch.dev_bias.ptr, bias, sizeof bias);
    lf_upload(gpu, batch.dev_banned.ptr, banned, sizeof banned);
    lf_upload(gpu, batch.dev_ahead.ptr, ahead, sizeof ahead);
}

static void upload_marks(void)
{
    static int32_t history[2 * ROWS * HISTORY];
    for (int i = 0; i < batch.n_rows; i++) {
        memcpy(history + 2 * i * HISTORY, batch.requests[i].prompt, sizeof batch.requests[i].prompt);
        memcpy(history + (2 * i + 1) * HISTORY, batch.requests[i].output, sizeof batch.requests[i].output);
    }
    lf_upload(gpu, batch.dev_history.ptr, history, sizeof history);
    for (int i = 0; i < batch.n_rows; i++) {
        int counted = batch.requests[i].n_output - batch.requests[i].n_ahead;
        struct lf_sample_counts_params p = {.counts =
                                                (uint32_t *)batch.dev_counts.ptr + (size_t)i * (size_t)batch.n_vocab,
                                            .n_vocab = batch.n_vocab,
                                            .prompt = (int32_t *)batch.dev_history.ptr + 2 * i * HISTORY,
                                            .output = (int32_t *)batch.dev_history.ptr + (2 * i + 1) * HISTORY,
                                            .n_prompt = batch.requests[i].n_prompt,
                                            .n_output = counted / 2};
        gpu_ops->sample_counts(gpu, &p);
        p.output += p.n_output;
        p.n_output = counted - counted / 2;
        p.n_prompt = 0;
        p.adds = true; /* the other half, as if it had come later */
        gpu_ops->sample_counts(gpu, &p);
    }
}

static void sample_on_gpu(const int *order, int n, int32_t *ids, struct lf_sampled *out)
{
    struct lf_sample_params p = device_params();
    p.n_rows = n;
    upload_rows(order, n);
    gpu_ops->sample(gpu, &p);
    lf_download(gpu, ids, batch.dev_ids.ptr, (size_t)n * sizeof *ids);
    lf_download(gpu, out, batch.dev_out.ptr, (size_t)n * sizeof *out);
    gpu_sync();
}

/* ---- the host's side ---- */

/* What the host draws from row i with this top_p. */
static void sample_row_on_host(struct lf_sampled *out, int i, float top_p)
{
    const struct request *r = &batch.requests[i];
    struct lf_sampling params = r->params;
    float *logits = fixture_alloc((size_t)batch.n_vocab * sizeof(float));
    void *scratch = fixture_alloc(lf_sampler_scratch_bytes(batch.n_vocab));
    params.top_p = top_p;
    memcpy(logits, batch.logits + (size_t)i * (size_t)batch.n_vocab, (size_t)batch.n_vocab * sizeof(float));
    struct lf_sample_input in = {.logits = logits,
                                 .n_vocab = batch.n_vocab,
                                 .prompt = r->prompt,
                                 .n_prompt = r->n_prompt,
                                 .output = r->output,
                                 .n_output = r->n_output,
                                 .banned = r->banned,
                                 .n_banned = r->n_banned,
                                 .mask = r->has_mask ? r->mask : NULL,
                                 .position = r->position};
    lf_sample(out, &params, &in, scratch);
    free(scratch);
    free(logits);
}

static void sample_on_host(void)
{
    for (int i = 0; i < batch.n_rows; i++) sample_row_on_host(&batch.expected[i], i, batch.requests[i].params.top_p);
}

static void say(const struct request *r, const struct lf_sampled *want, const struct lf_sampled *got)
{
    print_error("n_vocab %d temperature %g top_k %d top_p %g min_p %g repetition %g presence %g frequency %g n_bias %d "
                "n_banned %d mask %d history %d+%d logprobs %d: id %d %g, expected %d %g\n",
                batch.n_vocab, (double)r->params.temperature, r->params.top_k, (double)r->params.top_p,
                (double)r->params.min_p, (double)r->params.repetition_penalty, (double)r->params.presence_penalty,
                (double)r->params.frequency_penalty, r->params.n_bias, r->n_banned, r->has_mask, r->n_prompt,
                r->n_output, r->params.n_logprobs, got->id, (double)got->logprob, want->id, (double)want->logprob);
}

static bool near(float a, float b)
{
    return fabs((double)a - (double)b) <= 1e-5 * fmax(1.0, fabs((double)b));
}

static bool same(const struct request *r, const struct lf_sampled *want, const struct lf_sampled *got)
{
    if (got->id != want->id) return false;
    if (r->params.n_logprobs < 0) return true;
    if (!near(got->logprob, want->logprob) || got->n_top != want->n_top) return false;
    for (int i = 0; i < want->n_top; i++)
        if (got->top_ids[i] != want->top_ids[i] || !near(got->top_logprobs[i], want->top_logprobs[i])) return false;
    return true;
}

/* The one case in which ids may differ (device/sample.h): the sum of probabilities meets top_p within rounding, as it
 * does where half of many equal logits are asked for. Then the host gives the same with the next top_p. */
static bool meets_its_limit(int i, const struct lf_sampled *got)
{
    const struct request *r = &batch.requests[i];
    struct lf_sampled below, above;
    sample_row_on_host(&below, i, nextafterf(r->params.top_p, 0));
    sample_row_on_host(&above, i, nextafterf(r->params.top_p, 2));
    return same(r, &below, got) || same(r, &above, got);
}

/* Whether a slot's token counts are those of the history, but for what is tried, plus the token drawn. */
static void check_counts(int slot, int32_t id)
{
    const struct request *r = &batch.requests[slot];
    size_t n = (size_t)batch.n_vocab;
    uint32_t *want = calloc(n, sizeof *want), *got = malloc(n * sizeof *got);
    assert_true(want != NULL && got != NULL);
    for (int i = 0; i < r->n_prompt; i++)
        if (r->prompt[i] >= 0 && r->prompt[i] < batch.n_vocab) want[r->prompt[i]] |= 0x80000000u;
    for (int i = 0; i < r->n_output - r->n_ahead; i++)
        if (r->output[i] >= 0 && r->output[i] < batch.n_vocab) want[r->output[i]]++;
    if (id != LF_SAMPLED_NONE && !r->is_tried) want[id]++;
    lf_download(gpu, got, (uint32_t *)batch.dev_counts.ptr + (size_t)slot * n, n * sizeof *got);
    assert_memory_equal(got, want, n * sizeof *got);
    free(got);
    free(want);
}

static int identity[ROWS];

enum { CASES_PER_LIMIT = 2000 };
static int n_limits; /* that were met, in all cases so far */

static int count_wrong(void)
{
    static int32_t ids[ROWS];
    static struct lf_sampled out[ROWS];
    int n_wrong = 0;
    upload_marks();
    sample_on_gpu(identity, batch.n_rows, ids, out);
    sample_on_host();
    for (int i = 0; i < batch.n_rows; i++) {
        assert_int_equal(ids[i], LF_MAX(out[i].id, 0));
        if (same(&batch.requests[i], &batch.expected[i], &out[i])) continue;
        if (meets_its_limit(i, &out[i])) {
            n_limits++;
            continue;
        }
        if (n_wrong++ < 3) say(&batch.requests[i], &batch.expected[i], &out[i]);
    }
    if (n_wrong == 0) check_counts(batch.n_rows / 2, out[batch.n_rows / 2].id);
    return n_wrong;
}

/* ---- tests ---- */

static void ids_are_those_of_the_host(void **state)
{
    (void)state;
    uint64_t seed = 31;
    int n_cases = 0, n_wrong = 0;
    for (int i = 0; i < gpu_times(160); i++) {
        int most = i % 8 == 0 ? 32 : i % 2 ? 3000 : 16000;
        fill_batch(&seed, ROWS, fixture_between(&seed, 1, most));
        n_wrong += count_wrong();
        n_cases += batch.n_rows;
    }
    print_message("%d cases, %d wrong, %d at their limit\n", n_cases, n_wrong, n_limits);
    assert_int_equal(n_wrong, 0);
    assert_in_range(n_limits, 0, n_cases / CASES_PER_LIMIT);
}

static void ids_of_large_vocabularies_are_those_of_the_host(void **state)
{
    (void)state;
    uint64_t seed = 32;
    static const int sizes[] = {32000, 128256, 151936, MOST_VOCAB};
    int n_cases = 0, n_wrong = 0;
    for (int i = 0; i < gpu_times(60); i++) {
        fill_batch(&seed, i % 4 == 0 ? 32 : 5, sizes[i % 4]);
        n_wrong += count_wrong();
        n_cases += batch.n_rows;
    }
    print_message("%d cases, %d wrong\n", n_cases, n_wrong);
    assert_int_equal(n_wrong, 0);
}

static void a_row_is_the_same_in_any_batch_and_repeats(void **state)
{
    (void)state;
    enum { N = 12 };
    uint64_t seed = 33;
    int32_t alone[N], ids[N + 4];
    struct lf_sampled out[N + 4];
    fill_batch(&seed, N, 32000);
    for (int i = 0; i < N; i++) {
        upload_marks();
        sample_on_gpu(&i, 1, &alone[i], out);
    }
    for (int round = 0; round < gpu_times(REPEATS); round++) {
        int order[N + 4], n = fixture_between(&seed, 1, N + 4);
        bool used[N] = {false};
        for (int i = 0; i < n; i++) {
            int at = fixture_between(&seed, -1, N - 1);
            order[i] = at < 0 || used[at] ? -1 : at;
            if (order[i] >= 0) used[at] = true;
        }
        upload_marks();
        memset(ids, 0x55, sizeof ids);
        lf_upload(gpu, batch.dev_ids.ptr, ids, sizeof ids);
        sample_on_gpu(order, n, ids, out);
        for (int i = 0; i < n; i++) assert_int_equal(ids[i], order[i] < 0 ? 0x55555555 : alone[order[i]]);
    }
}

/* Echo: the row is about an id of the caller's, and nothing is drawn or counted. */
static void a_given_id_gets_its_log_probability(void **state)
{
    (void)state;
    enum { N = 12, VOCAB = 32000 };
    uint64_t seed = 35;
    struct lf_sampled got[N], want;
    struct lf_sample_row rows[N];
    fill_batch(&seed, N, VOCAB);
    upload_rows(identity, N);
    void *scratch = fixture_alloc(lf_sampler_scratch_bytes(VOCAB));
    for (int i = 0; i < N; i++)
        rows[i] = (struct lf_sample_row){
            .top_p = 1, .repetition_penalty = 1, .slot = -1, .mask = -1, .given = fixture_between(&seed, 0, VOCAB - 1)};
    for (int i = 0; i < N; i++) rows[i].n_logprobs = i % (LF_TOP_LOGPROBS_N + 1);
    lf_upload(gpu, batch.dev_rows.ptr, rows, sizeof rows);
    struct lf_sample_params p = device_params();
    p.n_rows = N;
    gpu_ops->sample(gpu, &p);
    lf_download(gpu, got, batch.dev_out.ptr, sizeof got);
    for (int i = 0; i < N; i++) {
        lf_logprobs(&want, batch.logits + (size_t)i * VOCAB, VOCAB, rows[i].given, rows[i].n_logprobs, scratch);
        assert_int_equal(got[i].id, want.id);
        assert_true(want.id == rows[i].given || want.id == LF_SAMPLED_NONE);
        assert_true(near(got[i].logprob, want.logprob));
        assert_int_equal(got[i].n_top, want.n_top);
        if (want.id != LF_SAMPLED_NONE) assert_int_equal(got[i].rank, want.rank);
        for (int k = 0; k < want.n_top; k++) assert_int_equal(got[i].top_ids[k], want.top_ids[k]);
    }
    free(scratch);
}

static void a_graph_samples_step_after_step(void **state)
{
    (void)state;
    enum { N = 8 };
    uint64_t seed = 34;
    int32_t ids[N];
    fill_batch(&seed, N, 5000);
    for (int i = 0; i < N; i++) {
        batch.requests[i].n_ahead = 0;
        batch.requests[i].is_tried = false;
    }
    struct lf_sample_params p = device_params();
    gpu_sync();
    assert_true(lf_graph_begin(gpu));
    gpu_ops->sample(gpu, &p);
    struct lf_graph *graph = lf_graph_end(gpu);
    assert_non_null(graph);
    for (int step = 0; step < 10; step++) {
        bool anew = step == 0;
        for (int i = 0; i < N; i++) {
            struct request *r = &batch.requests[i];
            r->position++;
            random_logits(&seed, batch.logits + (size_t)i * 5000, 5000);
            if (r->n_output == HISTORY) { /* a slot that begins anew */
                r->n_output = 0;
                anew = true;
            }
        }
        if (anew) upload_marks(); /* else they go on by themselves, as the output does on the host */
        upload_rows(identity, N);
        lf_graph_launch(gpu, graph);
        lf_download(gpu, ids, batch.dev_ids.ptr, sizeof ids);
        sample_on_host();
        for (int i = 0; i < N; i++) {
            assert_int_equal(ids[i], LF_MAX(batch.expected[i].id, 0));
            if (batch.expected[i].id == LF_SAMPLED_NONE) continue; /* no token: none is counted */
            batch.requests[i].output[batch.requests[i].n_output++] = ids[i];
        }
    }
    lf_graph_destroy(gpu, graph);
}

int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    for (int i = 0; i < ROWS; i++) identity[i] = i;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ids_are_those_of_the_host, make_batch, free_batch),
        cmocka_unit_test_setup_teardown(ids_of_large_vocabularies_are_those_of_the_host, make_batch, free_batch),
        cmocka_unit_test_setup_teardown(a_row_is_the_same_in_any_batch_and_repeats, make_batch, free_batch),
        cmocka_unit_test_setup_teardown(a_given_id_gets_its_log_probability, make_batch, free_batch),
        cmocka_unit_test_setup_teardown(a_graph_samples_step_after_step, make_batch, free_batch),
    };
    return gpu_run(tests);
}
