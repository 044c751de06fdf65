/* RoPE, QK norm and KV append on a GPU against float64 and against plain C: heads of several sizes, partial rotation,
 * with and without norm, of a head or of the row, queries scaled by position, sequences over pages in any order, the
 * surplus rows of a graph's bucket, and pages of FP8.
 *
 *     test_rope [PATTERN]   (of the names of tests) */
#include "tests/gpu/gpu_quant.h"

#include "attention/cuda/rope_cuda.h"
#include "attention/cpu/rope_run.h"
#include "device/cuda/cuda.h"
#include "kv/kv_fp8.h"

enum { MAX_SEQS = 40, MAX_BLOCKS = 8, N_LAYERS = 2, LAYER = 1, REPEATS = 200 };

struct shape {
    int n_heads, n_kv_heads, head_dim, rotary_dim;
    bool norm, whole_row, q_scale, v_norm, v_of_k;
};

struct seq {
    int first_row, n_rows, kv_len;
    int32_t blocks[MAX_BLOCKS];
};

/* A step and its tensors. */
struct step {
    struct shape shape;
    int n_seqs, n_rows, bucket_rows, n_blocks;
    struct seq seqs[MAX_SEQS];
    float *qkv_values, *q_norm_values, *k_norm_values, *table_values, *q_scale_values;
    struct gpu_tensor qkv, q_norm, k_norm, table, q_scale, q_out, kv;
    struct lf_buffer lists; /* counts, sequences, tables */
    struct lf_rope_cuda_args args;
};

static size_t row_elems(const struct shape *s)
{
    return (size_t)(s->n_heads + (s->v_of_k ? 1 : 2) * s->n_kv_heads) * (size_t)s->head_dim;
}

static size_t page_elems(const struct shape *s)
{
    return (size_t)LF_KV_BLOCK_TOKENS * (size_t)s->head_dim;
}

/* Blocks are dealt out in random order. Sequence i begins where the one before ends; a gap of rows may lie between. */
static void make_seqs(struct step *st, uint64_t *seed, int n_seqs, int most_rows, int gap)
{
    int32_t deck[MAX_SEQS * MAX_BLOCKS];
    st->n_seqs = n_seqs;
    st->n_blocks = n_seqs * MAX_BLOCKS;
    for (int i = 0; i < st->n_blocks; i++) deck[i] = i;
    for (int i = st->n_blocks - 1; i > 0; i--) {
        int j = fixture_between(seed, 0, i);
        int32_t swap = deck[i];
        deck[i] = deck[j];
        deck[j] = swap;
    }
    int row = gap;
    for (int i = 0; i < n_seqs; i++) {
        struct seq *q = &st->seqs[i];
        q->first_row = row;
        q->n_rows = fixture_between(seed, 1, most_rows);
        q->kv_len = q->n_rows + fixture_between(seed, 0, MAX_BLOCKS * LF_KV_BLOCK_TOKENS - q->n_rows);
        memcpy(q->blocks, deck + (size_t)i * MAX_BLOCKS, sizeof q->blocks);
        row += q->n_rows + gap;
    }
    st->n_rows = row;
}

static void upload_lists(struct step *st)
{
    struct {
        struct lf_attn_cuda_counts counts;
        struct lf_attn_cuda_seq seqs[MAX_SEQS];
        int32_t tables[MAX_SEQS * MAX_BLOCKS];
    } host;
    memset(&host, 0xff, sizeof host);
    host.counts = (struct lf_attn_cuda_counts){.n_seqs = st->n_seqs};
    for (int i = 0; i < st->n_seqs; i++) {
        const struct seq *q = &st->seqs[i];
        host.seqs[i] = (struct lf_attn_cuda_seq){i * MAX_BLOCKS, q->first_row, q->n_rows, q->kv_len};
        memcpy(host.tables + (size_t)i * MAX_BLOCKS, q->blocks, sizeof q->blocks);
    }
    lf_upload(gpu, st->lists.ptr, &host, sizeof host);
    char *base = st->lists.ptr;
    st->args.counts = (const void *)base;
    st->args.seqs = (const void *)(base + ((char *)host.seqs - (char *)&host));
    st->args.tables = (const void *)(base + ((char *)host.tables - (char *)&host));
}

static void make_step(struct step *st, const struct shape *shape, uint64_t *seed, int n_seqs, int most_rows,
                      int surplus, int gap)
{
    memset(st, 0, sizeof *st);
    st->shape = *shape;
    make_seqs(st, seed, n_seqs, most_rows, gap);
    st->bucket_rows = st->n_rows + surplus;
    size_t rows = (size_t)st->bucket_rows, dim = (size_t)shape->head_dim;
    st->qkv = gpu_random(gpu_act, seed, rows * row_elems(shape), 1.0f, &st->qkv_values);
    size_t q_norm = shape->whole_row ? (size_t)shape->n_heads * dim : dim;
    size_t k_norm = shape->whole_row ? (size_t)shape->n_kv_heads * dim : dim;
    st->q_norm = gpu_random(LF_F32, seed, q_norm, 1.0f, &st->q_norm_values);
    st->k_norm = gpu_random(LF_F32, seed, k_norm, 1.0f, &st->k_norm_values);
    int n_positions = MAX_BLOCKS * LF_KV_BLOCK_TOKENS;
    st->q_scale = gpu_random(LF_F32, seed, (size_t)n_positions, 1.0f, &st->q_scale_values);
    struct lf_rope_opts opts = {
        .head_dim = shape->head_dim, .rotary_dim = shape->rotary_dim, .theta = 10000.0, .factor = 1.0};
    size_t n_table = (size_t)n_positions * (size_t)shape->rotary_dim;
    assert_int_equal(lf_rope_table_bytes(&opts, n_positions), n_table * sizeof(float));
    st->table_values = fixture_alloc(n_table * sizeof(float));
    lf_rope_table_fill(gpu, &opts, n_positions, st->table_values);
    st->table = gpu_tensor(LF_F32, st->table_values, n_table);
    st->q_out = gpu_poisoned(gpu_act, rows * (size_t)shape->n_heads * dim);
    st->kv = gpu_poisoned(gpu_act, (size_t)st->n_blocks * N_LAYERS * 2 * (size_t)shape->n_kv_heads * page_elems(shape));
    assert_int_equal(lf_buffer_alloc(gpu, &st->lists, 1 << 20, "lists", NULL), LF_OK);
    st->args = (struct lf_rope_cuda_args){.q_out = st->q_out.ptr,
                                          .qkv = st->qkv.ptr,
                                          .q_norm = shape->norm ? (const float *)(void *)st->q_norm.ptr : NULL,
                                          .k_norm = shape->norm ? (const float *)(void *)st->k_norm.ptr : NULL,
                                          .table = (const float *)(void *)st->table.ptr,
                                          .q_scale = shape->q_scale ? (const float *)(void *)st->q_scale.ptr : NULL,
                                          .norm_whole_row = shape->whole_row,
                                          .v_norm = shape->v_norm,
                                          .v_of_k = shape->v_of_k,
                                          .kv = st->kv.ptr,
                                          .norm_eps = 1e-6f,
                                          .n_tokens = st->bucket_rows,
                                          .n_heads = shape->n_heads,
                                          .n_kv_heads = shape->n_kv_heads,
                                          .head_dim = shape->head_dim,
                                          .rotary_dim = shape->rotary_dim,
                                          .block_pages = N_LAYERS * 2 * shape->n_kv_heads,
                                          .layer = LAYER,
                                          .fp16 = gpu_act == LF_F16,
                                          .overlaps = lf_cuda_overlaps(gpu)};
    upload_lists(st);
}

static void free_step(struct step *st)
{
    gpu_free(&st->qkv);
    gpu_free(&st->q_norm);
    gpu_free(&st->k_norm);
    gpu_free(&st->table);
    gpu_free(&st->q_scale);
    gpu_free(&st->q_out);
    gpu_free(&st->kv);
    lf_buffer_free(gpu, &st->lists);
    free(st->qkv_values);
    free(st->q_norm_values);
    free(st->k_norm_values);
    free(st->table_values);
    free(st->q_scale_values);
}

static void append(const struct step *st)
{
    assert_true(lf_rope_append_cuda_supports(st->shape.head_dim, st->shape.rotary_dim));
    lf_cuda_check(gpu, lf_rope_append_cuda(&st->args, lf_cuda_stream(gpu)), "rope_append");
}

/* ---- float64 ---- */

/* Head `head` of n_heads neighbours of one kind, whose first is at x; norm: of the kind, or NULL. */
static void head_in_double(double *out, const float *x, int head, int n_heads, const float *norm, const float *cos_sin,
                           const struct shape *s)
{
    int half = s->rotary_dim / 2, first = s->whole_row ? 0 : head * s->head_dim;
    int n = s->whole_row ? n_heads * s->head_dim : s->head_dim;
    double squares = 0.0, factor = 1.0;
    for (int i = first; i < first + n; i++) squares += (double)x[i] * (double)x[i];
    if (norm) factor = 1.0 / sqrt(squares / n + (double)1e-6f);
    if (norm && s->whole_row) norm += head * s->head_dim;
    x += head * s->head_dim;
    for (int i = 0; i < s->head_dim; i++) out[i] = (double)x[i] * factor * (norm ? (double)norm[i] : 1.0);
    for (int i = 0; i < half; i++) {
        double a = out[i], b = out[i + half], c = (double)cos_sin[2 * i], sn = (double)cos_sin[2 * i + 1];
        out[i] = a * c - b * sn;
        out[i + half] = b * c + a * sn;
    }
}

static double magnitude(const double *x, int n)
{
    double most = 0.0;
    for (int i = 0; i < n; i++) most = fmax(most, fabs(x[i]));
    return most;
}

static void check_head(const float *got, const double *want, const struct shape *s)
{
    double most = magnitude(want, s->head_dim);
    for (int i = 0; i < s->head_dim; i++) {
        double allowed = most * ldexp(1.0, -19);
        allowed += gpu_rounding(gpu_act, fabs(want[i]) + allowed);
        if (!(fabs((double)got[i] - want[i]) <= allowed))
            fail_msg("head_dim %d channel %d: %g, expected %g within %g", s->head_dim, i, (double)got[i], want[i],
                     allowed);
    }
}

/* V with its norm, or as it is. */
static void value_in_double(double *out, const float *x, const struct shape *s)
{
    double squares = 0.0;
    for (int i = 0; i < s->head_dim; i++) squares += (double)x[i] * (double)x[i];
    double factor = s->v_norm ? 1.0 / sqrt(squares / s->head_dim + (double)1e-6f) : 1.0;
    for (int i = 0; i < s->head_dim; i++) out[i] = (double)x[i] * factor;
}

/* ---- the plain C twin: the same step into pages of a CPU ---- */

static float *append_on_cpu(const struct step *st, struct lf_kv_view *kv)
{
    const struct shape *s = &st->shape;
    *kv = (struct lf_kv_view){.dtype = LF_F32,
                              .n_blocks = st->n_blocks,
                              .n_layers = N_LAYERS,
                              .n_kv_heads = s->n_kv_heads,
                              .head_dim = s->head_dim};
    kv->block_pages = lf_kv_layers_pages(kv);
    kv->base = fixture_alloc(lf_kv_block_bytes(kv) * (size_t)st->n_blocks);
    float *q_out = fixture_alloc((size_t)st->bucket_rows * (size_t)s->n_heads * (size_t)s->head_dim * sizeof(float));
    struct lf_rope_append_params p = {.q_out = q_out,
                                      .qkv = st->qkv_values,
                                      .q_norm = s->norm ? st->q_norm_values : NULL,
                                      .k_norm = s->norm ? st->k_norm_values : NULL,
                                      .norm_eps = 1e-6f,
                                      .table = st->table_values,
                                      .q_scale = s->q_scale ? st->q_scale_values : NULL,
                                      .norm_whole_row = s->whole_row,
                                      .v_norm = s->v_norm,
                                      .v_of_k = s->v_of_k,
                                      .rotary_dim = s->rotary_dim,
                                      .n_heads = s->n_heads,
                                      .kv = kv,
                                      .layer = LAYER};
    for (int i = 0; i < st->n_seqs; i++) {
        const struct seq *q = &st->seqs[i];
        for (int r = 0; r < q->n_rows; r++) {
            int pos = q->kv_len - q->n_rows + r;
            struct lf_rope_run run = {.row = q->first_row + r,
                                      .n = 1,
                                      .pos = pos,
                                      .block = q->blocks[pos / LF_KV_BLOCK_TOKENS],
                                      .is_kept = true};
            lf_rope_rows_c(&p, &run);
        }
    }
    return q_out;
}

static size_t page_at(const struct shape *s, int block, int part, int kv_head)
{
    return ((((size_t)block * N_LAYERS + LAYER) * 2 + (size_t)part) * (size_t)s->n_kv_heads + (size_t)kv_head) *
           page_elems(s);
}

/* Row r of sequence q: its query heads, and its K and V in the pages; each is then made NaN again. */
static void check_row(const struct step *st, const struct seq *q, int r, float *q_out, float *kv, const float *cpu_q,
                      const struct lf_kv_view *cpu_kv)
{
    const struct shape *s = &st->shape;
    size_t dim = (size_t)s->head_dim, row = (size_t)(q->first_row + r);
    int pos = q->kv_len - q->n_rows + r, slot = pos % LF_KV_BLOCK_TOKENS, block = q->blocks[pos / LF_KV_BLOCK_TOKENS];
    const float *x = st->qkv_values + row * row_elems(s),
                *cos_sin = st->table_values + (size_t)pos * (size_t)s->rotary_dim;
    double want[LF_HEAD_DIM];
    for (int h = 0; h < s->n_heads; h++) {
        float *got = q_out + (row * (size_t)s->n_heads + (size_t)h) * dim;
        head_in_double(want, x, h, s->n_heads, s->norm ? st->q_norm_values : NULL, cos_sin, s);
        for (size_t i = 0; s->q_scale && i < dim; i++) want[i] *= (double)st->q_scale_values[pos];
        check_head(got, want, s);
        for (size_t i = 0; i < dim; i++) want[i] = (double)cpu_q[(row * (size_t)s->n_heads + (size_t)h) * dim + i];
        check_head(got, want, s);
        for (size_t i = 0; i < dim; i++) got[i] = NAN;
    }
    for (int h = 0; h < s->n_kv_heads; h++) {
        const float *k = x + (size_t)(s->n_heads + h) * dim, *v = s->v_of_k ? k : k + (size_t)s->n_kv_heads * dim;
        float *got_k = kv + page_at(s, block, 0, h) + (size_t)slot * dim;
        float *got_v = kv + page_at(s, block, 1, h) + (size_t)slot * dim;
        const float *cpu_page = lf_kv_page(cpu_kv, block, LAYER, LF_KV_K, h);
        head_in_double(want, x + (size_t)s->n_heads * dim, h, s->n_kv_heads, s->norm ? st->k_norm_values : NULL,
                       cos_sin, s);
        check_head(got_k, want, s);
        for (int i = 0; i < s->head_dim; i++) want[i] = (double)cpu_page[lf_kv_k_index(cpu_kv, slot, i)];
        check_head(got_k, want, s);
        if (!s->v_norm) assert_memory_equal(got_v, v, dim * sizeof(float));
        value_in_double(want, v, s);
        check_head(got_v, want, s);
        for (size_t i = 0; i < dim; i++) got_k[i] = got_v[i] = NAN;
    }
}

/* All that was to be written is right, and nothing else was touched. */
static void check_step(const struct step *st)
{
    struct lf_kv_view cpu_kv;
    float *cpu_q = append_on_cpu(st, &cpu_kv), *q_out = gpu_read(&st->q_out), *kv = gpu_read(&st->kv);
    for (int i = 0; i < st->n_seqs; i++)
        for (int r = 0; r < st->seqs[i].n_rows; r++) check_row(st, &st->seqs[i], r, q_out, kv, cpu_q, &cpu_kv);
    for (size_t i = 0; i < st->q_out.n; i++) assert_true(isnan(q_out[i]));
    for (size_t i = 0; i < st->kv.n; i++) assert_true(isnan(kv[i]));
    free(kv);
    free(q_out);
    free(cpu_q);
    free(cpu_kv.base);
}

static const struct shape shapes[] = {
    {32, 8, 128, 128, .norm = false},
    {8, 1, 128, 128, .norm = true},
    {4, 2, 64, 64, .norm = false},
    {6, 2, 96, 96, .norm = true},
    {3, 3, 256, 256, .norm = true},
    {4, 2, 128, 32, .norm = false},
    {5, 1, 96, 48, .norm = true},
    {2, 1, 256, 64, .norm = false},
    {12, 2, 32, 32, .norm = true},
    {7, 7, 80, 80, .norm = false},
    /* small and large heads */
    {3, 1, 8, 8, .norm = true},
    {5, 5, 24, 16, .norm = false},
    {2, 1, 264, 264, .norm = true},
    {2, 1, 512, 128, .norm = true},
    {3, 1, 512, 512, .norm = false},
    /* norms of rows, scaled queries */
    {6, 6, 128, 128, .norm = true, .whole_row = true},
    {5, 1, 96, 48, .norm = true, .whole_row = true, .q_scale = true},
    {2, 1, 512, 512, .norm = true, .whole_row = true},
    {8, 2, 128, 128, .q_scale = true},
    {3, 1, 64, 32, .norm = true, .q_scale = true},
    /* norms of values, values of keys */
    {4, 2, 256, 256, .norm = true, .v_norm = true},
    {2, 1, 512, 512, .norm = true, .v_norm = true, .v_of_k = true},
    {3, 1, 64, 64, .v_norm = true, .v_of_k = true},
    {4, 4, 96, 48, .norm = true, .whole_row = true, .v_norm = true, .v_of_k = true},
};

/* ---- tests ---- */

static void rows_are_rotated_and_appended(void **state)
{
    (void)state;
    uint64_t seed = 41;
    for (size_t i = 0; i < LF_N_ELEMS(shapes); i++) {
        struct step st;
        make_step(&st, &shapes[i], &seed, fixture_between(&seed, 1, 4), 100, 0, 0);
        append(&st);
        check_step(&st);
        free_step(&st);
    }
}

static void rows_of_no_sequence_write_nothing(void **state)
{
    (void)state;
    uint64_t seed = 42;
    for (size_t i = 0; i < LF_N_ELEMS(shapes); i++) {
        struct step st;
        make_step(&st, &shapes[i], &seed, i % 2 ? MAX_SEQS : 3, 1 + (int)(i % 3), 24, (int)(i % 3));
        append(&st);
        check_step(&st);
        free_step(&st);
    }
}

static void a_graph_replays_with_other_sequences(void **state)
{
    (void)state;
    uint64_t seed = 43;
    struct step st;
    make_step(&st, &shapes[1], &seed, 8, 1, 8, 0);
    gpu_sync();
    assert_true(lf_graph_begin(gpu));
    append(&st);
    struct lf_graph *graph = lf_graph_end(gpu);
    assert_non_null(graph);
    size_t kv_bytes = st.kv.n * 2, q_bytes = st.q_out.n * 2;
    char *poison = malloc(LF_MAX(kv_bytes, q_bytes));
    assert_non_null(poison);
    memset(poison, 0xff, LF_MAX(kv_bytes, q_bytes));
    for (int n_seqs = 0; n_seqs <= 8; n_seqs++) {
        int n_blocks = st.n_blocks;
        lf_upload(gpu, st.kv.ptr, poison, kv_bytes);
        lf_upload(gpu, st.q_out.ptr, poison, q_bytes);
        make_seqs(&st, &seed, n_seqs, 1, 0);
        st.n_blocks = n_blocks;
        upload_lists(&st);
        lf_graph_launch(gpu, graph);
        check_step(&st);
    }
    free(poison);
    lf_graph_destroy(gpu, graph);
    free_step(&st);
}

static void appends_repeat(void **state)
{
    (void)state;
    uint64_t seed = 44;
    struct step st;
    make_step(&st, &shapes[1], &seed, 4, 60, 3, 0);
    append(&st);
    char *q_out = gpu_read_raw(&st.q_out), *kv = gpu_read_raw(&st.kv);
    for (int i = 1; i < gpu_times(REPEATS); i++) {
        append(&st);
        char *q_again = gpu_read_raw(&st.q_out), *kv_again = gpu_read_raw(&st.kv);
        assert_memory_equal(q_again, q_out, st.q_out.n * 2);
        assert_memory_equal(kv_again, kv, st.kv.n * 2);
        free(kv_again);
        free(q_again);
    }
    free(kv);
    free(q_out);
    free_step(&st);
}

/* What the step has written, which is then NaN again. Freed by the caller. */
static char *take_written(struct step *st)
{
    size_t q_bytes = st->q_out.n * 2, kv_bytes = st->kv.n * 2;
    char *q_out = gpu_read_raw(&st->q_out), *kv = gpu_read_raw(&st->kv), *all = malloc(q_bytes + kv_bytes);
    assert_non_null(all);
    memcpy(all, q_out, q_bytes);
    memcpy(all + q_bytes, kv, kv_bytes);
    memset(q_out, 0xff, q_bytes);
    memset(kv, 0xff, kv_bytes);
    lf_upload(gpu, st->q_out.ptr, q_out, q_bytes);
    lf_upload(gpu, st->kv.ptr, kv, kv_bytes);
    free(kv);
    free(q_out);
    return all;
}

/* Heads of all magnitudes, of zeros, and with elements that are not finite. */
static void roughen(struct step *st, uint64_t *seed)
{
    size_t dim = (size_t)st->shape.head_dim;
    for (size_t i = 0; i < st->qkv.n; i += dim) {
        int kind = fixture_between(seed, 0, 9), exponent = gpu_act == LF_BF16 ? 120 : 12;
        float factor = kind == 0 ? 0.0f : ldexpf(1.0f, fixture_between(seed, -exponent, exponent));
        for (size_t k = 0; k < dim; k++) st->qkv_values[i + k] *= factor;
        if (kind == 1) st->qkv_values[i + (size_t)fixture_between(seed, 0, (int)dim - 1)] = INFINITY;
        if (kind == 2) st->qkv_values[i + (size_t)fixture_between(seed, 0, (int)dim - 1)] = NAN;
    }
    char *raw = fixture_alloc(st->qkv.n * 2);
    lf_from_f32(raw, gpu_act, st->qkv_values, st->qkv.n);
    lf_upload(gpu, st->qkv.ptr, raw, st->qkv.n * 2);
    free(raw);
}

/* Quantizes what a plain append of sequence q's rows has left in `kv` into pages of FP8. */
static void quantize_rows(const struct step *st, const struct seq *q, const float *kv, uint8_t *codes,
                          size_t page_bytes)
{
    const struct shape *s = &st->shape;
    for (int pos = q->kv_len - q->n_rows; pos < q->kv_len; pos++) {
        int block = q->blocks[pos / LF_KV_BLOCK_TOKENS], slot = pos % LF_KV_BLOCK_TOKENS;
        for (int h = 0; h < 2 * s->n_kv_heads; h++) {
            size_t at = page_at(s, block, h / s->n_kv_heads, h % s->n_kv_heads);
            uint8_t *page = codes + at / page_elems(s) * page_bytes;
            page[page_elems(s) + (size_t)slot] = lf_kv_fp8_quantize(
                page + (size_t)slot * (size_t)s->head_dim, kv + at + (size_t)slot * (size_t)s->head_dim, s->head_dim);
        }
    }
}

/* To the bit, and nothing else is written. */
static void fp8_pages_are_the_reference_s_of_what_plain_pages_hold(void **state)
{
    (void)state;
    uint64_t seed = 46;
    for (size_t i = 0; i < LF_N_ELEMS(shapes); i++) {
        struct step st;
        make_step(&st, &shapes[i], &seed, fixture_between(&seed, 1, 6), 80, 5, (int)(i % 3));
        roughen(&st, &seed);
        append(&st);
        char *plain_q = gpu_read_raw(&st.q_out);
        float *plain_kv = gpu_read(&st.kv);
        size_t page_bytes = lf_kv_page_bytes_of(LF_E4M3, shapes[i].head_dim);
        size_t n = st.kv.n / page_elems(&shapes[i]) * page_bytes;
        struct gpu_tensor pages = gpu_poisoned(LF_E4M3, n);
        st.args.kv = pages.ptr;
        st.args.fp8_page_bytes = (int32_t)page_bytes;
        append(&st);
        uint8_t *want = fixture_alloc(n);
        memset(want, 0xff, n);
        for (int k = 0; k < st.n_seqs; k++) quantize_rows(&st, &st.seqs[k], plain_kv, want, page_bytes);
        char *got = gpu_read_raw(&pages), *q_out = gpu_read_raw(&st.q_out);
        assert_memory_equal(got, want, n);
        assert_memory_equal(q_out, plain_q, st.q_out.n * 2);
        free(q_out);
        free(got);
        free(want);
        free(plain_kv);
        free(plain_q);
        gpu_free(&pages);
        free_step(&st);
    }
}

/* Of pages of the stripe's blocks, what an undivided append has written of the stripe's positions; else 0xff. Pages are
 * of page_bytes, a token of them has token_bytes, and behind them where `scales` a byte each. */
static char *pages_of_stripe(const struct step *st, const char *whole, size_t n_bytes, size_t page_bytes,
                             size_t token_bytes, bool scales)
{
    const struct shape *s = &st->shape;
    struct lf_kv_stripe stripe = {st->args.stripe_idx, st->args.stripe_n};
    char *out = fixture_alloc(n_bytes);
    memset(out, 0xff, n_bytes);
    for (int i = 0; i < st->n_seqs; i++) {
        const struct seq *q = &st->seqs[i];
        for (int pos = q->kv_len - q->n_rows; pos < q->kv_len; pos++) {
            int from = q->blocks[pos / LF_KV_BLOCK_TOKENS], to = q->blocks[pos / lf_kv_block_tokens(stripe.n)];
            size_t slot = (size_t)(pos % LF_KV_BLOCK_TOKENS);
            for (int h = 0; h < 2 * s->n_kv_heads && lf_kv_stripe_has(stripe, pos); h++) {
                size_t a = page_at(s, from, h / s->n_kv_heads, h % s->n_kv_heads) / page_elems(s) * page_bytes;
                size_t b = page_at(s, to, h / s->n_kv_heads, h % s->n_kv_heads) / page_elems(s) * page_bytes;
                memcpy(out + b + slot * token_bytes, whole + a + slot * token_bytes, token_bytes);
                size_t scale = LF_KV_BLOCK_TOKENS * token_bytes + slot;
                if (scales) out[b + scale] = whole[a + scale];
            }
        }
    }
    return out;
}

/* By n ranks of which each has some of the rows and writes to all: what comes to rank idx. The others' is anywhere. */
static void append_to_peers(struct step *st, int idx, int n, void *q_out, void *kv)
{
    const struct lf_rope_cuda_args before = st->args;
    struct lf_rope_cuda_args *a = &st->args;
    struct gpu_tensor other_q = gpu_poisoned(gpu_act, st->q_out.n), other_kv = gpu_poisoned(gpu_act, st->kv.n);
    a->q_out = a->kv = NULL;
    a->n_peers = n;
    for (int r = 0; r < n; r++) {
        a->peer_q[r] = r == idx ? q_out : other_q.ptr;
        a->peer_kv[r] = r == idx ? kv : other_kv.ptr;
    }
    for (int r = 0; r < n; r++) {
        a->stripe_idx = r;
        a->first_row = st->bucket_rows * r / n;
        a->n_tokens = st->bucket_rows * (r + 1) / n - a->first_row;
        a->qkv = st->qkv.ptr + (size_t)a->first_row * row_elems(&st->shape) * 2;
        append(st);
    }
    gpu_free(&other_kv);
    gpu_free(&other_q);
    *a = before;
}

/* Queries of all rows as without stripes; of keys and values the stripe's, to the bit, and nothing else. */
static void check_stripe(struct step *st, int idx, int n, bool fp8, bool by_peers)
{
    size_t token_bytes = (size_t)st->shape.head_dim * (fp8 ? 1 : 2);
    size_t page_bytes = lf_kv_page_bytes_of(fp8 ? LF_E4M3 : LF_BF16, st->shape.head_dim);
    size_t n_bytes = st->kv.n / page_elems(&st->shape) * page_bytes;
    struct gpu_tensor q_out = gpu_poisoned(gpu_act, st->q_out.n), kv = gpu_poisoned(LF_E4M3, n_bytes);
    struct gpu_tensor whole_kv = gpu_poisoned(LF_E4M3, n_bytes);
    void *own_q = st->args.q_out, *own_kv = st->args.kv;
    st->args.fp8_page_bytes = fp8 ? (int32_t)page_bytes : 0;
    st->args.kv = whole_kv.ptr;
    append(st);
    st->args.stripe_idx = idx;
    st->args.stripe_n = n;
    st->args.q_out = q_out.ptr;
    st->args.kv = kv.ptr;
    if (by_peers)
        append_to_peers(st, idx, n, q_out.ptr, kv.ptr);
    else
        append(st);
    char *want_q = gpu_read_raw(&st->q_out), *got_q = gpu_read_raw(&q_out), *got = gpu_read_raw(&kv);
    char *whole = gpu_read_raw(&whole_kv);
    char *want = pages_of_stripe(st, whole, n_bytes, page_bytes, token_bytes, fp8);
    assert_memory_equal(got_q, want_q, q_out.n * 2);
    assert_memory_equal(got, want, n_bytes);
    free(want);
    free(whole);
    free(got);
    free(got_q);
    free(want_q);
    gpu_free(&whole_kv);
    gpu_free(&kv);
    gpu_free(&q_out);
    st->args.q_out = own_q;
    st->args.kv = own_kv;
    st->args.stripe_idx = st->args.stripe_n = st->args.fp8_page_bytes = 0;
}

static void a_stripe_has_the_keys_of_its_positions(void **state)
{
    (void)state;
    uint64_t seed = 47;
    for (size_t i = 0; i < LF_N_ELEMS(shapes) && gpu_act == LF_BF16; i++) {
        struct step st;
        make_step(&st, &shapes[i], &seed, fixture_between(&seed, 1, 6), 300, 5, (int)(i % 3));
        for (int n = 2; n <= 4; n++)
            for (int k = 0; k < 2 * n; k++) {
                check_stripe(&st, k / 2, n, false, k % 2);
                if (shapes[i].head_dim % 16 == 0) check_stripe(&st, k / 2, n, true, k % 2);
            }
        free_step(&st);
    }
}

/* Plain and coded weights by turns, with and without bias, with x as it is and as half a norm. FP8 has scales that the
 * FP8 GEMM of Hopper does not take: with it there is no prologue to compare. */
static void a_gemm_with_rope_as_epilogue_has_the_bits_of_both(void **state)
{
    (void)state;
    enum { N_IN = 272, PARTS = (N_IN + LF_NORM_PART - 1) / LF_NORM_PART };
    uint64_t seed = 45;
    static const struct lf_format coded[] = {
        {.dtype = LF_BF16, .code = LF_CODE_I4, .group = 64, .group_rows = 1, .zeros = true},
        {.dtype = LF_BF16, .code = LF_CODE_E4M3, .group = 128, .group_rows = 1},
        {.dtype = LF_BF16, .code = LF_CODE_I4, .group = 128, .group_rows = 1}};
    static const struct shape plain[] = {{32, 8, 128, 128, .norm = false}, {4, 2, 64, 64, .norm = false},
                                         {7, 7, 80, 80, .norm = false},    {3, 3, 256, 256, .norm = false},
                                         {2, 1, 512, 512, .norm = false},  {8, 2, 128, 128, .q_scale = true}};
    for (int i = 0; i < 60; i++) {
        const struct shape *shape = &plain[i % (int)LF_N_ELEMS(plain)];
        struct step st;
        make_step(&st, shape, &seed, 1 + i % 5, 1 + i % 3, i % 2, 0);
        if (i % 7 == 0) st.n_seqs = 0;
        upload_lists(&st);
        struct gpu_weight gw = gpu_weight(&seed, LF_BF16, (int)row_elems(shape), N_IN, 1.0f);
        struct quant_weight qw = quant_weight(&seed, &coded[i % (int)LF_N_ELEMS(coded)], (int)row_elems(shape), N_IN);
        float *x_values, *bias_values, *squares_values;
        struct gpu_tensor x = gpu_random(gpu_act, &seed, (size_t)st.bucket_rows * N_IN, 1.0f, &x_values);
        struct gpu_tensor bias = gpu_random(LF_F32, &seed, row_elems(shape), 1.0f, &bias_values);
        struct gpu_tensor squares = gpu_random(LF_F32, &seed, LF_FUSED_NORM_TOKENS * PARTS, 1.0f, &squares_values);
        for (int k = 0; k < LF_FUSED_NORM_TOKENS * PARTS; k++) squares_values[k] = fabsf(squares_values[k]);
        lf_upload(gpu, squares.ptr, squares_values, squares.n * sizeof(float));
        bool halves = gpu_act == LF_BF16 && i % 3 != 0;
        struct lf_gemm_params p = {.alpha = i % 5 == 0 ? 0.6f : 1.0f,
                                   .y = st.qkv.ptr,
                                   .x = x.ptr,
                                   .w = i % 2 == 0 ? &gw.w : &qw.w,
                                   .bias = i % 4 < 2 ? (const float *)(void *)bias.ptr : NULL,
                                   .n_tokens = st.bucket_rows,
                                   .x_stride = N_IN,
                                   .y_stride = (int)row_elems(shape),
                                   .x_sum_squares = halves ? (const float *)(void *)squares.ptr : NULL,
                                   .x_eps = 1e-5f};
        assert_true(st.bucket_rows <= 16);
        gpu_ops->gemm(gpu, &p);
        append(&st);
        char *in_two = take_written(&st);
        bool fits = false;
        lf_cuda_check(gpu, lf_qkv_cuda_setup(&fits), "setup");
        assert_true(fits && lf_qkv_cuda_supports(&p, &st.args));
        struct lf_rope_cuda_args striped = st.args;
        striped.stripe_n = 2;
        assert_false(lf_qkv_cuda_supports(&p, &striped));
        lf_cuda_check(gpu, lf_qkv_cuda(&p, &st.args, 1 + i * 7, lf_cuda_stream(gpu)), "GEMM and RoPE");
        char *at_once = take_written(&st);
        assert_memory_equal(at_once, in_two, (st.q_out.n + st.kv.n) * 2);
        free(at_once);
        free(in_two);
        gpu_free(&squares);
        gpu_free(&bias);
        gpu_free(&x);
        free(squares_values);
        free(bias_values);
        free(x_values);
        quant_weight_free(&qw);
        gpu_weight_free(&gw);
        free_step(&st);
    }
}

static void shapes_that_do_not_fit_are_named(void **state)
{
    (void)state;
    assert_true(lf_rope_append_cuda_supports(128, 128) && lf_rope_append_cuda_supports(512, 4));
    assert_false(lf_rope_append_cuda_supports(516, 64) || lf_rope_append_cuda_supports(126, 64));
    assert_false(lf_rope_append_cuda_supports(128, 130) || lf_rope_append_cuda_supports(128, 6));
    assert_false(lf_rope_append_cuda_supports(128, 0) || lf_rope_append_cuda_supports(0, 0));
}

int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_rotated_and_appended),
        cmocka_unit_test(rows_of_no_sequence_write_nothing),
        cmocka_unit_test(a_graph_replays_with_other_sequences),
        cmocka_unit_test(appends_repeat),
        cmocka_unit_test(fp8_pages_are_the_reference_s_of_what_plain_pages_hold),
        cmocka_unit_test(a_stripe_has_the_keys_of_its_positions),
        cmocka_unit_test(shapes_that_do_not_fit_are_named),
        cmocka_unit_test(a_gemm_with_rope_as_epilogue_has_the_bits_of_both),
    };
    return gpu_run(tests);
}
