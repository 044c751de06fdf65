/* The gated delta rule on a CPU, token by token (device/delta.h).
 *
 * Columns of S never meet: a strip of them, [k_dim, some columns], is a task of its own and goes through all tokens of
 * its sequence in this step while it lies in the first cache. What all strips of a head need of a token (k̂, q̂ and the
 * gates) is computed before, once, and lies in the scratch in the order in which a strip reads it. A strip is cut at
 * its marks: there the kernel writes S to the mark's slot and goes on from it.
 *
 * Why not in chunks. The chunked form (of the same paper; what a GPU does) turns the rule into products of
 * matrices. Multiply-adds a token and head, with k_dim = v_dim = D and chunks of C tokens:
 *
 *     token by token    Sᵀ k̂, Sᵀ q̂ and the update              3 D², and D² multiplications by e^g
 *     in chunks         the same three                          3 D²
 *                       lower halves of K Kᵀ, Q Kᵀ, the solve
 *                       for u and Q Kᵀ's product with it        4 · C D / 2
 *
 * At D = 128 and C = 64 both are 65,536 operations: tensor cores make of the second what is cheap there, a vector unit
 * does not care. Ours are done at 80% of the rate of FMAs on registers alone, a GEMM of that size gets 94%
 * (docs/notebook/delta-cpu.md), and the solve is no GEMM. Chunks of 16 would save a third of the recurrence at the very
 * best, which is 2 to 7% of its layer's prefill. For this a token's bits would depend on where in a chunk it stands and
 * what of the chunk a step has: prefill, decode and snapshots would no longer agree. AMX multiplies bf16 and int8 only;
 * S and what is added to it are fp32, and to round them to eight bits at every token is another model. */
#include "device/cpu/delta.h"

#include <string.h>

#include "core/check.h"
#include "device/cpu/threads.h"
#include "device/device_impl.h"

enum {
    HEADS_AT_ONCE = 64,          /* whose gates are computed together */
    PREPARE_PER_TASK = 8 * 1024, /* floats that are worth a task of their own */
    STATE_PER_TASK = 16 * 1024   /* elements of S, times tokens, likewise */
};

struct delta {
    struct lf_device *dev;
    const struct lf_delta_params *p;
    float *units;                /* [n_k_heads, T, 2 · k_dim] */
    struct lf_delta_gate *gates; /* [n_v_heads, T] */
    int cols, n_strips;          /* of one strip; of a head. Where all have one token, a head is one strip */
    int tokens_per_task, strips_per_task;
};

static uint64_t units_bytes(const struct lf_delta_shape *shape, int n_tokens)
{
    return (uint64_t)shape->n_k_heads * (uint64_t)n_tokens * 2 * (uint64_t)shape->k_dim * sizeof(float);
}

uint64_t lf_cpu_delta_scratch_bytes(const struct lf_delta_shape *shape, int n_tokens, int n_seqs)
{
    (void)n_seqs;
    uint64_t gates = (uint64_t)shape->n_v_heads * (uint64_t)n_tokens * sizeof(struct lf_delta_gate);
    return (units_bytes(shape, n_tokens) + gates + 255) / 256 * 256;
}

static void check_seq(const struct lf_state_seq *seq, const struct lf_state_step *step, int n_tokens)
{
    LF_ASSERT(seq->n_tokens >= 0 && seq->first_token >= 0 && seq->first_token <= n_tokens - seq->n_tokens);
    LF_ASSERT(seq->out >= 0 && seq->in >= -1 && seq->n_marks >= 0);
    for (int m = 0; m < seq->n_marks; m++) {
        const struct lf_state_mark *mark = &step->marks[seq->first_mark + m];
        LF_ASSERT(mark->n_tokens >= (m == 0 ? 1 : mark[-1].n_tokens + 1) && mark->n_tokens <= seq->n_tokens);
        LF_ASSERT((seq->position + mark->n_tokens) % LF_DELTA_CHUNK == 0 && mark->slot >= 0 && mark->slot != seq->out);
    }
}

void lf_cpu_check_states(const struct lf_delta_shape *shape, const struct lf_state_step *step, int n_tokens)
{
    LF_ASSERT(shape->n_k_heads > 0 && shape->n_v_heads > 0 && shape->n_v_heads % shape->n_k_heads == 0);
    LF_ASSERT(shape->k_dim > 0 && shape->k_dim % 8 == 0 && shape->k_dim <= LF_DELTA_DIM_MAX);
    LF_ASSERT(shape->v_dim > 0 && shape->v_dim % 8 == 0 && shape->v_dim <= LF_DELTA_DIM_MAX);
    LF_ASSERT(shape->conv_width >= 2 && shape->conv_width <= LF_CONV_WIDTH_MAX && n_tokens >= 0);
    for (int i = 0; i < step->n_seqs; i++)
        if (step->seqs[i].n_tokens != 0) check_seq(&step->seqs[i], step, n_tokens);
}

/* ---- what strips share ---- */

static void prepare_gates(const struct delta *d, int t)
{
    const struct lf_delta_params *p = d->p;
    int n_heads = p->shape.n_v_heads;
    const float *b = p->ba + (size_t)t * 2 * (size_t)n_heads, *a = b + n_heads;
    for (int first = 0; first < n_heads; first += HEADS_AT_ONCE) {
        float decay[HEADS_AT_ONCE], beta[HEADS_AT_ONCE];
        int n = LF_MIN(HEADS_AT_ONCE, n_heads - first);
        d->dev->delta.gates(decay, beta, b + first, a + first, p->a_log + first, p->dt + first, n);
        for (int i = 0; i < n; i++) {
            struct lf_delta_gate *gate = d->gates + (size_t)(first + i) * (size_t)p->n_tokens + (size_t)t;
            gate->decay = decay[i];
            gate->beta = beta[i];
        }
    }
}

static void prepare_units(const struct delta *d, int t)
{
    const struct lf_delta_params *p = d->p;
    int k_dim = p->shape.k_dim, n_k = p->shape.n_k_heads, group = p->shape.n_v_heads / n_k;
    const float *q = (const float *)p->qkv + (size_t)t * (size_t)lf_delta_channels(&p->shape);
    for (int h = 0; h < n_k; h++, q += k_dim) {
        size_t at = (size_t)h * (size_t)p->n_tokens + (size_t)t;
        float kq = d->dev->delta.units(d->units + at * 2 * (size_t)k_dim, q + (size_t)n_k * (size_t)k_dim, q, k_dim);
        for (int i = h * group; i < (h + 1) * group; i++) d->gates[(size_t)i * (size_t)p->n_tokens + (size_t)t].kq = kq;
    }
}

static void prepare_task(void *ctx, int task_idx, int worker_idx)
{
    (void)worker_idx;
    const struct delta *d = ctx;
    int first = task_idx * d->tokens_per_task, end = LF_MIN(first + d->tokens_per_task, d->p->n_tokens);
    for (int t = first; t < end; t++) {
        prepare_gates(d, t);
        prepare_units(d, t);
    }
}

/* ---- strips ---- */

static float *state_of(const struct lf_delta_params *p, int slot)
{
    return (float *)(void *)((char *)p->state.base + (uint64_t)slot * p->state.slot_bytes + p->state.offset);
}

static void copy_strip(float *to, const float *from, const struct lf_delta_strip *s)
{
    for (size_t i = 0; i < (size_t)s->k_dim; i++)
        memcpy(to + i * (size_t)s->v_dim, from + i * (size_t)s->v_dim, (size_t)s->n_cols * sizeof(float));
}

/* Columns [col, col + n_cols) of a value head through a sequence's tokens. */
static void run_strip(const struct delta *d, const struct lf_state_seq *seq, int head, int col, int n_cols)
{
    const struct lf_delta_params *p = d->p;
    const struct lf_delta_shape *shape = &p->shape;
    size_t k_dim = (size_t)shape->k_dim, v_dim = (size_t)shape->v_dim, row = (size_t)seq->first_token;
    size_t channels = (size_t)lf_delta_channels(shape), n_tokens = (size_t)p->n_tokens, h = (size_t)head;
    size_t k_head = h / (size_t)(shape->n_v_heads / shape->n_k_heads);
    size_t in_state = h * k_dim * v_dim + (size_t)col;
    struct lf_delta_strip s = {.in = seq->in < 0 ? NULL : state_of(p, seq->in) + in_state,
                               .k_dim = shape->k_dim,
                               .v_dim = shape->v_dim,
                               .n_cols = n_cols,
                               .units = d->units + (k_head * n_tokens + row) * 2 * k_dim,
                               .gates = d->gates + h * n_tokens + row,
                               .v_stride = channels,
                               .y_stride = (size_t)shape->n_v_heads * v_dim};
    s.v = (const float *)p->qkv + row * channels + 2 * (size_t)shape->n_k_heads * k_dim + h * v_dim + col;
    s.y = (float *)p->out + row * s.y_stride + h * v_dim + col;
    float *last = state_of(p, seq->out) + in_state;
    for (int m = 0, done = 0; done < seq->n_tokens; m++) {
        const struct lf_state_mark *mark = m < seq->n_marks ? &p->step->marks[seq->first_mark + m] : NULL;
        s.n_tokens = (mark != NULL ? mark->n_tokens : seq->n_tokens) - done;
        s.out = mark != NULL ? state_of(p, mark->slot) + in_state : last;
        d->dev->delta.strip(&s);
        s.in = s.out;
        done += s.n_tokens;
        s.units += (size_t)s.n_tokens * 2 * k_dim;
        s.gates += s.n_tokens;
        s.v += (size_t)s.n_tokens * s.v_stride;
        s.y += (size_t)s.n_tokens * s.y_stride;
    }
    if (s.out != last) copy_strip(last, s.out, &s);
}

/* Columns [first, end) of a head, in strips as wide as the kernel likes them: step_cols are there only where no
 * sequence of the step has more than one token. */
static void run_strips(const struct delta *d, const struct lf_state_seq *seq, int head, int first, int end)
{
    const struct lf_delta_kernels *kernels = &d->dev->delta;
    for (int col = first, n; col < end; col += n) {
        n = end - col >= kernels->step_cols ? kernels->step_cols : LF_MIN(kernels->strip_cols, end - col);
        run_strip(d, seq, head, col, n);
    }
}

static void strip_task(void *ctx, int task_idx, int worker_idx)
{
    (void)worker_idx;
    const struct delta *d = ctx;
    const struct lf_delta_shape *shape = &d->p->shape;
    int per_seq = shape->n_v_heads * d->n_strips;
    int first = task_idx * d->strips_per_task, end = LF_MIN(first + d->strips_per_task, d->p->step->n_seqs * per_seq);
    for (int i = first; i < end; i++) {
        const struct lf_state_seq *seq = &d->p->step->seqs[i / per_seq];
        int col = i % d->n_strips * d->cols;
        if (seq->n_tokens > 0) run_strips(d, seq, i % per_seq / d->n_strips, col, LF_MIN(col + d->cols, shape->v_dim));
    }
}

void lf_cpu_delta(struct lf_device *dev, const struct lf_delta_params *p)
{
    const struct lf_delta_shape *shape = &p->shape;
    lf_cpu_check_states(shape, p->step, p->n_tokens);
    if (p->n_tokens == 0) return;
    LF_ASSERT(p->scratch != NULL);
    char *gates = (char *)p->scratch + units_bytes(shape, p->n_tokens);
    int n_seqs = p->step->n_seqs, longest = 0;
    for (int i = 0; i < n_seqs; i++) longest = LF_MAX(longest, p->step->seqs[i].n_tokens);
    struct delta d = {.dev = dev,
                      .p = p,
                      .units = p->scratch,
                      .gates = (struct lf_delta_gate *)(void *)gates,
                      .cols = longest == 1 ? shape->v_dim : dev->delta.strip_cols,
                      .tokens_per_task = LF_MAX(1, PREPARE_PER_TASK / lf_delta_channels(shape))};
    d.n_strips = (shape->v_dim + d.cols - 1) / d.cols;
    lf_threads_run(dev->threads, (p->n_tokens + d.tokens_per_task - 1) / d.tokens_per_task, prepare_task, &d);
    int n = n_seqs * shape->n_v_heads * d.n_strips;
    int64_t per_strip = (int64_t)LF_MAX(longest, 1) * shape->k_dim * d.cols;
    d.strips_per_task = (int)LF_MAX(1, STATE_PER_TASK / per_strip);
    lf_threads_run(dev->threads, (n + d.strips_per_task - 1) / d.strips_per_task, strip_task, &d);
}
