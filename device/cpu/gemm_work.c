#include "device/cpu/gemm_work.h"

#include "core/check.h"

enum {
    FLOATS_PER_LINE = 16,
    TASKS_PER_THREAD = 16,   /* at most */
    MACS_PER_US = 40 * 1000, /* what a core gets done, roughly: only decides what is worth handing out */
    BYTES_PER_US = 20 * 1000,
    TASK_US_MIN = 2, /* less than this is not worth a task */
    SPLIT_US_MIN = 6 /* less than this is done by the caller */
};

static void fetch_output(const struct lf_gemm_work *g, const struct lf_gemm_work_tile *u, int row, int n_rows)
{
    size_t at = (size_t)row * g->y_stride + (size_t)u->col;
    for (int r = 0; r < n_rows; r++, at += g->y_stride) {
        for (int c = 0; c < u->n_cols; c += FLOATS_PER_LINE) {
            __builtin_prefetch(g->y + at + c, 1);
            if (g->residual != NULL) __builtin_prefetch(g->residual + at + c, 0);
        }
    }
}

static void finish(const struct lf_gemm_work *g, const struct lf_gemm_work_tile *u, int row, int n_rows,
                   const float *acc)
{
    size_t at = (size_t)row * g->y_stride + (size_t)u->col;
    for (int r = 0; r < n_rows; r++, at += g->y_stride, acc += LF_PANEL_COLS)
        g->rows->finish(g->y + at, acc, g->alpha, u->bias, g->residual == NULL ? NULL : g->residual + at, u->n_cols);
}

/* Rows are dealt to kernel tiles evenly: 4 + 4 and not 6 + 2. The lines of y that a tile will be written to are asked
 * for before its last K block, which hides that they come from far. */
void lf_gemm_run_work_tile(const struct lf_gemm_work *g, const struct lf_gemm_work_tile *u)
{
    _Alignas(64) float acc[LF_WORK_ROWS * LF_PANEL_COLS];
    int n_groups = (u->n_rows + g->kernel->max_rows - 1) / g->kernel->max_rows;
    int k_block = n_groups == 1 ? g->n_in : LF_GEMM_K_BLOCK;
    for (int k = 0; k < g->n_in; k += k_block) {
        bool last = g->n_in - k <= k_block;
        struct lf_gemm_tile t = {.acc = acc,
                                 .x_stride = g->x_stride,
                                 .panel = u->panel + (size_t)k * g->k_bytes,
                                 .n_k = LF_MIN(k_block, g->n_in - k),
                                 .load = k > 0,
                                 .from_memory = n_groups == 1 && g->from_memory};
        for (int i = 0, row = u->row; i < n_groups; i++) {
            t.n_rows = (u->row + u->n_rows - row + n_groups - i - 1) / (n_groups - i);
            t.x = (const char *)g->x + ((size_t)row * g->x_stride + (size_t)k) * g->x_elem_bytes;
            if (last) fetch_output(g, u, row, t.n_rows);
            g->kernel->tile(&t);
            if (last) finish(g, u, row, t.n_rows, t.acc);
            t.acc += t.n_rows * LF_PANEL_COLS;
            row += t.n_rows;
        }
    }
}

int lf_gemm_block_rows(const struct lf_gemm_kernel *kernel, int n_rows)
{
    int n_blocks = (n_rows + LF_WORK_ROWS - 1) / LF_WORK_ROWS;
    int rows = (n_rows + n_blocks - 1) / n_blocks;
    if (n_blocks == 1) return rows;
    return LF_MIN(LF_WORK_ROWS, (rows + kernel->max_rows - 1) / kernel->max_rows * kernel->max_rows);
}

int lf_gemm_tasks(uint64_t n_macs, uint64_t weight_bytes, int n_work_tiles, int n_threads)
{
    uint64_t us = n_macs / MACS_PER_US + weight_bytes / BYTES_PER_US;
    uint64_t n = us < SPLIT_US_MIN ? 1 : LF_MIN(us / TASK_US_MIN, (uint64_t)n_threads * TASKS_PER_THREAD);
    return (int)LF_MIN(n, (uint64_t)n_work_tiles);
}
