#include "device/cpu/gemm_work.h"

#include <string.h>

#include "core/check.h"
#include "device/device_impl.h"

enum {
    FLOATS_PER_LINE = 16,
    TASKS_PER_THREAD = 16,   /* at most */
    MACS_PER_US = 40 * 1000, /* what a core gets done, roughly: only decides what is worth handing out */
    BYTES_PER_US = 20 * 1000,
    TASK_US_MIN = 2, /* less than this is not worth a task */
    SPLIT_US_MIN = 6 /* less than this is done by the caller */
};

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static void use_coded(struct lf_gemm_work *g, const struct lf_device *dev, const struct lf_weight *w)
{
    g->kernel = dev->quant.gemm[w->format.code];
    g->order = lf_quant_order(&w->format, w->n_in);
    g->panel_bytes = lf_quant_panel_bytes(&g->order);
    g->cell_k = g->order.group;
    g->cell_bytes = g->order.group_bytes;
    if (g->kernel->x == LF_X_INT8) g->n_k = lf_quant_n_in(&g->order);
}

struct lf_gemm_work lf_gemm_work(const struct lf_device *dev, const struct lf_weight *w)
{
    enum lf_dtype dtype = w->format.dtype;
    struct lf_gemm_work g = {.rows = &dev->rows, .quant_x = dev->quant.quant_x, .n_in = w->n_in, .n_k = w->n_in};
    if (!lf_format_is_plain(&w->format)) {
        use_coded(&g, dev, w);
        return g;
    }
    g.kernel = dev->gemm[dtype];
    g.panel_bytes = lf_panel_bytes(dtype, w->n_in);
    g.cell_k = dtype == LF_BF16 ? 2 : 1;
    g.cell_bytes = (size_t)g.cell_k * LF_PANEL_COLS * lf_dtype_bytes(dtype);
    return g;
}

/* ---- x ---- */

enum { X_ALIGN = 64 };

/* Codes of a row, filled up to whole groups. */
static size_t codes_bytes(int n_in, int group)
{
    return round_up(round_up((size_t)n_in, (size_t)group), X_ALIGN);
}

uint64_t lf_gemm_x_bytes(int n_rows, int n_in)
{
    size_t bf16 = round_up((size_t)n_in, LF_GEMM_X_STRIDE) * sizeof(uint16_t);
    size_t groups = ((size_t)n_in + LF_QUANT_GROUP_MIN - 1) / LF_QUANT_GROUP_MIN * sizeof(struct lf_x_group);
    size_t int8 = codes_bytes(n_in, LF_QUANT_GROUP_MAX) + groups;
    return round_up((size_t)n_rows, 2) * LF_MAX(bf16, int8);
}

void lf_gemm_place_x(struct lf_gemm_work *g, void *scratch, int n_rows)
{
    LF_ASSERT(scratch != NULL);
    g->x = scratch;
    if (g->kernel->x == LF_X_INT8) {
        g->x_elem_bytes = 1;
        g->x_stride = codes_bytes(g->n_in, g->order.group);
        g->x_groups = (const void *)((char *)scratch + (size_t)n_rows * g->x_stride);
    } else if (g->kernel->x == LF_X_BF16) {
        g->x_elem_bytes = sizeof(uint16_t);
        g->x_stride = round_up((size_t)g->n_in, LF_GEMM_X_STRIDE);
    } else {
        g->x_elem_bytes = sizeof(float);
        g->x_stride = (size_t)g->n_in;
    }
}

/* The scratch is the caller's: g->x and g->x_groups are const for kernels. */
void lf_gemm_fill_row(const struct lf_gemm_work *g, int row, const float *x)
{
    void *to = (char *)(uintptr_t)g->x + (size_t)row * g->x_stride * g->x_elem_bytes;
    if (g->kernel->x == LF_X_INT8) {
        struct lf_x_group *groups =
            (struct lf_x_group *)(uintptr_t)g->x_groups + (size_t)row * (size_t)g->order.n_groups;
        g->quant_x(to, groups, x, g->n_in, g->order.group, lf_quant_unit(g->order.code));
    } else if (g->kernel->x == LF_X_BF16) {
        g->rows->to_bf16(to, x, g->n_in, (int)g->x_stride);
    } else {
        memcpy(to, x, (size_t)g->n_in * sizeof(float));
    }
}

/* ---- work tiles ---- */

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
    int k_block = n_groups == 1 ? g->n_k : LF_GEMM_K_BLOCK;
    for (int k = 0; k < g->n_k; k += k_block) {
        bool last = g->n_k - k <= k_block;
        struct lf_gemm_tile t = {.acc = acc,
                                 .x_stride = g->x_stride,
                                 .panel = u->panel + (size_t)(k / g->cell_k) * g->cell_bytes,
                                 .n_k = LF_MIN(k_block, g->n_k - k),
                                 .load = k > 0,
                                 .from_memory = n_groups == 1 && g->from_memory,
                                 .order = &g->order,
                                 .x_groups_stride = (size_t)g->order.n_groups};
        for (int i = 0, row = u->row; i < n_groups; i++) {
            t.n_rows = (u->row + u->n_rows - row + n_groups - i - 1) / (n_groups - i);
            t.x = (const char *)g->x + ((size_t)row * g->x_stride + (size_t)k) * g->x_elem_bytes;
            if (g->x_groups) t.x_groups = g->x_groups + (size_t)row * t.x_groups_stride + k / g->cell_k;
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
