/* Attention of a GPU over stripes of a context (kv/kv_view.h): what each of two, three or four ranks computes over its
 * keys against float64, the logarithm of the denominator too, and what they combine to against the undivided context.
 * Decode and prefill, sequences that end in any rank's part or are shorter than a row of pages, windows that begin
 * within a block and are shorter than that, sinks on the first rank, plain and FP8 caches, and each sequence's bits
 * alone and among the others.
 *
 *     test_stripes [PATTERN]   (of the names of tests) */
#include "tests/gpu/gpu_fixture.h"

#include "attention/attention.h"
#include "kv/kv_fp8.h"

enum {
    MAX_SEQS = 10,
    MAX_RANKS = 4,
    MAX_KV = 40000,
    MAX_BLOCKS = MAX_KV / (2 * LF_KV_BLOCK_TOKENS) + 1,
    N_LAYERS = 2,
    LAYER = 1,
    UNUSED_PAGES = 3,
    SURPLUS = 3
};

struct seq {
    int n_rows, kv_len;
    bool is_decode;
};

struct batch {
    int n_seqs;
    struct seq seqs[MAX_SEQS];
};

/* Of decode tokens one to sixteen; ends in every rank's part; prompts of which the second rank has nothing. */
static const struct batch mixed = {10,
                                   {{1, 1, true},
                                    {1, 130, true},
                                    {3, 1100, true},
                                    {16, 700, true},
                                    {7, 257, true},
                                    {5, 5, false},
                                    {70, 210, false},
                                    {33, 1000, false},
                                    {100, 400, false},
                                    {64, 64, false}}};
/* Several splits of prefill tokens, in tasks of their own; groups of splits of decode tokens. */
static const struct batch long_ones = {3, {{2, 39001, true}, {40, 40000, false}, {1, 36900, true}}};

struct variant {
    int window;
    float softcap;
    bool sinks;
};
static const struct variant variants[] = {{0, 0.0f, false},   {100, 0.0f, true}, {0, 20.0f, true},
                                          {70, 20.0f, false}, {37, 0.0f, true},  {300, 0.0f, false}};

/* One rank's cache, and attention over it. */
struct cache {
    struct lf_kv_view view;
    struct gpu_tensor data;
    struct lf_buffer workspace;
    struct lf_attn *attn;
};

struct step {
    const struct batch *batch;
    int head_dim, n_heads, n_kv_heads, n_ranks;
    int first[MAX_SEQS], n_tokens;
    int n_blocks;                             /* the last one is nobody's */
    int32_t tables[MAX_SEQS + 1][MAX_BLOCKS]; /* of the second of two cache groups: that of sequence s is s + 1 */
    float *q_values, *sinks_values;
    float *kv[MAX_SEQS];      /* [kv_len, 2, n_kv_heads, head_dim], as the GPU has them */
    uint8_t *codes[MAX_SEQS]; /* of FP8: the same, and behind them [kv_len, 2, n_kv_heads] scales; or NULL */
    struct gpu_tensor q, sinks;
    struct cache plain[MAX_RANKS], fp8[MAX_RANKS];
};

/* What one rank made of a step. */
struct result {
    float *out, *lse;
    char *raw; /* of out */
};

/* ---- a step ---- */

static int n_blocks_of(const struct step *st, int s)
{
    int block = lf_kv_block_tokens(st->n_ranks);
    return (st->batch->seqs[s].kv_len + block - 1) / block;
}

static void make_tables(struct step *st, uint64_t *seed)
{
    int n = 0;
    for (int s = 0; s < st->batch->n_seqs; s++) n += n_blocks_of(st, s);
    int32_t *deck = fixture_alloc((size_t)n * sizeof *deck);
    for (int i = 0; i < n; i++) deck[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = fixture_between(seed, 0, i);
        int32_t swap = deck[i];
        deck[i] = deck[j];
        deck[j] = swap;
    }
    for (int s = 0, at = 0; s < st->batch->n_seqs; at += n_blocks_of(st, s++))
        memcpy(st->tables[s + 1], deck + at, (size_t)n_blocks_of(st, s) * sizeof *deck);
    st->n_blocks = n + 1;
    free(deck);
}

/* Which head of a sequence's tokens, counted over K and V. */
static size_t head_at(const struct step *st, int pos, int part, int kv_head)
{
    return ((size_t)pos * 2 + (size_t)part) * (size_t)st->n_kv_heads + (size_t)kv_head;
}

static const float *kv_of(const struct step *st, int s, int pos, int part, int kv_head)
{
    return st->kv[s] + head_at(st, pos, part, kv_head) * (size_t)st->head_dim;
}

static uint8_t *scales_of(const struct step *st, int s)
{
    return st->codes[s] + head_at(st, st->batch->seqs[s].kv_len, 0, 0) * (size_t)st->head_dim;
}

/* Numbers of a sequence's tokens, rounded as a cache has them. */
static void make_values(struct step *st, int s, bool fp8, uint64_t *seed)
{
    size_t dim = (size_t)st->head_dim, n = head_at(st, st->batch->seqs[s].kv_len, 0, 0);
    st->kv[s] = fixture_floats(seed, n * dim, 1.0f);
    if (fp8) st->codes[s] = fixture_alloc(n * (dim + 1));
    for (size_t i = 0; i < n && fp8; i++) {
        float *x = st->kv[s] + i * dim, factor = ldexpf(1.0f, fixture_between(seed, -6, 1));
        uint8_t *to = st->codes[s] + i * dim, *scale = scales_of(st, s) + i;
        for (size_t c = 0; c < dim; c++) x[c] *= factor;
        *scale = lf_kv_fp8_quantize(to, x, st->head_dim);
        for (size_t c = 0; c < dim; c++) x[c] = lf_f32_from_bf16(lf_kv_fp8_bf16(to[c], *scale));
    }
    char *rounded = fixture_alloc(n * dim * 2);
    lf_from_f32(rounded, gpu_act, st->kv[s], n * dim);
    lf_to_f32(st->kv[s], rounded, gpu_act, n * dim);
    free(rounded);
}

/* A token's head into a page of an image of the cache. */
static void put_token(const struct step *st, const struct lf_kv_view *kv, int s, int pos, int part, int h)
{
    int block = st->tables[s + 1][pos / lf_kv_block_tokens(st->n_ranks)], slot = pos % LF_KV_BLOCK_TOKENS;
    char *page = lf_kv_page(kv, block, LAYER, (enum lf_kv_part)part, h);
    size_t dim = (size_t)st->head_dim, from = head_at(st, pos, part, h);
    if (kv->dtype == LF_E4M3) {
        memcpy(page + lf_kv_k_index(kv, slot, 0), st->codes[s] + from * dim, dim);
        lf_kv_scales(kv, page)[slot] = scales_of(st, s)[from];
    } else {
        lf_from_f32(page + lf_kv_k_index(kv, slot, 0) * 2, kv->dtype, st->kv[s] + from * dim, dim);
    }
}

/* The cache of rank idx: slots that hold no token of its stripe are NaN. */
static void make_cache(const struct step *st, struct cache *cache, enum lf_dtype dtype, int idx)
{
    struct lf_kv_view *kv = &cache->view;
    *kv = (struct lf_kv_view){.dtype = dtype,
                              .order = LF_KV_ROWS,
                              .n_blocks = st->n_blocks,
                              .n_layers = N_LAYERS,
                              .n_kv_heads = st->n_kv_heads,
                              .head_dim = st->head_dim,
                              .group = 1,
                              .stripe = {idx, st->n_ranks}};
    kv->block_pages = lf_kv_layers_pages(kv) + UNUSED_PAGES;
    size_t bytes = lf_kv_block_bytes(kv) * (size_t)st->n_blocks;
    char *image = fixture_alloc(bytes);
    memset(image, 0xff, bytes);
    kv->base = image;
    for (int s = 0; s < st->batch->n_seqs; s++)
        for (int pos = 0; pos < st->batch->seqs[s].kv_len; pos++)
            for (int h = 0; h < 2 * st->n_kv_heads && lf_kv_stripe_has(kv->stripe, pos); h++)
                put_token(st, kv, s, pos, h / st->n_kv_heads, h % st->n_kv_heads);
    cache->data = gpu_poisoned(dtype, bytes / lf_dtype_bytes(dtype));
    lf_upload(gpu, cache->data.ptr, image, bytes);
    kv->base = cache->data.ptr;
    free(image);
}

static struct lf_attn_shape shape_of(const struct step *st, const struct lf_kv_view *kv)
{
    int max_kv = 0;
    for (int s = 0; s < st->batch->n_seqs; s++) max_kv = LF_MAX(max_kv, st->batch->seqs[s].kv_len);
    return (struct lf_attn_shape){.n_heads = st->n_heads,
                                  .n_kv_heads = st->n_kv_heads,
                                  .head_dim = st->head_dim,
                                  .kv_dtype = kv->dtype,
                                  .max_tokens = st->n_tokens + SURPLUS,
                                  .max_seqs = st->batch->n_seqs,
                                  .max_kv_len = max_kv,
                                  .n_schedules = 2,
                                  .n_groups = 2,
                                  .stripe = kv->stripe};
}

static void make_attn(const struct step *st, struct cache *cache)
{
    struct lf_attn_shape shape = shape_of(st, &cache->view);
    const struct lf_device_info *info = lf_device_info(gpu);
    struct lf_err err = {LF_OK, ""};
    size_t bytes = (size_t)lf_attn_workspace_bytes(&shape, info);
    assert_int_equal(lf_buffer_alloc(gpu, &cache->workspace, bytes, "attention", &err), LF_OK);
    if (lf_attn_create(&cache->attn, gpu, info->isa, &shape, cache->workspace, &err) != LF_OK)
        fail_msg("%s", err.message);
}

static void step_init(struct step *st, const struct batch *batch, int head_dim, int n_heads, int n_kv_heads,
                      int n_ranks, bool fp8, uint64_t *seed)
{
    memset(st, 0, sizeof *st);
    st->batch = batch;
    st->head_dim = head_dim;
    st->n_heads = n_heads;
    st->n_kv_heads = n_kv_heads;
    st->n_ranks = n_ranks;
    for (int s = 0; s < batch->n_seqs; s++) {
        st->first[s] = st->n_tokens;
        st->n_tokens += batch->seqs[s].n_rows;
    }
    make_tables(st, seed);
    for (int s = 0; s < batch->n_seqs; s++) make_values(st, s, fp8, seed);
    size_t rows = (size_t)(st->n_tokens + SURPLUS) * (size_t)n_heads;
    st->q = gpu_random(gpu_act, seed, rows * (size_t)head_dim, 1.0f, &st->q_values);
    st->sinks = gpu_random(LF_F32, seed, (size_t)n_heads, 3.0f, &st->sinks_values);
    for (int idx = 0; idx < n_ranks; idx++) {
        make_cache(st, &st->plain[idx], gpu_act, idx);
        make_attn(st, &st->plain[idx]);
        if (!fp8) continue;
        make_cache(st, &st->fp8[idx], LF_E4M3, idx);
        make_attn(st, &st->fp8[idx]);
    }
}

static void cache_deinit(struct cache *cache)
{
    lf_attn_destroy(cache->attn);
    lf_buffer_free(gpu, &cache->workspace);
    gpu_free(&cache->data);
}

static void step_deinit(struct step *st)
{
    for (int idx = 0; idx < st->n_ranks; idx++) {
        cache_deinit(&st->plain[idx]);
        cache_deinit(&st->fp8[idx]);
    }
    for (int s = 0; s < st->batch->n_seqs; s++) {
        free(st->kv[s]);
        free(st->codes[s]);
    }
    gpu_free(&st->sinks);
    gpu_free(&st->q);
    free(st->sinks_values);
    free(st->q_values);
}

/* The first position that row r of a sequence sees. */
static int first_seen(const struct step *st, const struct variant *v, int s, int r)
{
    int pos = st->batch->seqs[s].kv_len - st->batch->seqs[s].n_rows + r;
    return v->window > 0 ? LF_MAX(0, pos - v->window + 1) : 0;
}

/* Blocks before the window of a sequence's first row are nobody's. */
static void make_windowed(const struct step *st, const struct variant *v, int32_t (*tables)[MAX_BLOCKS])
{
    memcpy(tables, st->tables, sizeof st->tables);
    for (int s = 0; s < st->batch->n_seqs; s++)
        for (int b = 0; b < first_seen(st, v, s, 0) / lf_kv_block_tokens(st->n_ranks); b++)
            tables[s + 1][b] = st->n_blocks - 1;
}

/* Sequences first .. first + n - 1 as those of a step. */
static void make_list(const struct step *st, const struct variant *v, int first, int n, struct lf_kv_seq *list)
{
    static int32_t tables[MAX_SEQS + 1][MAX_BLOCKS];
    int n_tokens = 0;
    make_windowed(st, v, tables);
    for (int i = 0; i < n; i++) {
        const struct seq *s = &st->batch->seqs[first + i];
        list[i] = (struct lf_kv_seq){.blocks = tables[first + i],
                                     .table_stride = MAX_BLOCKS,
                                     .first_token = n_tokens,
                                     .n_tokens = s->n_rows,
                                     .kv_len = s->kv_len,
                                     .is_decode = s->is_decode};
        n_tokens += s->n_rows;
    }
}

struct outputs {
    struct gpu_tensor out, lse;
};

static struct outputs make_outputs(const struct step *st)
{
    size_t rows = (size_t)(st->n_tokens + SURPLUS) * (size_t)st->n_heads;
    return (struct outputs){gpu_poisoned(gpu_act, rows * (size_t)st->head_dim), gpu_poisoned(LF_F32, rows)};
}

/* What a rank is asked for, of rows that begin with those of sequence `first`. */
static struct lf_attn_params params_of(const struct step *st, const struct cache *cache, const struct variant *v,
                                       const struct outputs *to, int first)
{
    size_t skipped = (size_t)st->first[first] * (size_t)st->n_heads * (size_t)st->head_dim * 2;
    int idx = cache->view.stripe.idx;
    (void)snprintf(gpu_case, sizeof gpu_case,
                   "%s stripe %d of %d head_dim %d heads %d/%d window %d softcap %g sinks %d",
                   lf_dtype_name(cache->view.dtype), idx, st->n_ranks, st->head_dim, st->n_heads, st->n_kv_heads,
                   v->window, (double)v->softcap, v->sinks);
    return (struct lf_attn_params){.out = to->out.ptr,
                                   .q = st->q.ptr + skipped,
                                   .lse = (float *)(void *)to->lse.ptr,
                                   .kv = &cache->view,
                                   .layer = LAYER,
                                   .scale = 1.0f / sqrtf((float)st->head_dim),
                                   .softcap = v->softcap,
                                   .window = v->window,
                                   .sinks = v->sinks && idx == 0 ? (const float *)(void *)st->sinks.ptr : NULL};
}

/* Reads what a step has written, and frees the tensors. */
static struct result take(struct outputs *from)
{
    struct result result = {.out = gpu_read(&from->out), .lse = gpu_read(&from->lse), .raw = gpu_read_raw(&from->out)};
    gpu_free(&from->lse);
    gpu_free(&from->out);
    return result;
}

/* Runs sequences first .. first + n - 1 as a step of a rank; their rows begin with the first one's. */
static struct result run(const struct step *st, const struct cache *cache, const struct variant *v, int first, int n)
{
    struct lf_kv_seq list[MAX_SEQS];
    struct outputs to = make_outputs(st);
    struct lf_attn_params p = params_of(st, cache, v, &to, first);
    make_list(st, v, first, n, list);
    lf_attn_schedule(cache->attn, 0, list, n, (struct lf_attn_kind){.window = v->window, .n_groups = 2});
    lf_attn_run(cache->attn, 0, &p);
    return take(&to);
}

static void result_free(struct result *result)
{
    free(result->raw);
    free(result->lse);
    free(result->out);
}

/* ---- float64 ---- */

/* A row's output over some keys; how far from it a GPU's may be before it is rounded; the denominator's logarithm. */
struct expected {
    double out[LF_HEAD_DIM], allowed[LF_HEAD_DIM], lse;
};

struct row {
    int s, r, head;
};

static size_t row_index(const struct step *st, const struct row *row)
{
    return (size_t)(st->first[row->s] + row->r) * (size_t)st->n_heads + (size_t)row->head;
}

static double score_of(const struct step *st, const struct variant *v, const struct row *row, int key)
{
    const float *q = st->q_values + row_index(st, row) * (size_t)st->head_dim;
    const float *k = kv_of(st, row->s, key, LF_KV_K, row->head / (st->n_heads / st->n_kv_heads));
    double x = 0.0;
    for (int i = 0; i < st->head_dim; i++) x += (double)q[i] * (double)k[i];
    x /= sqrt((double)st->head_dim);
    return v->softcap > 0.0f ? (double)v->softcap * tanh(x / (double)v->softcap) : x;
}

/* Over the keys of a stripe; sink: NULL or what joins the denominator. */
static void expect(const struct step *st, const struct variant *v, const struct row *row, struct lf_kv_stripe stripe,
                   const float *sink, struct expected *e)
{
    static double scores[MAX_KV];
    const struct seq *seq = &st->batch->seqs[row->s];
    int pos = seq->kv_len - seq->n_rows + row->r, lo = first_seen(st, v, row->s, row->r);
    double top = sink ? (double)*sink : -(double)INFINITY, sum = 0.0, values[LF_HEAD_DIM] = {0},
           magnitude[LF_HEAD_DIM] = {0};
    memset(e, 0, sizeof *e);
    for (int j = lo; j <= pos; j++) {
        scores[j] = lf_kv_stripe_has(stripe, j) ? score_of(st, v, row, j) : -(double)INFINITY;
        top = fmax(top, scores[j]);
    }
    e->lse = -INFINITY;
    if (isinf(top)) return;
    for (int j = lo; j <= pos; j++) sum += exp(scores[j] - top);
    if (sink) sum += exp((double)*sink - top);
    e->lse = top + log(sum);
    for (int j = lo; j <= pos; j++) {
        if (isinf(scores[j])) continue;
        const float *x = kv_of(st, row->s, j, LF_KV_V, row->head / (st->n_heads / st->n_kv_heads));
        double p = exp(scores[j] - e->lse);
        for (int i = 0; i < st->head_dim; i++) {
            e->out[i] += p * (double)x[i];
            magnitude[i] += p * fabs((double)x[i]);
            values[i] += fabs((double)x[i]);
        }
    }
    for (int i = 0; i < st->head_dim; i++)
        e->allowed[i] = (ldexp(1.0, -8) + 1e-4) * magnitude[i] + ldexp(values[i], -25);
}

/* A row of a rank; one without keys is exactly 0 and -inf, or the sink. */
static void check_row(const struct step *st, const struct row *row, const struct expected *e, const struct result *got)
{
    size_t at = row_index(st, row);
    double lse = (double)got->lse[at];
    for (int i = 0; i < st->head_dim; i++) {
        double x = (double)got->out[at * (size_t)st->head_dim + (size_t)i];
        double allowed =
            e->allowed[i] > 0.0 ? e->allowed[i] + gpu_rounding(gpu_act, fabs(e->out[i]) + e->allowed[i]) : 0.0;
        if (!(fabs(x - e->out[i]) <= allowed))
            fail_msg("%s: sequence %d row %d head %d channel %d: %g, expected %g within %g", gpu_case, row->s, row->r,
                     row->head, i, x, e->out[i], allowed);
    }
    bool is_right = isinf(e->lse) ? lse == e->lse : fabs(lse - e->lse) <= 1e-4 * fmax(1.0, fabs(e->lse));
    if (!is_right)
        fail_msg("%s: sequence %d row %d head %d: lse %g, expected %g", gpu_case, row->s, row->r, row->head, lse,
                 e->lse);
}

/* What the ranks' rows combine to is the undivided context's row. */
static void check_combined(const struct step *st, const struct variant *v, const struct row *row,
                           const struct result *got)
{
    size_t at = row_index(st, row);
    double top = -INFINITY, sum = 0.0;
    struct expected e;
    expect(st, v, row, (struct lf_kv_stripe){0, 1}, v->sinks ? &st->sinks_values[row->head] : NULL, &e);
    for (int idx = 0; idx < st->n_ranks; idx++) top = fmax(top, (double)got[idx].lse[at]);
    for (int idx = 0; idx < st->n_ranks; idx++) sum += exp((double)got[idx].lse[at] - top);
    double lse = top + log(sum), of_lse = 2e-4 * fmax(1.0, fabs(lse));
    for (int i = 0; i < st->head_dim; i++) {
        double x = 0.0, allowed = 2 * e.allowed[i];
        for (int idx = 0; idx < st->n_ranks; idx++) {
            double part =
                exp((double)got[idx].lse[at] - lse) * (double)got[idx].out[at * (size_t)st->head_dim + (size_t)i];
            x += part;
            allowed += gpu_rounding(gpu_act, part) + 2 * of_lse * fabs(part);
        }
        if (!(fabs(x - e.out[i]) <= allowed))
            fail_msg("%s: all ranks: sequence %d row %d head %d channel %d: %g, expected %g within %g", gpu_case,
                     row->s, row->r, row->head, i, x, e.out[i], allowed);
    }
    if (!(fabs(lse - e.lse) <= of_lse))
        fail_msg("%s: all ranks: sequence %d row %d head %d: lse %g, expected %g", gpu_case, row->s, row->r, row->head,
                 lse, e.lse);
}

/* All of a step's rows are written, and nothing behind them. */
static void check_written(const struct step *st, const struct result *got)
{
    size_t rows = (size_t)st->n_tokens * (size_t)st->n_heads, dim = (size_t)st->head_dim;
    size_t room = (size_t)(st->n_tokens + SURPLUS) * (size_t)st->n_heads;
    for (size_t i = 0; i < room * dim; i++) assert_int_equal(isnan(got->out[i]) != 0, i >= rows * dim);
    for (size_t i = 0; i < room; i++) assert_int_equal(isnan(got->lse[i]) != 0, i >= rows);
}

/* The ends of each sequence's rows and some between them, all heads, on every rank and together. */
static void check_step(const struct step *st, const struct cache *caches, const struct variant *v)
{
    struct result got[MAX_RANKS];
    for (int idx = 0; idx < st->n_ranks; idx++) {
        got[idx] = run(st, &caches[idx], v, 0, st->batch->n_seqs);
        check_written(st, &got[idx]);
    }
    for (int s = 0; s < st->batch->n_seqs; s++) {
        int n = st->batch->seqs[s].n_rows;
        for (int i = 0; i < n * st->n_heads; i++) {
            struct row row = {s, i / st->n_heads, i % st->n_heads};
            if (row.r % 13 != 0 && row.r != n - 1) continue;
            for (int idx = 0; idx < st->n_ranks; idx++) {
                struct expected e;
                const float *sink = v->sinks && idx == 0 ? &st->sinks_values[row.head] : NULL;
                expect(st, v, &row, (struct lf_kv_stripe){idx, st->n_ranks}, sink, &e);
                check_row(st, &row, &e, &got[idx]);
            }
            check_combined(st, v, &row, got);
        }
    }
    for (int idx = 0; idx < st->n_ranks; idx++) result_free(&got[idx]);
}

/* Tasks of other sizes and numbers, parts or none. */
static void check_bits_alone(const struct step *st, const struct cache *cache, const struct variant *v)
{
    size_t heads = (size_t)st->n_heads, row_bytes = heads * (size_t)st->head_dim * 2;
    struct result all = run(st, cache, v, 0, st->batch->n_seqs);
    for (int s = 0; s < st->batch->n_seqs; s++) {
        struct result alone = run(st, cache, v, s, 1);
        size_t first = (size_t)st->first[s], n = (size_t)st->batch->seqs[s].n_rows;
        assert_memory_equal(alone.raw, all.raw + first * row_bytes, n * row_bytes);
        assert_memory_equal(alone.lse, all.lse + first * heads, n * heads * sizeof(float));
        result_free(&alone);
    }
    result_free(&all);
}

/* ---- tests ---- */

static const int dims[] = {64, 128, 256, 24, 72, 96, 104, 192, 320, 512};

static void stripes_are_right_and_combine(void **state)
{
    (void)state;
    uint64_t seed = 81;
    for (size_t d = 0; d < LF_N_ELEMS(dims) && gpu_act == LF_BF16; d++) {
        for (int n = 2; n <= MAX_RANKS; n++) {
            struct step st;
            step_init(&st, &mixed, dims[d], d % 2 ? 6 : 4, (d + (size_t)n) % 3 == 0 ? 1 : 2, n, false, &seed);
            for (size_t v = 0; v < LF_N_ELEMS(variants); v++) check_step(&st, st.plain, &variants[v]);
            step_deinit(&st);
        }
    }
}

static void stripes_of_long_contexts_are_right(void **state)
{
    (void)state;
    uint64_t seed = 82;
    static const int some[] = {64, 128, 256, 104, 264};
    for (size_t d = 0; d < LF_N_ELEMS(some) && gpu_act == LF_BF16; d++) {
        struct step st;
        step_init(&st, &long_ones, some[d], 2, 1, d % 2 ? 2 : 3, d == 1, &seed);
        check_step(&st, st.plain, &variants[0]);
        if (d == 1) check_step(&st, st.fp8, &variants[0]);
        check_bits_alone(&st, &st.plain[1], &variants[0]);
        step_deinit(&st);
    }
}

static void stripes_of_sequences_have_the_same_bits_alone(void **state)
{
    (void)state;
    uint64_t seed = 83;
    static const int some[] = {64, 104, 128, 256, 320};
    for (size_t d = 0; d < LF_N_ELEMS(some) && gpu_act == LF_BF16; d++) {
        struct step st;
        step_init(&st, &mixed, some[d], 4, 2, 2 + (int)d % 3, false, &seed);
        for (size_t v = 0; v < LF_N_ELEMS(variants); v++)
            for (int idx = 0; idx < st.n_ranks; idx++) check_bits_alone(&st, &st.plain[idx], &variants[v]);
        step_deinit(&st);
    }
}

/* To the bit what a plain cache gives. */
static void check_bits_of_plain(const struct step *st, const struct variant *v, int idx)
{
    struct result fp8 = run(st, &st->fp8[idx], v, 0, st->batch->n_seqs);
    struct result plain = run(st, &st->plain[idx], v, 0, st->batch->n_seqs);
    size_t rows = (size_t)st->n_tokens * (size_t)st->n_heads;
    assert_memory_equal(fp8.raw, plain.raw, rows * (size_t)st->head_dim * 2);
    assert_memory_equal(fp8.lse, plain.lse, rows * sizeof(float));
    result_free(&plain);
    result_free(&fp8);
}

static void stripes_of_fp8_caches_are_read_as_their_numbers(void **state)
{
    (void)state;
    uint64_t seed = 84;
    static const int some[] = {64, 128, 256, 96, 192, 512};
    for (size_t d = 0; d < LF_N_ELEMS(some) && gpu_act == LF_BF16; d++) {
        static const int heads[][2] = {{4, 2}, {24, 1}, {3, 3}, {6, 1}};
        const int *h = heads[d % LF_N_ELEMS(heads)];
        struct step st;
        step_init(&st, &mixed, some[d], h[0], h[1], 2 + (int)d % 3, true, &seed);
        for (size_t v = 0; v < LF_N_ELEMS(variants); v++) {
            check_step(&st, st.fp8, &variants[v]);
            for (int idx = 0; idx < st.n_ranks; idx++) check_bits_of_plain(&st, &variants[v], idx);
        }
        step_deinit(&st);
    }
}

/* What comes to whoever has tokens first .. end - 1; others are not touched. */
static void check_owned(const struct step *st, struct outputs *of, const struct result *all, int first, int end)
{
    size_t heads = (size_t)st->n_heads, dim = (size_t)st->head_dim, n = (size_t)(end - first) * heads;
    struct result got = take(of);
    assert_memory_equal(got.raw, all->raw + (size_t)first * heads * dim * 2, n * dim * 2);
    assert_memory_equal(got.lse, all->lse + (size_t)first * heads, n * sizeof(float));
    for (size_t i = n; i < (size_t)(st->n_tokens + SURPLUS) * heads; i++)
        assert_true(isnan(got.lse[i]) && isnan(got.out[i * dim]) && isnan(got.out[i * dim + dim - 1]));
    result_free(&got);
}

static void check_owners(const struct step *st, const struct cache *cache, const struct variant *v)
{
    struct result all = run(st, cache, v, 0, st->batch->n_seqs); /* of the same schedule */
    struct outputs to = make_outputs(st), of[3] = {make_outputs(st), make_outputs(st), make_outputs(st)};
    struct lf_attn_params p = params_of(st, cache, v, &to, 0);
    p.owners = (struct lf_attn_owners){.n = 3, .first = {0, st->n_tokens / 3, st->n_tokens / 2, st->n_tokens}};
    for (int r = 0; r < 3; r++) p.owners.out[r] = of[r].out.ptr;
    for (int r = 0; r < 3; r++) p.owners.lse[r] = (float *)(void *)of[r].lse.ptr;
    lf_attn_run(cache->attn, 0, &p);
    for (int r = 0; r < 3; r++) check_owned(st, &of[r], &all, p.owners.first[r], p.owners.first[r + 1]);
    check_owned(st, &to, &all, 0, 0);
    result_free(&all);
}

static void rows_go_to_their_owners_with_the_same_bits(void **state)
{
    (void)state;
    uint64_t seed = 86;
    for (size_t d = 0; d < LF_N_ELEMS(dims) && gpu_act == LF_BF16; d++) {
        bool fp8 = dims[d] % 16 == 0;
        struct step st;
        step_init(&st, d % 2 ? &long_ones : &mixed, dims[d], 4, 2, 2 + (int)d % 3, fp8, &seed);
        for (int idx = 0; idx < st.n_ranks; idx++) check_owners(&st, &st.plain[idx], &variants[d % 3]);
        for (int idx = 0; idx < st.n_ranks && fp8; idx++) check_owners(&st, &st.fp8[idx], &variants[0]);
        step_deinit(&st);
    }
}

/* A step of decode tokens, recorded before there are any: replayed it has the bits of one that is not. */
static void check_graph(const struct step *st, const struct cache *cache, const struct variant *v, int n)
{
    struct lf_attn_kind kind = {.window = v->window, .n_groups = 2};
    struct lf_kv_seq list[MAX_SEQS];
    struct outputs to = make_outputs(st);
    struct lf_attn_params p = params_of(st, cache, v, &to, 0);
    lf_attn_record(cache->attn, 1, kind, 1, 1);
    gpu_sync();
    assert_true(lf_graph_begin(gpu));
    lf_attn_run(cache->attn, 1, &p);
    struct lf_graph *graph = lf_graph_end(gpu);
    assert_non_null(graph);
    make_list(st, v, 0, n, list);
    lf_attn_schedule(cache->attn, 1, list, n, kind);
    lf_graph_launch(gpu, graph);
    struct result replayed = take(&to), direct = run(st, cache, v, 0, n);
    size_t rows = (size_t)(st->n_tokens + SURPLUS) * (size_t)st->n_heads; /* those of no sequence are NaN in both */
    assert_memory_equal(replayed.raw, direct.raw, rows * (size_t)st->head_dim * 2);
    assert_memory_equal(replayed.lse, direct.lse, rows * sizeof(float));
    result_free(&direct);
    result_free(&replayed);
    lf_graph_destroy(gpu, graph);
}

static void a_graph_replays_over_stripes(void **state)
{
    (void)state;
    uint64_t seed = 85;
    static const int some[] = {64, 128, 256, 512};
    for (size_t d = 0; d < LF_N_ELEMS(some) && gpu_act == LF_BF16; d++) {
        struct step st;
        step_init(&st, &mixed, some[d], 4, 2, 2 + (int)d % 3, false, &seed);
        for (size_t v = 0; v < LF_N_ELEMS(variants); v++)
            for (int n = 1; n <= 5; n++) check_graph(&st, &st.plain[n % st.n_ranks], &variants[v], n);
        step_deinit(&st);
    }
}

static void stripes_that_no_kernel_reads_are_refused(void **state)
{
    (void)state;
    struct lf_attn_shape shape = {.n_heads = 2,
                                  .n_kv_heads = 1,
                                  .head_dim = 128,
                                  .kv_dtype = gpu_act,
                                  .max_tokens = 1,
                                  .max_seqs = 1,
                                  .max_kv_len = 1,
                                  .n_schedules = 1,
                                  .n_groups = 1,
                                  .stripe = {1, 2}};
    const struct lf_device_info *info = lf_device_info(gpu);
    assert_int_equal(lf_attn_check(&shape, info, NULL), gpu_act == LF_BF16 ? LF_OK : LF_UNSUPPORTED);
    shape.stripe.n = 1;
    shape.stripe.idx = 0;
    assert_int_equal(lf_attn_check(&shape, info, NULL), LF_OK);
}

int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stripes_are_right_and_combine),
        cmocka_unit_test(stripes_of_long_contexts_are_right),
        cmocka_unit_test(stripes_of_sequences_have_the_same_bits_alone),
        cmocka_unit_test(stripes_of_fp8_caches_are_read_as_their_numbers),
        cmocka_unit_test(rows_go_to_their_owners_with_the_same_bits),
        cmocka_unit_test(a_graph_replays_over_stripes),
        cmocka_unit_test(stripes_that_no_kernel_reads_are_refused),
    };
    return gpu_run(tests);
}
