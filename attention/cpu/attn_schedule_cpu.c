/* The attention schedule of a step on a CPU, and its run: which task computes what.
 *
 * A work tile is (sequence, block of packed query rows), for all KV heads. A work tile that is a large share of the
 * step's work is cut into parts of whole splits: their partial results go to the workspace and a second loop combines
 * them. Work tiles are taken longest first. What is cut, and how, changes no bit of the result (attention.h).
 *
 * The workspace has room for `n_slot_floats` of partial results. Work tiles that do not fit in it together take turns:
 * a round is one loop over parts and one over combines. There is room for at least one work tile of any step at any
 * length, so the workspace depends on the shape and the number of threads only. There is one task list; it is made when
 * a run comes with a schedule that it is not of. */
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
    /* Work below which cutting costs more than it brings: one split of a full block. */
    MIN_PART = LF_ATTN_SPLIT * (LF_ATTN_ROWS + ROWS_EQUIVALENT),
    /* Query rows of a work tile of any length whose partial results must fit, in all heads together. */
    SLOT_ROWS = 16
};

struct work_tile {
    int64_t cost; /* keys × query rows, of one head */
    int seq_idx;
    int first, n_rows;      /* packed rows */
    int split_lo, split_hi; /* splits with a visible key; of a stripe there may be none */
    size_t slot;            /* floats from the start of the partial results; only of one that is cut */
};

struct part {
    int tile_idx;
    int split_lo, split_hi;
    bool partial;
};

/* Parts first_part.. and cut work tiles first_tile.. of one loop; the next round's are the ends. */
struct round {
    int first_part, first_tile;
};

/* Where the parts of the workspace begin, in bytes; each a multiple of 64. */
struct layout {
    uint64_t scratch_bytes; /* of one worker; the scratches begin at 0 */
    uint64_t work_tiles, parts, rounds, partials, total;
    size_t n_work_tiles, n_parts;
    size_t n_slot_floats;
};

struct attn_cpu {
    struct lf_attn base;
    struct lf_threads *threads;
    const struct lf_attn_kernel *kernel;
    struct lf_attn_shape shape;
    struct layout layout;
    char *workspace; /* borrowed */
    struct work_tile *work_tiles;
    struct part *parts;
    struct round *rounds;
    float *partials;
    /* the task list */
    int schedule_idx;             /* that it is of; -1: none */
    const struct lf_kv_seq *seqs; /* borrowed */
    int n_work_tiles, n_partial, n_parts, n_rounds;
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

static size_t slot_floats(const struct lf_attn_shape *s, int n_rows, int n_splits)
{
    return lf_attn_partial_floats(n_rows, s->head_dim) * (size_t)n_splits * (size_t)s->n_kv_heads;
}

static void layout_init(struct layout *l, const struct lf_attn_shape *s, int n_threads)
{
    size_t group = (size_t)(s->n_heads / s->n_kv_heads);
    size_t rows = (size_t)s->max_tokens * group; /* packed, of one head */
    int max_splits = div_up(lf_kv_stripe_tokens(s->stripe, s->max_kv_len), LF_ATTN_SPLIT);

    l->scratch_bytes = align64(lf_attn_scratch_bytes(s->head_dim, s->kv_dtype));
    l->n_work_tiles = rows / LF_ATTN_GROUP + (size_t)s->max_seqs;
    l->n_parts = 2 * l->n_work_tiles + (size_t)(TASKS_PER_THREAD * n_threads);
    size_t one_tile = slot_floats(s, SLOT_ROWS, max_splits);
    size_t all_threads = lf_attn_partial_floats(LF_ATTN_ROWS, s->head_dim) * (size_t)(TASKS_PER_THREAD * n_threads);
    l->n_slot_floats = LF_MAX(one_tile, all_threads);

    l->work_tiles = l->scratch_bytes * (uint64_t)n_threads;
    l->parts = l->work_tiles + align64(l->n_work_tiles * sizeof(struct work_tile));
    l->rounds = l->parts + align64(l->n_parts * sizeof(struct part));
    l->partials = l->rounds + align64((l->n_work_tiles + 2) * sizeof(struct round));
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
    if (kv_dtype == LF_E4M3) kv_dtype = LF_BF16; /* what its pages are expanded to */
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
    if (shape->kv_dtype != LF_F16) return LF_OK;
    return lf_fail(err, LF_UNSUPPORTED, "attention: KV of type %s; expected f32, bf16 or fp8",
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
    a->work_tiles = (struct work_tile *)(void *)(a->workspace + a->layout.work_tiles);
    a->parts = (struct part *)(void *)(a->workspace + a->layout.parts);
    a->rounds = (struct round *)(void *)(a->workspace + a->layout.rounds);
    a->partials = (float *)(void *)(a->workspace + a->layout.partials);
    a->schedule_idx = -1;
    *out = &a->base;
    return LF_OK;
}

static void destroy(struct lf_attn *attn)
{
    free(attn);
}

/* ---- the schedule ---- */

static void work_tile_init(struct work_tile *w, const struct lf_attn_shape *shape, const struct lf_kv_seq *seq,
                           int seq_idx, int first, int n_rows, int window)
{
    int group = shape->n_heads / shape->n_kv_heads, pos0 = seq->kv_len - seq->n_tokens;
    int lo = lf_attn_keys(shape->stripe, pos0 + first / group, window).lo;
    int hi = lf_attn_keys(shape->stripe, pos0 + (first + n_rows - 1) / group, window).hi;
    w->seq_idx = seq_idx;
    w->first = first;
    w->n_rows = n_rows;
    w->split_lo = lo / LF_ATTN_SPLIT;
    w->split_hi = div_up(hi, LF_ATTN_SPLIT);
    w->cost = (int64_t)(hi - lo) * (n_rows + ROWS_EQUIVALENT);
    w->slot = 0;
}

/* Cuts all query rows into work tiles of at most block_rows; returns how many parts, heads counted, there could be. */
static int64_t cut_work_tiles(struct attn_cpu *a, const struct lf_kv_seq *seqs, int n_seqs, int window, int block_rows)
{
    int group = a->shape.n_heads / a->shape.n_kv_heads;
    int64_t n_parts = 0;
    a->n_work_tiles = 0;
    for (int i = 0; i < n_seqs; i++) {
        int n_rows = seqs[i].n_tokens * group;
        for (int first = 0; first < n_rows; first += block_rows) {
            LF_ASSERT((size_t)a->n_work_tiles < a->layout.n_work_tiles);
            struct work_tile *w = &a->work_tiles[a->n_work_tiles++];
            work_tile_init(w, &a->shape, &seqs[i], i, first, LF_MIN(block_rows, n_rows - first), window);
            int n_splits = w->split_hi - w->split_lo;
            bool fits = slot_floats(&a->shape, w->n_rows, n_splits) <= a->layout.n_slot_floats;
            n_parts += fits ? LF_MIN((int64_t)n_splits, w->cost / MIN_PART + 1) : 1;
        }
    }
    return n_parts * a->shape.n_kv_heads;
}

/* Longest first. */
static bool comes_before(const void *a, const void *b)
{
    return ((const struct work_tile *)a)->cost > ((const struct work_tile *)b)->cost;
}

static void add_part(struct attn_cpu *a, int tile_idx, int split_lo, int split_hi, bool partial)
{
    LF_ASSERT((size_t)a->n_parts < a->layout.n_parts);
    a->parts[a->n_parts++] =
        (struct part){.tile_idx = tile_idx, .split_lo = split_lo, .split_hi = split_hi, .partial = partial};
}

/* How many parts a work tile should become, 1 if it stays whole. */
static int n_parts_of(const struct attn_cpu *a, const struct work_tile *w, int64_t target)
{
    int n_splits = w->split_hi - w->split_lo;
    if (w->cost <= target + target / 2 || n_splits < 2) return 1;
    if (slot_floats(&a->shape, w->n_rows, n_splits) > a->layout.n_slot_floats) return 1;
    return (int)LF_MIN((int64_t)n_splits, w->cost / target + 1);
}

static void begin_round(struct attn_cpu *a, int first_tile)
{
    a->rounds[a->n_rounds++] = (struct round){.first_part = a->n_parts, .first_tile = first_tile};
}

/* Work tiles come longest first, so those to be cut come first. */
static void make_parts(struct attn_cpu *a, int64_t target)
{
    size_t used = 0;
    a->n_parts = a->n_rounds = a->n_partial = 0;
    begin_round(a, 0);
    for (int i = 0; i < a->n_work_tiles; i++) {
        struct work_tile *w = &a->work_tiles[i];
        int n = n_parts_of(a, w, target), n_splits = w->split_hi - w->split_lo;
        if (n == 1 || a->n_partial < i) {
            add_part(a, i, w->split_lo, w->split_hi, false);
            continue;
        }
        size_t need = slot_floats(&a->shape, w->n_rows, n_splits);
        if (used + need > a->layout.n_slot_floats) {
            begin_round(a, i);
            used = 0;
        }
        w->slot = used;
        used += need;
        a->n_partial++;
        for (int k = 0; k < n; k++) {
            int lo = w->split_lo + (int)((int64_t)n_splits * k / n);
            int hi = w->split_lo + (int)((int64_t)n_splits * (k + 1) / n);
            add_part(a, i, lo, hi, true);
        }
    }
    a->rounds[a->n_rounds] = (struct round){.first_part = a->n_parts, .first_tile = a->n_partial};
}

static void schedule(struct lf_attn *attn, int schedule_idx)
{
    struct attn_cpu *a = (struct attn_cpu *)attn;
    if (a->schedule_idx == schedule_idx) a->schedule_idx = -1;
}

/* The task list of a schedule. */
static void make_tasks(struct attn_cpu *a, int schedule_idx)
{
    const struct lf_attn_schedule *p = &a->base.schedules[schedule_idx];
    a->schedule_idx = schedule_idx;
    a->seqs = p->seqs;
    /* Smaller blocks only where large ones leave threads without work even when cut: they read keys more often. */
    int64_t wanted = (int64_t)TASKS_PER_THREAD * lf_threads_n(a->threads);
    for (int block_rows = LF_ATTN_ROWS;; block_rows /= 2) {
        int64_t n = cut_work_tiles(a, p->seqs, p->n_seqs, p->kind.window, block_rows);
        if (n >= wanted || block_rows <= LF_ATTN_GROUP) break;
    }
    lf_sort(a->work_tiles, (size_t)a->n_work_tiles, sizeof *a->work_tiles, comes_before);
    int64_t total = 0;
    for (int i = 0; i < a->n_work_tiles; i++) total += a->work_tiles[i].cost;
    make_parts(a, LF_MAX(total * a->shape.n_kv_heads / wanted, (int64_t)MIN_PART));
}

/* ---- the run ---- */

static struct lf_attn_rows rows_of(const struct attn_cpu *a, const struct work_tile *w, int kv_head)
{
    return (struct lf_attn_rows){.seq = &a->seqs[w->seq_idx], .kv_head = kv_head, .first = w->first, .n = w->n_rows};
}

/* The partial results of a work tile's head. */
static float *partials_of(const struct attn_cpu *a, const struct work_tile *w, int kv_head)
{
    size_t n_splits = (size_t)(w->split_hi - w->split_lo);
    size_t one_head = lf_attn_partial_floats(w->n_rows, a->shape.head_dim) * n_splits;
    return a->partials + w->slot + one_head * (size_t)kv_head;
}

static void run_part(void *ctx, int task_idx, int worker_idx)
{
    const struct attn_cpu *a = ctx;
    int n_heads = a->shape.n_kv_heads;
    const struct part *part = &a->parts[a->rounds[a->round_idx].first_part + task_idx / n_heads];
    const struct work_tile *w = &a->work_tiles[part->tile_idx];
    struct lf_attn_rows rows = rows_of(a, w, task_idx % n_heads);
    void *scratch = a->workspace + a->layout.scratch_bytes * (uint64_t)worker_idx;
    if (!part->partial) {
        lf_attn_task_whole(a->kernel, a->params, a->shape.n_heads, &rows, part->split_lo, part->split_hi, scratch);
        return;
    }
    float *partials = partials_of(a, w, rows.kv_head) +
                      lf_attn_partial_floats(w->n_rows, a->shape.head_dim) * (size_t)(part->split_lo - w->split_lo);
    lf_attn_task_partial(a->kernel, a->params, a->shape.n_heads, &rows, part->split_lo, part->split_hi, partials,
                         scratch);
}

static void run_combine(void *ctx, int task_idx, int worker_idx)
{
    const struct attn_cpu *a = ctx;
    int n_heads = a->shape.n_kv_heads;
    const struct work_tile *w = &a->work_tiles[a->rounds[a->round_idx].first_tile + task_idx / n_heads];
    struct lf_attn_rows rows = rows_of(a, w, task_idx % n_heads);
    void *scratch = a->workspace + a->layout.scratch_bytes * (uint64_t)worker_idx;
    lf_attn_task_combine(a->kernel, a->params, a->shape.n_heads, &rows, w->split_hi - w->split_lo,
                         partials_of(a, w, rows.kv_head), scratch);
}

static void run(struct lf_attn *attn, int schedule_idx, const struct lf_attn_params *p)
{
    struct attn_cpu *a = (struct attn_cpu *)attn;
    int n_heads = a->shape.n_kv_heads;
    if (a->schedule_idx != schedule_idx) make_tasks(a, schedule_idx);
    a->params = p;
    for (a->round_idx = 0; a->round_idx < a->n_rounds; a->round_idx++) {
        const struct round *now = &a->rounds[a->round_idx], *next = now + 1;
        lf_threads_run(a->threads, (next->first_part - now->first_part) * n_heads, run_part, a);
        int n_combines = (next->first_tile - now->first_tile) * n_heads;
        if (n_combines > 0) lf_threads_run(a->threads, n_combines, run_combine, a);
    }
    a->params = NULL;
}

static void rope_append(struct lf_attn *attn, const struct lf_rope_append_params *p)
{
    const struct lf_attn_schedule *s = &attn->schedules[p->schedule_idx];
    lf_rope_append_cpu(attn->dev, p, s->seqs, s->n_seqs);
}

const struct lf_attn_backend lf_attn_backend_cpu = {.check = check,
                                                    .workspace_bytes = workspace_bytes,
                                                    .create = create,
                                                    .destroy = destroy,
                                                    .schedule = schedule,
                                                    .run = run,
                                                    .rope_append = rope_append};
