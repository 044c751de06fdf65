/* The walk of one task over its keys: splits, tiles, pages, who sees what. No arithmetic of attention itself. */
#include "attention/attn_task.h"

#include <math.h>
#include <string.h>

#include "core/check.h"

#define LN_2   0.69314718055994530942f
#define LOG2_E 1.44269504088896340736f

/* Lays a block's arrays out from base on; returns the bytes. With base NULL it only counts. */
static size_t lay_out(struct lf_attn_block *b, float *base, int head_dim, enum lf_dtype kv_dtype)
{
    size_t rows = LF_ATTN_ROWS, o_row = lf_attn_o_stride(head_dim);
    size_t expanded = kv_dtype == LF_E4M3 ? LF_KV_BLOCK_TOKENS * (size_t)head_dim / 2 : 0;
    size_t used = 0; /* floats; every array is a multiple of 16 */
    struct {
        float **array;
        size_t n;
    } parts[] = {
        {&b->q, rows * LF_ATTN_Q_STRIDE},
        {&b->s, rows * LF_ATTN_TILE},
        {&b->lanes, rows * LF_ATTN_LANES},
        {&b->alpha, rows},
        {&b->beta, rows},
        {&b->m, rows},
        {&b->l, rows},
        {&b->acc_m, rows},
        {&b->acc_l, rows},
        {&b->o, rows * o_row},
        {&b->acc_o, rows * o_row},
        {&b->page, LF_KV_BLOCK_TOKENS * (size_t)head_dim},
        {&b->k_page, expanded},
        {&b->v_pages[0], expanded},
        {&b->v_pages[1], expanded},
    };
    for (size_t i = 0; i < LF_N_ELEMS(parts); i++) {
        if (base) *parts[i].array = base + used;
        used += parts[i].n;
    }
    return used * sizeof(float);
}

size_t lf_attn_scratch_bytes(int head_dim, enum lf_dtype kv_dtype)
{
    struct lf_attn_block b;
    return lay_out(&b, NULL, head_dim, kv_dtype);
}

static size_t partial_row_floats(int n_rows)
{
    return (size_t)(n_rows + 15) / 16 * 16;
}

size_t lf_attn_partial_floats(int n_rows, int head_dim)
{
    return 2 * partial_row_floats(n_rows) + (size_t)n_rows * lf_attn_o_stride(head_dim);
}

static void block_init(struct lf_attn_block *b, const struct lf_attn_params *p, const struct lf_attn_rows *rows,
                       void *scratch)
{
    lay_out(b, scratch, p->kv->head_dim, p->kv->dtype);
    b->head_dim = p->kv->head_dim;
    b->o_stride = lf_attn_o_stride(b->head_dim);
    b->is_fp8 = p->kv->dtype == LF_E4M3;
    b->kv_dtype = b->is_fp8 ? LF_BF16 : p->kv->dtype;
    b->n_rows = rows->n;
    b->softcap = p->softcap;
    b->softcap_arg = p->softcap > 0.0f ? p->scale / p->softcap : 0.0f;
    b->log2_scale = p->softcap > 0.0f ? LOG2_E : p->scale * LOG2_E;
}

static void split_init(struct lf_attn_block *b)
{
    for (int r = 0; r < LF_ATTN_ROWS && r < (b->n_rows + 15) / 16 * 16; r++) b->m[r] = -INFINITY;
    memset(b->lanes, 0, (size_t)b->n_rows * LF_ATTN_LANES * sizeof(float));
    memset(b->o, 0, (size_t)b->n_rows * b->o_stride * sizeof(float));
}

static void acc_init(struct lf_attn_block *b)
{
    for (int r = 0; r < LF_ATTN_ROWS && r < (b->n_rows + 15) / 16 * 16; r++) {
        b->acc_m[r] = -INFINITY;
        b->acc_l[r] = 0.0f;
    }
    memset(b->acc_o, 0, (size_t)b->n_rows * b->o_stride * sizeof(float));
}

/* The index of a row's query head in [T, n_heads]. */
static size_t row_index(const struct lf_attn_params *p, int n_heads, const struct lf_attn_rows *rows, int r)
{
    int group = n_heads / p->kv->n_kv_heads;
    int row = rows->first + r;
    int token = rows->seq->first_token + row / group;
    return (size_t)token * (size_t)n_heads + (size_t)(rows->kv_head * group + row % group);
}

static void pack_rows(const struct lf_attn_kernel *kernel, struct lf_attn_block *b, const struct lf_attn_params *p,
                      int n_heads, const struct lf_attn_rows *rows)
{
    const float *q = p->q;
    for (int r = 0; r < rows->n; r++) kernel->pack_q(b, r, q + row_index(p, n_heads, rows, r) * (size_t)b->head_dim);
}

/* What each of the rows sees: those of a token the same. */
static void row_keys(const struct lf_attn_params *p, int n_heads, const struct lf_attn_rows *rows,
                     struct lf_attn_keys keys[LF_ATTN_ROWS])
{
    int group = n_heads / p->kv->n_kv_heads;
    int pos = rows->seq->kv_len - rows->seq->n_tokens + rows->first / group, of_token = rows->first % group;
    for (int r = 0; r < rows->n; pos++, of_token = 0) {
        struct lf_attn_keys seen = lf_attn_keys(p->kv->stripe, pos, p->window);
        for (; r < rows->n && of_token < group; of_token++) keys[r++] = seen;
    }
}

/* A block's walk over its keys: what its rows see and the pages of its sequence. */
struct walk {
    const struct lf_attn_kernel *kernel;
    const struct lf_attn_params *p;
    const struct lf_attn_rows *rows;
    int n_heads;
    struct lf_attn_keys keys[LF_ATTN_ROWS]; /* that each row sees */
    struct lf_attn_keys first, last;        /* of the first and last row; together first.lo .. last.hi - 1 */
};

static void walk_init(struct walk *w, const struct lf_attn_kernel *kernel, const struct lf_attn_params *p, int n_heads,
                      const struct lf_attn_rows *rows)
{
    w->kernel = kernel;
    w->p = p;
    w->rows = rows;
    w->n_heads = n_heads;
    row_keys(p, n_heads, rows, w->keys);
    w->first = w->keys[0];
    w->last = w->keys[rows->n - 1];
}

/* Which keys of the tile at key0 each row sees. */
static void tile_limits(const struct walk *w, int key0, struct lf_attn_tile *t)
{
    t->full = key0 + LF_ATTN_TILE <= w->first.hi && key0 >= w->last.lo;
    if (t->full) return;
    for (int r = 0; r < w->rows->n; r++) {
        t->lo[r] = (int16_t)LF_MIN(LF_MAX(w->keys[r].lo - key0, 0), LF_ATTN_TILE);
        t->hi[r] = (int16_t)LF_MIN(LF_MAX(w->keys[r].hi - key0, 0), LF_ATTN_TILE);
    }
}

/* The pages of the tile at key0; those no row sees are NULL. */
static void tile_pages(const struct walk *w, int key0, const void **k, const void **v)
{
    const struct lf_kv_view *kv = w->p->kv;
    const int32_t *table = lf_kv_table(w->rows->seq, kv);
    for (int i = 0; i < LF_ATTN_TILE_PAGES; i++) {
        int first = key0 + i * LF_KV_BLOCK_TOKENS;
        k[i] = v[i] = NULL;
        if (first >= w->last.hi || first + LF_KV_BLOCK_TOKENS <= w->first.lo) continue;
        int block = table[first / LF_KV_BLOCK_TOKENS];
        k[i] = lf_kv_page(kv, block, w->p->layer, LF_KV_K, w->rows->kv_head);
        v[i] = lf_kv_page(kv, block, w->p->layer, LF_KV_V, w->rows->kv_head);
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

/* A page of fp8 as bf16 in *room, which also fetches the codes ahead; any other as it lies. */
static void expand_page(const struct lf_attn_kernel *kernel, const struct lf_attn_block *b, enum lf_kv_part part,
                        const void **page, const void **ahead, float *room)
{
    if (!b->is_fp8) return;
    if (*page) kernel->expand(b->head_dim, part, *page, *ahead, (uint16_t *)(void *)room);
    *page = *page ? room : NULL;
    *ahead = NULL;
}

/* One online-softmax step. A page serves all groups before the next is touched, so it is read from the first-level
 * cache; the first group, during which it comes in, also fetches the pages ahead. */
static void tile_step(const struct lf_attn_kernel *kernel, struct lf_attn_block *b, struct lf_attn_tile *t)
{
    int lo, hi;
    for (int page = 0; page < LF_ATTN_TILE_PAGES; page++) {
        int first = page * LF_KV_BLOCK_TOKENS;
        expand_page(kernel, b, LF_KV_K, &t->k[page], &t->k_ahead[page], b->k_page);
        for (int r = 0; r < b->n_rows; r += kernel->group) {
            int n = LF_MIN(kernel->group, b->n_rows - r);
            tile_extent(t, r, n, &lo, &hi);
            if (lo >= hi || lo >= first + LF_KV_BLOCK_TOKENS || hi <= first) continue;
            kernel->scores(b, r, n, t->k[page], r == 0 ? t->k_ahead[page] : NULL, first, LF_MAX(lo - first, 0),
                           LF_MIN(hi - first, LF_KV_BLOCK_TOKENS));
        }
    }
    kernel->next_max(b, t);
    for (int page = 0; page < LF_ATTN_TILE_PAGES; page++)
        expand_page(kernel, b, LF_KV_V, &t->v[page], &t->v_ahead[page], b->v_pages[page]);
    for (int r = 0; r < b->n_rows; r += kernel->group) {
        int n = LF_MIN(kernel->group, b->n_rows - r);
        tile_extent(t, r, n, &lo, &hi);
        if (lo >= hi) continue;
        kernel->softmax(b, t, r, n, lo, hi);
        kernel->output(b, t, r, n, lo, hi, r == 0);
    }
}

static void walk_split(const struct walk *w, struct lf_attn_block *b, int split)
{
    split_init(b);
    int from = LF_MAX(split * LF_ATTN_SPLIT, w->first.lo / LF_ATTN_TILE * LF_ATTN_TILE);
    int to = LF_MIN((split + 1) * LF_ATTN_SPLIT, w->last.hi);
    for (int key0 = from; key0 < to; key0 += LF_ATTN_TILE) {
        struct lf_attn_tile t;
        tile_pages(w, key0, t.k, t.v);
        tile_pages(w, key0 + LF_ATTN_TILE, t.k_ahead, t.v_ahead);
        tile_limits(w, key0, &t);
        tile_step(w->kernel, b, &t);
    }
    w->kernel->close(b);
}

/* What a row's o is multiplied by, and its log-sum-exp, if asked for: the sink joins the denominator, where there is
 * one. */
static float finish_row(float m, float l, const float *sink, float *lse)
{
    float factor = 1.0f;
    if (sink) {
        float top = fmaxf(m, *sink * LOG2_E);
        factor = exp2f(m - top);
        l = l * factor + exp2f(*sink * LOG2_E - top);
        m = top;
    }
    if (lse) *lse = m * LN_2 + logf(l);
    return factor / l;
}

/* A few channels of a row's output, a number that the compiler makes vectors of. */
static void scale_step(float *restrict out, const float *restrict o, float factor)
{
    for (int i = 0; i < LF_HEAD_DIM_STEP; i++) out[i] = o[i] * factor + 0.0f; /* + 0: no sign of zero (attn_kernel.h) */
}

/* Output of the combined rows. One that sees no key has none but the sink in its denominator. */
static void finish(const struct lf_attn_block *b, const struct lf_attn_params *p, int n_heads,
                   const struct lf_attn_rows *rows, const struct lf_attn_keys *keys)
{
    int d = b->head_dim;
    for (int r = 0; r < b->n_rows; r++) {
        size_t idx = row_index(p, n_heads, rows, r);
        const float *sink = p->sinks ? &p->sinks[idx % (size_t)n_heads] : NULL;
        float *lse = p->lse ? &p->lse[idx] : NULL, factor = 0.0f;
        if (lse) *lse = sink ? *sink : -INFINITY;
        if (keys[r].lo < keys[r].hi) factor = finish_row(b->acc_m[r], b->acc_l[r], sink, lse);
        const float *o = b->acc_o + (size_t)r * b->o_stride;
        float *out = (float *)p->out + idx * (size_t)d;
        for (int i = 0; i < d; i += LF_HEAD_DIM_STEP) scale_step(out + i, o + i, factor);
    }
}

static void swap(float **a, float **b)
{
    float *x = *a;
    *a = *b;
    *b = x;
}

/* The first split is what a combine with nothing would make of it. */
static void take_first(struct lf_attn_block *b)
{
    swap(&b->m, &b->acc_m);
    swap(&b->l, &b->acc_l);
    swap(&b->o, &b->acc_o);
}

void lf_attn_task_whole(const struct lf_attn_kernel *kernel, const struct lf_attn_params *p, int n_heads,
                        const struct lf_attn_rows *rows, int split_lo, int split_hi, void *scratch)
{
    struct lf_attn_block b;
    struct walk w;
    block_init(&b, p, rows, scratch);
    walk_init(&w, kernel, p, n_heads, rows);
    if (kernel->begin) kernel->begin(&b);
    pack_rows(kernel, &b, p, n_heads, rows);
    if (split_lo == split_hi) acc_init(&b); /* nothing to see in a stripe */
    for (int split = split_lo; split < split_hi; split++) {
        walk_split(&w, &b, split);
        if (split == split_lo)
            take_first(&b);
        else
            kernel->combine(&b);
    }
    if (kernel->end) kernel->end();
    finish(&b, p, n_heads, rows, w.keys);
}

/* Points the block's split at a partial result in memory. */
static void use_partial(struct lf_attn_block *b, float *partial)
{
    b->m = partial;
    b->l = b->m + partial_row_floats(b->n_rows);
    b->o = b->l + partial_row_floats(b->n_rows);
}

void lf_attn_task_partial(const struct lf_attn_kernel *kernel, const struct lf_attn_params *p, int n_heads,
                          const struct lf_attn_rows *rows, int split_lo, int split_hi, float *partials, void *scratch)
{
    struct lf_attn_block b;
    struct walk w;
    block_init(&b, p, rows, scratch);
    walk_init(&w, kernel, p, n_heads, rows);
    if (kernel->begin) kernel->begin(&b);
    pack_rows(kernel, &b, p, n_heads, rows);
    size_t stride = lf_attn_partial_floats(b.n_rows, b.head_dim);
    for (int split = split_lo; split < split_hi; split++) {
        use_partial(&b, partials + (size_t)(split - split_lo) * stride);
        walk_split(&w, &b, split);
    }
    if (kernel->end) kernel->end();
}

void lf_attn_task_combine(const struct lf_attn_kernel *kernel, const struct lf_attn_params *p, int n_heads,
                          const struct lf_attn_rows *rows, int n_splits, float *partials, void *scratch)
{
    struct lf_attn_block b;
    block_init(&b, p, rows, scratch);
    size_t stride = lf_attn_partial_floats(b.n_rows, b.head_dim);
    struct lf_attn_keys keys[LF_ATTN_ROWS];
    row_keys(p, n_heads, rows, keys);
    acc_init(&b);
    for (int split = 0; split < n_splits; split++) {
        use_partial(&b, partials + (size_t)split * stride);
        kernel->combine(&b);
    }
    finish(&b, p, n_heads, rows, keys);
}
