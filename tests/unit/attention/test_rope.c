#include "attention/rope.h"
#include "attention/cpu/rope_run.h"

#include <math.h>

#include "core/check.h"
#include "kv/kv_fp8.h"
#include "tests/support/test.h"

/* ---- frequencies ---- */

struct freq_case {
    struct lf_rope_opts opts;
    double attention_factor;
    int idx[8];
    double inv_freq[8];
};

/* Values of transformers 5.23 (ROPE_INIT_FUNCTIONS), which computes in float32: equal to about 1e-6. */
static const struct freq_case FREQ_CASES[] = {
    {{.kind = LF_ROPE_NONE_SCALED, .head_dim = 64, .rotary_dim = 64, .theta = 5e7},
     1.0,
     {0, 1, 8, 10, 16, 21, 30, 31},
     {1, 0.574654997, 0.0118920712, 0.00392709922, 0.000141421356, 8.86239157e-06, 6.05641492e-08, 3.4803491e-08}},
    {{.kind = LF_ROPE_LINEAR, .head_dim = 128, .rotary_dim = 128, .theta = 1e4, .factor = 4},
     1.0,
     {0, 1, 16, 21, 32, 42, 62, 63},
     {0.25, 0.216491088, 0.0250000004, 0.0121741882, 0.00249999994, 0.000592843455, 3.33380376e-05, 2.88695483e-05}},
    {{.kind = LF_ROPE_LLAMA3,
      .head_dim = 128,
      .rotary_dim = 128,
      .theta = 5e5,
      .factor = 8,
      .low_freq_factor = 1,
      .high_freq_factor = 4,
      .original_max_positions = 8192},
     1.0,
     {0, 1, 16, 21, 32, 42, 62, 63},
     {1, 0.814617217, 0.0376060307, 0.0134904198, 0.000524846022, 2.2748929e-05, 3.7673226e-07, 3.06892588e-07}},
    {{.kind = LF_ROPE_LLAMA3,
      .head_dim = 64,
      .rotary_dim = 64,
      .theta = 5e5,
      .factor = 32,
      .low_freq_factor = 1,
      .high_freq_factor = 4,
      .original_max_positions = 8192},
     1.0,
     {0, 1, 8, 10, 16, 21, 30, 31},
     {1, 0.663601279, 0.0376060307, 0.0165604409, 0.000429556705, 5.68723226e-06, 1.41927202e-07, 9.41830649e-08}},
    {{.kind = LF_ROPE_YARN,
      .head_dim = 128,
      .rotary_dim = 128,
      .theta = 1e6,
      .factor = 4,
      .original_max_positions = 32768,
      .beta_fast = 32,
      .beta_slow = 1,
      .truncate = true},
     1.1386294361119891,
     {0, 1, 16, 21, 32, 42, 62, 63},
     {1, 0.805842221, 0.0316227786, 0.0107460786, 0.000602941145, 2.88695483e-05, 3.84981632e-07, 3.10234441e-07}},
    {{.kind = LF_ROPE_PROPORTIONAL, .head_dim = 512, .rotary_dim = 512, .theta = 1e6, .factor = 2, .n_turned = 64},
     1.0,
     {0, 1, 16, 32, 48, 63, 64, 255},
     {0.5, 0.473731756, 0.210848257, 0.0889139697, 0.0374947079, 0.0166881233, 0, 0}},
    {{.kind = LF_ROPE_YARN,
      .head_dim = 64,
      .rotary_dim = 64,
      .theta = 150000,
      .factor = 32,
      .original_max_positions = 4096,
      .beta_fast = 32,
      .beta_slow = 1},
     1.3465735902799727,
     {0, 1, 8, 10, 16, 21, 30, 31},
     {1, 0.689044297, 0.0508132726, 0.0193349998, 0.000456483918, 1.25325696e-05, 4.38797855e-07, 3.0235114e-07}},
    {{.kind = LF_ROPE_YARN,
      .head_dim = 128,
      .rotary_dim = 128,
      .theta = 1e4,
      .factor = 16,
      .original_max_positions = 4096,
      .beta_fast = 16,
      .beta_slow = 2,
      .attention_factor = 1.25,
      .truncate = true},
     1.25,
     {0, 1, 16, 21, 32, 42, 62, 63},
     {1, 0.865964353, 0.100000001, 0.0486967526, 0.00589843746, 0.000148210864, 8.3345094e-06, 7.21738706e-06}},
};

static void frequencies_equal_those_of_transformers(void **state)
{
    (void)state;
    for (size_t i = 0; i < LF_N_ELEMS(FREQ_CASES); i++) {
        const struct freq_case *c = &FREQ_CASES[i];
        double inv_freq[LF_HEAD_DIM / 2], factor;
        lf_rope_inv_freq(&c->opts, 1, inv_freq, &factor);
        assert_true(fabs(factor - c->attention_factor) < 1e-12);
        for (int k = 0; k < 8; k++) {
            double got = inv_freq[c->idx[k]], want = c->inv_freq[k];
            if (fabs(got - want) > 2e-6 * want)
                fail_msg("case %zu, pair %d: %.9g, expected %.9g", i, c->idx[k], got, want);
        }
    }
}

static void longrope_divides_by_the_factors_of_its_length(void **state)
{
    (void)state;
    struct lf_rope_opts o = {.kind = LF_ROPE_LONGROPE,
                             .head_dim = 32,
                             .rotary_dim = 8,
                             .theta = 1e4,
                             .original_max_positions = 100,
                             .attention_factor = 1.25,
                             .short_factor = {1, 2, 4, 8},
                             .long_factor = {3, 5, 7, 11}};
    for (int n = 100; n <= 101; n++) {
        double inv_freq[LF_HEAD_DIM / 2], factor;
        lf_rope_inv_freq(&o, n, inv_freq, &factor);
        assert_true(fabs(factor - 1.25) < 1e-12);
        for (int i = 0; i < 4; i++) {
            double by = n > 100 ? o.long_factor[i] : o.short_factor[i];
            assert_true(fabs(inv_freq[i] * by - pow(1e4, -i / 4.0)) < 1e-12);
        }
    }
}

/* ---- the table ---- */

static struct lf_device *open_cpu(int max_isa, int n_threads)
{
    struct lf_device *dev;
    struct lf_err err;
    struct lf_device_opts opts = {.name = "cpu", .n_threads = n_threads, .max_isa = max_isa};
    enum lf_status status = lf_device_open(&dev, &opts, &err);
    if (status == LF_UNSUPPORTED) return NULL;
    assert_int_equal(status, LF_OK);
    return dev;
}

static void table_holds_cosines_and_sines_rounded_once(void **state)
{
    (void)state;
    enum { POSITIONS = 131072 };
    struct lf_device *dev = open_cpu(-1, 2);
    struct lf_rope_opts opts = FREQ_CASES[4].opts;
    float *table = malloc(lf_rope_table_bytes(&opts, POSITIONS));
    double inv_freq[LF_HEAD_DIM / 2], factor;
    assert_non_null(table);
    assert_true(lf_rope_table_bytes(&opts, POSITIONS) == (uint64_t)POSITIONS * 128 * 4);
    lf_rope_table_fill(dev, &opts, POSITIONS, table);
    lf_rope_inv_freq(&opts, 1, inv_freq, &factor);
    for (int pos = 0; pos < POSITIONS; pos += pos < 100 ? 1 : 127)
        for (int i = 0; i < 64; i++) {
            const float *at = table + ((size_t)pos * 64 + (size_t)i) * 2;
            double angle = (double)pos * inv_freq[i];
            assert_true(fabs((double)at[0] - factor * cos(angle)) < 1e-7);
            assert_true(fabs((double)at[1] - factor * sin(angle)) < 1e-7);
        }
    free(table);
    lf_device_close(dev);
}

struct parts {
    const float *whole, *memory; /* of all, of the first part */
    int n_floats, n;             /* of a position; how many positions have come */
};

static void compare_part(void *ctx, int from, int n, const float *part)
{
    struct parts *p = ctx;
    if (from == 0) p->memory = part;
    assert_int_equal(from, p->n);
    assert_in_range(n, 1, LF_ROPE_PART_POSITIONS);
    assert_ptr_equal(part, p->memory); /* all lie in the memory of one */
    assert_memory_equal(part, p->whole + (size_t)from * (size_t)p->n_floats,
                        (size_t)n * (size_t)p->n_floats * sizeof(*part));
    p->n += n;
}

static void a_table_in_parts_has_the_bits_of_the_whole_in_the_memory_of_one(void **state)
{
    (void)state;
    enum { PART = LF_ROPE_PART_POSITIONS };
    static const int lengths[] = {1, 700, PART, PART + 1, 3 * PART + 777};
    struct lf_device *dev = open_cpu(-1, 2);
    for (size_t c = 0; c < LF_N_ELEMS(FREQ_CASES); c++)
        for (size_t i = 0; i < LF_N_ELEMS(lengths); i++) {
            const struct lf_rope_opts *opts = &FREQ_CASES[c].opts;
            float *whole = malloc(lf_rope_table_bytes(opts, lengths[i]));
            struct parts parts = {.whole = whole, .n_floats = opts->rotary_dim};
            assert_non_null(whole);
            lf_rope_table_fill(dev, opts, lengths[i], whole);
            assert_int_equal(lf_rope_table_parts(dev, opts, lengths[i], compare_part, &parts, NULL), LF_OK);
            assert_int_equal(parts.n, lengths[i]);
            free(whole);
        }
    lf_device_close(dev);
}

static void a_table_without_rotation_is_the_identity(void **state)
{
    (void)state;
    enum { POSITIONS = 3000 };
    struct lf_device *dev = open_cpu(-1, 2);
    struct lf_rope_opts opts = {.kind = LF_ROPE_OFF, .head_dim = 64, .rotary_dim = 64, .theta = 1e4};
    float *table = malloc(lf_rope_table_bytes(&opts, POSITIONS));
    assert_non_null(table);
    lf_rope_table_fill(dev, &opts, POSITIONS, table);
    for (int i = 0; i < POSITIONS * 64; i++) assert_true(fabsf(table[i] - (i % 2 ? 0.0f : 1.0f)) <= 0);
    free(table);
    lf_device_close(dev);
}

/* ---- the append ---- */

enum { N_SEQS = 3, HEADS = 6, KV_HEADS = 2, BLOCKS = 8, LAYERS = 2 };

enum norm { NO_NORM, NORM_HEAD, NORM_ROW };
enum values { V_PLAIN, V_NORM, V_OF_K };

struct append_fixture {
    struct lf_device *dev;
    struct lf_kv_view kv;
    int rotary_dim, n_rows;
    enum norm norm;
    enum values values;
    bool scales_q;
    int32_t tables[N_SEQS][4];
    struct lf_kv_seq seqs[N_SEQS];
    float *qkv, *q_out, *table;
    float q_norm[HEADS * LF_HEAD_DIM], k_norm[KV_HEADS * LF_HEAD_DIM]; /* of a head, or of the row */
    float q_scale[256];
};

static float noise(uint64_t i)
{
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
    return (float)(int32_t)(x >> 32) * 0x1p-30f;
}

static void fixture_init(struct append_fixture *f, struct lf_device *dev, enum lf_dtype dtype, int head_dim,
                         int rotary_dim, enum norm norm)
{
    static const int rows[N_SEQS] = {1, 70, 23}, lens[N_SEQS] = {130, 133, 23};
    static const int32_t order[] = {5, 2, 7, 0, 3, 6, 1};
    memset(f, 0, sizeof(*f));
    f->dev = dev;
    f->rotary_dim = rotary_dim;
    f->norm = norm;
    f->scales_q = norm == NORM_ROW || rotary_dim < head_dim;
    f->kv = (struct lf_kv_view){
        .dtype = dtype, .n_blocks = BLOCKS, .n_layers = LAYERS, .n_kv_heads = KV_HEADS, .head_dim = head_dim};
    f->kv.block_pages = lf_kv_layers_pages(&f->kv);
    size_t bytes = lf_kv_block_bytes(&f->kv) * BLOCKS;
    f->kv.base = malloc(bytes);
    assert_non_null(f->kv.base);
    memset(f->kv.base, 0xff, bytes);
    for (int i = 0, next = 0; i < N_SEQS; i++) {
        for (int b = 0; b * LF_KV_BLOCK_TOKENS < lens[i]; b++) f->tables[i][b] = order[next++];
        f->seqs[i] = (struct lf_kv_seq){
            .blocks = f->tables[i], .first_token = f->n_rows, .n_tokens = rows[i], .kv_len = lens[i]};
        f->n_rows += rows[i];
    }
    size_t d = (size_t)head_dim, n = (size_t)f->n_rows;
    f->qkv = malloc(n * (HEADS + 2 * KV_HEADS) * d * sizeof(float));
    f->q_out = malloc(n * HEADS * d * sizeof(float));
    struct lf_rope_opts opts = {
        .kind = LF_ROPE_NONE_SCALED, .head_dim = head_dim, .rotary_dim = rotary_dim, .theta = 1e4};
    f->table = malloc(lf_rope_table_bytes(&opts, 256));
    assert_true(f->qkv && f->q_out && f->table);
    for (size_t i = 0; i < n * (HEADS + 2 * KV_HEADS) * d; i++) f->qkv[i] = noise(i);
    for (size_t i = 0; i < HEADS * d; i++) f->q_norm[i] = 1.0f + noise(i) / 4;
    for (size_t i = 0; i < KV_HEADS * d; i++) f->k_norm[i] = 1.0f + noise(1000 + i) / 4;
    for (size_t i = 0; i < 256; i++) f->q_scale[i] = 1.0f + (float)i / 64;
    lf_rope_table_fill(dev, &opts, 256, f->table);
}

static void fixture_deinit(struct append_fixture *f)
{
    free(f->kv.base);
    free(f->qkv);
    free(f->q_out);
    free(f->table);
}

/* Heads of a row of qkv. */
static size_t row_heads(const struct append_fixture *f)
{
    return HEADS + (f->values == V_OF_K ? 1 : 2) * KV_HEADS;
}

/* Channel i of a head's V in double. */
static double expected_v(const struct append_fixture *f, const float *v, int i)
{
    double sum = 0.0;
    for (int c = 0; c < f->kv.head_dim; c++) sum += (double)v[c] * (double)v[c];
    return (double)v[i] / sqrt(sum / f->kv.head_dim + 1e-6);
}

static void run_append(struct append_fixture *f, const struct lf_kv_seq *seqs, int n_seqs, int first_row)
{
    size_t d = (size_t)f->kv.head_dim;
    struct lf_rope_append_params p = {.q_out = f->q_out + (size_t)first_row * HEADS * d,
                                      .qkv = f->qkv + (size_t)first_row * row_heads(f) * d,
                                      .q_norm = f->norm ? f->q_norm : NULL,
                                      .k_norm = f->norm ? f->k_norm : NULL,
                                      .norm_whole_row = f->norm == NORM_ROW,
                                      .q_scale = f->scales_q ? f->q_scale : NULL,
                                      .v_norm = f->values != V_PLAIN,
                                      .v_of_k = f->values == V_OF_K,
                                      .norm_eps = 1e-6f,
                                      .table = f->table,
                                      .rotary_dim = f->rotary_dim,
                                      .n_heads = HEADS,
                                      .kv = &f->kv,
                                      .layer = 1};
    lf_rope_append_cpu(f->dev, &p, seqs, n_seqs);
}

/* Norm and rotation of head h of the n that stand at row, in double, from the definition. */
static void expected_head(const struct append_fixture *f, const float *row, int n, int h, const float *norm, int pos,
                          double *y)
{
    int d = f->kv.head_dim, half = f->rotary_dim / 2;
    const float *x = row + (size_t)h * (size_t)d;
    double normed[LF_HEAD_DIM], sum = 0.0;
    int first = f->norm == NORM_ROW ? 0 : h * d, n_normed = f->norm == NORM_ROW ? n * d : d;
    for (int i = 0; i < n_normed; i++) sum += (double)row[first + i] * (double)row[first + i];
    if (f->norm == NORM_ROW) norm += h * d;
    for (int i = 0; i < d; i++)
        normed[i] = f->norm ? (double)x[i] / sqrt(sum / n_normed + 1e-6) * (double)norm[i] : (double)x[i];
    for (int i = 0; i < d; i++) y[i] = normed[i];
    for (int i = 0; i < half; i++) {
        double angle = (double)pos * pow(1e4, -2.0 * i / f->rotary_dim);
        y[i] = normed[i] * cos(angle) - normed[i + half] * sin(angle);
        y[i + half] = normed[i + half] * cos(angle) + normed[i] * sin(angle);
    }
}

static double stored(const struct lf_kv_view *kv, const void *page, size_t idx)
{
    return kv->dtype == LF_F32 ? (double)((const float *)page)[idx]
                               : (double)lf_f32_from_bf16(((const uint16_t *)page)[idx]);
}

static void check_row(const struct append_fixture *f, int seq_idx, int row)
{
    size_t d = (size_t)f->kv.head_dim, at = (size_t)(f->seqs[seq_idx].first_token + row);
    const float *qkv = f->qkv + at * row_heads(f) * d;
    int pos = f->seqs[seq_idx].kv_len - f->seqs[seq_idx].n_tokens + row, slot = pos % LF_KV_BLOCK_TOKENS;
    int block = f->tables[seq_idx][pos / LF_KV_BLOCK_TOKENS];
    double want[LF_HEAD_DIM], rounding = f->kv.dtype == LF_BF16 ? 1.0 / 256 : 1e-6;
    for (int h = 0; h < HEADS; h++) {
        double scale = f->scales_q ? (double)f->q_scale[pos] : 1.0;
        expected_head(f, qkv, HEADS, h, f->q_norm, pos, want);
        for (size_t i = 0; i < d; i++)
            assert_true(fabs((double)f->q_out[(at * HEADS + (size_t)h) * d + i] - scale * want[i]) < 1e-6 * 8 * scale);
    }
    for (int h = 0; h < KV_HEADS; h++) {
        const float *k = qkv + (size_t)(HEADS + h) * d, *v = f->values == V_OF_K ? k : k + KV_HEADS * d;
        const void *k_page = lf_kv_page(&f->kv, block, 1, LF_KV_K, h),
                   *v_page = lf_kv_page(&f->kv, block, 1, LF_KV_V, h);
        expected_head(f, qkv + HEADS * d, KV_HEADS, h, f->k_norm, pos, want);
        for (int i = 0; i < f->kv.head_dim; i++) {
            double got = stored(&f->kv, k_page, lf_kv_k_index(&f->kv, slot, i));
            assert_true(fabs(got - want[i]) <= rounding * fabs(want[i]) + 1e-5);
            double got_v = stored(&f->kv, v_page, lf_kv_v_index(&f->kv, slot, i)), want_v = expected_v(f, v, i);
            if (f->values != V_PLAIN) {
                assert_true(fabs(got_v - want_v) <= rounding * fabs(want_v) + 1e-5);
                continue;
            }
            float value = f->kv.dtype == LF_BF16 ? lf_f32_from_bf16(lf_bf16_from_f32(v[i])) : v[i];
            assert_true(got_v == (double)value);
        }
    }
}

/* Elements of the cache that were written. */
static size_t n_written(const struct append_fixture *f)
{
    size_t n = 0, all = lf_kv_block_elems(&f->kv) * BLOCKS;
    for (size_t i = 0; i < all; i++) n += isnan(stored(&f->kv, f->kv.base, i)) ? 0 : 1;
    return n;
}

struct append_case {
    enum lf_dtype dtype;
    int head_dim, rotary_dim;
    enum norm norm;
    enum values values;
};

static const struct append_case APPEND_CASES[] = {
    {LF_F32, 64, 64, NO_NORM, V_PLAIN},      {LF_BF16, 64, 64, NO_NORM, V_PLAIN},
    {LF_BF16, 128, 128, NORM_HEAD, V_PLAIN}, {LF_F32, 80, 80, NORM_HEAD, V_PLAIN},
    {LF_BF16, 96, 24, NO_NORM, V_PLAIN},     {LF_F32, 128, 64, NORM_HEAD, V_PLAIN},
    {LF_F32, 64, 64, NORM_ROW, V_PLAIN},     {LF_BF16, 80, 40, NORM_ROW, V_PLAIN},
    {LF_F32, 8, 8, NORM_HEAD, V_PLAIN},      {LF_BF16, 24, 24, NORM_ROW, V_PLAIN},
    {LF_BF16, 40, 40, NO_NORM, V_PLAIN},     {LF_F32, 264, 264, NORM_HEAD, V_PLAIN},
    {LF_BF16, 512, 512, NORM_HEAD, V_PLAIN}, {LF_F32, 72, 72, NORM_HEAD, V_NORM},
    {LF_BF16, 64, 64, NORM_HEAD, V_OF_K},    {LF_F32, 24, 24, NORM_HEAD, V_OF_K},
};

static void append_rotates_norms_and_stores_every_row(void **state)
{
    (void)state;
    for (int isa = LF_ISA_C; isa <= LF_ISA_AVX512; isa++) {
        struct lf_device *dev = open_cpu(isa, 2);
        for (size_t k = 0; dev && k < LF_N_ELEMS(APPEND_CASES); k++) {
            const struct append_case *c = &APPEND_CASES[k];
            struct append_fixture f;
            fixture_init(&f, dev, c->dtype, c->head_dim, c->rotary_dim, c->norm);
            f.values = c->values;
            run_append(&f, f.seqs, N_SEQS, 0);
            for (int s = 0; s < N_SEQS; s++)
                for (int r = 0; r < f.seqs[s].n_tokens; r++) check_row(&f, s, r);
            assert_true(n_written(&f) == (size_t)f.n_rows * 2 * KV_HEADS * (size_t)c->head_dim);
            fixture_deinit(&f);
        }
        lf_device_close(dev);
    }
}

static void check_row_by_row(struct lf_device *dev, const struct append_case *c)
{
    struct append_fixture whole, single;
    fixture_init(&whole, dev, c->dtype, c->head_dim, c->rotary_dim, c->norm);
    fixture_init(&single, dev, c->dtype, c->head_dim, c->rotary_dim, c->norm);
    whole.values = single.values = c->values;
    run_append(&whole, whole.seqs, N_SEQS, 0);
    for (int s = 0; s < N_SEQS; s++)
        for (int r = 0; r < single.seqs[s].n_tokens; r++) {
            struct lf_kv_seq one = single.seqs[s];
            one.kv_len += r + 1 - one.n_tokens;
            one.first_token = 0;
            one.n_tokens = 1;
            run_append(&single, &one, 1, single.seqs[s].first_token + r);
        }
    size_t d = (size_t)c->head_dim;
    assert_memory_equal(whole.q_out, single.q_out, (size_t)whole.n_rows * HEADS * d * sizeof(float));
    assert_memory_equal(whole.kv.base, single.kv.base, lf_kv_block_bytes(&whole.kv) * BLOCKS);
    fixture_deinit(&whole);
    fixture_deinit(&single);
}

static void append_gives_the_same_bits_row_by_row(void **state)
{
    (void)state;
    struct lf_device *dev = open_cpu(-1, 2);
    for (size_t k = 0; k < LF_N_ELEMS(APPEND_CASES); k++) {
        struct append_case c = APPEND_CASES[k];
        check_row_by_row(dev, &c);
        c.dtype = LF_E4M3;
        check_row_by_row(dev, &c);
    }
    lf_device_close(dev);
}

/* A head's place in the f32 cache as codes in its place of the fp8 one. */
static void check_codes(const struct lf_kv_view *f32, const struct lf_kv_view *fp8, int block, enum lf_kv_part part,
                        int head, int slot)
{
    const float *from = lf_kv_page(f32, block, 1, part, head);
    uint8_t *page = lf_kv_page(fp8, block, 1, part, head), codes[LF_HEAD_DIM];
    float x[LF_HEAD_DIM];
    for (int i = 0; i < fp8->head_dim; i++)
        x[i] = from[part == LF_KV_K ? lf_kv_k_index(f32, slot, i) : lf_kv_v_index(f32, slot, i)];
    assert_int_equal(lf_kv_scales(fp8, page)[slot], lf_kv_fp8_quantize(codes, x, fp8->head_dim));
    for (int i = 0; i < fp8->head_dim; i++)
        assert_int_equal(page[part == LF_KV_K ? lf_kv_k_index(fp8, slot, i) : lf_kv_v_index(fp8, slot, i)], codes[i]);
}

static void check_fp8_append(struct lf_device *dev, const struct append_case *c)
{
    struct append_fixture f32, fp8;
    size_t n_untouched = 0, bytes, n = 0;
    fixture_init(&f32, dev, LF_F32, c->head_dim, c->rotary_dim, c->norm);
    fixture_init(&fp8, dev, LF_E4M3, c->head_dim, c->rotary_dim, c->norm);
    f32.values = fp8.values = c->values;
    run_append(&f32, f32.seqs, N_SEQS, 0);
    run_append(&fp8, fp8.seqs, N_SEQS, 0);
    for (int s = 0; s < N_SEQS; s++)
        for (int pos = fp8.seqs[s].kv_len - fp8.seqs[s].n_tokens; pos < fp8.seqs[s].kv_len; pos++, n++)
            for (int head = 0; head < KV_HEADS; head++)
                for (int part = LF_KV_K; part <= LF_KV_V; part++)
                    check_codes(&f32.kv, &fp8.kv, fp8.tables[s][pos / LF_KV_BLOCK_TOKENS], (enum lf_kv_part)part, head,
                                pos % LF_KV_BLOCK_TOKENS);
    bytes = lf_kv_block_bytes(&fp8.kv) * BLOCKS;
    for (size_t i = 0; i < bytes; i++) n_untouched += ((const uint8_t *)fp8.kv.base)[i] == 0xff;
    assert_int_equal(bytes - n_untouched, n * 2 * KV_HEADS * ((size_t)c->head_dim + 1));
    fixture_deinit(&f32);
    fixture_deinit(&fp8);
}

static void append_to_fp8_quantizes_what_f32_would_hold_and_writes_nothing_else(void **state)
{
    (void)state;
    for (int isa = LF_ISA_C; isa <= LF_ISA_AVX512; isa++) {
        struct lf_device *dev = open_cpu(isa, 2);
        for (size_t k = 0; dev && k < LF_N_ELEMS(APPEND_CASES); k++) check_fp8_append(dev, &APPEND_CASES[k]);
        lf_device_close(dev);
    }
}

static void append_writes_the_blocks_of_its_group(void **state)
{
    (void)state;
    for (int isa = LF_ISA_C; isa <= LF_ISA_AVX512; isa++) {
        struct lf_device *dev = open_cpu(isa, 2);
        struct append_fixture plain, group;
        if (!dev) continue;
        fixture_init(&plain, dev, LF_BF16, 64, 64, true);
        fixture_init(&group, dev, LF_BF16, 64, 64, true);
        size_t used = lf_kv_block_bytes(&plain.kv);
        group.kv.block_pages += 5;
        group.kv.group = 2;
        size_t bytes = lf_kv_block_bytes(&group.kv);
        int32_t tables[N_SEQS][3][4];
        free(group.kv.base);
        group.kv.base = malloc(bytes * BLOCKS);
        assert_non_null(group.kv.base);
        memset(group.kv.base, 0xff, bytes * BLOCKS);
        memset(tables, 0xff, sizeof(tables));
        for (int s = 0; s < N_SEQS; s++) {
            memcpy(tables[s][2], group.tables[s], sizeof(tables[s][2]));
            group.seqs[s].blocks = tables[s][0];
            group.seqs[s].table_stride = 4;
        }
        run_append(&plain, plain.seqs, N_SEQS, 0);
        run_append(&group, group.seqs, N_SEQS, 0);
        for (size_t i = 0; i < BLOCKS; i++)
            assert_memory_equal((char *)plain.kv.base + i * used, (char *)group.kv.base + i * bytes, used);
        assert_true(n_written(&group) == n_written(&plain));
        fixture_deinit(&plain);
        fixture_deinit(&group);
        lf_device_close(dev);
    }
}

/* The caches of n stripes have, each in the blocks that it takes part in, the pages that one cache has; and all q. */
static void expect_pages_of_stripe(struct lf_device *dev, const struct append_fixture *whole, enum lf_dtype dtype,
                                   struct lf_kv_stripe stripe)
{
    struct append_fixture f;
    bool is_of_stripe[BLOCKS] = {false};
    fixture_init(&f, dev, dtype, whole->kv.head_dim, whole->rotary_dim, whole->norm);
    f.kv.stripe = stripe;
    for (int s = 0; s < N_SEQS; s++)
        for (int b = 0; b < 4; b++) {
            f.tables[s][b] = 4; /* a block that nobody has */
            int page = b * stripe.n + stripe.idx;
            if (page * LF_KV_BLOCK_TOKENS >= f.seqs[s].kv_len) continue;
            f.tables[s][b] = whole->tables[s][page];
            is_of_stripe[f.tables[s][b]] = true;
        }
    size_t bytes = lf_kv_block_bytes(&f.kv), d = (size_t)f.kv.head_dim;
    char *untouched = malloc(bytes);
    assert_non_null(untouched);
    memset(untouched, 0xff, bytes);
    run_append(&f, f.seqs, N_SEQS, 0);
    for (size_t i = 0; i < BLOCKS; i++)
        assert_memory_equal((char *)f.kv.base + i * bytes,
                            is_of_stripe[i] ? (char *)whole->kv.base + i * bytes : untouched, bytes);
    assert_memory_equal(f.q_out, whole->q_out, (size_t)f.n_rows * HEADS * d * sizeof(float));
    free(untouched);
    fixture_deinit(&f);
}

static void append_writes_the_tokens_of_its_stripe(void **state)
{
    (void)state;
    static const enum lf_dtype types[] = {LF_F32, LF_BF16, LF_E4M3};
    for (int isa = LF_ISA_C; isa <= LF_ISA_AVX512; isa++) {
        struct lf_device *dev = open_cpu(isa, 2);
        if (!dev) continue;
        for (size_t t = 0; t < LF_N_ELEMS(types); t++) {
            struct append_fixture whole;
            fixture_init(&whole, dev, types[t], 64, 64, NORM_ROW);
            run_append(&whole, whole.seqs, N_SEQS, 0);
            for (int n = 1; n <= 4; n++)
                for (int i = 0; i < n; i++)
                    expect_pages_of_stripe(dev, &whole, types[t], (struct lf_kv_stripe){.idx = i, .n = n});
            fixture_deinit(&whole);
        }
        lf_device_close(dev);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frequencies_equal_those_of_transformers),
        cmocka_unit_test(longrope_divides_by_the_factors_of_its_length),
        cmocka_unit_test(a_table_in_parts_has_the_bits_of_the_whole_in_the_memory_of_one),
        cmocka_unit_test(a_table_without_rotation_is_the_identity),
        cmocka_unit_test(table_holds_cosines_and_sines_rounded_once),
        cmocka_unit_test(append_rotates_norms_and_stores_every_row),
        cmocka_unit_test(append_gives_the_same_bits_row_by_row),
        cmocka_unit_test(append_to_fp8_quantizes_what_f32_would_hold_and_writes_nothing_else),
        cmocka_unit_test(append_writes_the_blocks_of_its_group),
        cmocka_unit_test(append_writes_the_tokens_of_its_stripe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
