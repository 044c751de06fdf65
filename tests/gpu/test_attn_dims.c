/* Attention on a GPU over head dims, those that a kernel pads and those past 256 included: a step of decode and of
 * prefill tokens against float64, with windows, softcap and sinks, and each sequence's bits alone and among the others.
 * The same over an FP8 cache, whose bits are those of a plain one with the same numbers.
 * The harnesses in Python (attn_checks.py) go deeper, at the dims that models mostly have.
 *
 *     test_attn_dims [PATTERN]   (of the names of tests) */
#include "tests/gpu/gpu_fixture.h"

#include "attention/attention.h"
#include "kv/kv_fp8.h"

enum {
    SEQS = 7,
    N_LAYERS = 2,
    LAYER = 1,
    UNUSED_PAGES = 3,
    SURPLUS = 3,
    MAX_KV = 1100,
    MAX_BLOCKS = MAX_KV / LF_KV_BLOCK_TOKENS + 1
};

struct seq {
    int n_rows, kv_len;
    bool is_decode;
};

/* Decode and prefill; within a page, over splits, over groups of splits; more rows than a task has. */
static const struct seq seqs[SEQS] = {{1, 1, true},  {1, 330, true},   {3, 1100, true},  {17, 700, true},
                                      {5, 5, false}, {70, 210, false}, {33, 1000, false}};

struct variant {
    int window;
    float softcap;
    bool sinks;
};
static const struct variant variants[] = {{0, 0.0f, false}, {100, 0.0f, true}, {0, 20.0f, true}, {70, 20.0f, false}};

/* A cache, plain or FP8, and attention over it. */
struct cache {
    struct lf_kv_view view;
    struct gpu_tensor data;
    struct lf_buffer workspace;
    struct lf_attn *attn;
};

struct step {
    int head_dim, n_heads, n_kv_heads;
    int first[SEQS], n_tokens, n_blocks;
    int32_t tables[SEQS + 1][MAX_BLOCKS];       /* of the second of two cache groups: that of sequence s is s + 1 */
    float *q_values, *kv_values, *sinks_values; /* rounded as the GPU has them */
    struct gpu_tensor q, sinks, out, lse;
    struct cache plain, fp8; /* the latter of a step whose numbers are codes' */
};

static void make_tables(struct step *st, uint64_t *seed)
{
    int32_t deck[SEQS * MAX_BLOCKS];
    st->n_blocks = SEQS * MAX_BLOCKS;
    for (int i = 0; i < st->n_blocks; i++) deck[i] = i;
    for (int i = st->n_blocks - 1; i > 0; i--) {
        int j = fixture_between(seed, 0, i);
        int32_t swap = deck[i];
        deck[i] = deck[j];
        deck[j] = swap;
    }
    memcpy(st->tables[1], deck, sizeof deck);
}

/* First element of a token's K or V in the cache. */
static size_t kv_at(const struct step *st, int s, int pos, enum lf_kv_part part, int kv_head)
{
    const struct lf_kv_view *kv = &st->plain.view;
    const char *page = lf_kv_page(kv, st->tables[s + 1][pos / LF_KV_BLOCK_TOKENS], LAYER, part, kv_head);
    size_t bytes = (size_t)(page - (const char *)kv->base);
    return bytes / lf_dtype_bytes(gpu_act) + lf_kv_k_index(kv, pos % LF_KV_BLOCK_TOKENS, 0);
}

/* One head of one token; where there are codes (else NULL) they are quantized to these, and become what these say. */
static void make_token(const struct step *st, int s, int pos, enum lf_kv_part part, int h, uint8_t *codes,
                       uint64_t *seed)
{
    float *x = st->kv_values + kv_at(st, s, pos, part, h);
    for (int i = 0; i < st->head_dim; i++) x[i] = fixture_normal(seed);
    if (!codes) return;
    const struct lf_kv_view *kv = &st->fp8.view;
    int slot = pos % LF_KV_BLOCK_TOKENS;
    size_t page = (size_t)((char *)lf_kv_page(kv, st->tables[s + 1][pos / LF_KV_BLOCK_TOKENS], LAYER, part, h) -
                           (char *)kv->base);
    uint8_t *to = codes + page + lf_kv_k_index(kv, slot, 0), *scale = lf_kv_scales(kv, codes + page) + slot;
    float factor = ldexpf(1.0f, fixture_between(seed, -6, 1));
    for (int i = 0; i < st->head_dim; i++) x[i] *= factor;
    *scale = lf_kv_fp8_quantize(to, x, st->head_dim);
    for (int i = 0; i < st->head_dim; i++) x[i] = lf_f32_from_bf16(lf_kv_fp8_bf16(to[i], *scale));
}

/* Slots that hold no token are NaN. */
static void make_kv(struct step *st, bool fp8, uint64_t *seed)
{
    struct lf_kv_view kv = {.dtype = gpu_act,
                            .order = LF_KV_ROWS,
                            .n_blocks = st->n_blocks,
                            .n_layers = N_LAYERS,
                            .n_kv_heads = st->n_kv_heads,
                            .head_dim = st->head_dim,
                            .group = 1};
    kv.block_pages = lf_kv_layers_pages(&kv) + UNUSED_PAGES;
    st->plain.view = st->fp8.view = kv;
    st->fp8.view.dtype = LF_E4M3;
    size_t n = lf_kv_block_elems(&kv) * (size_t)st->n_blocks;
    size_t n_codes = lf_kv_block_bytes(&st->fp8.view) * (size_t)st->n_blocks;
    uint8_t *codes = fp8 ? fixture_alloc(n_codes) : NULL;
    if (fp8) memset(codes, 0xff, n_codes);
    st->kv_values = fixture_alloc(n * sizeof(float));
    for (size_t i = 0; i < n; i++) st->kv_values[i] = NAN;
    for (int s = 0; s < SEQS; s++)
        for (int pos = 0; pos < seqs[s].kv_len; pos++)
            for (int h = 0; h < 2 * st->n_kv_heads; h++)
                make_token(st, s, pos, (enum lf_kv_part)(h / st->n_kv_heads), h % st->n_kv_heads, codes, seed);
    st->plain.data = gpu_tensor(gpu_act, st->kv_values, n);
    st->plain.view.base = st->plain.data.ptr;
    if (!fp8) return;
    st->fp8.data = gpu_poisoned(LF_E4M3, n_codes);
    st->fp8.view.base = st->fp8.data.ptr;
    lf_upload(gpu, st->fp8.data.ptr, codes, n_codes);
    free(codes);
}

static void make_attn(const struct step *st, struct cache *cache)
{
    struct lf_attn_shape shape = {.n_heads = st->n_heads,
                                  .n_kv_heads = st->n_kv_heads,
                                  .head_dim = st->head_dim,
                                  .kv_dtype = cache->view.dtype,
                                  .max_tokens = st->n_tokens + SURPLUS,
                                  .max_seqs = SEQS,
                                  .max_kv_len = MAX_KV,
                                  .n_schedules = 1,
                                  .n_groups = 2};
    const struct lf_device_info *info = lf_device_info(gpu);
    struct lf_err err = {LF_OK, ""};
    size_t bytes = (size_t)lf_attn_workspace_bytes(&shape, info);
    assert_int_equal(lf_buffer_alloc(gpu, &cache->workspace, bytes, "attention", &err), LF_OK);
    if (lf_attn_create(&cache->attn, gpu, info->isa, &shape, cache->workspace, &err) != LF_OK)
        fail_msg("%s", err.message);
}

static void step_init(struct step *st, int head_dim, int n_heads, int n_kv_heads, bool fp8, uint64_t *seed)
{
    memset(st, 0, sizeof *st);
    st->head_dim = head_dim;
    st->n_heads = n_heads;
    st->n_kv_heads = n_kv_heads;
    for (int s = 0; s < SEQS; s++) {
        st->first[s] = st->n_tokens;
        st->n_tokens += seqs[s].n_rows;
    }
    make_tables(st, seed);
    make_kv(st, fp8, seed);
    size_t rows = (size_t)(st->n_tokens + SURPLUS) * (size_t)n_heads;
    st->q = gpu_random(gpu_act, seed, rows * (size_t)head_dim, 1.0f, &st->q_values);
    st->sinks = gpu_random(LF_F32, seed, (size_t)n_heads, 3.0f, &st->sinks_values);
    st->out = gpu_poisoned(gpu_act, rows * (size_t)head_dim);
    st->lse = gpu_poisoned(LF_F32, rows);
    make_attn(st, &st->plain);
    if (fp8) make_attn(st, &st->fp8);
}

static void cache_deinit(struct cache *cache)
{
    lf_attn_destroy(cache->attn);
    lf_buffer_free(gpu, &cache->workspace);
    gpu_free(&cache->data);
}

static void step_deinit(struct step *st)
{
    cache_deinit(&st->plain);
    cache_deinit(&st->fp8);
    gpu_free(&st->lse);
    gpu_free(&st->out);
    gpu_free(&st->sinks);
    gpu_free(&st->q);
    free(st->sinks_values);
    free(st->q_values);
    free(st->kv_values);
}

/* Runs sequences first .. first + n - 1 as a step; the tensors are poisoned before, and begin with the first one's
 * rows. */
static void run(struct step *st, const struct cache *cache, const struct variant *v, int first, int n)
{
    struct lf_kv_seq list[SEQS];
    int n_tokens = 0;
    for (int i = 0; i < n; i++) {
        const struct seq *s = &seqs[first + i];
        list[i] = (struct lf_kv_seq){.blocks = st->tables[first + i],
                                     .table_stride = MAX_BLOCKS,
                                     .first_token = n_tokens,
                                     .n_tokens = s->n_rows,
                                     .kv_len = s->kv_len,
                                     .is_decode = s->is_decode};
        n_tokens += s->n_rows;
    }
    gpu_free(&st->out);
    gpu_free(&st->lse);
    size_t rows = (size_t)(st->n_tokens + SURPLUS) * (size_t)st->n_heads;
    st->out = gpu_poisoned(gpu_act, rows * (size_t)st->head_dim);
    st->lse = gpu_poisoned(LF_F32, rows);
    size_t skipped = (size_t)st->first[first] * (size_t)st->n_heads * (size_t)st->head_dim * 2;
    struct lf_attn_params p = {.out = st->out.ptr,
                               .q = st->q.ptr + skipped,
                               .lse = (float *)(void *)st->lse.ptr,
                               .kv = &cache->view,
                               .layer = LAYER,
                               .scale = 1.0f / sqrtf((float)st->head_dim),
                               .softcap = v->softcap,
                               .window = v->window,
                               .sinks = v->sinks ? (const float *)(void *)st->sinks.ptr : NULL};
    (void)snprintf(gpu_case, sizeof gpu_case, "%s head_dim %d heads %d/%d window %d softcap %g sinks %d",
                   lf_dtype_name(cache->view.dtype), st->head_dim, st->n_heads, st->n_kv_heads, v->window,
                   (double)v->softcap, v->sinks);
    lf_attn_schedule(cache->attn, 0, list, n, (struct lf_attn_kind){.window = v->window, .n_groups = 2});
    lf_attn_run(cache->attn, 0, &p);
}

/* ---- float64 ---- */

/* Scores of a row's visible keys lo .. pos; returns their log-sum-exp. */
static double scores_of(const struct step *st, const struct variant *v, int s, int pos, int lo, size_t row, int head,
                        double *scores)
{
    int kv_head = head / (st->n_heads / st->n_kv_heads);
    const float *q = st->q_values + (row * (size_t)st->n_heads + (size_t)head) * (size_t)st->head_dim;
    double most = -INFINITY, sum = 0.0;
    for (int j = lo; j <= pos; j++) {
        const float *k = st->kv_values + kv_at(st, s, j, LF_KV_K, kv_head);
        double x = 0.0;
        for (int i = 0; i < st->head_dim; i++) x += (double)q[i] * (double)k[i];
        x /= sqrt((double)st->head_dim);
        if (v->softcap > 0.0f) x = (double)v->softcap * tanh(x / (double)v->softcap);
        scores[j] = x;
        most = fmax(most, x);
    }
    for (int j = lo; j <= pos; j++) sum += exp(scores[j] - most);
    return most + log(sum);
}

static void check_row(const struct step *st, const struct variant *v, int s, int r, int head, const float *out,
                      const float *lse)
{
    size_t row = (size_t)(st->first[s] + r), at = row * (size_t)st->n_heads + (size_t)head;
    int pos = seqs[s].kv_len - seqs[s].n_rows + r, lo = v->window > 0 ? LF_MAX(0, pos - v->window + 1) : 0;
    int kv_head = head / (st->n_heads / st->n_kv_heads);
    double scores[MAX_KV], total = scores_of(st, v, s, pos, lo, row, head, scores);
    if (v->sinks) total += log1p(exp((double)st->sinks_values[head] - total));
    double sum[LF_HEAD_DIM] = {0}, magnitude[LF_HEAD_DIM] = {0}, values[LF_HEAD_DIM] = {0};
    for (int j = lo; j <= pos; j++) {
        const float *x = st->kv_values + kv_at(st, s, j, LF_KV_V, kv_head);
        double p = exp(scores[j] - total);
        for (int i = 0; i < st->head_dim; i++) {
            sum[i] += p * (double)x[i];
            magnitude[i] += p * fabs((double)x[i]);
            values[i] += fabs((double)x[i]);
        }
    }
    double rounding = gpu_act == LF_BF16 ? ldexp(1.0, -8) : ldexp(1.0, -11); /* of a P */
    for (int i = 0; i < st->head_dim; i++) {
        double allowed = (rounding + 1e-4) * magnitude[i] + ldexp(values[i], -25);
        allowed += gpu_rounding(gpu_act, fabs(sum[i]) + allowed);
        double got = (double)out[at * (size_t)st->head_dim + (size_t)i];
        if (!(fabs(got - sum[i]) <= allowed))
            fail_msg("%s: sequence %d row %d head %d channel %d: %g, expected %g within %g", gpu_case, s, r, head, i,
                     got, sum[i], allowed);
    }
    if (!(fabs((double)lse[at] - total) <= 1e-4 * fmax(1.0, fabs(total))))
        fail_msg("%s: sequence %d row %d head %d: lse %g, expected %g", gpu_case, s, r, head, (double)lse[at], total);
}

/* The ends of each sequence's rows and some between them, all heads; nothing behind the step's rows is written. */
static void check_step(const struct step *st, const struct variant *v)
{
    float *out = gpu_read(&st->out), *lse = gpu_read(&st->lse);
    for (int s = 0; s < SEQS; s++)
        for (int r = 0; r < seqs[s].n_rows; r += r + 1 < seqs[s].n_rows ? LF_MIN(13, seqs[s].n_rows - 1 - r) : 1)
            for (int head = 0; head < st->n_heads; head++) check_row(st, v, s, r, head, out, lse);
    size_t rows = (size_t)st->n_tokens * (size_t)st->n_heads, dim = (size_t)st->head_dim;
    for (size_t i = 0; i < rows * dim; i++) assert_true(!isnan(out[i]));
    for (size_t i = rows * dim; i < st->out.n; i++) assert_true(isnan(out[i]));
    for (size_t i = rows; i < st->lse.n; i++) assert_true(isnan(lse[i]));
    free(lse);
    free(out);
}

/* ---- tests ---- */

static const int dims[] = {8, 16, 24, 32, 40, 64, 72, 80, 104, 128, 136, 192, 248, 256, 264, 320, 392, 448, 504, 512};

static void steps_of_every_head_dim_are_right(void **state)
{
    (void)state;
    uint64_t seed = 71;
    for (size_t d = 0; d < LF_N_ELEMS(dims); d++) {
        struct step st;
        step_init(&st, dims[d], d % 2 ? 6 : 4, d % 3 == 0 ? 1 : 2, false, &seed);
        for (size_t v = 0; v < LF_N_ELEMS(variants); v++) {
            run(&st, &st.plain, &variants[v], 0, SEQS);
            check_step(&st, &variants[v]);
        }
        step_deinit(&st);
    }
}

/* Tasks of other sizes and numbers, parts or none, one row a task or many; over and over. */
static void check_bits_alone(struct step *st, const struct cache *cache, const struct variant *v)
{
    size_t row_bytes = (size_t)st->n_heads * (size_t)st->head_dim * 2;
    run(st, cache, v, 0, SEQS);
    char *all = gpu_read_raw(&st->out);
    for (int s = 0; s < SEQS; s++) {
        run(st, cache, v, s, 1);
        char *alone = gpu_read_raw(&st->out);
        assert_memory_equal(alone, all + (size_t)st->first[s] * row_bytes, (size_t)seqs[s].n_rows * row_bytes);
        free(alone);
    }
    for (int i = 0; i < gpu_times(20); i++) {
        run(st, cache, v, 0, SEQS);
        char *again = gpu_read_raw(&st->out);
        assert_memory_equal(again, all, st->out.n * 2);
        free(again);
    }
    free(all);
}

static void sequences_have_the_same_bits_alone(void **state)
{
    (void)state;
    uint64_t seed = 72;
    static const int some[] = {24, 104, 264, 512};
    for (size_t d = 0; d < LF_N_ELEMS(some); d++) {
        struct step st;
        step_init(&st, some[d], 4, 2, false, &seed);
        for (size_t v = 0; v < LF_N_ELEMS(variants); v++) check_bits_alone(&st, &st.plain, &variants[v]);
        step_deinit(&st);
    }
}

/* To the bit what a plain cache gives. */
static void check_bits_of_plain(struct step *st, const struct variant *v)
{
    run(st, &st->fp8, v, 0, SEQS);
    char *fp8 = gpu_read_raw(&st->out);
    run(st, &st->plain, v, 0, SEQS);
    char *plain = gpu_read_raw(&st->out);
    size_t row_bytes = (size_t)st->n_heads * (size_t)st->head_dim * 2;
    for (int s = 0; s < SEQS; s++)
        if (memcmp(fp8 + (size_t)st->first[s] * row_bytes, plain + (size_t)st->first[s] * row_bytes,
                   (size_t)seqs[s].n_rows * row_bytes) != 0)
            fail_msg("%s: sequence %d has other bits than over a plain cache", gpu_case, s);
    free(plain);
    free(fp8);
}

static void fp8_caches_are_read_as_their_numbers(void **state)
{
    (void)state;
    uint64_t seed = 73;
    static const int some[] = {16, 48, 64, 80, 96, 112, 128, 160, 192, 240, 256, 272, 512};
    for (size_t d = 0; d < LF_N_ELEMS(some) && gpu_act == LF_BF16; d++) {
        static const int heads[][2] = {{4, 2}, {6, 1}, {24, 1}, {40, 1}, {3, 3}};
        const int *h = heads[d % LF_N_ELEMS(heads)];
        struct step st;
        step_init(&st, some[d], h[0], h[1], true, &seed);
        for (size_t v = 0; v < LF_N_ELEMS(variants); v++) {
            run(&st, &st.fp8, &variants[v], 0, SEQS);
            check_step(&st, &variants[v]);
            check_bits_of_plain(&st, &variants[v]);
            if (d % 3 == 0) check_bits_alone(&st, &st.fp8, &variants[v]);
        }
        step_deinit(&st);
    }
}

/* One head of one token becomes what quantizing makes of it where an element is not finite. */
static void break_token(const struct step *st, int s, int pos, enum lf_kv_part part, int h)
{
    const struct lf_kv_view *kv = &st->fp8.view;
    int slot = pos % LF_KV_BLOCK_TOKENS;
    float x[LF_HEAD_DIM] = {1.0f, INFINITY};
    uint8_t codes[LF_HEAD_DIM], scale = lf_kv_fp8_quantize(codes, x, st->head_dim);
    uint8_t *page = lf_kv_page(kv, st->tables[s + 1][pos / LF_KV_BLOCK_TOKENS], LAYER, part, h);
    lf_upload(gpu, (char *)page + lf_kv_k_index(kv, slot, 0), codes, (size_t)st->head_dim);
    lf_upload(gpu, (char *)lf_kv_scales(kv, page) + slot, &scale, 1);
}

/* KV head 0 alone is broken, in each other sequence. */
static void check_broken(const struct step *st)
{
    float *out = gpu_read(&st->out);
    int group = st->n_heads / st->n_kv_heads;
    for (int s = 0; s < SEQS; s++)
        for (int r = 0; r < seqs[s].n_rows; r++)
            for (int i = 0; i < st->n_heads * st->head_dim; i++) {
                float x = out[(size_t)(st->first[s] + r) * (size_t)(st->n_heads * st->head_dim) + (size_t)i];
                bool is_broken = s % 2 == 0 && i / st->head_dim < group;
                if (isnan(x) != is_broken)
                    fail_msg("%s: sequence %d row %d head %d channel %d: %g", gpu_case, s, r, i / st->head_dim,
                             i % st->head_dim, (double)x);
            }
    free(out);
}

static void a_token_of_an_fp8_cache_that_is_nan_makes_nan_of_what_reads_it(void **state)
{
    (void)state;
    uint64_t seed = 74;
    static const int some[] = {64, 80, 128, 256, 512};
    for (size_t d = 0; d < LF_N_ELEMS(some) && gpu_act == LF_BF16; d++) {
        for (int part = LF_KV_K; part <= LF_KV_V; part++) {
            struct step st;
            step_init(&st, some[d], 4, 2, true, &seed);
            for (int s = 0; s < SEQS; s += 2)
                break_token(&st, s, (seqs[s].kv_len - seqs[s].n_rows) / 2, (enum lf_kv_part)part, 0);
            for (size_t v = 0; v < LF_N_ELEMS(variants); v++) {
                if (variants[v].window > 0) continue;
                run(&st, &st.fp8, &variants[v], 0, SEQS);
                check_broken(&st);
            }
            step_deinit(&st);
        }
    }
}

static void fp8_caches_that_no_kernel_reads_are_refused(void **state)
{
    (void)state;
    struct lf_attn_shape shape = {.n_heads = 2,
                                  .n_kv_heads = 1,
                                  .head_dim = 128,
                                  .kv_dtype = LF_E4M3,
                                  .max_tokens = 1,
                                  .max_seqs = 1,
                                  .max_kv_len = 1,
                                  .n_schedules = 1,
                                  .n_groups = 1};
    const struct lf_device_info *info = lf_device_info(gpu);
    assert_int_equal(lf_attn_check(&shape, info, NULL), gpu_act == LF_BF16 ? LF_OK : LF_UNSUPPORTED);
    shape.head_dim = 72;
    assert_int_equal(lf_attn_check(&shape, info, NULL), LF_UNSUPPORTED);
}

int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_of_every_head_dim_are_right),
        cmocka_unit_test(sequences_have_the_same_bits_alone),
        cmocka_unit_test(fp8_caches_are_read_as_their_numbers),
        cmocka_unit_test(a_token_of_an_fp8_cache_that_is_nan_makes_nan_of_what_reads_it),
        cmocka_unit_test(fp8_caches_that_no_kernel_reads_are_refused),
    };
    return gpu_run(tests);
}
