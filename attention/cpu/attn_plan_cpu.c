/* The plan of a step on a CPU, and its run: which task computes what.
 *
 * A unit is (sequence, block of packed query rows), for all KV heads. A unit that is a large part of the step's work is
 * split into pieces of whole spans: their partial results go to the workspace and a second loop folds them. Pieces are
 * taken longest first. What is split, and how, changes no bit of the result (attention.h).
 *
 * Partial results have a fixed place of `n_slot_floats`. Units that do not fit in it together take turns: a round is
 * one loop over pieces and one over merges. The place holds at least one unit of any step at any length, so the
 * workspace depends on the shape and the number of threads only. There is one task list; it is made when a run asks for
 * a plan that it is not of. */
#include <stdlib.h>
#include <string.h>

#include "attention/attn_impl.h"
#include "attention/cpu/attn_kernel.h"
#include "attention/attn_task.h"
#include "attention/cpu/rope_run.h"
#include "core/check.h"
#include "core/sort.h"
#include "device/cpu/threads.h"

enum {
    TASKS_PER_THREAD = 4,
    /* A row block costs as much as this many rows more: its keys and values have to come from memory. */
    ROWS_EQUIVALENT = 8,
    /* Work below which splitting costs more than it brings: one span of a full block. */
    MIN_PIECE = LF_ATTN_SPAN * (LF_ATTN_ROWS + ROWS_EQUIVALENT),
    /* Rows of which a unit of any length must find a place for its partial results, in all heads together. */
    SLOT_ROWS = 16
};

struct unit {
    int64_t cost; /* keys × rows, of one head */
    int seq_idx;
    int first, n_rows;    /* packed rows */
    int span_lo, span_hi; /* spans with a visible key */
    size_t slot;          /* floats from the start of the partials; only of a split unit */
};

struct piece {
    int unit_idx;
    int span_lo, span_hi;
    bool partial;
};

/* Pieces first_piece.. and split units first_unit.. of one loop; the next round's are the ends. */
struct round {
    int first_piece, first_unit;
};

/* Where the parts of the workspace begin, in bytes; each a multiple of 64. */
struct layout {
    uint64_t scratch_bytes; /* of one worker; the scratches begin at 0 */
    uint64_t units, pieces, rounds, partials, total;
    size_t n_units, n_pieces;
    size_t n_slot_floats;
};

struct attn_cpu {
    struct lf_attn base;
    struct lf_threads *threads;
    const struct lf_attn_kernel *kernel;
    struct lf_attn_shape shape;
    struct layout layout;
    char *workspace; /* borrowed */
    struct unit *units;
    struct piece *pieces;
    struct round *rounds;
    float *partials;
    /* the task list */
    int plan_idx;                 /* that it is of; -1: none */
    const struct lf_kv_seq *seqs; /* borrowed */
    int n_units, n_split, n_pieces, n_rounds;
    const struct lf_attn_params *params; /* during run */
    int round_idx;
};

static uint64_t align64(uint64_t n)
{
    return (n + 63) / 64 * 64;
}

static int div_up(int a, int b)
{
    return a / b + (a % b != 0);
}

static size_t slot_floats(const struct lf_attn_shape *s, int n_rows, int n_spans)
{
    return lf_attn_partial_floats(n_rows, s->head_dim) * (size_t)n_spans * (size_t)s->n_kv_heads;
}

static void layout_init(struct layout *l, const struct lf_attn_shape *s, int n_threads)
{
    size_t group = (size_t)(s->n_heads / s->n_kv_heads);
    size_t rows = (size_t)s->max_rows * group; /* packed, of one head */
    int max_spans = div_up(s->max_kv_len, LF_ATTN_SPAN);

    l->scratch_bytes = align64(lf_attn_scratch_bytes(s->head_dim));
    l->n_units = rows / LF_ATTN_GROUP + (size_t)s->max_seqs;
    l->n_pieces = 2 * l->n_units + (size_t)(TASKS_PER_THREAD * n_threads);
    size_t one_unit = slot_floats(s, SLOT_ROWS, max_spans);
    size_t all_threads = lf_attn_partial_floats(LF_ATTN_ROWS, s->head_dim) * (size_t)(TASKS_PER_THREAD * n_threads);
    l->n_slot_floats = LF_MAX(one_unit, all_threads);

    l->units = l->scratch_bytes * (uint64_t)n_threads;
    l->pieces = l->units + align64(l->n_units * sizeof(struct unit));
    l->rounds = l->pieces + align64(l->n_pieces * sizeof(struct piece));
    l->partials = l->rounds + align64((l->n_units + 2) * sizeof(struct round));
    l->total = l->partials + align64(l->n_slot_floats * sizeof(float));
}

static uint64_t workspace_bytes(const struct lf_attn_shape *shape, const struct lf_device_info *info)
{
    struct layout l;
    layout_init(&l, shape, info->n_threads);
    return l.total;
}

static const struct lf_attn_kernel *choose_kernel(enum lf_isa isa, enum lf_dtype kv_dtype)
{
#if defined(__x86_64__)
    if (isa >= LF_ISA_AMX && kv_dtype == LF_BF16) return &lf_attn_kernel_amx;
    if (isa >= LF_ISA_AVX512_BF16 && kv_dtype == LF_BF16) return &lf_attn_kernel_avx512bf16;
    if (isa >= LF_ISA_AVX512) return &lf_attn_kernel_avx512;
    if (isa >= LF_ISA_AVX2) return &lf_attn_kernel_avx2;
#endif
    (void)isa;
    (void)kv_dtype;
    return &lf_attn_kernel_c;
}

static enum lf_status check(const struct lf_attn_shape *shape, const struct lf_device_info *info, struct lf_err *err)
{
    (void)info;
    if (shape->kv_dtype == LF_F32 || shape->kv_dtype == LF_BF16) return LF_OK;
    return lf_fail(err, LF_UNSUPPORTED, "attention: KV of type %s; expected f32 or bf16",
                   lf_dtype_name(shape->kv_dtype));
}

static enum lf_status create(struct lf_attn **out, struct lf_device *dev, enum lf_isa isa,
                             const struct lf_attn_shape *shape, struct lf_buffer workspace, struct lf_err *err)
{
    const struct lf_device_info *info = lf_device_info(dev);
    if (isa > info->isa)
        return lf_fail(err, LF_UNSUPPORTED, "attention: %s kernels asked for, the device has %s", lf_isa_name(isa),
                       lf_isa_name(info->isa));
    struct attn_cpu *a = calloc(1, sizeof(*a));
    if (!a) return lf_fail(err, LF_NO_MEMORY, "attention: %zu bytes", sizeof(*a));
    a->threads = lf_device_threads(dev);
    a->kernel = choose_kernel(isa, shape->kv_dtype);
    a->shape = *shape;
    layout_init(&a->layout, shape, info->n_threads);
    a->workspace = workspace.ptr;
    a->units = (struct unit *)(void *)(a->workspace + a->layout.units);
    a->pieces = (struct piece *)(void *)(a->workspace + a->layout.pieces);
    a->rounds = (struct round *)(void *)(a->workspace + a->layout.rounds);
    a->partials = (float *)(void *)(a->workspace + a->layout.partials);
    a->plan_idx = -1;
    *out = &a->base;
    return LF_OK;
}

static void destroy(struct lf_attn *attn)
{
    free(attn);
}

/* ---- the plan ---- */

static void unit_init(struct unit *u, const struct lf_kv_seq *seq, int seq_idx, int first, int n_rows, int group,
                      int window)
{
    int pos0 = seq->kv_len - seq->n_tokens;
    int pos_first = pos0 + first / group, pos_last = pos0 + (first + n_rows - 1) / group;
    int key_lo = window > 0 && pos_first >= window ? pos_first - window + 1 : 0;
    u->seq_idx = seq_idx;
    u->first = first;
    u->n_rows = n_rows;
    u->span_lo = key_lo / LF_ATTN_SPAN;
    u->span_hi = pos_last / LF_ATTN_SPAN + 1;
    u->cost = (int64_t)(pos_last + 1 - key_lo) * (n_rows + ROWS_EQUIVALENT);
    u->slot = 0;
}

/* Cuts all rows into units of at most block_rows; returns how many (head, span) pieces they could be split into. */
static int64_t cut_units(struct attn_cpu *a, const struct lf_kv_seq *seqs, int n_seqs, int window, int block_rows)
{
    int group = a->shape.n_heads / a->shape.n_kv_heads;
    int64_t n_pieces = 0;
    a->n_units = 0;
    for (int i = 0; i < n_seqs; i++) {
        int n_rows = seqs[i].n_tokens * group;
        for (int first = 0; first < n_rows; first += block_rows) {
            LF_ASSERT((size_t)a->n_units < a->layout.n_units);
            struct unit *u = &a->units[a->n_units++];
            unit_init(u, &seqs[i], i, first, LF_MIN(block_rows, n_rows - first), group, window);
            int n_spans = u->span_hi - u->span_lo;
            bool fits = slot_floats(&a->shape, u->n_rows, n_spans) <= a->layout.n_slot_floats;
            n_pieces += fits ? LF_MIN((int64_t)n_spans, u->cost / MIN_PIECE + 1) : 1;
        }
    }
    return n_pieces * a->shape.n_kv_heads;
}

/* Longest first. */
static bool comes_before(const void *a, const void *b)
{
    return ((const struct unit *)a)->cost > ((const struct unit *)b)->cost;
}

static void add_piece(struct attn_cpu *a, int unit_idx, int span_lo, int span_hi, bool partial)
{
    LF_ASSERT((size_t)a->n_pieces < a->layout.n_pieces);
    a->pieces[a->n_pieces++] =
        (struct piece){.unit_idx = unit_idx, .span_lo = span_lo, .span_hi = span_hi, .partial = partial};
}

/* How many pieces a unit should become, 1 if it stays whole. */
static int n_pieces_of(const struct attn_cpu *a, const struct unit *u, int64_t target)
{
    int n_spans = u->span_hi - u->span_lo;
    if (u->cost <= target + target / 2 || n_spans < 2) return 1;
    if (slot_floats(&a->shape, u->n_rows, n_spans) > a->layout.n_slot_floats) return 1;
    return (int)LF_MIN((int64_t)n_spans, u->cost / target + 1);
}

static void begin_round(struct attn_cpu *a, int first_unit)
{
    a->rounds[a->n_rounds++] = (struct round){.first_piece = a->n_pieces, .first_unit = first_unit};
}

/* The units come longest first, so those to be split come first. */
static void make_pieces(struct attn_cpu *a, int64_t target)
{
    size_t used = 0;
    a->n_pieces = a->n_rounds = a->n_split = 0;
    begin_round(a, 0);
    for (int i = 0; i < a->n_units; i++) {
        struct unit *u = &a->units[i];
        int n = n_pieces_of(a, u, target), n_spans = u->span_hi - u->span_lo;
        if (n == 1 || a->n_split < i) {
            add_piece(a, i, u->span_lo, u->span_hi, false);
            continue;
        }
        size_t need = slot_floats(&a->shape, u->n_rows, n_spans);
        if (used + need > a->layout.n_slot_floats) {
            begin_round(a, i);
            used = 0;
        }
        u->slot = used;
        used += need;
        a->n_split++;
        for (int k = 0; k < n; k++) {
            int lo = u->span_lo + (int)((int64_t)n_spans * k / n);
            int hi = u->span_lo + (int)((int64_t)n_spans * (k + 1) / n);
            add_piece(a, i, lo, hi, true);
        }
    }
    a->rounds[a->n_rounds] = (struct round){.first_piece = a->n_pieces, .first_unit = a->n_split};
}

static void plan(struct lf_attn *attn, int plan_idx)
{
    struct attn_cpu *a = (struct attn_cpu *)attn;
    if (a->plan_idx == plan_idx) a->plan_idx = -1;
}

/* The task list of a plan. */
static void make_tasks(struct attn_cpu *a, int plan_idx)
{
    const struct lf_attn_plan *p = &a->base.plans[plan_idx];
    a->plan_idx = plan_idx;
    a->seqs = p->seqs;
    /* Smaller blocks only where large ones leave threads without work even when split: they read keys more often. */
    int64_t wanted = (int64_t)TASKS_PER_THREAD * lf_threads_n(a->threads);
    for (int block_rows = LF_ATTN_ROWS;; block_rows /= 2) {
        int64_t n = cut_units(a, p->seqs, p->n_seqs, p->window, block_rows);
        if (n >= wanted || block_rows <= LF_ATTN_GROUP) break;
    }
    lf_sort(a->units, (size_t)a->n_units, sizeof *a->units, comes_before);
    int64_t total = 0;
    for (int i = 0; i < a->n_units; i++) total += a->units[i].cost;
    make_pieces(a, LF_MAX(total * a->shape.n_kv_heads / wanted, (int64_t)MIN_PIECE));
}

/* ---- the run ---- */

static struct lf_attn_rows rows_of(const struct attn_cpu *a, const struct unit *u, int kv_head)
{
    return (struct lf_attn_rows){.seq = &a->seqs[u->seq_idx], .kv_head = kv_head, .first = u->first, .n = u->n_rows};
}

/* The partial results of a unit's head. */
static float *partials_of(const struct attn_cpu *a, const struct unit *u, int kv_head)
{
    size_t n_spans = (size_t)(u->span_hi - u->span_lo);
    size_t one_head = lf_attn_partial_floats(u->n_rows, a->shape.head_dim) * n_spans;
    return a->partials + u->slot + one_head * (size_t)kv_head;
}

static void run_piece(void *ctx, int task_idx, int worker_idx)
{
    const struct attn_cpu *a = ctx;
    int n_heads = a->shape.n_kv_heads;
    const struct piece *piece = &a->pieces[a->rounds[a->round_idx].first_piece + task_idx / n_heads];
    const struct unit *u = &a->units[piece->unit_idx];
    struct lf_attn_rows rows = rows_of(a, u, task_idx % n_heads);
    void *scratch = a->workspace + a->layout.scratch_bytes * (uint64_t)worker_idx;
    if (!piece->partial) {
        lf_attn_task_whole(a->kernel, a->params, a->shape.n_heads, &rows, piece->span_lo, piece->span_hi, scratch);
        return;
    }
    float *partials = partials_of(a, u, rows.kv_head) +
                      lf_attn_partial_floats(u->n_rows, a->shape.head_dim) * (size_t)(piece->span_lo - u->span_lo);
    lf_attn_task_partial(a->kernel, a->params, a->shape.n_heads, &rows, piece->span_lo, piece->span_hi, partials,
                         scratch);
}

static void run_merge(void *ctx, int task_idx, int worker_idx)
{
    const struct attn_cpu *a = ctx;
    int n_heads = a->shape.n_kv_heads;
    const struct unit *u = &a->units[a->rounds[a->round_idx].first_unit + task_idx / n_heads];
    struct lf_attn_rows rows = rows_of(a, u, task_idx % n_heads);
    void *scratch = a->workspace + a->layout.scratch_bytes * (uint64_t)worker_idx;
    lf_attn_task_merge(a->kernel, a->params, a->shape.n_heads, &rows, u->span_hi - u->span_lo,
                       partials_of(a, u, rows.kv_head), scratch);
}

static void run(struct lf_attn *attn, int plan_idx, const struct lf_attn_params *p)
{
    struct attn_cpu *a = (struct attn_cpu *)attn;
    int n_heads = a->shape.n_kv_heads;
    if (a->plan_idx != plan_idx) make_tasks(a, plan_idx);
    a->params = p;
    for (a->round_idx = 0; a->round_idx < a->n_rounds; a->round_idx++) {
        const struct round *now = &a->rounds[a->round_idx], *next = now + 1;
        lf_threads_run(a->threads, (next->first_piece - now->first_piece) * n_heads, run_piece, a);
        int n_merges = (next->first_unit - now->first_unit) * n_heads;
        if (n_merges > 0) lf_threads_run(a->threads, n_merges, run_merge, a);
    }
    a->params = NULL;
}

static void rope_append(struct lf_attn *attn, const struct lf_rope_append_params *p)
{
    lf_rope_append_cpu(attn->dev, p, attn->plans[0].seqs, attn->plans[0].n_seqs);
}

const struct lf_attn_backend lf_attn_backend_cpu = {.check = check,
                                                    .workspace_bytes = workspace_bytes,
                                                    .create = create,
                                                    .destroy = destroy,
                                                    .plan = plan,
                                                    .run = run,
                                                    .rope_append = rope_append};
