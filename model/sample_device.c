#include "model/sample_device.h"

#include <math.h>
#include <stdlib.h>

#include "core/check.h"
#include "model/hparams.h"

enum { BANNED_N = LF_STOP_TOKENS_N + LF_EOS_IDS_N };

static uint64_t reserve(uint64_t *at, uint64_t n)
{
    uint64_t offset = *at;
    *at += (n + 255) / 256 * 256;
    return offset;
}

void lf_sample_layout(struct lf_sample_layout *out, int max_out, int n_slots, int ctx, int n_vocab)
{
    uint64_t at = 0, n = (uint64_t)max_out;
    out->rows = reserve(&at, n * sizeof(struct lf_sample_row));
    out->bias = reserve(&at, n * LF_LOGIT_BIAS_N * sizeof(struct lf_logit_bias));
    out->banned = reserve(&at, n * BANNED_N * sizeof(int32_t));
    out->ahead = reserve(&at, n * sizeof(int32_t));
    out->masks = reserve(&at, n * (uint64_t)lf_batch_mask_words(n_vocab) * sizeof(uint32_t));
    out->prompt = reserve(&at, (uint64_t)ctx * sizeof(int32_t));
    out->counts = reserve(&at, (uint64_t)n_slots * (uint64_t)n_vocab * sizeof(uint32_t));
    out->ids = reserve(&at, n * sizeof(int32_t));
    out->out = reserve(&at, n * sizeof(struct lf_sampled));
    out->total = at;
}

enum lf_status lf_sample_device_init(struct lf_sample_device *s, struct lf_device *dev, char *base, int max_out,
                                     int n_slots, int ctx, int n_vocab, struct lf_err *err)
{
    size_t n = (size_t)max_out;
    if (n * sizeof(struct lf_sampled) > LF_FETCH_BYTES)
        return lf_fail(err, LF_LIMIT, "%d rows of logits a step: on a GPU at most %zu", max_out,
                       LF_FETCH_BYTES / sizeof(struct lf_sampled));
    *s = (struct lf_sample_device){.dev = dev, .base = base, .n_vocab = n_vocab};
    lf_sample_layout(&s->at, max_out, n_slots, ctx, n_vocab);
    s->rows = calloc(n, sizeof(*s->rows));
    s->bias = calloc(n * LF_LOGIT_BIAS_N, sizeof(*s->bias));
    s->banned = calloc(n * BANNED_N, sizeof(*s->banned));
    s->ahead = calloc(n, sizeof(*s->ahead));
    s->n_counted = calloc((size_t)n_slots, sizeof(*s->n_counted));
    if (s->rows && s->bias && s->banned && s->ahead && s->n_counted) return LF_OK;
    lf_sample_device_deinit(s);
    return lf_fail(err, LF_NO_MEMORY, "no memory for the sampling of %d rows", max_out);
}

void lf_sample_device_deinit(struct lf_sample_device *s)
{
    free(s->n_counted);
    free(s->ahead);
    free(s->banned);
    free(s->bias);
    free(s->rows);
    *s = (struct lf_sample_device){0};
}

static uint32_t *counts_of(const struct lf_sample_device *s, int slot)
{
    return (uint32_t *)(void *)(s->base + s->at.counts) + (size_t)slot * (size_t)s->n_vocab;
}

/* The first sample of a request: its token counts are those of its prompt. */
static void begin_counts(const struct lf_sample_device *s, const struct lf_batch_out *o)
{
    int32_t *prompt = (int32_t *)(void *)(s->base + s->at.prompt);
    lf_upload(s->dev, prompt, o->prompt, (size_t)o->n_prompt * sizeof(*o->prompt));
    struct lf_sample_counts_params p = {
        .counts = counts_of(s, o->slot), .n_vocab = s->n_vocab, .prompt = prompt, .n_prompt = o->n_prompt};
    lf_device_ops(s->dev)->sample_counts(s->dev, &p);
    s->n_counted[o->slot] = 0;
}

/* What has come of tokens that were tried. */
static void count_missing(const struct lf_sample_device *s, const struct lf_batch_out *o)
{
    int32_t *ids = (int32_t *)(void *)(s->base + s->at.prompt);
    int n = s->n_counted[o->slot], n_missing = o->n_output - n;
    LF_ASSERT(n_missing >= 0);
    if (n_missing == 0) return;
    lf_upload(s->dev, ids, o->output + n, (size_t)n_missing * sizeof(*ids));
    struct lf_sample_counts_params p = {
        .counts = counts_of(s, o->slot), .n_vocab = s->n_vocab, .output = ids, .n_output = n_missing, .adds = true};
    lf_device_ops(s->dev)->sample_counts(s->dev, &p);
    s->n_counted[o->slot] = o->n_output;
}

/* Rows of the sequence that row i is the first one of. */
static int n_rows_of(const struct lf_batch *b, int i)
{
    int n = 1;
    while (i + n < b->n_out && b->outs[i + n].sampling && b->outs[i + n].slot == b->outs[i].slot) n++;
    return n;
}

/* The counts of a sequence with penalties and n rows from row i on; what is tried goes behind the first *n_ahead. */
static void count_rows(struct lf_sample_device *s, const struct lf_batch *b, int i, int n, int *n_ahead)
{
    const struct lf_batch_out *o = &b->outs[i];
    if (o->n_output == 0) begin_counts(s, o);
    count_missing(s, o);
    if (n == 1) s->n_counted[o->slot]++;
    for (int k = 0; k < n && n > 1; k++) {
        s->rows[i + k].is_tried = 1;
        s->rows[i + k].ahead_first = *n_ahead;
        s->rows[i + k].n_ahead = k;
    }
    for (int k = 0; k < n - 1; k++) s->ahead[*n_ahead + k] = o->output[o->n_output + k];
    *n_ahead += n - 1;
}

static bool has_penalties(const struct lf_sampling *p)
{
    return p->repetition_penalty < 1.0f || p->repetition_penalty > 1.0f || fabsf(p->presence_penalty) > 0 ||
           fabsf(p->frequency_penalty) > 0;
}

static struct lf_sample_row row_of_given(const struct lf_batch_out *o)
{
    return (struct lf_sample_row){.top_p = 1,
                                  .repetition_penalty = 1,
                                  .n_logprobs = o->n_given_top,
                                  .slot = -1,
                                  .mask = -1,
                                  .given = o->given,
                                  .position = o->position};
}

static struct lf_sample_row row_of_sample(const struct lf_batch_out *o)
{
    const struct lf_sampling *p = o->sampling;
    return (struct lf_sample_row){.temperature = p->temperature,
                                  .top_p = p->top_p,
                                  .min_p = p->min_p,
                                  .repetition_penalty = p->repetition_penalty,
                                  .presence_penalty = p->presence_penalty,
                                  .frequency_penalty = p->frequency_penalty,
                                  .top_k = p->top_k,
                                  .n_logprobs = p->n_logprobs,
                                  .slot = has_penalties(p) ? o->slot : -1,
                                  .mask = -1,
                                  .given = -1,
                                  .seed = p->seed,
                                  .position = o->position};
}

static void upload(const struct lf_sample_device *s, uint64_t offset, const void *src, int n, size_t size)
{
    if (n > 0) lf_upload(s->dev, s->base + offset, src, (size_t)n * size);
}

/* The masks of a batch one behind the other, of rows side by side that share one once; those that lie so on the host go
 * in one upload. */
static void upload_masks(struct lf_sample_device *s, const struct lf_batch *batch)
{
    size_t n_words = (size_t)lf_batch_mask_words(s->n_vocab);
    uint32_t *to = (uint32_t *)(void *)(s->base + s->at.masks);
    const uint32_t *from = NULL; /* the run's first, which has not been uploaded */
    int n = 0, n_run = 0;
    for (int i = 0; i < batch->n_out; i++) {
        const uint32_t *mask = batch->outs[i].mask;
        if (!mask || !batch->outs[i].sampling) continue;
        if (i > 0 && batch->outs[i - 1].sampling && batch->outs[i - 1].mask == mask) {
            s->rows[i].mask = n - 1;
            continue;
        }
        if (n_run > 0 && mask != from + (size_t)n_run * n_words) {
            lf_upload(s->dev, to + (size_t)(n - n_run) * n_words, from, (size_t)n_run * n_words * sizeof(*from));
            n_run = 0;
        }
        if (n_run++ == 0) from = mask;
        s->rows[i].mask = n++;
    }
    if (n_run > 0) lf_upload(s->dev, to + (size_t)(n - n_run) * n_words, from, (size_t)n_run * n_words * sizeof(*from));
}

void lf_sample_device_launch(struct lf_sample_device *s, const struct lf_batch *batch, float *logits)
{
    int n_bias = 0, n_banned = 0, n_ahead = 0;
    for (int i = 0; i < batch->n_out; i++) {
        const struct lf_batch_out *o = &batch->outs[i];
        struct lf_sample_row *row = &s->rows[i];
        if (!o->sampling) {
            *row = row_of_given(o);
            continue;
        }
        *row = row_of_sample(o);
        LF_ASSERT(o->sampling->n_bias <= LF_LOGIT_BIAS_N && o->n_banned <= BANNED_N);
        row->bias_first = n_bias;
        row->n_bias = o->sampling->n_bias;
        for (int k = 0; k < row->n_bias; k++) s->bias[n_bias++] = o->sampling->bias[k];
        row->banned_first = n_banned;
        row->n_banned = o->n_banned;
        for (int k = 0; k < row->n_banned; k++) s->banned[n_banned++] = o->banned[k];
    }
    for (int i = 0, n; i < batch->n_out; i += n) {
        n = batch->outs[i].sampling ? n_rows_of(batch, i) : 1;
        if (batch->outs[i].sampling && s->rows[i].slot >= 0) count_rows(s, batch, i, n, &n_ahead);
    }
    upload_masks(s, batch);
    upload(s, s->at.rows, s->rows, batch->n_out, sizeof(*s->rows));
    upload(s, s->at.bias, s->bias, n_bias, sizeof(*s->bias));
    upload(s, s->at.banned, s->banned, n_banned, sizeof(*s->banned));
    upload(s, s->at.ahead, s->ahead, n_ahead, sizeof(*s->ahead));
    struct lf_sample_params p = {.logits = logits,
                                 .n_rows = batch->n_out,
                                 .n_vocab = s->n_vocab,
                                 .rows = (const void *)(s->base + s->at.rows),
                                 .bias = (const void *)(s->base + s->at.bias),
                                 .banned = (const void *)(s->base + s->at.banned),
                                 .ahead = (const void *)(s->base + s->at.ahead),
                                 .masks = (const void *)(s->base + s->at.masks),
                                 .counts = counts_of(s, 0),
                                 .ids_out = (void *)(s->base + s->at.ids),
                                 .out = (void *)(s->base + s->at.out)};
    lf_device_ops(s->dev)->sample(s->dev, &p);
}

void lf_sample_device_share(struct lf_sample_device *s, struct lf_comm *comm, int n_out)
{
    lf_comm_broadcast(comm, 0, s->base + s->at.ids, (size_t)n_out * sizeof(int32_t));
}

const int32_t *lf_sample_device_ids(const struct lf_sample_device *s)
{
    return (const void *)(s->base + s->at.ids);
}

const struct lf_sampled *lf_sample_device_out(const struct lf_sample_device *s)
{
    return (const void *)(s->base + s->at.out);
}
