/* RoPE: frequencies, the table over positions, and the walk of an append over a step's tokens. */
#include "attention/rope.h"

#include <math.h>
#include <stdlib.h>

#include "attention/cpu/rope_run.h"
#include "core/check.h"
#include "device/cpu/threads.h"

#define PI 3.14159265358979323846

enum {
    TABLE_POSITIONS = 1024, /* of one task of the table */
    TABLE_STEPS = 16        /* positions from one exact sine and cosine to the next */
};

/* Long waves are stretched by factor, short ones stay, between the two it is a blend (the Llama 3.1 release). */
static double llama3_freq(const struct lf_rope_opts *o, double freq)
{
    double turns = (double)o->original_max_positions * freq / (2.0 * PI); /* within the original context */
    if (turns > o->high_freq_factor) return freq;
    if (turns < o->low_freq_factor) return freq / o->factor;
    double keep = (turns - o->low_freq_factor) / (o->high_freq_factor - o->low_freq_factor);
    return (1.0 - keep) * freq / o->factor + keep * freq;
}

/* The dimension that makes so many turns within the original context (Peng et al. 2023, §3.2). */
static double yarn_dim(const struct lf_rope_opts *o, double turns)
{
    return (double)o->rotary_dim * log((double)o->original_max_positions / (turns * 2.0 * PI)) / (2.0 * log(o->theta));
}

static void yarn_range(const struct lf_rope_opts *o, double *low, double *high)
{
    *low = yarn_dim(o, o->beta_fast);
    *high = yarn_dim(o, o->beta_slow);
    if (o->truncate) {
        *low = floor(*low);
        *high = ceil(*high);
    }
    *low = fmax(*low, 0.0);
    *high = fmin(*high, (double)o->rotary_dim - 1.0);
    if (*low == *high) *high += 0.001; /* a step, without a division by zero */
}

bool lf_rope_is_long(const struct lf_rope_opts *opts, int n_positions)
{
    return opts->kind == LF_ROPE_LONGROPE && n_positions > opts->original_max_positions;
}

void lf_rope_inv_freq(const struct lf_rope_opts *opts, int n_positions, double *inv_freq, double *attention_factor)
{
    bool is_long = lf_rope_is_long(opts, n_positions);
    double low = 0.0, high = 1.0;
    *attention_factor = 1.0;
    if (opts->kind == LF_ROPE_YARN) {
        yarn_range(opts, &low, &high);
        *attention_factor = opts->attention_factor;
        if (opts->attention_factor == 0.0) *attention_factor = opts->factor > 1.0 ? 0.1 * log(opts->factor) + 1.0 : 1.0;
    }
    if (opts->kind == LF_ROPE_LONGROPE) *attention_factor = opts->attention_factor;
    for (int i = 0; i < opts->rotary_dim / 2; i++) {
        double freq = pow(opts->theta, -2.0 * (double)i / (double)opts->rotary_dim);
        if (opts->kind == LF_ROPE_LINEAR) freq /= opts->factor;
        if (opts->kind == LF_ROPE_LLAMA3) freq = llama3_freq(opts, freq);
        if (opts->kind == LF_ROPE_YARN) {
            double ramp = fmin(fmax(((double)i - low) / (high - low), 0.0), 1.0);
            freq = freq / opts->factor * ramp + freq * (1.0 - ramp);
        }
        if (opts->kind == LF_ROPE_LONGROPE) freq /= is_long ? opts->long_factor[i] : opts->short_factor[i];
        if (opts->kind == LF_ROPE_PROPORTIONAL) freq = i < opts->n_turned ? freq / opts->factor : 0;
        if (opts->kind == LF_ROPE_OFF) freq = 0;
        inv_freq[i] = freq;
    }
}

uint64_t lf_rope_table_bytes(const struct lf_rope_opts *opts, int n_positions)
{
    return (uint64_t)n_positions * (uint64_t)opts->rotary_dim * sizeof(float);
}

struct table_job {
    double inv_freq[LF_HEAD_DIM / 2];
    double step_cos[LF_HEAD_DIM / 2], step_sin[LF_HEAD_DIM / 2]; /* of inv_freq: one position further */
    double factor;
    int n_pairs;
    int first, n_positions; /* of what is filled: from `first` on, up to n_positions */
    float *table;           /* from the first on */
};

/* Positions from .. to - 1 of one pair, from a multiple of TABLE_STEPS. The first is exact; from there the angle grows
 * by rotation in double, whose error over a few steps stays far below that of the float it is rounded to. */
static void fill_column(const struct table_job *job, int pair, int from, int to)
{
    double c = cos((double)from * job->inv_freq[pair]), s = sin((double)from * job->inv_freq[pair]);
    for (int pos = from; pos < to; pos++) {
        float *at = job->table + ((size_t)(pos - job->first) * (size_t)job->n_pairs + (size_t)pair) * 2;
        at[0] = (float)(c * job->factor);
        at[1] = (float)(s * job->factor);
        double next = c * job->step_cos[pair] - s * job->step_sin[pair];
        s = s * job->step_cos[pair] + c * job->step_sin[pair];
        c = next;
    }
}

static void fill_task(void *ctx, int task_idx, int worker_idx)
{
    (void)worker_idx;
    const struct table_job *job = ctx;
    int from = job->first + task_idx * TABLE_POSITIONS;
    int to = LF_MIN(from + TABLE_POSITIONS, job->n_positions);
    for (int at = from; at < to; at += TABLE_STEPS)
        for (int pair = 0; pair < job->n_pairs; pair++) fill_column(job, pair, at, LF_MIN(at + TABLE_STEPS, to));
}

static void begin_table(struct table_job *job, const struct lf_rope_opts *opts, int n_positions)
{
    *job = (struct table_job){.n_pairs = opts->rotary_dim / 2};
    LF_ASSERT(opts->rotary_dim >= 2 && opts->rotary_dim <= LF_HEAD_DIM && opts->rotary_dim % 2 == 0);
    lf_rope_inv_freq(opts, n_positions, job->inv_freq, &job->factor);
    for (int i = 0; i < job->n_pairs; i++) {
        job->step_cos[i] = cos(job->inv_freq[i]);
        job->step_sin[i] = sin(job->inv_freq[i]);
    }
}

/* Positions first .. end - 1; first: a multiple of TABLE_STEPS, so that each is reached from the same one. */
static void fill_part(struct lf_device *dev, struct table_job *job, int first, int end, float *table)
{
    int n = end - first;
    job->first = first;
    job->n_positions = end;
    job->table = table;
    lf_threads_run(lf_device_threads(dev), n / TABLE_POSITIONS + (n % TABLE_POSITIONS != 0), fill_task, job);
}

void lf_rope_table_fill(struct lf_device *dev, const struct lf_rope_opts *opts, int n_positions, float *table)
{
    struct table_job job;
    begin_table(&job, opts, n_positions);
    fill_part(dev, &job, 0, n_positions, table);
}

enum lf_status lf_rope_table_parts(struct lf_device *dev, const struct lf_rope_opts *opts, int n_positions,
                                   lf_rope_put_fn *put, void *ctx, struct lf_err *err)
{
    _Static_assert(LF_ROPE_PART_POSITIONS % TABLE_STEPS == 0, "parts begin where angles are exact");
    struct table_job job;
    int n_most = LF_MIN(n_positions, (int)LF_ROPE_PART_POSITIONS);
    float *part = malloc((size_t)lf_rope_table_bytes(opts, n_most));
    if (!part) return lf_fail(err, LF_NO_MEMORY, "no memory for %d positions of a rope table", n_most);
    begin_table(&job, opts, n_positions);
    for (int from = 0; from < n_positions; from += n_most) {
        int end = LF_MIN(n_positions - from, n_most) + from;
        fill_part(dev, &job, from, end, part);
        put(ctx, from, end - from, part);
    }
    free(part);
    return LF_OK;
}

struct append_job {
    const struct lf_rope_append_params *p;
    const struct lf_kv_seq *seqs;
    int n_seqs;
    lf_rope_rows_fn *rows_fn;
    int n_tokens;
};

static const struct lf_kv_seq *seq_of_row(const struct append_job *job, int row)
{
    const struct lf_kv_seq *seq = NULL;
    for (int i = 0; i < job->n_seqs && !seq; i++)
        if (row >= job->seqs[i].first_token && row < job->seqs[i].first_token + job->seqs[i].n_tokens)
            seq = &job->seqs[i];
    LF_ASSERT(seq);
    return seq;
}

static void append_task(void *ctx, int task_idx, int worker_idx)
{
    (void)worker_idx;
    const struct append_job *job = ctx;
    int end = LF_MIN((task_idx + 1) * LF_ROPE_RUN, job->n_tokens);
    for (int row = task_idx * LF_ROPE_RUN; row < end;) {
        const struct lf_kv_seq *seq = seq_of_row(job, row);
        int pos = seq->kv_len - seq->n_tokens + (row - seq->first_token);
        int n = LF_MIN(end, seq->first_token + seq->n_tokens) - row;
        n = LF_MIN(n, LF_KV_BLOCK_TOKENS - pos % LF_KV_BLOCK_TOKENS);
        const struct lf_kv_view *kv = job->p->kv;
        struct lf_rope_run run = {.row = row,
                                  .n = n,
                                  .pos = pos,
                                  .block = lf_kv_table(seq, kv)[pos / lf_kv_block_tokens(kv->stripe.n)],
                                  .is_kept = lf_kv_stripe_has(kv->stripe, pos) && !job->p->q_only};
        job->rows_fn(job->p, &run);
        row += n;
    }
}

static lf_rope_rows_fn *choose_rows(enum lf_isa isa)
{
#if defined(__x86_64__)
    if (isa >= LF_ISA_AVX512) return lf_rope_rows_avx512;
    if (isa >= LF_ISA_AVX2) return lf_rope_rows_avx2;
#endif
    (void)isa;
    return lf_rope_rows_c;
}

void lf_rope_append_cpu(struct lf_device *dev, const struct lf_rope_append_params *p, const struct lf_kv_seq *seqs,
                        int n_seqs)
{
    struct append_job job = {.p = p, .seqs = seqs, .n_seqs = n_seqs, .rows_fn = choose_rows(lf_device_info(dev)->isa)};
    LF_ASSERT(!p->v_of_k || p->v_norm); /* or the two would be one */
    LF_ASSERT(p->kv->head_dim <= LF_HEAD_DIM && p->kv->head_dim % LF_HEAD_DIM_STEP == 0);
    for (int i = 0; i < n_seqs; i++) job.n_tokens = LF_MAX(job.n_tokens, seqs[i].first_token + seqs[i].n_tokens);
    int n_tasks = job.n_tokens / LF_ROPE_RUN + (job.n_tokens % LF_ROPE_RUN != 0);
    lf_threads_run(lf_device_threads(dev), n_tasks, append_task, &job);
}
