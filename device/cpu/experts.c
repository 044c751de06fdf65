/* GEMMs of experts on a CPU, and the sum of what they give.
 *
 * Sorted rows of one expert are rows of a GEMM with its matrix; what gemm.c does with one matrix is done here with
 * those that have rows, and the work tiles of all of them are shared out at once. An expert that nobody chose is not
 * read. Rows stand in x by token and are gathered into the scratch first, rounded where the kernel wants bf16: a kernel
 * reads rows that are equally far from each other.
 *
 * A row meets the same instructions in the same order as in a GEMM of its own (gemm.h), so its bits are its own. */
#include "device/cpu/experts.h"

#include <string.h>

#include "core/check.h"
#include "core/limits.h"
#include "device/cpu/gemm_work.h"
#include "device/cpu/threads.h"
#include "device/device_impl.h"

enum { SUM_PER_TASK = 16 * 1024 };

struct expert_gemm {
    const struct lf_expert_gemm_params *p;
    struct lf_gemm_work work;
    size_t expert_bytes;
    int n_panels, n_rows;
    int gather_rows;                  /* that one task takes */
    int tile_first[LF_EXPERTS_N + 1]; /* the first work tile of each expert */
    int work_tiles_per_task;
};

uint64_t lf_cpu_expert_gemm_scratch_bytes(const struct lf_expert_gemm_params *p)
{
    int n_rows = p->n_tokens * p->k;
    uint64_t bytes = lf_gemm_x_bytes(n_rows, p->w->n_in);
    if (p->x_by_token) bytes = LF_MAX(bytes, (uint64_t)n_rows * (uint64_t)p->w->n_in * sizeof(float));
    return bytes;
}

static void gather_task(void *ctx, int task_idx, int worker_idx)
{
    (void)worker_idx;
    const struct expert_gemm *g = ctx;
    const struct lf_expert_gemm_params *p = g->p;
    int first = task_idx * g->gather_rows, end = LF_MIN(first + g->gather_rows, g->n_rows);
    size_t n_in = (size_t)p->w->n_in;
    for (int i = first; i < end; i++) {
        const float *x = (const float *)p->x + (size_t)(p->x_by_token ? p->rows[i] / p->k : i) * n_in;
        lf_gemm_fill_row(&g->work, i, x);
    }
}

/* Rows as the kernel reads them. */
static void prepare_x(struct expert_gemm *g, struct lf_threads *threads)
{
    const struct lf_expert_gemm_params *p = g->p;
    if (g->work.kernel->x == LF_X_FLOAT && !p->x_by_token) {
        g->work.x = p->x;
        g->work.x_stride = (size_t)p->w->n_in;
        g->work.x_elem_bytes = sizeof(float);
        return;
    }
    lf_gemm_place_x(&g->work, p->scratch, g->n_rows);
    g->gather_rows = LF_MAX(1, LF_ROUND_PER_TASK / p->w->n_in);
    lf_threads_run(threads, (g->n_rows + g->gather_rows - 1) / g->gather_rows, gather_task, g);
}

static int rows_of(const struct expert_gemm *g, int expert)
{
    return g->p->first[expert + 1] - g->p->first[expert];
}

static void plan_tasks(struct expert_gemm *g, int n_threads)
{
    const struct lf_weight *w = g->p->w;
    uint64_t weight_bytes = 0;
    g->tile_first[0] = 0;
    for (int e = 0; e < w->n_experts; e++) {
        int n = rows_of(g, e), block = n > 0 ? lf_gemm_block_rows(g->work.kernel, n) : 1;
        g->tile_first[e + 1] = g->tile_first[e] + (n + block - 1) / block * g->n_panels;
        if (n > 0) weight_bytes += g->expert_bytes;
    }
    g->work.from_memory = weight_bytes >= LF_FAR_BYTES;
    int n_tiles = g->tile_first[w->n_experts];
    int n_tasks =
        lf_gemm_tasks((uint64_t)g->n_rows * (uint64_t)w->n_in * (uint64_t)w->n_out, weight_bytes, n_tiles, n_threads);
    g->work_tiles_per_task = (n_tiles + n_tasks - 1) / n_tasks;
}

/* Tile `tile` of an expert: blocks of rows of one panel are neighbours, as in gemm.c. */
static void run_tile(const struct expert_gemm *g, int expert, int tile)
{
    const struct lf_expert_gemm_params *p = g->p;
    int n = rows_of(g, expert), block = lf_gemm_block_rows(g->work.kernel, n), n_blocks = (n + block - 1) / block;
    int panel_idx = tile / n_blocks, row = tile % n_blocks * block, col = panel_idx * LF_PANEL_COLS;
    const char *matrix = (const char *)p->w->data + (size_t)expert * g->expert_bytes;
    struct lf_gemm_work_tile u = {.panel = matrix + (size_t)panel_idx * g->work.panel_bytes,
                                  .row = p->first[expert] + row,
                                  .n_rows = LF_MIN(block, n - row),
                                  .col = col,
                                  .n_cols = LF_MIN(LF_PANEL_COLS, p->w->n_out - col)};
    if (p->bias) u.bias = p->bias + (size_t)expert * (size_t)p->w->n_out + col;
    lf_gemm_run_work_tile(&g->work, &u);
}

/* The expert that a work tile is of. */
static int expert_of(const struct expert_gemm *g, int tile)
{
    int low = 0, high = g->p->w->n_experts - 1;
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (g->tile_first[mid + 1] > tile)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

static void expert_task(void *ctx, int task_idx, int worker_idx)
{
    (void)worker_idx;
    const struct expert_gemm *g = ctx;
    int first = task_idx * g->work_tiles_per_task;
    int end = LF_MIN(first + g->work_tiles_per_task, g->tile_first[g->p->w->n_experts]);
    int expert = expert_of(g, first);
    for (int tile = first; tile < end; tile++) {
        while (tile >= g->tile_first[expert + 1]) expert++;
        run_tile(g, expert, tile - g->tile_first[expert]);
    }
}

void lf_cpu_expert_gemm(struct lf_device *dev, const struct lf_expert_gemm_params *p)
{
    const struct lf_weight *w = p->w;
    LF_ASSERT(w->n_experts >= 1 && w->n_experts <= LF_EXPERTS_N && w->n_in > 0 && w->n_out > 0);
    LF_ASSERT(p->n_tokens >= 0 && p->k >= 1 && p->first[w->n_experts] == p->n_tokens * p->k);
    if (p->n_tokens == 0) return;
    struct expert_gemm g = {.p = p,
                            .work = lf_gemm_work(dev, w),
                            .expert_bytes = lf_weight_expert_bytes(&dev->ops, w),
                            .n_panels = (w->n_out + LF_PANEL_COLS - 1) / LF_PANEL_COLS,
                            .n_rows = p->n_tokens * p->k};
    g.work.y = p->y;
    g.work.alpha = 1;
    g.work.y_stride = (size_t)w->n_out;
    prepare_x(&g, dev->threads);
    plan_tasks(&g, lf_threads_n(dev->threads));
    int n_tiles = g.tile_first[w->n_experts];
    lf_threads_run(dev->threads, (n_tiles + g.work_tiles_per_task - 1) / g.work_tiles_per_task, expert_task, &g);
}

/* ---- the sum ---- */

struct expert_sum {
    const struct lf_expert_sum_params *p;
    const struct lf_row_kernels *rows;
    int tokens_per_task;
};

static void sum_task(void *ctx, int task_idx, int worker_idx)
{
    (void)worker_idx;
    const struct expert_sum *s = ctx;
    const struct lf_expert_sum_params *p = s->p;
    int first = task_idx * s->tokens_per_task, end = LF_MIN(first + s->tokens_per_task, p->n_tokens);
    const float *x[LF_EXPERTS_PER_TOKEN_N];
    for (int t = first; t < end; t++) {
        size_t at = (size_t)t * (size_t)p->dim, choice = (size_t)t * (size_t)p->k;
        for (int j = 0; j < p->k; j++) x[j] = p->x + (size_t)p->places[choice + (size_t)j] * (size_t)p->dim;
        s->rows->weighted_sum(p->y + at, p->residual == NULL ? NULL : p->residual + at, x, p->weights + choice, p->k,
                              p->dim);
    }
}

void lf_cpu_expert_sum(struct lf_device *dev, const struct lf_expert_sum_params *p)
{
    LF_ASSERT(p->n_tokens >= 0 && p->dim > 0 && p->k >= 1 && p->k <= LF_EXPERTS_PER_TOKEN_N);
    struct expert_sum s = {.p = p, .rows = &dev->rows, .tokens_per_task = LF_MAX(1, SUM_PER_TASK / p->dim / p->k)};
    lf_threads_run(dev->threads, (p->n_tokens + s.tokens_per_task - 1) / s.tokens_per_task, sum_task, &s);
}
