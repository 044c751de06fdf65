#include "attn_case.h"

#include <math.h>

#include "core/check.h"
#include "core/mix.h"
#include "kv/kv_fp8.h"
#include "tests/support/test.h"

enum { CANARY = 64, DENSE_NONE = -1, OS_PAGE = 4096 };

struct attn_dense {
    int seq_idx, kv_head;
    float *k, *v; /* [kv_len][head_dim] */
    double *w;    /* [kv_len] */
};

/* About N(0, 1): four uniform numbers summed and scaled to variance 1. */
static float normal(uint64_t key, bool outliers)
{
    uint64_t x = lf_mix64(key);
    double sum = (double)(x & 0xffff) + (double)(x >> 16 & 0xffff) + (double)(x >> 32 & 0xffff) + (double)(x >> 48);
    double n = (sum / 65535.0 - 2.0) * 1.7320508;
    if (outliers && lf_mix64(x) % 1000 == 0) n *= 10.0;
    return (float)n;
}

/* One key per (seed, what, sequence, position, head): channels are added to it. */
static uint64_t key_of(const struct attn_case *c, int what, int seq_idx, int pos, int head)
{
    uint64_t k = lf_mix64(c->seed ^ lf_mix64((uint64_t)what << 48 | (uint64_t)seq_idx << 32));
    return lf_mix64(k ^ ((uint64_t)pos << 24 | (uint64_t)head << 12));
}

static size_t index_of(const struct lf_kv_view *kv, enum lf_kv_part part, int t, int channel)
{
    return part == LF_KV_K ? lf_kv_k_index(kv, t, channel) : lf_kv_v_index(kv, t, channel);
}

/* x [head_dim] into a token's place of a page. */
static void store(const struct lf_kv_view *kv, enum lf_kv_part part, void *page, int t, const float *x)
{
    uint8_t codes[LF_HEAD_DIM];
    if (kv->dtype == LF_E4M3) lf_kv_scales(kv, page)[t] = lf_kv_fp8_quantize(codes, x, kv->head_dim);
    for (int i = 0; i < kv->head_dim; i++) {
        size_t idx = index_of(kv, part, t, i);
        if (kv->dtype == LF_F32)
            ((float *)page)[idx] = x[i];
        else if (kv->dtype == LF_BF16)
            ((uint16_t *)page)[idx] = lf_bf16_from_f32(x[i]);
        else
            ((uint8_t *)page)[idx] = codes[i];
    }
}

static float load(const struct lf_kv_view *kv, enum lf_kv_part part, void *page, int t, int channel)
{
    size_t idx = index_of(kv, part, t, channel);
    if (kv->dtype == LF_F32) return ((const float *)page)[idx];
    if (kv->dtype == LF_BF16) return lf_f32_from_bf16(((const uint16_t *)page)[idx]);
    uint8_t code = ((const uint8_t *)page)[idx];
    return lf_code_number(LF_CODE_E4M3, code) * ldexpf(1.0f, lf_kv_scales(kv, page)[t] - LF_KV_FP8_BIAS);
}

static int n_blocks_of(const struct attn_case *c, int seq_idx)
{
    int tokens = lf_kv_block_tokens(c->stripe.n);
    return (c->kv_len[seq_idx] + tokens - 1) / tokens;
}

static void fill_block(struct attn_data *d, int seq_idx, int block_idx)
{
    const struct lf_kv_view *kv = &d->kv;
    const struct attn_case *c = &d->c;
    int block = d->tables[seq_idx][block_idx], source = block_idx < c->shared_blocks ? 0 : seq_idx;
    for (int head = 0; head < kv->n_kv_heads; head++) {
        void *k = lf_kv_page(kv, block, kv->n_layers - 1, LF_KV_K, head);
        void *v = lf_kv_page(kv, block, kv->n_layers - 1, LF_KV_V, head);
        memset(k, 0xff, lf_kv_page_bytes(kv)); /* NaN in all types */
        memset(v, 0xff, lf_kv_page_bytes(kv));
        for (int t = 0; t < LF_KV_BLOCK_TOKENS; t++) {
            int pos = block_idx * lf_kv_block_tokens(c->stripe.n) + c->stripe.idx * LF_KV_BLOCK_TOKENS + t;
            if (pos >= c->kv_len[seq_idx]) break;
            uint64_t k_key = key_of(c, 1, source, pos, head), v_key = key_of(c, 2, source, pos, head);
            float k_row[LF_HEAD_DIM], v_row[LF_HEAD_DIM];
            for (int i = 0; i < kv->head_dim; i++) {
                k_row[i] = normal(k_key + (uint64_t)i, c->outliers);
                v_row[i] = normal(v_key + (uint64_t)i, c->outliers);
            }
            if (c->nan_key > 0 && seq_idx == 0 && pos == c->nan_key) k_row[0] = NAN;
            if (c->nan_value > 0 && seq_idx == 0 && pos == c->nan_value) v_row[0] = NAN;
            store(kv, LF_KV_K, k, t, k_row);
            store(kv, LF_KV_V, v, t, v_row);
        }
    }
}

/* Block tables: a random order of all blocks, the shared ones first in every table. */
static void make_tables(struct attn_data *d)
{
    const struct attn_case *c = &d->c;
    int n = c->shared_blocks;
    for (int i = 0; i < c->n_seqs; i++) n += n_blocks_of(c, i) - c->shared_blocks;
    int32_t *order = malloc((size_t)n * sizeof(*order));
    assert_non_null(order);
    for (int i = 0; i < n; i++) order[i] = c->first_block + i;
    for (int i = n - 1; i > 0; i--) {
        int j = (int)(lf_mix64(c->seed + (uint64_t)i) % (uint64_t)(i + 1));
        int32_t t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    int next = c->shared_blocks;
    for (int i = 0; i < c->n_seqs; i++) {
        int n_blocks = n_blocks_of(c, i);
        d->tables[i] = malloc((size_t)n_blocks * sizeof(int32_t));
        assert_non_null(d->tables[i]);
        for (int b = 0; b < n_blocks; b++) d->tables[i][b] = b < c->shared_blocks ? order[b] : order[next++];
    }
    d->kv.n_blocks = c->first_block + n;
    free(order);
}

static float *map_floats(size_t n)
{
    float *p = malloc(n * sizeof(float));
    assert_non_null(p);
    for (size_t i = 0; i < n; i++) p[i] = NAN;
    return p;
}

static float canary(size_t i)
{
    return 1000.0f + (float)i;
}

static float *map_between_canaries(float **map, size_t n)
{
    *map = map_floats(n + 2 * CANARY);
    for (size_t i = 0; i < CANARY; i++) (*map)[i] = (*map)[n + CANARY + i] = canary(i);
    return *map + CANARY;
}

static void check_between_canaries(const float *map, size_t n, bool finite, const char *what)
{
    for (size_t i = 0; i < CANARY; i++)
        if (map[i] != canary(i) || map[n + CANARY + i] != canary(i)) fail_msg("%s written outside", what);
    for (size_t i = 0; i < n && finite; i++)
        if (!isfinite(map[CANARY + i])) fail_msg("%s[%zu] = %f", what, i, (double)map[CANARY + i]);
}

/* The cache ends at a page that nobody may read. */
static size_t mapped_bytes(const struct attn_data *d)
{
    return (d->kv_bytes + OS_PAGE - 1) / OS_PAGE * OS_PAGE + OS_PAGE;
}

void attn_data_init(struct attn_data *d, struct lf_device *dev, const struct attn_case *c)
{
    memset(d, 0, sizeof(*d));
    d->c = *c;
    d->dev = dev;
    d->kv = (struct lf_kv_view){.dtype = c->dtype,
                                .n_layers = c->n_layers ? c->n_layers : 2,
                                .n_kv_heads = c->n_kv_heads,
                                .head_dim = c->head_dim,
                                .stripe = c->stripe};
    d->kv.block_pages = lf_kv_layers_pages(&d->kv) + c->unused_pages;
    make_tables(d);
    d->kv_bytes = (size_t)d->kv.n_blocks * lf_kv_block_bytes(&d->kv);
    size_t mapped = mapped_bytes(d);
    d->kv_map = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(d->kv_map != MAP_FAILED);
    assert_int_equal(mprotect(d->kv_map + mapped - OS_PAGE, OS_PAGE, PROT_NONE), 0);
    d->kv.base = d->kv_map + mapped - OS_PAGE - d->kv_bytes;
    for (int i = 0; i < c->n_seqs; i++) {
        for (int b = i > 0 ? c->shared_blocks : 0; b < n_blocks_of(c, i); b++) fill_block(d, i, b);
        d->seqs[i] = (struct lf_kv_seq){
            .blocks = d->tables[i], .first_token = d->n_rows, .n_tokens = c->n_rows[i], .kv_len = c->kv_len[i]};
        d->n_rows += c->n_rows[i];
    }
    size_t dim = (size_t)c->head_dim, heads = (size_t)c->n_heads, n = (size_t)d->n_rows * heads;
    d->q = map_floats(n * dim);
    for (int i = 0; i < c->n_seqs; i++)
        for (int r = 0; r < c->n_rows[i]; r++)
            for (int h = 0; h < c->n_heads; h++) {
                uint64_t key = key_of(c, 3, i, c->kv_len[i] - c->n_rows[i] + r, h);
                float *q = d->q + ((size_t)(d->seqs[i].first_token + r) * heads + (size_t)h) * dim;
                for (size_t k = 0; k < dim; k++) q[k] = normal(key + k, c->outliers);
            }
    d->sinks = map_floats(heads);
    for (size_t h = 0; h < heads; h++) d->sinks[h] = 2.0f * normal(c->seed + 77 + h, false);
    d->out = map_between_canaries(&d->out_map, n * dim);
    d->lse = map_between_canaries(&d->lse_map, n);
}

static void dense_free(struct attn_dense *dense)
{
    if (!dense) return;
    free(dense->k);
    free(dense->v);
    free(dense->w);
    free(dense);
}

void attn_data_deinit(struct attn_data *d)
{
    dense_free(d->dense);
    munmap(d->kv_map, mapped_bytes(d));
    for (int i = 0; i < d->c.n_seqs; i++) free(d->tables[i]);
    free(d->q);
    free(d->sinks);
    free(d->out_map);
    free(d->lse_map);
}

void attn_data_run(struct attn_data *d, enum lf_isa isa)
{
    const struct attn_case *c = &d->c;
    struct lf_attn_shape shape = {.n_heads = c->n_heads,
                                  .n_kv_heads = c->n_kv_heads,
                                  .head_dim = c->head_dim,
                                  .kv_dtype = c->dtype,
                                  .stripe = c->stripe,
                                  .max_tokens = d->n_rows,
                                  .max_seqs = c->n_seqs,
                                  .n_schedules = 1,
                                  .n_groups = 1};
    for (int i = 0; i < c->n_seqs; i++) shape.max_kv_len = LF_MAX(shape.max_kv_len, c->kv_len[i]);
    struct lf_err err;
    struct lf_buffer ws;
    struct lf_attn *attn;
    size_t bytes = lf_attn_workspace_bytes(&shape, lf_device_info(d->dev));
    assert_int_equal(lf_buffer_alloc(d->dev, &ws, bytes, "attention workspace", &err), LF_OK);
    memset(ws.ptr, 0xff, bytes);
    assert_int_equal(lf_attn_create(&attn, d->dev, isa, &shape, ws, &err), LF_OK);
    lf_attn_schedule(attn, 0, d->seqs, c->n_seqs, (struct lf_attn_kind){.window = c->window, .n_groups = 1});
    struct lf_attn_params p = {.out = d->out,
                               .q = d->q,
                               .lse = d->lse,
                               .kv = &d->kv,
                               .layer = d->kv.n_layers - 1,
                               .scale = 1.0f / sqrtf((float)c->head_dim),
                               .softcap = c->softcap,
                               .window = c->window,
                               .sinks = c->sinks ? d->sinks : NULL};
    lf_attn_run(attn, 0, &p);
    lf_attn_destroy(attn);
    lf_buffer_free(d->dev, &ws);
    size_t n = (size_t)d->n_rows * (size_t)c->n_heads;
    check_between_canaries(d->out_map, n * (size_t)c->head_dim, c->nan_key + c->nan_value == 0, "out");
    check_between_canaries(d->lse_map, n, c->nan_key == 0 && c->stripe.n < 2, "lse");
}

const float *attn_out_row(const struct attn_data *d, int seq_idx, int row, int head)
{
    size_t idx = (size_t)(d->seqs[seq_idx].first_token + row) * (size_t)d->c.n_heads + (size_t)head;
    return d->out + idx * (size_t)d->c.head_dim;
}

/* ---- the reference ---- */

static struct attn_dense *dense_of(struct attn_data *d, int seq_idx, int kv_head)
{
    if (d->dense && d->dense->seq_idx == seq_idx && d->dense->kv_head == kv_head) return d->dense;
    dense_free(d->dense);
    struct attn_dense *dense = d->dense = calloc(1, sizeof(*dense));
    assert_non_null(dense);
    size_t len = (size_t)d->c.kv_len[seq_idx], dim = (size_t)d->c.head_dim;
    dense->seq_idx = seq_idx;
    dense->kv_head = kv_head;
    dense->k = map_floats(len * dim);
    dense->v = map_floats(len * dim);
    dense->w = malloc(len * sizeof(double));
    assert_non_null(dense->w);
    for (size_t pos = 0; pos < len; pos++) {
        if (!lf_kv_stripe_has(d->kv.stripe, (int)pos)) continue;
        int block = d->tables[seq_idx][pos / (size_t)lf_kv_block_tokens(d->kv.stripe.n)];
        int t = (int)(pos % LF_KV_BLOCK_TOKENS);
        void *k = lf_kv_page(&d->kv, block, d->kv.n_layers - 1, LF_KV_K, kv_head);
        void *v = lf_kv_page(&d->kv, block, d->kv.n_layers - 1, LF_KV_V, kv_head);
        for (size_t i = 0; i < dim; i++) {
            dense->k[pos * dim + i] = load(&d->kv, LF_KV_K, k, t, (int)i);
            dense->v[pos * dim + i] = load(&d->kv, LF_KV_V, v, t, (int)i);
        }
    }
    return dense;
}

static const float *query(const struct attn_data *d, int seq_idx, int row, int head)
{
    size_t idx = (size_t)(d->seqs[seq_idx].first_token + row) * (size_t)d->c.n_heads + (size_t)head;
    return d->q + idx * (size_t)d->c.head_dim;
}

static void visible(const struct attn_data *d, int seq_idx, int row, int *lo, int *hi)
{
    int pos = d->c.kv_len[seq_idx] - d->c.n_rows[seq_idx] + row;
    *hi = pos + 1;
    *lo = d->c.window > 0 ? LF_MAX(0, pos + 1 - d->c.window) : 0;
}

void attn_ref_row(struct attn_data *d, int seq_idx, int row, int head, double *out, double *lse)
{
    const struct attn_case *c = &d->c;
    struct attn_dense *dense = dense_of(d, seq_idx, head / (c->n_heads / c->n_kv_heads));
    const float *q = query(d, seq_idx, row, head);
    int lo, hi, dim = c->head_dim;
    visible(d, seq_idx, row, &lo, &hi);
    double max = c->sinks ? (double)d->sinks[head] : -(double)INFINITY;
    /* The scale as attention gets it, a float. */
    double scale = (double)(1.0f / sqrtf((float)dim));
    for (int j = lo; j < hi; j++) {
        if (!lf_kv_stripe_has(c->stripe, j)) continue;
        double s = 0.0;
        const float *k = dense->k + (size_t)j * (size_t)dim;
        for (int i = 0; i < dim; i++) s += (double)q[i] * (double)k[i];
        s *= scale;
        if (c->softcap > 0.0f) s = (double)c->softcap * tanh(s / (double)c->softcap);
        dense->w[j] = s;
        max = fmax(max, s);
    }
    double sum = 0.0;
    for (int i = 0; i < dim; i++) out[i] = 0.0;
    for (int j = lo; j < hi; j++) {
        if (!lf_kv_stripe_has(c->stripe, j)) continue;
        double w = exp(dense->w[j] - max);
        const float *v = dense->v + (size_t)j * (size_t)dim;
        sum += w;
        for (int i = 0; i < dim; i++) out[i] += w * (double)v[i];
    }
    if (c->sinks) sum += exp((double)d->sinks[head] - max);
    *lse = max + log(sum);
    for (int i = 0; i < dim && sum > 0.0; i++) out[i] /= sum;
}

static float rounded(float x, bool bf16)
{
    return bf16 ? lf_f32_from_bf16(lf_bf16_from_f32(x)) : x;
}

void attn_naive_row(struct attn_data *d, int seq_idx, int row, int head, bool bf16, float *out)
{
    const struct attn_case *c = &d->c;
    struct attn_dense *dense = dense_of(d, seq_idx, head / (c->n_heads / c->n_kv_heads));
    const float *q = query(d, seq_idx, row, head);
    int lo, hi, dim = c->head_dim;
    visible(d, seq_idx, row, &lo, &hi);
    float max = c->sinks ? d->sinks[head] : -INFINITY, scale = 1.0f / sqrtf((float)dim);
    for (int j = lo; j < hi; j++) {
        if (!lf_kv_stripe_has(c->stripe, j)) continue;
        float s = 0.0f;
        const float *k = dense->k + (size_t)j * (size_t)dim;
        for (int i = 0; i < dim; i++) s += rounded(q[i], bf16) * k[i];
        s *= scale;
        if (c->softcap > 0.0f) s = c->softcap * tanhf(s / c->softcap);
        dense->w[j] = (double)s;
        max = fmaxf(max, s);
    }
    float sum = 0.0f;
    for (int i = 0; i < dim; i++) out[i] = 0.0f;
    for (int j = lo; j < hi; j++) {
        if (!lf_kv_stripe_has(c->stripe, j)) continue;
        float w = expf((float)dense->w[j] - max);
        const float *v = dense->v + (size_t)j * (size_t)dim;
        sum += w;
        w = rounded(w, bf16);
        for (int i = 0; i < dim; i++) out[i] += w * v[i];
    }
    if (c->sinks) sum += expf(d->sinks[head] - max);
    for (int i = 0; i < dim && sum > 0.0f; i++) out[i] /= sum;
}

/* ---- the comparison ---- */

struct errors {
    double max_out, max_naive, max_ref, max_lse;
    double diff2, ref2, out2, dot;
};

static void compare_row(struct attn_data *d, int seq_idx, int row, int head, bool bf16, struct errors *e)
{
    double ref[LF_HEAD_DIM], lse;
    float naive[LF_HEAD_DIM];
    attn_ref_row(d, seq_idx, row, head, ref, &lse);
    attn_naive_row(d, seq_idx, row, head, bf16, naive);
    const float *out = attn_out_row(d, seq_idx, row, head);
    for (int i = 0; i < d->c.head_dim; i++) {
        double diff = fabs((double)out[i] - ref[i]);
        e->max_out = fmax(e->max_out, diff);
        e->max_naive = fmax(e->max_naive, fabs((double)naive[i] - ref[i]));
        e->max_ref = fmax(e->max_ref, fabs(ref[i]));
        e->diff2 += diff * diff;
        e->ref2 += ref[i] * ref[i];
        e->out2 += (double)out[i] * (double)out[i];
        e->dot += (double)out[i] * ref[i];
    }
    size_t idx = (size_t)(d->seqs[seq_idx].first_token + row) * (size_t)d->c.n_heads + (size_t)head;
    double off = (double)d->lse[idx] == lse ? 0.0 : fabs((double)d->lse[idx] - lse); /* both may be -infinity */
    e->max_lse = isnan(off) ? (double)INFINITY : fmax(e->max_lse, off);
}

static void describe(char *text, size_t n, const struct attn_case *c, enum lf_isa isa)
{
    snprintf(
        text, n,
        "%s %s d%d %d/%d heads, %d sequences, first %d of %d, window %d softcap %.0f sinks %d stripe %d/%d seed %llu",
        lf_isa_name(isa), lf_dtype_name(c->dtype), c->head_dim, c->n_heads, c->n_kv_heads, c->n_seqs, c->n_rows[0],
        c->kv_len[0], c->window, (double)c->softcap, c->sinks, c->stripe.idx, c->stripe.n, (unsigned long long)c->seed);
}

static void judge(const struct attn_case *c, enum lf_isa isa, bool bf16, const struct errors *e)
{
    char what[256];
    describe(what, sizeof(what), c, isa);
    double ulp = bf16 ? 1.0 / 512 : 1.0 / (1 << 23); /* half a step of bf16: queries and weights are rounded once */
    double bound = 2.0 * e->max_naive + (bf16 ? 1.0 : 4.0) * ulp * e->max_ref;
    double fro = sqrt(e->diff2 / e->ref2), cosine = e->dot / sqrt(e->out2 * e->ref2);
    if (getenv("LF_TEST_VERBOSE"))
        print_message("%s: max %.2e naive %.2e fro %.2e 1-cos %.1e lse %.1e\n", what, e->max_out, e->max_naive, fro,
                      1.0 - cosine, e->max_lse);
    double outliers = c->outliers ? 8.0 : 1.0; /* scores an order of magnitude larger */
    if (e->max_out > bound) fail_msg("%s: error %.3e; expected at most %.3e", what, e->max_out, bound);
    if (fro > outliers * (bf16 ? 8e-3 : 2e-6)) fail_msg("%s: relative Frobenius error %.3e", what, fro);
    if (1.0 - cosine > outliers * outliers * (bf16 ? 4e-5 : 1e-11)) fail_msg("%s: 1 - cosine %.3e", what, 1.0 - cosine);
    if (e->max_lse > outliers * (bf16 ? 2e-2 : 1e-5)) fail_msg("%s: lse off by %.3e", what, e->max_lse);
}

/* Compares about n_samples rows of what d holds as its answer. */
static void check_answer(struct attn_data *d, enum lf_isa isa, int n_samples)
{
    const struct attn_case *c = &d->c;
    bool bf16 = c->dtype != LF_F32 && isa >= LF_ISA_AVX512_BF16;
    struct errors e = {0};
    for (int kv_head = 0; kv_head < c->n_kv_heads; kv_head++) /* outermost: the dense copy is by head */
        for (int s = 0; s < c->n_seqs; s++) {
            int group = c->n_heads / c->n_kv_heads, n = c->n_rows[s] * group;
            int samples = LF_MAX(1, LF_MIN(n, n_samples / (c->n_seqs * c->n_kv_heads)));
            for (int i = 0; i < samples; i++) {
                int r = samples == 1 ? n - 1 : (int)((int64_t)(n - 1) * i / (samples - 1));
                compare_row(d, s, r / group, kv_head * group + r % group, bf16, &e);
            }
        }
    judge(c, isa, bf16, &e);
}

void attn_check(struct lf_device *dev, const struct attn_case *c, enum lf_isa isa, int n_samples)
{
    struct attn_data d;
    attn_data_init(&d, dev, c);
    attn_data_run(&d, isa);
    check_answer(&d, isa, n_samples);
    attn_data_deinit(&d);
}

/* Adds the rows of a part to those of sum: both are normalized, and lse says how much each counts. */
static void add_part(struct attn_data *sum, const struct attn_data *part)
{
    size_t n = (size_t)sum->n_rows * (size_t)sum->c.n_heads, dim = (size_t)sum->c.head_dim;
    for (size_t row = 0; row < n; row++) {
        float a = sum->lse[row], b = part->lse[row], top = fmaxf(a, b);
        if (b == -INFINITY) continue;
        float lse = top + logf(expf(a - top) + expf(b - top));
        float *out = sum->out + row * dim;
        for (size_t i = 0; i < dim; i++) out[i] = expf(a - lse) * out[i] + expf(b - lse) * part->out[row * dim + i];
        sum->lse[row] = lse;
    }
}

void attn_check_stripes(struct lf_device *dev, const struct attn_case *c, enum lf_isa isa, int n, int n_samples)
{
    struct attn_data whole;
    attn_data_init(&whole, dev, c);
    size_t rows = (size_t)whole.n_rows * (size_t)c->n_heads;
    memset(whole.out, 0, rows * (size_t)c->head_dim * sizeof(float));
    for (size_t row = 0; row < rows; row++) whole.lse[row] = -INFINITY;
    for (int i = 0; i < n; i++) {
        struct attn_case of_stripe = *c;
        struct attn_data part;
        of_stripe.stripe = (struct lf_kv_stripe){.idx = i, .n = n};
        of_stripe.sinks = c->sinks && i == 0;
        attn_data_init(&part, dev, &of_stripe);
        attn_data_run(&part, isa);
        add_part(&whole, &part);
        attn_data_deinit(&part);
    }
    check_answer(&whole, isa, n_samples);
    attn_data_deinit(&whole);
}

struct lf_device *attn_test_device(int n_threads)
{
    struct lf_device *dev;
    struct lf_err err;
    struct lf_device_opts opts = {.name = "cpu", .n_threads = n_threads, .max_isa = -1};
    assert_int_equal(lf_device_open(&dev, &opts, &err), LF_OK);
    return dev;
}
