/* Packing weights into panels, and cutting a GEMM into work tiles (gemm_work.h) and tasks.
 *
 * Work tiles of one panel are neighbours: a panel comes from memory once. Tasks are runs of work tiles, big enough to
 * be worth handing out and enough of them that uneven cores finish together; work that is over in a few microseconds
 * stays on the calling thread. */
#include "device/cpu/gemm.h"

#include <string.h>

#include "core/check.h"
#include "device/cpu/gemm_work.h"
#include "device/cpu/threads.h"
#include "device/device_impl.h"

enum { PACK_BLOCK = 32 /* rows of the source that are transposed together */ };

bool lf_cpu_supports_format(const struct lf_device *dev, const struct lf_format *format, int n_out, int n_in,
                            int n_experts)
{
    (void)dev, (void)n_out, (void)n_in, (void)n_experts;
    return lf_format_is_plain(format) || lf_quant_supports(format);
}

static size_t panel_bytes_of(const struct lf_format *format, int n_in)
{
    if (lf_format_is_plain(format)) return lf_panel_bytes(format->dtype, n_in);
    struct lf_quant_order order = lf_quant_order(format, n_in);
    return lf_quant_panel_bytes(&order);
}

uint64_t lf_cpu_weight_bytes(const struct lf_format *format, int n_out, int n_in)
{
    uint64_t n_panels = ((uint64_t)n_out + LF_PANEL_COLS - 1) / LF_PANEL_COLS;
    return n_panels * panel_bytes_of(format, n_in);
}

/* ---- packing ---- */

struct pack {
    const struct lf_weight *w;
    const void *src;
    int row_first, n_rows;
};

/* Columns [col, col + n_cols) of a panel of 4-byte cells (floats, or pairs of bf16) from as many rows of src. */
static void pack_cells32(char *panel, const char *src, size_t src_row_bytes, int col, int n_cols, int n_cells)
{
    for (int k = 0; k < n_cells; k += PACK_BLOCK) {
        int k_end = LF_MIN(k + PACK_BLOCK, n_cells);
        for (int c = 0; c < n_cols; c++) {
            const char *from = src + (size_t)c * src_row_bytes;
            char *to = panel + (size_t)(col + c) * 4;
            for (int i = k; i < k_end; i++) memcpy(to + (size_t)i * LF_PANEL_COLS * 4, from + (size_t)i * 4, 4);
        }
    }
}

static void pack_cells16(char *panel, const char *src, size_t src_row_bytes, int col, int n_cols, int n_cells)
{
    for (int k = 0; k < n_cells; k += PACK_BLOCK) {
        int k_end = LF_MIN(k + PACK_BLOCK, n_cells);
        for (int c = 0; c < n_cols; c++) {
            const char *from = src + (size_t)c * src_row_bytes;
            char *to = panel + (size_t)(col + c) * 2;
            for (int i = k; i < k_end; i++) memcpy(to + (size_t)i * LF_PANEL_COLS * 2, from + (size_t)i * 2, 2);
        }
    }
}

/* Columns [col, col + n_cols) of a panel from as many rows of src. */
static void pack_plain(const struct lf_weight *w, char *panel, const char *src, int col, int n_cols)
{
    size_t row_bytes = (size_t)w->n_in * lf_dtype_bytes(w->format.dtype);
    if (w->format.dtype == LF_F32) {
        pack_cells32(panel, src, row_bytes, col, n_cols, w->n_in);
    } else if (w->format.dtype == LF_F16) {
        pack_cells16(panel, src, row_bytes, col, n_cols, w->n_in);
    } else {
        pack_cells32(panel, src, row_bytes, col, n_cols, w->n_in / 2);
        if (w->n_in % 2 == 0) return;
        uint16_t *last = (uint16_t *)(void *)panel + lf_panel_index(LF_BF16, w->n_in - 1, col);
        for (int c = 0; c < n_cols; c++) {
            memcpy(&last[2 * c], src + (size_t)(c + 1) * row_bytes - 2, 2);
            last[2 * c + 1] = 0;
        }
    }
}

static void pack_task(void *ctx, int task_idx, int worker_idx)
{
    (void)worker_idx;
    const struct pack *p = ctx;
    const struct lf_weight *w = p->w;
    int panel_idx = p->row_first / LF_PANEL_COLS + task_idx;
    int first = LF_MAX(p->row_first, panel_idx * LF_PANEL_COLS);
    int end = LF_MIN(p->row_first + p->n_rows, (panel_idx + 1) * LF_PANEL_COLS);
    char *panel = (char *)w->data + (size_t)panel_idx * panel_bytes_of(&w->format, w->n_in);
    int col = first % LF_PANEL_COLS, src_row = first - p->row_first;
    if (lf_format_is_plain(&w->format)) {
        size_t row_bytes = (size_t)w->n_in * lf_dtype_bytes(w->format.dtype);
        pack_plain(w, panel, (const char *)p->src + (size_t)src_row * row_bytes, col, end - first);
    } else {
        struct lf_quant_order order = lf_quant_order(&w->format, w->n_in);
        lf_quant_pack_cols(&order, panel, col, end - first, w->n_in, p->src, src_row);
    }
}

void lf_cpu_weight_pack(struct lf_device *dev, const struct lf_weight *w, int row_first, int n_rows, const void *src)
{
    LF_ASSERT(row_first >= 0 && n_rows >= 0 && n_rows <= w->n_out - row_first);
    if (n_rows == 0) return;
    struct pack p = {.w = w, .src = src, .row_first = row_first, .n_rows = n_rows};
    int n_panels = (row_first + n_rows - 1) / LF_PANEL_COLS - row_first / LF_PANEL_COLS + 1;
    lf_threads_run(dev->threads, n_panels, pack_task, &p);
}

void lf_cpu_weight_row(struct lf_device *dev, const struct lf_weight *w, int row, float *out)
{
    lf_cpu_weight_row_part(dev, w, row, 0, w->n_in, out);
}

static void plain_row_part(struct lf_device *dev, const struct lf_weight *w, const char *panel, int col, int first,
                           int n, float *out)
{
    enum lf_dtype dtype = w->format.dtype;
    size_t elem_bytes = lf_dtype_bytes(dtype);
    if (dtype == LF_BF16 && first % 2 == 1) { /* the second of a pair, which panel_col cannot begin with */
        lf_to_f32(out++, panel + lf_panel_index(dtype, first++, col) * elem_bytes, dtype, 1);
        if (--n == 0) return;
    }
    dev->rows.panel_col(out, panel + lf_panel_index(dtype, first, col) * elem_bytes, dtype, n);
}

void lf_cpu_weight_row_part(struct lf_device *dev, const struct lf_weight *w, int row, int first, int n, float *out)
{
    LF_ASSERT(row >= 0 && row < w->n_out && first >= 0 && n > 0 && n <= w->n_in - first);
    const char *panel = (const char *)w->data + (size_t)(row / LF_PANEL_COLS) * panel_bytes_of(&w->format, w->n_in);
    if (lf_format_is_plain(&w->format)) {
        plain_row_part(dev, w, panel, row % LF_PANEL_COLS, first, n, out);
    } else {
        struct lf_quant_order order = lf_quant_order(&w->format, w->n_in);
        lf_quant_panel_col(&order, panel, row % LF_PANEL_COLS, first, n, out);
    }
}

/* ---- GEMM ---- */

uint64_t lf_cpu_gemm_scratch_bytes(int max_tokens, int max_n_in)
{
    return lf_gemm_x_bytes(max_tokens, max_n_in);
}

struct gemm {
    const struct lf_gemm_params *p;
    struct lf_gemm_work work;
    struct lf_gemm_cut cut;
    int n_work_tiles, work_tiles_per_task;
    int fill_rows; /* rows that one task rounds or quantizes */
};

static void gemm_task(void *ctx, int task_idx, int worker_idx)
{
    (void)worker_idx;
    const struct gemm *g = ctx;
    const struct lf_weight *w = g->p->w;
    int first = task_idx * g->work_tiles_per_task;
    int end = LF_MIN(first + g->work_tiles_per_task, g->n_work_tiles);
    for (int i = first; i < end; i++) {
        int panel_idx = i / g->cut.n_blocks * g->cut.panels, row = i % g->cut.n_blocks * g->cut.rows;
        int col = panel_idx * LF_PANEL_COLS;
        struct lf_gemm_work_tile u = {.panel = (const char *)w->data + (size_t)panel_idx * g->work.panel_bytes,
                                      .bias = g->p->bias == NULL ? NULL : g->p->bias + col,
                                      .row = row,
                                      .n_rows = LF_MIN(g->cut.rows, g->p->n_tokens - row),
                                      .col = col,
                                      .n_cols = LF_MIN(g->cut.panels * LF_PANEL_COLS, w->n_out - col)};
        lf_gemm_run_work_tile(&g->work, &u);
    }
}

static void fill_task(void *ctx, int task_idx, int worker_idx)
{
    (void)worker_idx;
    const struct gemm *g = ctx;
    const struct lf_gemm_params *p = g->p;
    int first = task_idx * g->fill_rows, end = LF_MIN(first + g->fill_rows, p->n_tokens);
    for (int r = first; r < end; r++)
        lf_gemm_fill_row(&g->work, r, (const float *)p->x + (size_t)r * (size_t)p->x_stride);
}

/* Rounds or quantizes x into the scratch where the kernel wants that. */
static void prepare_x(struct gemm *g, struct lf_threads *threads)
{
    const struct lf_gemm_params *p = g->p;
    if (g->work.kernel->x == LF_X_FLOAT) {
        g->work.x = p->x;
        g->work.x_stride = (size_t)p->x_stride;
        g->work.x_elem_bytes = sizeof(float);
        return;
    }
    lf_gemm_place_x(&g->work, p->scratch, p->n_tokens);
    g->fill_rows = LF_MAX(1, LF_ROUND_PER_TASK / p->w->n_in);
    lf_threads_run(threads, (p->n_tokens + g->fill_rows - 1) / g->fill_rows, fill_task, g);
}

static void plan_tasks(struct gemm *g, int n_threads)
{
    const struct lf_gemm_params *p = g->p;
    int n_panels = (p->w->n_out + LF_PANEL_COLS - 1) / LF_PANEL_COLS;
    uint64_t weight_bytes = (uint64_t)n_panels * g->work.panel_bytes;
    g->cut = lf_gemm_cut(g->work.kernel, p->n_tokens, n_panels, n_threads);
    g->n_work_tiles = g->cut.n_blocks * g->cut.n_panel_tiles;
    g->work.from_memory = weight_bytes >= LF_FAR_BYTES;
    int n_tasks = lf_gemm_tasks((uint64_t)p->n_tokens * (uint64_t)p->w->n_in * (uint64_t)p->w->n_out, weight_bytes,
                                g->n_work_tiles, n_threads);
    g->work_tiles_per_task = (g->n_work_tiles + n_tasks - 1) / n_tasks;
}

void lf_cpu_gemm(struct lf_device *dev, const struct lf_gemm_params *p)
{
    LF_ASSERT(p->n_tokens >= 0 && p->w->n_in > 0 && p->w->n_out > 0 && p->w->n_experts == 0);
    LF_ASSERT(p->x_stride >= p->w->n_in && p->y_stride >= p->w->n_out);
    if (p->n_tokens == 0) return;
    struct gemm g = {.p = p, .work = lf_gemm_work(dev, p->w)};
    g.work.y = p->y;
    g.work.alpha = p->alpha;
    g.work.residual = p->residual;
    g.work.y_stride = (size_t)p->y_stride;
    prepare_x(&g, dev->threads);
    plan_tasks(&g, lf_threads_n(dev->threads));
    lf_threads_run(dev->threads, (g.n_work_tiles + g.work_tiles_per_task - 1) / g.work_tiles_per_task, gemm_task, &g);
}
