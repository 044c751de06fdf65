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

static int div_up(int a, int b)
{
    return (a + b - 1) / b;
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

/* Bytes from row to row: an odd number of cache lines, so that the rows that one kernel tile reads side by side lie in
 * different sets of the L1 cache. With 4,096 bytes or a multiple from row to row, 16 rows fight for the 8 or 12 lines
 * of one set. */
static size_t x_row_bytes(size_t bytes)
{
    return round_up(bytes, X_ALIGN) | X_ALIGN;
}

/* Codes of a row, filled up to whole groups. */
static size_t codes_bytes(int n_in, int group)
{
    return x_row_bytes(round_up((size_t)n_in, (size_t)group));
}

uint64_t lf_gemm_x_bytes(int n_rows, int n_in)
{
    size_t bf16 = x_row_bytes((size_t)n_in * sizeof(uint16_t));
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
        g->x_stride = x_row_bytes((size_t)g->n_in * sizeof(uint16_t)) / sizeof(uint16_t);
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

enum {
    ROW_STEP = 32,       /* that blocks of rows are multiples of, or the kernel's tile */
    TILES_PER_THREAD = 3 /* large work tiles are made smaller for it */
};

/* One panel of a work tile, its part of y. */
struct panel_tile {
    const char *panel;
    const float *bias;
    float *acc; /* [rows of the work tile][64] */
    int row, n_rows;
    int col, n_cols;
};

static void fetch_output(const struct lf_gemm_work *g, const struct panel_tile *u, int row, int n_rows)
{
    size_t at = (size_t)row * g->y_stride + (size_t)u->col;
    for (int r = 0; r < n_rows; r++, at += g->y_stride) {
        for (int c = 0; c < u->n_cols; c += FLOATS_PER_LINE) {
            __builtin_prefetch(g->y + at + c, 1);
            if (g->residual != NULL) __builtin_prefetch(g->residual + at + c, 0);
        }
    }
}

static void finish(const struct lf_gemm_work *g, const struct panel_tile *u, int row, int n_rows, const float *acc)
{
    size_t at = (size_t)row * g->y_stride + (size_t)u->col;
    for (int r = 0; r < n_rows; r++, at += g->y_stride, acc += LF_PANEL_COLS)
        g->rows->finish(g->y + at, acc, g->alpha, u->bias, g->residual == NULL ? NULL : g->residual + at, u->n_cols);
}

/* The K block that t is of, for all rows of one panel. Rows are dealt to kernel tiles evenly: 4 + 4 and not 6 + 2. The
 * lines of y that a tile will be written to are asked for before its last K block, which hides that they come from
 * far. */
static void run_rows(const struct lf_gemm_work *g, const struct panel_tile *u, struct lf_gemm_tile *t, int k, bool last)
{
    int n_groups = div_up(u->n_rows, g->kernel->max_rows);
    t->acc = u->acc;
    for (int i = 0, row = u->row; i < n_groups; i++) {
        t->n_rows = (u->row + u->n_rows - row + n_groups - i - 1) / (n_groups - i);
        t->x = (const char *)g->x + ((size_t)row * g->x_stride + (size_t)k) * g->x_elem_bytes;
        if (g->x_groups) t->x_groups = g->x_groups + (size_t)row * t->x_groups_stride + k / g->cell_k;
        if (last) fetch_output(g, u, row, t->n_rows);
        g->kernel->tile(t);
        if (last) finish(g, u, row, t->n_rows, t->acc);
        t->acc += t->n_rows * LF_PANEL_COLS;
        row += t->n_rows;
    }
}

static struct panel_tile panel_tile(const struct lf_gemm_work *g, const struct lf_gemm_work_tile *u, int panel_idx,
                                    float *acc)
{
    int col = panel_idx * LF_PANEL_COLS;
    return (struct panel_tile){.panel = u->panel + (size_t)panel_idx * g->panel_bytes,
                               .bias = u->bias == NULL ? NULL : u->bias + col,
                               .acc = acc + (size_t)panel_idx * (size_t)u->n_rows * LF_PANEL_COLS,
                               .row = u->row,
                               .n_rows = u->n_rows,
                               .col = u->col + col,
                               .n_cols = LF_MIN(LF_PANEL_COLS, u->n_cols - col)};
}

/* Tells t what comes behind the K block at byte `at` of panel panel_idx. */
static void set_next(const struct lf_gemm_work *g, const struct lf_gemm_work_tile *u, struct lf_gemm_tile *t,
                     int panel_idx, size_t at, size_t block_bytes)
{
    bool ends = (panel_idx + 1) * LF_PANEL_COLS >= u->n_cols;
    if (ends) at += block_bytes;
    t->next_bytes = at < g->panel_bytes ? LF_MIN(block_bytes, g->panel_bytes - at) : 0;
    t->next = t->next_bytes > 0 ? u->panel + (size_t)(ends ? 0 : panel_idx + 1) * g->panel_bytes + at : NULL;
}

/* acc has room for all of u. */
static void run_work_tile(const struct lf_gemm_work *g, const struct lf_gemm_work_tile *u, float *acc)
{
    int n_panels = div_up(u->n_cols, LF_PANEL_COLS);
    bool is_whole = n_panels == 1 && u->n_rows <= LF_MIN(g->kernel->max_rows, (int)LF_GEMM_ROWS_MAX);
    int k_block = is_whole ? g->n_k : LF_GEMM_K_BLOCK;
    size_t block_bytes = (size_t)(k_block / g->cell_k) * g->cell_bytes;
    for (int k = 0; k < g->n_k; k += k_block) {
        size_t at = (size_t)(k / g->cell_k) * g->cell_bytes;
        struct lf_gemm_tile t = {.x_stride = g->x_stride,
                                 .n_k = LF_MIN(k_block, g->n_k - k),
                                 .load = k > 0,
                                 .from_memory = is_whole && g->from_memory,
                                 .order = &g->order,
                                 .x_groups_stride = (size_t)g->order.n_groups};
        for (int i = 0; i < n_panels; i++) {
            struct panel_tile p = panel_tile(g, u, i, acc);
            t.panel = p.panel + at;
            if (!is_whole) set_next(g, u, &t, i, at, block_bytes);
            run_rows(g, &p, &t, k, g->n_k - k <= k_block);
        }
    }
}

/* Inlined it would have every caller pay for AMX's 256 KiB of stack. */
__attribute__((noinline)) static void run_large(const struct lf_gemm_work *g, const struct lf_gemm_work_tile *u)
{
    _Alignas(64) float acc[LF_GEMM_PANELS_MAX * LF_GEMM_AMX_ROWS * LF_PANEL_COLS];
    LF_ASSERT(u->n_cols <= LF_GEMM_PANELS_MAX * LF_PANEL_COLS && u->n_rows <= LF_GEMM_AMX_ROWS);
    run_work_tile(g, u, acc);
}

void lf_gemm_run_work_tile(const struct lf_gemm_work *g, const struct lf_gemm_work_tile *u)
{
    _Alignas(64) float acc[LF_WORK_ROWS * LF_PANEL_COLS];
    if (div_up(u->n_cols, LF_PANEL_COLS) * u->n_rows > LF_WORK_ROWS)
        run_large(g, u);
    else
        run_work_tile(g, u, acc);
}

/* ---- cutting ---- */

static struct lf_gemm_cut cut_into(const struct lf_gemm_kernel *kernel, int n_rows, int n_panels, int max_rows,
                                   int panels)
{
    struct lf_gemm_cut cut = {.rows = n_rows, .panels = panels, .n_panel_tiles = div_up(n_panels, panels)};
    int n_blocks = div_up(n_rows, max_rows), step = LF_MIN(kernel->max_rows, (int)ROW_STEP);
    if (n_blocks > 1) cut.rows = LF_MIN(max_rows, div_up(div_up(n_rows, n_blocks), step) * step);
    cut.n_blocks = div_up(n_rows, cut.rows);
    return cut;
}

struct lf_gemm_cut lf_gemm_cut(const struct lf_gemm_kernel *kernel, int n_rows, int n_panels, int n_threads)
{
    int max_rows = LF_MAX((int)LF_WORK_ROWS, kernel->max_rows);
    int panels = n_rows > LF_GEMM_ROWS_MAX ? LF_MAX(1, kernel->max_panels) : 1;
    for (;;) {
        struct lf_gemm_cut cut = cut_into(kernel, n_rows, n_panels, max_rows, panels);
        bool is_smallest = panels == 1 && max_rows == LF_WORK_ROWS;
        if (is_smallest || cut.n_blocks * cut.n_panel_tiles >= TILES_PER_THREAD * n_threads) return cut;
        if (panels > 1)
            panels /= 2;
        else
            max_rows = LF_MAX((int)LF_WORK_ROWS, max_rows / 2);
    }
}

int lf_gemm_block_rows(const struct lf_gemm_kernel *kernel, int n_rows)
{
    return cut_into(kernel, n_rows, 1, LF_WORK_ROWS, 1).rows;
}

int lf_gemm_tasks(uint64_t n_macs, uint64_t weight_bytes, int n_work_tiles, int n_threads)
{
    uint64_t us = n_macs / MACS_PER_US + weight_bytes / BYTES_PER_US;
    uint64_t n = us < SPLIT_US_MIN ? 1 : LF_MIN(us / TASK_US_MIN, (uint64_t)n_threads * TASKS_PER_THREAD);
    return (int)LF_MIN(n, (uint64_t)n_work_tiles);
}
