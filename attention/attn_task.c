/* The walk of one task over its keys: spans, tiles, pages, who sees what. No arithmetic of attention itself. */
#include "attention/attn_task.h"

#include <math.h>
#include <string.h>

#include "core/check.h"

#define LN_2   0.69314718055994530942f
#define LOG2_E 1.44269504088896340736f

enum {
    ROW_ARRAY = LF_ATTN_TASK_HEADS * 16, /* floats of an array with a number a row, for all heads of a task */
    SPARE_ROWS = 16                      /* a kernel may read and write whole groups of rows of q and s */
};

/* Lays a block's arrays out from base on; returns the bytes. With base NULL it only counts. */
static size_t lay_out(struct lf_attn_block *b, float *base, int head_dim)
{
    size_t rows = LF_ATTN_ROWS, d = (size_t)head_dim, used = 0; /* floats; every array is a multiple of 16 */
    struct {
        float **array;
        size_t n;
    } parts[] = {
        {&b->q, (rows + SPARE_ROWS) * LF_ATTN_Q_STRIDE},
        {&b->s, (rows + SPARE_ROWS) * LF_ATTN_TILE},
        {&b->lanes, rows * LF_ATTN_LANES},
        {&b->alpha, ROW_ARRAY},
        {&b->beta, ROW_ARRAY},
        {&b->m, ROW_ARRAY},
        {&b->l, ROW_ARRAY},
        {&b->acc_m, ROW_ARRAY},
        {&b->acc_l, ROW_ARRAY},
        {&b->o, rows * d},
        {&b->acc_o, rows * d},
        {&b->page, LF_KV_BLOCK_TOKENS * d},
    };
    for (size_t i = 0; i < LF_N_ELEMS(parts); i++) {
        if (base) *parts[i].array = base + used;
        used += parts[i].n;
    }
    return used * sizeof(float);
}

size_t lf_attn_scratch_bytes(int head_dim)
{
    struct lf_attn_block b;
    return lay_out(&b, NULL, head_dim);
}

/* Room for a number a row in whole vectors. */
static size_t row_floats(int n_rows)
{
    return (size_t)(n_rows + 15) / 16 * 16;
}

size_t lf_attn_partial_floats(int n_rows, int head_dim)
{
    return 2 * row_floats(n_rows) + (size_t)n_rows * (size_t)head_dim;
}

/* The block of the i-th head of a task: its rows come after those of the heads before it. */
static void block_init(struct lf_attn_block *b, const struct lf_attn_params *p, const struct lf_attn_rows *rows, int i,
                       void *scratch)
{
    size_t before = (size_t)i * (size_t)rows->n, d = (size_t)p->kv->head_dim;
    LF_ASSERT(rows->n * rows->n_kv_heads <= LF_ATTN_ROWS && rows->n_kv_heads <= LF_ATTN_TASK_HEADS);
    lay_out(b, scratch, p->kv->head_dim);
    b->q += before * LF_ATTN_Q_STRIDE;
    b->lanes += before * LF_ATTN_LANES;
    b->o += before * d;
    b->acc_o += before * d;
    float **row_arrays[] = {&b->alpha, &b->beta, &b->m, &b->l, &b->acc_m, &b->acc_l};
    for (size_t k = 0; k < LF_N_ELEMS(row_arrays); k++) *row_arrays[k] += (size_t)i * row_floats(rows->n);
    b->head_dim = p->kv->head_dim;
    b->kv_dtype = p->kv->dtype;
    b->n_rows = rows->n;
    b->softcap = p->softcap;
    b->softcap_arg = p->softcap > 0.0f ? p->scale / p->softcap : 0.0f;
    b->log2_scale = p->softcap > 0.0f ? LOG2_E : p->scale * LOG2_E;
}

static void span_init(struct lf_attn_block *b)
{
    for (size_t r = 0; r < row_floats(b->n_rows); r++) b->m[r] = -INFINITY;
    memset(b->lanes, 0, (size_t)b->n_rows * LF_ATTN_LANES * sizeof(float));
    memset(b->o, 0, (size_t)b->n_rows * (size_t)b->head_dim * sizeof(float));
}

static void acc_init(struct lf_attn_block *b)
{
    for (size_t r = 0; r < row_floats(b->n_rows); r++) {
        b->acc_m[r] = -INFINITY;
        b->acc_l[r] = 0.0f;
    }
    memset(b->acc_o, 0, (size_t)b->n_rows * (size_t)b->head_dim * sizeof(float));
}

/* The index of a row's query head in [T, n_heads]. */
static size_t row_index(const struct lf_attn_params *p, int n_heads, const struct lf_attn_rows *rows, int kv_head,
                        int r)
{
    int group = n_heads / p->kv->n_kv_heads;
    int row = rows->first + r;
    int token = rows->seq->first_row + row / group;
    return (size_t)token * (size_t)n_heads + (size_t)(kv_head * group + row % group);
}

static void pack_rows(const struct lf_attn_kernel *kernel, struct lf_attn_block *b, const struct lf_attn_params *p,
                      int n_heads, const struct lf_attn_rows *rows, int kv_head)
{
    const float *q = p->q;
    for (int r = 0; r < rows->n; r++)
        kernel->pack_q(b, r, q + row_index(p, n_heads, rows, kv_head, r) * (size_t)b->head_dim);
}

/* The walk of one block: positions of its rows and the pages of its sequence. */
struct walk {
    const struct lf_attn_kernel *kernel;
    const struct lf_attn_params *p;
    const struct lf_attn_rows *rows;
    int group;
    int pos_first, pos_last; /* of the block's first and last row */
    int key_lo, key_hi;      /* keys any row sees */
};

static void walk_init(struct walk *w, const struct lf_attn_kernel *kernel, const struct lf_attn_params *p, int n_heads,
                      const struct lf_attn_rows *rows)
{
    int pos0 = rows->seq->kv_len - rows->seq->n_rows;
    w->kernel = kernel;
    w->p = p;
    w->rows = rows;
    w->group = n_heads / p->kv->n_kv_heads;
    w->pos_first = pos0 + rows->first / w->group;
    w->pos_last = pos0 + (rows->first + rows->n - 1) / w->group;
    w->key_hi = w->pos_last + 1;
    w->key_lo = p->window > 0 && w->pos_first >= p->window ? w->pos_first - p->window + 1 : 0;
}

/* Which keys of the tile at key0 each row sees. */
static void tile_limits(const struct walk *w, int key0, struct lf_attn_tile *t)
{
    int window = w->p->window;
    t->full = key0 + LF_ATTN_TILE <= w->pos_first + 1 && (window <= 0 || key0 > w->pos_last - window);
    if (t->full) return;
    int pos0 = w->rows->seq->kv_len - w->rows->seq->n_rows;
    for (int r = 0; r < w->rows->n; r++) {
        int pos = pos0 + (w->rows->first + r) / w->group;
        int lo = window > 0 ? pos - window + 1 - key0 : 0, hi = pos + 1 - key0;
        t->lo[r] = (int16_t)LF_MIN(LF_MAX(lo, 0), LF_ATTN_TILE);
        t->hi[r] = (int16_t)LF_MIN(LF_MAX(hi, 0), LF_ATTN_TILE);
    }
}

/* The first position of page i of the tile at key0, -1 if no row sees a key of it. */
static int page_position(const struct walk *w, int key0, int i)
{
    int first = key0 + i * LF_KV_BLOCK_TOKENS;
    return first < w->key_hi && first + LF_KV_BLOCK_TOKENS > w->key_lo ? first : -1;
}

static const void *page_at(const struct walk *w, int position, enum lf_kv_part part, int kv_head)
{
    if (position < 0) return NULL;
    int block = w->rows->seq->blocks[position / LF_KV_BLOCK_TOKENS];
    return lf_kv_page(w->p->kv, block, w->p->layer, part, kv_head);
}

/* Page idx of the tile at key0 in the order of addresses: block by block, K of all the task's heads, then V. */
static const void *page_in_order(const struct walk *w, int key0, int idx)
{
    int n = w->rows->n_kv_heads, in_block = idx % (2 * n);
    return page_at(w, page_position(w, key0, idx / (2 * n)), in_block < n ? LF_KV_K : LF_KV_V,
                   w->rows->kv_head + in_block % n);
}

/* The pages of the i-th head for the tile at key0, and that head's share of fetching the next tile. */
static void tile_pages(const struct walk *w, int key0, int i, struct lf_attn_tile *t)
{
    enum { N = LF_ATTN_TILE_PAGES };
    for (int page = 0; page < N; page++) {
        int position = page_position(w, key0, page);
        t->k[page] = page_at(w, position, LF_KV_K, w->rows->kv_head + i);
        t->v[page] = page_at(w, position, LF_KV_V, w->rows->kv_head + i);
        t->k_ahead[page] = page_in_order(w, key0 + LF_ATTN_TILE, i * 2 * N + page);
        t->v_ahead[page] = page_in_order(w, key0 + LF_ATTN_TILE, i * 2 * N + N + page);
    }
}

/* The keys of a tile that rows row0 .. row0 + n - 1 see together: [*lo, *hi), empty when *lo >= *hi. */
static void tile_extent(const struct lf_attn_tile *t, int row0, int n, int *lo, int *hi)
{
    *lo = t->full ? 0 : LF_ATTN_TILE;
    *hi = t->full ? LF_ATTN_TILE : 0;
    for (int r = row0; r < row0 + n && !t->full; r++) {
        if (t->lo[r] >= t->hi[r]) continue;
        *lo = LF_MIN(*lo, t->lo[r]);
        *hi = LF_MAX(*hi, t->hi[r]);
    }
}

/* One online-softmax step. A page serves all groups before the next is touched, so it is read from the first-level
 * cache; the first group, during which it comes in, also fetches the pages ahead. */
static void tile_step(const struct lf_attn_kernel *kernel, struct lf_attn_block *b, const struct lf_attn_tile *t)
{
    int lo, hi;
    for (int page = 0; page < LF_ATTN_TILE_PAGES; page++) {
        int first = page * LF_KV_BLOCK_TOKENS;
        for (int r = 0; r < b->n_rows; r += kernel->group) {
            int n = LF_MIN(kernel->group, b->n_rows - r);
            tile_extent(t, r, n, &lo, &hi);
            if (lo >= hi || lo >= first + LF_KV_BLOCK_TOKENS || hi <= first) continue;
            kernel->scores(b, r, n, t->k[page], r == 0 ? t->k_ahead[page] : NULL, first);
        }
    }
    kernel->next_max(b, t);
    for (int r = 0; r < b->n_rows; r += kernel->group) {
        int n = LF_MIN(kernel->group, b->n_rows - r);
        tile_extent(t, r, n, &lo, &hi);
        if (lo >= hi) continue;
        kernel->softmax(b, t, r, n, lo, hi);
        kernel->output(b, t, r, n, lo, hi, r == 0);
    }
}

/* Computes a span for the heads of a task, whose blocks are b[n_kv_heads]. */
static void walk_span(const struct walk *w, struct lf_attn_block *b, int span)
{
    int n = w->rows->n_kv_heads;
    struct lf_attn_tile t;
    for (int i = 0; i < n; i++) span_init(&b[i]);
    int from = LF_MAX(span * LF_ATTN_SPAN, w->key_lo / LF_ATTN_TILE * LF_ATTN_TILE);
    int to = LF_MIN((span + 1) * LF_ATTN_SPAN, w->key_hi);
    for (int key0 = from; key0 < to; key0 += LF_ATTN_TILE) {
        tile_limits(w, key0, &t);
        for (int i = 0; i < n; i++) {
            tile_pages(w, key0, i, &t);
            tile_step(w->kernel, &b[i], &t);
        }
    }
    for (int i = 0; i < n; i++) w->kernel->close(&b[i]);
}

/* Output of the folded rows: the sink joins the denominator, then one division a row. */
static void finish(const struct lf_attn_block *b, const struct lf_attn_params *p, int n_heads,
                   const struct lf_attn_rows *rows, int kv_head)
{
    int d = b->head_dim;
    for (int r = 0; r < b->n_rows; r++) {
        size_t idx = row_index(p, n_heads, rows, kv_head, r);
        float m = b->acc_m[r], l = b->acc_l[r], factor = 1.0f;
        if (p->lse) p->lse[idx] = m * LN_2 + logf(l);
        if (p->sinks) {
            float sink = p->sinks[idx % (size_t)n_heads] * LOG2_E;
            float top = fmaxf(m, sink);
            factor = exp2f(m - top);
            l = l * factor + exp2f(sink - top);
        }
        factor /= l;
        const float *o = b->acc_o + (size_t)r * (size_t)d;
        float *out = (float *)p->out + idx * (size_t)d;
        for (int i = 0; i < d; i++) out[i] = o[i] * factor + 0.0f; /* + 0: no sign of zero (attn_kernel.h) */
    }
}

/* Blocks of a task with their queries. */
static void blocks_init(struct lf_attn_block *b, const struct lf_attn_kernel *kernel, const struct lf_attn_params *p,
                        int n_heads, const struct lf_attn_rows *rows, void *scratch)
{
    for (int i = 0; i < rows->n_kv_heads; i++) {
        block_init(&b[i], p, rows, i, scratch);
        pack_rows(kernel, &b[i], p, n_heads, rows, rows->kv_head + i);
    }
}

void lf_attn_task_whole(const struct lf_attn_kernel *kernel, const struct lf_attn_params *p, int n_heads,
                        const struct lf_attn_rows *rows, int span_lo, int span_hi, void *scratch)
{
    struct lf_attn_block b[LF_ATTN_TASK_HEADS];
    struct walk w;
    blocks_init(b, kernel, p, n_heads, rows, scratch);
    walk_init(&w, kernel, p, n_heads, rows);
    for (int i = 0; i < rows->n_kv_heads; i++) acc_init(&b[i]);
    if (kernel->begin) kernel->begin();
    for (int span = span_lo; span < span_hi; span++) {
        walk_span(&w, b, span);
        for (int i = 0; i < rows->n_kv_heads; i++) kernel->fold(&b[i]);
    }
    if (kernel->end) kernel->end();
    for (int i = 0; i < rows->n_kv_heads; i++) finish(&b[i], p, n_heads, rows, rows->kv_head + i);
}

/* Points the block's span at a partial result in memory. */
static void use_partial(struct lf_attn_block *b, float *partial)
{
    b->m = partial;
    b->l = b->m + row_floats(b->n_rows);
    b->o = b->l + row_floats(b->n_rows);
}

void lf_attn_task_partial(const struct lf_attn_kernel *kernel, const struct lf_attn_params *p, int n_heads,
                          const struct lf_attn_rows *rows, int span_lo, int span_hi, float *partials,
                          size_t head_stride, void *scratch)
{
    struct lf_attn_block b[LF_ATTN_TASK_HEADS];
    struct walk w;
    blocks_init(b, kernel, p, n_heads, rows, scratch);
    walk_init(&w, kernel, p, n_heads, rows);
    size_t stride = lf_attn_partial_floats(rows->n, p->kv->head_dim);
    if (kernel->begin) kernel->begin();
    for (int span = span_lo; span < span_hi; span++) {
        float *of_span = partials + (size_t)(span - span_lo) * stride;
        for (int i = 0; i < rows->n_kv_heads; i++) use_partial(&b[i], of_span + (size_t)i * head_stride);
        walk_span(&w, b, span);
    }
    if (kernel->end) kernel->end();
}

void lf_attn_task_merge(const struct lf_attn_kernel *kernel, const struct lf_attn_params *p, int n_heads,
                        const struct lf_attn_rows *rows, int n_spans, float *partials, void *scratch)
{
    struct lf_attn_block b;
    block_init(&b, p, rows, 0, scratch);
    size_t stride = lf_attn_partial_floats(b.n_rows, b.head_dim);
    acc_init(&b);
    for (int span = 0; span < n_spans; span++) {
        use_partial(&b, partials + (size_t)span * stride);
        kernel->fold(&b);
    }
    finish(&b, p, n_heads, rows, rows->kv_head);
}
