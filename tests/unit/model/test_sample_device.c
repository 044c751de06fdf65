/* Sampling on a device, as it is told what to draw: token counts that lie there are those of the tokens that came, with
 * steps that are launched before the one before them is known, and with tokens that are tried. The device is the host:
 * its kernels are plain C here, which know of a sequence what lies in its slot alone. */
#include "model/sample_device.h"

#include "core/check.h"
#include "core/mix.h"
#include "device/device_impl.h"
#include "model/sample_rows.h"
#include "tests/support/test.h"

enum { VOCAB = 23, CTX = 300, SLOTS = 3, MAX_OUT = 16, MOST_AHEAD = 4 };
static const uint32_t IN_PROMPT = 1u << 31;

/* ---- the kernels ---- */

static int n_counts_launched;

static void plain_counts(struct lf_device *dev, const struct lf_sample_counts_params *p)
{
    (void)dev;
    n_counts_launched++;
    if (!p->adds) memset(p->counts, 0, (size_t)p->n_vocab * sizeof(*p->counts));
    for (int i = 0; i < p->n_prompt; i++) p->counts[p->prompt[i]] |= IN_PROMPT;
    for (int i = 0; i < p->n_output; i++) p->counts[p->output[i]]++;
}

/* The tokens that a slot's counts are of, in any order. */
static int history_of(const uint32_t *counts, int32_t *prompt, int32_t *output, int *n_output)
{
    int n_prompt = 0;
    *n_output = 0;
    for (int id = 0; id < VOCAB; id++) {
        if (counts[id] & IN_PROMPT) prompt[n_prompt++] = id;
        for (uint32_t k = 0; k < (counts[id] & ~IN_PROMPT); k++) output[(*n_output)++] = id;
    }
    return n_prompt;
}

static void plain_row(const struct lf_sample_params *p, int i)
{
    static uint32_t scratch[2 * VOCAB];
    static int32_t prompt[VOCAB], output[2 * CTX];
    const struct lf_sample_row *row = &p->rows[i];
    int n_prompt = 0, n_output = 0;
    uint32_t *counts = row->slot >= 0 ? p->counts + (size_t)row->slot * VOCAB : NULL;
    if (counts) n_prompt = history_of(counts, prompt, output, &n_output);
    for (int k = 0; k < row->n_ahead; k++) output[n_output++] = p->ahead[row->ahead_first + k];
    struct lf_sampling params = {.temperature = row->temperature,
                                 .top_p = row->top_p,
                                 .repetition_penalty = row->repetition_penalty,
                                 .presence_penalty = row->presence_penalty,
                                 .frequency_penalty = row->frequency_penalty,
                                 .seed = row->seed,
                                 .n_logprobs = row->n_logprobs};
    struct lf_sample_input in = {.logits = p->logits + (size_t)i * VOCAB,
                                 .n_vocab = VOCAB,
                                 .prompt = prompt,
                                 .n_prompt = n_prompt,
                                 .output = output,
                                 .n_output = n_output,
                                 .mask = row->mask >= 0 ? p->masks + row->mask : NULL,
                                 .position = row->position};
    lf_sample(&p->out[i], &params, &in, scratch);
    p->ids_out[i] = p->out[i].id;
}

/* Rows side by side, so none sees what another has drawn. */
static void plain_sample(struct lf_device *dev, const struct lf_sample_params *p)
{
    (void)dev;
    for (int i = 0; i < p->n_rows; i++) plain_row(p, i);
    for (int i = 0; i < p->n_rows; i++)
        if (p->rows[i].slot >= 0 && p->rows[i].is_tried == 0)
            p->counts[(size_t)p->rows[i].slot * VOCAB + (size_t)p->out[i].id]++;
}

/* ---- sequences ---- */

struct seq {
    struct lf_sampling params;
    int32_t ids[CTX]; /* known ones; the last n_pending of n_ids are -1 */
    int n_prompt, n_ids, n_pending;
    uint32_t mask[1];
};

struct fixture {
    struct lf_device *dev;
    struct lf_sample_device sampler;
    char *base;
    struct seq seqs[SLOTS];
    uint64_t seed;
};

static int setup(void **state)
{
    static struct fixture f;
    struct lf_device_opts opts = {.name = "cpu", .n_threads = 1, .max_isa = -1};
    struct lf_sample_layout layout;
    memset(&f, 0, sizeof(f));
    n_counts_launched = 0;
    assert_int_equal(lf_device_open(&f.dev, &opts, NULL), LF_OK);
    f.dev->ops.sample = plain_sample;
    f.dev->ops.sample_counts = plain_counts;
    lf_sample_layout(&layout, MAX_OUT, SLOTS, CTX, VOCAB);
    f.base = calloc(1, layout.total);
    assert_non_null(f.base);
    assert_int_equal(lf_sample_device_init(&f.sampler, f.dev, f.base, MAX_OUT, SLOTS, CTX, VOCAB, NULL), LF_OK);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    lf_sample_device_deinit(&f->sampler);
    lf_device_close(f->dev);
    free(f->base);
    return 0;
}

static int between(struct fixture *f, int lo, int hi)
{
    return lo + (int)(lf_random64(77, f->seed++) % (uint64_t)(hi - lo + 1));
}

static void begin(struct fixture *f, struct seq *s, bool has_penalties)
{
    *s = (struct seq){.params = {.temperature = 1.5f, .top_p = 1, .repetition_penalty = 1, .n_logprobs = 0}};
    s->params.seed = f->seed;
    s->n_prompt = s->n_ids = between(f, 1, 20);
    for (int i = 0; i < s->n_prompt; i++) s->ids[i] = between(f, 0, VOCAB - 1);
    s->mask[0] = 0x00ffffffu & ~(1u << between(f, 0, VOCAB - 1));
    if (!has_penalties) return;
    s->params.repetition_penalty = 1.3f;
    s->params.presence_penalty = 0.4f;
    s->params.frequency_penalty = 0.3f;
}

/* Logits of the token at a position. */
static void logits_at(const struct seq *s, int position, float *out)
{
    for (int v = 0; v < VOCAB; v++)
        out[v] = (float)(lf_random64(s->params.seed + 5, (uint64_t)(position * VOCAB + v)) % 1000) * 0.002f - 1;
}

static struct lf_batch_out out_of(const struct fixture *f, const struct seq *s, int n_ahead)
{
    int n_ids = s->n_ids + n_ahead;
    return (struct lf_batch_out){.sampling = &s->params,
                                 .prompt = s->ids,
                                 .n_prompt = s->n_prompt,
                                 .output = s->ids + s->n_prompt,
                                 .n_output = n_ids - s->n_prompt,
                                 .mask = s->mask,
                                 .position = (uint64_t)n_ids,
                                 .slot = (int)(s - f->seqs)};
}

/* What the host draws, all of whose tokens are known. */
static int32_t expected(const struct fixture *f, const struct seq *s, int n_ahead)
{
    static uint32_t scratch[2 * VOCAB];
    float logits[VOCAB];
    struct lf_sampled out;
    struct lf_batch_out o = out_of(f, s, n_ahead);
    logits_at(s, s->n_ids + n_ahead, logits);
    lf_sample_row(&out, &o, logits, VOCAB, scratch);
    return out.id;
}

/* Puts what is tried behind what is known: right ones, but for one in four. */
static void try_some(struct fixture *f, struct seq *s, int n)
{
    for (int k = 0; k < n; k++) {
        int32_t id = expected(f, s, k);
        s->ids[s->n_ids + k] = between(f, 0, 3) > 0 ? id : (id + 1) % VOCAB;
    }
}

/* A step of the sequences, n_ahead[i] tokens tried of each; what it drew is in results. */
static void launch(struct fixture *f, const int *n_ahead, struct lf_sampled *results)
{
    static float logits[MAX_OUT * VOCAB];
    struct lf_batch_out outs[MAX_OUT];
    struct lf_batch batch = {.outs = outs};
    for (int i = 0; i < SLOTS; i++)
        for (int k = 0; k <= n_ahead[i]; k++) {
            logits_at(&f->seqs[i], f->seqs[i].n_ids + k, logits + (size_t)batch.n_out * VOCAB);
            outs[batch.n_out++] = out_of(f, &f->seqs[i], k);
        }
    lf_sample_device_launch(&f->sampler, &batch, logits);
    memcpy(results, lf_sample_device_out(&f->sampler), (size_t)batch.n_out * sizeof(*results));
}

/* All of them to the end, n steps: each draw is the host's, and what counts is what came. */
static void run(struct fixture *f, int n_steps, int most_ahead)
{
    struct lf_sampled results[MAX_OUT];
    for (int step = 0; step < n_steps; step++) {
        int n_ahead[SLOTS], row = 0;
        for (int i = 0; i < SLOTS; i++) {
            struct seq *s = &f->seqs[i];
            n_ahead[i] = s->n_ids > s->n_prompt ? between(f, 0, most_ahead) : 0;
            try_some(f, s, n_ahead[i]);
        }
        launch(f, n_ahead, results);
        for (int i = 0; i < SLOTS; i++) {
            struct seq *s = &f->seqs[i];
            bool is_right = true;
            for (int k = 0; k <= n_ahead[i]; k++, row++) {
                if (!is_right) continue;
                int32_t tried = k < n_ahead[i] ? s->ids[s->n_ids] : -1;
                assert_int_equal(results[row].id, expected(f, s, 0));
                s->ids[s->n_ids++] = results[row].id;
                is_right = results[row].id == tried;
            }
        }
    }
}

static void draws_are_the_hosts_with_tokens_that_are_tried(void **state)
{
    struct fixture *f = *state;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < SLOTS; i++) begin(f, &f->seqs[i], i != round % 4);
        run(f, 40, MOST_AHEAD);
    }
}

/* Where nothing is tried, counts are set once a sequence and nothing more is told of them. */
static void without_counts_are_set_once(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < SLOTS; i++) begin(f, &f->seqs[i], true);
    run(f, 40, 0);
    assert_int_equal(n_counts_launched, SLOTS);
}

/* The last token of the output may be one that the device alone knows; behind tries it is not. */
static void what_is_not_known_yet_is_not_looked_at(void **state)
{
    struct fixture *f = *state;
    struct lf_sampled results[2][MAX_OUT];
    const int none[SLOTS] = {0};
    for (int i = 0; i < SLOTS; i++) begin(f, &f->seqs[i], true);
    run(f, 10, MOST_AHEAD);
    for (int step = 0; step < 20; step++) {
        launch(f, none, results[step % 2]);
        for (int i = 0; i < SLOTS; i++) {
            struct seq *s = &f->seqs[i];
            if (step > 0) {
                s->ids[s->n_ids - 1] = results[(step - 1) % 2][i].id;
                assert_int_equal(results[step % 2][i].id, expected(f, s, 0));
            }
            s->ids[s->n_ids++] = -1;
        }
    }
    for (int i = 0; i < SLOTS; i++) f->seqs[i].ids[f->seqs[i].n_ids - 1] = results[1][i].id;
    run(f, 10, MOST_AHEAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(draws_are_the_hosts_with_tokens_that_are_tried, setup, teardown),
        cmocka_unit_test_setup_teardown(without_counts_are_set_once, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_not_known_yet_is_not_looked_at, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
