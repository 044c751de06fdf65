/* Kernels of coded weights of one instruction set: the same bytes as the plain C kernels, and those against float64.
 *
 *     test_quant_gemm ISA */
#include "tests/parity/device/ops_fixture.h"

#include "core/check.h"
#include "core/quant.h"
#include "device/device_impl.h"

static struct lf_device *dev;

/* What codes a case has: any; those that overflow first (the largest magnitudes of weights and activations, of equal
 * signs, so that sums grow); zeros of both. */
enum fill { RANDOM, EXTREME_HIGH, EXTREME_LOW, EXTREME_MIXED, FILLS_N };

/* Scales of groups, of a row and of blocks; E4M3's stay floats and E2M1's are exponents, whatever the format has. */
#define FORMAT(type, code_, group_, zeros_, scales_)                                                                   \
    {                                                                                                                  \
        .dtype = (type), .code = (code_), .group = (group_), .group_rows = 1, .zeros = (zeros_), .scales = (scales_)   \
    }
static const struct lf_format formats[] = {
    FORMAT(LF_BF16, LF_CODE_I8, 32, false, LF_F32),
    FORMAT(LF_BF16, LF_CODE_I8, 32, false, LF_BF16),
    FORMAT(LF_BF16, LF_CODE_I8, 64, false, LF_F16),
    FORMAT(LF_BF16, LF_CODE_I8, 128, false, LF_BF16),
    FORMAT(LF_BF16, LF_CODE_I8, 0, false, LF_F32),
    FORMAT(LF_BF16, LF_CODE_I8, 96, false, LF_BF16),
    FORMAT(LF_BF16, LF_CODE_I4, 32, false, LF_BF16),
    FORMAT(LF_BF16, LF_CODE_I4, 32, false, LF_F32),
    FORMAT(LF_BF16, LF_CODE_I4, 64, true, LF_F16),
    FORMAT(LF_BF16, LF_CODE_I4, 128, false, LF_F16),
    FORMAT(LF_BF16, LF_CODE_I4, 128, true, LF_BF16),
    FORMAT(LF_BF16, LF_CODE_I4, 0, true, LF_F32),
    FORMAT(LF_BF16, LF_CODE_E2M1, 32, false, LF_F32),
    {.dtype = LF_BF16, .code = LF_CODE_E4M3, .group = 128, .group_rows = 128, .scales = LF_BF16},
    FORMAT(LF_BF16, LF_CODE_E4M3, 0, false, LF_F32),
    FORMAT(LF_F16, LF_CODE_I4, 256, true, LF_F16),
};

struct coded {
    const struct lf_format *f;
    struct lf_quant_order order;
    int n_out, n_in, n_panels;
    uint8_t *codes, *zeros;
    float *scales, *values;
    struct test_guarded packed; /* an unmapped page behind the last panel */
};

static uint8_t random_code(uint64_t *seed, enum lf_code code, enum fill fill)
{
    static const uint8_t high[] = {0, 0x7e, 0x7f, 15, 7}, low[] = {0, 0xfe, 0x80, 0, 15};
    if (fill == EXTREME_HIGH || (fill == EXTREME_MIXED && fixture_random(seed) % 2)) return high[code];
    if (fill != RANDOM) return low[code];
    uint8_t c = (uint8_t)(fixture_random(seed) & (code == LF_CODE_I4 || code == LF_CODE_E2M1 ? 15 : 255));
    return code == LF_CODE_E4M3 && (c & 0x7f) == 0x7f ? 0x7e : c; /* no NaN */
}

static struct coded make_coded(uint64_t *seed, const struct lf_format *f, int n_out, int n_in, enum fill fill)
{
    struct coded c = {.f = f, .order = lf_quant_order(f, n_in), .n_out = n_out, .n_in = n_in};
    size_t n = (size_t)n_out * (size_t)n_in, n_groups = (size_t)(n_out * lf_format_n_groups(f, n_in));
    c.codes = fixture_alloc(n);
    c.values = fixture_alloc(n * sizeof(float));
    c.scales = fixture_floats(seed, n_groups, 0.02f);
    c.zeros = fixture_alloc(n_groups);
    for (size_t i = 0; i < n; i++) c.codes[i] = random_code(seed, f->code, fill);
    for (size_t i = 0; i < n_groups; i++) {
        c.zeros[i] = (uint8_t)(fill == EXTREME_HIGH ? 0 : fill == EXTREME_LOW ? 16 : fixture_between(seed, 0, 16));
        if (f->code == LF_CODE_E2M1) c.scales[i] = ldexpf(1.0f, fixture_between(seed, -12, 3));
    }
    fixture_round_scales(f, c.scales, n_groups);
    if (f->code == LF_CODE_E2M1) c.scales[0] = 0x1p-127f, c.scales[n_groups - 1] = 0x1p100f;
    struct lf_quant_rows rows = {c.codes, c.scales, f->zeros ? c.zeros : NULL};
    lf_dequantize_rows(f, n_out, n_in, &rows, c.values);

    c.n_panels = (n_out + LF_PANEL_COLS - 1) / LF_PANEL_COLS;
    size_t panel_bytes = lf_quant_panel_bytes(&c.order), bytes = (size_t)c.n_panels * panel_bytes;
    void *zeros = calloc(1, bytes);
    assert_non_null(zeros);
    c.packed = test_guarded_copy(zeros, bytes);
    free(zeros);
    for (int p = c.n_panels - 1; p >= 0; p--) { /* in two pieces, the later one first */
        int first = p * LF_PANEL_COLS, n_cols = LF_MIN(LF_PANEL_COLS, n_out - first),
            cut = fixture_between(seed, 0, n_cols);
        char *panel = (char *)c.packed.ptr + (size_t)p * panel_bytes;
        lf_quant_pack_cols(&c.order, panel, cut, n_cols - cut, n_in, &rows, first + cut);
        lf_quant_pack_cols(&c.order, panel, 0, cut, n_in, &rows, first);
    }
    return c;
}

static void free_coded(struct coded *c)
{
    test_guarded_free(&c->packed);
    free(c->codes);
    free(c->values);
    free(c->scales);
    free(c->zeros);
}

static void a_packed_column_reads_back_exactly(void **state)
{
    (void)state;
    uint64_t seed = 71;
    static const int shapes[][2] = {{1, 1}, {3, 5}, {64, 128}, {65, 33}, {70, 131}, {20, 600}};
    for (size_t i = 0; i < LF_N_ELEMS(formats) * LF_N_ELEMS(shapes); i++) {
        const int *shape = shapes[i % LF_N_ELEMS(shapes)];
        struct coded c = make_coded(&seed, &formats[i / LF_N_ELEMS(shapes)], shape[0], shape[1], RANDOM);
        float *row = fixture_alloc((size_t)c.n_in * sizeof(float));
        for (int r = 0; r < c.n_out; r++) {
            const char *panel =
                (const char *)c.packed.ptr + (size_t)(r / LF_PANEL_COLS) * lf_quant_panel_bytes(&c.order);
            int first = fixture_between(&seed, 0, c.n_in - 1), n = fixture_between(&seed, 1, c.n_in - first);
            lf_quant_panel_col(&c.order, panel, r % LF_PANEL_COLS, first, n, row);
            assert_memory_equal(row, c.values + (size_t)r * (size_t)c.n_in + first, (size_t)n * sizeof(float));
        }
        free(row);
        free_coded(&c);
    }
}

/* ---- activations ---- */

struct quantized {
    struct test_guarded codes, groups;
};

static struct quantized quantize(lf_quant_x_fn *fn, const float *x, int n_rows, int n_in,
                                 const struct lf_quant_order *o)
{
    size_t n_codes = (size_t)n_rows * (size_t)lf_quant_n_in(o);
    size_t n_groups = (size_t)n_rows * (size_t)o->n_groups;
    void *garbage = malloc(n_codes + n_groups * sizeof(struct lf_x_group));
    assert_non_null(garbage);
    memset(garbage, 0x5a, n_codes + n_groups * sizeof(struct lf_x_group));
    struct quantized q = {test_guarded_copy(garbage, n_codes),
                          test_guarded_copy(garbage, n_groups * sizeof(struct lf_x_group))};
    free(garbage);
    for (int r = 0; r < n_rows; r++)
        fn((int8_t *)q.codes.ptr + (size_t)r * (size_t)lf_quant_n_in(o),
           (struct lf_x_group *)q.groups.ptr + (size_t)r * (size_t)o->n_groups, x + (size_t)r * (size_t)n_in, n_in,
           o->group, lf_quant_unit(o->code));
    return q;
}

static void free_quantized(struct quantized *q)
{
    test_guarded_free(&q->codes);
    test_guarded_free(&q->groups);
}

static void check_quantized(const float *x, int n_rows, int n_in, const struct lf_quant_order *o)
{
    struct quantized a = quantize(lf_quant_x_c, x, n_rows, n_in, o),
                     b = quantize(dev->quant.quant_x, x, n_rows, n_in, o);
    assert_memory_equal(a.codes.ptr, b.codes.ptr, (size_t)n_rows * (size_t)lf_quant_n_in(o));
    assert_memory_equal(a.groups.ptr, b.groups.ptr, (size_t)(n_rows * o->n_groups) * sizeof(struct lf_x_group));
    float unit = lf_quant_unit(o->code);
    for (int k = 0; k < n_rows * n_in; k++) {
        int r = k / n_in, i = k % n_in;
        const struct lf_x_group *g = (const struct lf_x_group *)a.groups.ptr + r * o->n_groups + i / o->group;
        int code = ((const int8_t *)a.codes.ptr)[r * lf_quant_n_in(o) + i];
        if (isnan(g->scale))
            assert_int_equal(code, 0);
        else /* off by half a step, and by the roundings of x / scale */
            assert_true(fabs((double)x[k] - (double)(g->scale / unit) * code) <=
                        (double)(g->scale / unit) * 0.50004 + 0x1p-100);
    }
    free_quantized(&a);
    free_quantized(&b);
}

static void activations_are_quantized_to_the_nearest(void **state)
{
    (void)state;
    uint64_t seed = 72;
    static const float odd[] = {0, -0.0f, 1e-45f, 1e-30f, 3e-31f, 1e38f, 3.4e38f, NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 400; i++) {
        struct lf_quant_order o = lf_quant_order(&formats[i % LF_N_ELEMS(formats)], 300);
        int n_in = fixture_between(&seed, 1, 300);
        o.n_groups = (n_in + o.group - 1) / o.group;
        float *x = fixture_floats(&seed, 2 * (size_t)n_in, ldexpf(1, fixture_between(&seed, -130, 120)));
        for (int j = 0; i % 2 && j < 3; j++)
            x[fixture_between(&seed, 0, 2 * n_in - 1)] = odd[fixture_random(&seed) % LF_N_ELEMS(odd)];
        check_quantized(x, 2, n_in, &o);
        free(x);
    }
}

/* ---- tiles ---- */

struct tile_case {
    int n_rows;
    enum fill fill;
    int split; /* groups that a first call takes, so that accumulators are loaded back */
};

static const void *x_of(const struct lf_gemm_kernel *kernel, const float *x, const struct quantized *q)
{
    return kernel->x == LF_X_INT8 ? q->codes.ptr : (const void *)x;
}

/* One panel, rows in as many tiles as the kernel wants. */
static void run_panel(const struct lf_gemm_kernel *kernel, const struct coded *c, int panel, const float *x,
                      const struct quantized *q, const struct tile_case *tc, float *acc)
{
    bool is_int8 = kernel->x == LF_X_INT8;
    size_t elem_bytes = is_int8 ? 1 : sizeof(float);
    int n_in = is_int8 ? lf_quant_n_in(&c->order) : c->n_in, first = LF_MIN(tc->split * c->order.group, n_in);
    for (int row = 0; row < tc->n_rows; row += kernel->max_rows) {
        const char *packed = (const char *)c->packed.ptr + (size_t)panel * lf_quant_panel_bytes(&c->order);
        struct lf_gemm_tile t = {.acc = acc + (size_t)row * LF_PANEL_COLS,
                                 .x = (const char *)x_of(kernel, x, q) + (size_t)row * (size_t)n_in * elem_bytes,
                                 .x_stride = (size_t)n_in,
                                 .panel = packed,
                                 .n_rows = LF_MIN(kernel->max_rows, tc->n_rows - row),
                                 .n_k = first,
                                 .order = &c->order,
                                 .x_groups =
                                     (const struct lf_x_group *)q->groups.ptr + (size_t)(row * c->order.n_groups),
                                 .x_groups_stride = (size_t)c->order.n_groups};
        if (first > 0) kernel->tile(&t);
        t.load = first > 0;
        t.x = (const char *)t.x + (size_t)first * elem_bytes;
        t.x_groups += tc->split;
        t.panel = packed + (size_t)(first / c->order.group) * c->order.group_bytes;
        t.n_k = n_in - first;
        if (t.n_k > 0) kernel->tile(&t);
    }
}

/* Of quantized activations, or of x as it is: the reference in float64 on the dequantized weights. */
static void check_against_float64(const struct coded *c, int panel, const float *x, const struct quantized *q, int r,
                                  const float *acc)
{
    for (int col = 0; col < LF_PANEL_COLS && panel * LF_PANEL_COLS + col < c->n_out; col++) {
        const float *w = c->values + (size_t)(panel * LF_PANEL_COLS + col) * (size_t)c->n_in;
        double sum = 0, magnitude = 0, rounding = 0;
        for (int k = 0; k < c->n_in; k++) {
            double xk = (double)x[(size_t)r * (size_t)c->n_in + (size_t)k];
            sum += xk * (double)w[k];
            magnitude += fabs(xk * (double)w[k]);
            if (c->f->code == LF_CODE_E4M3) continue;
            const struct lf_x_group *g =
                (const struct lf_x_group *)q->groups.ptr + r * c->order.n_groups + k / c->order.group;
            rounding += 0.51 * (double)(g->scale / lf_quant_unit(c->f->code)) * fabs((double)w[k]);
        }
        double allowed = rounding + ldexp((c->n_in + 8) * (magnitude + rounding), -23) + 1e-30;
        if (!(fabs((double)acc[col] - sum) <= allowed))
            fail_msg("%s n_in=%d: column %d is %g, expected %g within %g", lf_code_name(c->f->code), c->n_in, col,
                     (double)acc[col], sum, allowed);
    }
}

static float *make_x(uint64_t *seed, int n_rows, int n_in, enum fill fill)
{
    float *x = fixture_floats(seed, (size_t)n_rows * (size_t)n_in, 1.0f);
    for (int i = 0; fill != RANDOM && i < n_rows * n_in; i++) /* codes of 127, of either sign */
        x[i] = fill == EXTREME_MIXED ? (i % 3 ? 1.0f : -1.0f) : i / n_in % 2 ? 1.0f : -1.0f;
    return x;
}

static void check_tiles(uint64_t *seed, const struct lf_format *f, int n_out, int n_in, const struct tile_case *tc)
{
    struct coded c = make_coded(seed, f, n_out, n_in, tc->fill);
    float *x = make_x(seed, tc->n_rows, n_in, tc->fill);
    struct quantized q = quantize(dev->quant.quant_x, x, tc->n_rows, n_in, &c.order);
    size_t n = (size_t)tc->n_rows * LF_PANEL_COLS;
    float *expected = fixture_alloc(n * sizeof(float)), *got = fixture_alloc(n * sizeof(float));
    struct tile_case whole = *tc;
    whole.split = 0;
    for (int p = 0; p < c.n_panels; p++) {
        run_panel(lf_quant_c.gemm[f->code], &c, p, x, &q, &whole, expected);
        run_panel(dev->quant.gemm[f->code], &c, p, x, &q, tc, got);
        if (memcmp(got, expected, n * sizeof(float)) != 0) {
            size_t i = 0;
            while (memcmp(got + i, expected + i, sizeof(float)) == 0) i++;
            fail_msg("%s group %d, %d rows, n_in=%d, fill %d: row %zu column %zu is %a, in plain C %a",
                     lf_code_name(f->code), f->group, tc->n_rows, n_in, (int)tc->fill, i / LF_PANEL_COLS,
                     i % LF_PANEL_COLS, (double)got[i], (double)expected[i]);
        }
        for (int r = 0; r < tc->n_rows; r++)
            check_against_float64(&c, p, x, &q, r, expected + (size_t)r * LF_PANEL_COLS);
    }
    free(expected);
    free(got);
    free_quantized(&q);
    free(x);
    free_coded(&c);
}

static void tiles_have_the_bits_of_plain_c(void **state)
{
    (void)state;
    uint64_t seed = 73;
    static const int row_counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 25, 31, 32, 33, 70};
    static const int sizes[] = {1, 40, 128, 257, 640};
    for (size_t i = 0; i < LF_N_ELEMS(formats) * LF_N_ELEMS(row_counts); i++) {
        struct tile_case tc = {.n_rows = row_counts[i % LF_N_ELEMS(row_counts)], .split = (int)(i % 4)};
        check_tiles(&seed, &formats[i / LF_N_ELEMS(row_counts)], fixture_between(&seed, 1, 80),
                    sizes[i % LF_N_ELEMS(sizes)], &tc);
    }
}

/* Sums of 16 bits would saturate or wrap here first. */
static void the_largest_codes_do_not_overflow(void **state)
{
    (void)state;
    uint64_t seed = 74;
    for (size_t i = 0; i < LF_N_ELEMS(formats); i++) {
        for (int n_rows = 1; n_rows <= 37; n_rows += n_rows < 7 ? 1 : 10) {
            for (enum fill fill = EXTREME_HIGH; fill < FILLS_N; fill++)
                check_tiles(&seed, &formats[i], 64, 512, &(struct tile_case){.n_rows = n_rows, .fill = fill});
        }
    }
}

/* A token of NaN or infinities gives NaN, and changes nothing for the others. */
static void tokens_of_nan_stay_alone(void **state)
{
    (void)state;
    enum { T = 37, N_IN = 300 };
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    uint64_t seed = 75;
    for (size_t i = 0; i < LF_N_ELEMS(formats); i++) {
        struct coded c = make_coded(&seed, &formats[i], 64, N_IN, RANDOM);
        const struct lf_gemm_kernel *kernel = dev->quant.gemm[formats[i].code];
        float *x = fixture_floats(&seed, T * N_IN, 1.0f), *good = fixture_alloc(T * LF_PANEL_COLS * sizeof(float));
        float *mixed = fixture_alloc(T * LF_PANEL_COLS * sizeof(float));
        struct tile_case tc = {.n_rows = T};
        struct quantized q = quantize(dev->quant.quant_x, x, T, N_IN, &c.order);
        run_panel(kernel, &c, 0, x, &q, &tc, good);
        free_quantized(&q);
        for (int r = 0; r < T; r += 2) x[r * N_IN + fixture_between(&seed, 0, N_IN - 1)] = bad[r / 2 % 3];
        q = quantize(dev->quant.quant_x, x, T, N_IN, &c.order);
        run_panel(kernel, &c, 0, x, &q, &tc, mixed);
        for (int j = 0; j < T * LF_PANEL_COLS; j++) {
            if (j / LF_PANEL_COLS % 2 == 0)
                assert_false(isfinite(mixed[j]) && kernel->x == LF_X_INT8);
            else
                assert_memory_equal(mixed + j, good + j, sizeof(float));
            if (j / LF_PANEL_COLS % 2 == 0 && kernel->x == LF_X_INT8) assert_true(isnan(mixed[j]));
        }
        free_quantized(&q);
        free(mixed);
        free(good);
        free(x);
        free_coded(&c);
    }
}

/* A weight of NaN shows in its column, and there alone. */
static void weights_of_nan_are_not_taken_for_numbers(void **state)
{
    (void)state;
    static const struct lf_format f = {.dtype = LF_BF16, .code = LF_CODE_E4M3, .group = 128, .group_rows = 128};
    for (int bad = 0x7f; bad <= 0xff; bad += 0x80) {
        uint8_t codes[3 * 200];
        float scales[3 * 2] = {1, 1, 1, 1, 1, 1}, x[200], acc[LF_PANEL_COLS] __attribute__((aligned(64)));
        memset(codes, 0x38, sizeof codes);
        codes[200 + 150] = (uint8_t)bad;
        for (int k = 0; k < 200; k++) x[k] = 1;
        struct lf_quant_order o = lf_quant_order(&f, 200);
        char *panel = fixture_alloc(lf_quant_panel_bytes(&o));
        memset(panel, 0, lf_quant_panel_bytes(&o));
        lf_quant_pack_cols(&o, panel, 0, 3, 200, &(struct lf_quant_rows){codes, scales, NULL}, 0);
        struct lf_gemm_tile t = {
            .acc = acc, .x = x, .x_stride = 200, .panel = panel, .n_rows = 1, .n_k = 200, .order = &o};
        dev->quant.gemm[LF_CODE_E4M3]->tile(&t);
        assert_true(acc[0] == 200 && isnan(acc[1]) && acc[2] == 200);
        free(panel);
    }
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s c|avx2|avx512|avx512-bf16|amx\n", argv[0]);
        return 2;
    }
    dev = fixture_open(fixture_isa(argv[1]), 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_packed_column_reads_back_exactly),
        cmocka_unit_test(activations_are_quantized_to_the_nearest),
        cmocka_unit_test(tiles_have_the_bits_of_plain_c),
        cmocka_unit_test(the_largest_codes_do_not_overflow),
        cmocka_unit_test(tokens_of_nan_stay_alone),
        cmocka_unit_test(weights_of_nan_are_not_taken_for_numbers),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    lf_device_close(dev);
    return rc;
}
