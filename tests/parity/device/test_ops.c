/* Every row of the op table of one instruction set against float64.
 *
 *     test_ops ISA [--bench [THREADS]]
 *
 * Tolerances are bounds, not guesses: a sum of n float products in any order is off by at most n·2⁻²³ of the sum of
 * their magnitudes. Where the kernel rounds x to bf16 the reference does the same, so the bound stays. */
#include "tests/parity/device/weight_fixture.h"

#include "tests/parity/device/bench_ops.h"

static struct lf_device *dev;
static const struct lf_ops *ops;

static void a_packed_row_reads_back_exactly(void **state)
{
    (void)state;
    uint64_t seed = 1;
    static const int shapes[][2] = {{1, 1}, {3, 5}, {64, 64}, {65, 33}, {200, 31}, {130, 256}, {64, 1025}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (size_t d = 0; d < FIXTURE_FORMATS_N; d++) {
            int n_out = shapes[s][0], n_in = shapes[s][1];
            struct fixture_weight fw = fixture_weight(dev, &seed, fixture_formats[d], n_out, n_in);
            struct fixture_out row = fixture_out((size_t)n_in);
            for (int r = 0; r < n_out; r++) {
                ops->weight_row(dev, &fw.w, r, row.ptr);
                assert_memory_equal(row.ptr, fw.values + (size_t)r * (size_t)n_in, (size_t)n_in * sizeof(float));
            }
            fixture_out_check_and_free(&row);
            fixture_weight_free(&fw);
        }
    }
}

static void the_bytes_of_a_weight_are_whole_panels(void **state)
{
    (void)state;
    const struct lf_format f32 = {.dtype = LF_F32}, f16 = {.dtype = LF_F16}, bf16 = {.dtype = LF_BF16};
    assert_int_equal(ops->weight_bytes(&bf16, 64, 256), 64 * 256 * 2);
    assert_int_equal(ops->weight_bytes(&bf16, 65, 255), 128 * 256 * 2);
    assert_int_equal(ops->weight_bytes(&f16, 1, 255), 64 * 255 * 2);
    assert_int_equal(ops->weight_bytes(&f32, 129, 7), 192 * 7 * 4);
    assert_true(ops->weight_bytes(&f32, LF_VOCAB_N, LF_HIDDEN_N) == (uint64_t)LF_VOCAB_N * LF_HIDDEN_N * 4);
}

static void every_coded_format_has_kernels(void **state)
{
    (void)state;
    struct lf_format odd = {.dtype = LF_BF16, .code = LF_CODE_I4, .group = 48, .group_rows = 1};
    assert_false(ops->supports_format(dev, &odd, 64, 96, 0));
    for (int d = 3; d < FIXTURE_FORMATS_N; d++) {
        assert_true(ops->supports_format(dev, &fixture_formats[d], 64, 128, 0));
        assert_true(ops->supports_format(dev, &fixture_formats[d], 100, 33, 8));
    }
    /* scales and zero points lie with the codes; columns are filled up to whole groups */
    assert_int_equal(ops->weight_bytes(&fixture_formats[3], 64, 33), 64 * 64 * (1 + 4.0 / 32));
    assert_int_equal(ops->weight_bytes(&fixture_formats[5], 65, 128), 128 * 2 * (32 + 2 + 1));
    assert_int_equal(ops->weight_bytes(&fixture_formats[6], 64, 256), 64 * 2 * (64 + 4));
    assert_int_equal(ops->weight_bytes(&fixture_formats[7], 64, 2880), 64 * 90 * (16 + 1));
    assert_int_equal(ops->weight_bytes(&fixture_formats[9], 64, 256), 64 * 256 * 4.5 / 8);
}

static void every_plain_format_has_kernels(void **state)
{
    (void)state;
    for (int d = 0; d < 3; d++) {
        struct lf_format format = lf_format_plain(fixture_dtypes[d]);
        assert_true(ops->supports_format(dev, &format, 1, 1, 0));
        assert_true(ops->supports_format(dev, &format, 100, 33, 8));
    }
}

struct gemm_case {
    struct lf_format format;
    int n_tokens, n_in, n_out;
    bool bias, residual, in_place; /* in_place: the residual is y itself */
    int x_gap, y_gap;              /* elements between rows */
    float alpha;
};

static void check_gemm_row(const struct gemm_case *c, const float *y, const float *x, const float *values,
                           const float *bias, const float *residual)
{
    double *read = fixture_alloc((size_t)c->n_in * sizeof *read);
    fixture_x_as_read(lf_device_info(dev)->isa, &c->format, x, c->n_in, read);
    for (int n = 0; n < c->n_out; n++) {
        double sum = 0.0, magnitude = 0.0;
        for (int k = 0; k < c->n_in; k++) {
            double product = read[k] * (double)values[(size_t)n * (size_t)c->n_in + (size_t)k];
            sum += product;
            magnitude += fabs(product);
        }
        if (bias != NULL) sum += (double)bias[n], magnitude += fabs((double)bias[n]);
        sum *= (double)c->alpha, magnitude *= fabs((double)c->alpha);
        if (residual != NULL) sum += (double)residual[n], magnitude += fabs((double)residual[n]);
        double allowed = ldexp((c->n_in + 3) * magnitude, -23) + 1e-30;
        if (!(fabs((double)y[n] - sum) <= allowed))
            fail_msg("%s T=%d n_in=%d n_out=%d: column %d is %g, expected %g within %g", lf_code_name(c->format.code),
                     c->n_tokens, c->n_in, c->n_out, n, (double)y[n], sum, allowed);
    }
    free(read);
}

static void run_gemm_case(const struct gemm_case *c, uint64_t *seed)
{
    struct fixture_weight fw = fixture_weight(dev, seed, c->format, c->n_out, c->n_in);
    size_t x_stride = (size_t)(c->n_in + c->x_gap), y_stride = (size_t)(c->n_out + c->y_gap);
    size_t n_x = (size_t)(c->n_tokens - 1) * x_stride + (size_t)c->n_in;
    size_t n_y = (size_t)(c->n_tokens - 1) * y_stride + (size_t)c->n_out;
    float *x_values = fixture_floats(seed, n_x, 1.0f);
    struct test_guarded x = test_guarded_copy(x_values, n_x * sizeof(float));
    float *bias = fixture_floats(seed, (size_t)c->n_out, 1.0f);
    float *residual = fixture_floats(seed, n_y, 3.0f);
    struct fixture_out y = fixture_out(n_y);
    if (c->in_place) /* the gaps keep their canaries */
        for (int r = 0; r < c->n_tokens; r++)
            memcpy(y.ptr + (size_t)r * y_stride, residual + (size_t)r * y_stride, (size_t)c->n_out * sizeof(float));
    void *scratch = fixture_alloc(ops->gemm_scratch_bytes(c->n_tokens, c->n_in));

    struct lf_gemm_params p = {.alpha = c->alpha,
                               .y = y.ptr,
                               .x = x.ptr,
                               .w = &fw.w,
                               .bias = c->bias ? bias : NULL,
                               .residual = c->in_place   ? y.ptr
                                           : c->residual ? residual
                                                         : NULL,
                               .n_tokens = c->n_tokens,
                               .x_stride = (int)x_stride,
                               .y_stride = (int)y_stride,
                               .scratch = scratch};
    ops->gemm(dev, &p);
    for (int r = 0; r < c->n_tokens; r++) {
        const float *added = c->residual || c->in_place ? residual + (size_t)r * y_stride : NULL;
        check_gemm_row(c, y.ptr + (size_t)r * y_stride, x_values + (size_t)r * x_stride, fw.values, p.bias, added);
        for (int i = 0; i < c->y_gap && r + 1 < c->n_tokens; i++)
            fixture_check_canary(y.ptr + (size_t)r * y_stride + c->n_out + i);
    }
    free(scratch);
    fixture_out_check_and_free(&y);
    free(residual);
    free(bias);
    test_guarded_free(&x);
    free(x_values);
    fixture_weight_free(&fw);
}

static void gemm_is_right_for_named_shapes(void **state)
{
    (void)state;
    uint64_t seed = 2;
    /* T, n_in, n_out: tile, panel, pair and K block edges */
    static const int shapes[][3] = {
        {1, 1, 1},      {1, 2, 64},    {2, 3, 65},    {3, 31, 63},   {4, 32, 128},   {5, 33, 100},   {6, 256, 256},
        {7, 64, 64},    {12, 511, 70}, {13, 512, 64}, {16, 96, 64},  {17, 513, 129}, {32, 1024, 64}, {33, 1031, 96},
        {64, 256, 192}, {95, 40, 64},  {96, 600, 65}, {97, 77, 200}, {193, 530, 66}, {1, 4096, 96},  {300, 8, 8},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (size_t d = 0; d < FIXTURE_FORMATS_N; d++) {
            struct gemm_case c = {.format = fixture_formats[d],
                                  .n_tokens = shapes[s][0],
                                  .n_in = shapes[s][1],
                                  .n_out = shapes[s][2],
                                  .bias = s % 2 == 0,
                                  .residual = s % 3 == 0,
                                  .in_place = s % 3 == 1,
                                  .y_gap = s % 4 == 0 ? 3 : 0,
                                  .alpha = s % 2 == 0 ? 1.0f : -0.22f};
            run_gemm_case(&c, &seed);
        }
    }
}

static void gemm_is_right_for_random_shapes(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (int i = 0; i < 270; i++) {
        struct gemm_case c = {.format = fixture_formats[i % FIXTURE_FORMATS_N],
                              .n_tokens = fixture_between(&seed, 1, 70),
                              .n_in = fixture_between(&seed, 1, 300),
                              .n_out = fixture_between(&seed, 1, 200),
                              .bias = fixture_random(&seed) % 2 == 0,
                              .residual = fixture_random(&seed) % 2 == 0,
                              .in_place = fixture_random(&seed) % 2 == 0,
                              .x_gap = fixture_between(&seed, 0, 5),
                              .y_gap = fixture_between(&seed, 0, 5),
                              .alpha = i % 4 < 2 ? 1.0f : 0.37f};
        run_gemm_case(&c, &seed);
    }
}

static void embed_copies_rows_of_the_table(void **state)
{
    (void)state;
    uint64_t seed = 4;
    static const int dims[] = {1, 8, 63, 256, 301};
    for (size_t s = 0; s < sizeof dims / sizeof *dims; s++) {
        for (size_t d = 0; d < 3; d++) {
            enum { VOCAB = 150, T = 77 };
            size_t dim = (size_t)dims[s];
            struct fixture_weight fw = fixture_weight(dev, &seed, lf_format_plain(fixture_dtypes[d]), VOCAB, dims[s]);
            struct fixture_out out = fixture_out(T * dim);
            int32_t ids[T];
            for (int t = 0; t < T; t++) ids[t] = fixture_between(&seed, 0, VOCAB - 1);
            ids[3] = VOCAB - 1;
            struct lf_embed_params p = {.scale = 1, .out = out.ptr, .table = &fw.w, .ids = ids, .n_tokens = T};
            ops->embed(dev, &p);
            for (size_t t = 0; t < T; t++)
                assert_memory_equal(out.ptr + t * dim, fw.values + (size_t)ids[t] * dim, dim * sizeof(float));
            fixture_out_check_and_free(&out);
            fixture_weight_free(&fw);
        }
    }
}

static void embed_scales_rows(void **state)
{
    (void)state;
    enum { VOCAB = 20, DIM = 75 };
    uint64_t seed = 8;
    struct fixture_weight fw = fixture_weight(dev, &seed, lf_format_plain(LF_F32), VOCAB, DIM);
    struct fixture_out out = fixture_out(2 * DIM);
    int32_t ids[2] = {VOCAB - 1, 3};
    struct lf_embed_params p = {.out = out.ptr, .table = &fw.w, .ids = ids, .n_tokens = 2, .scale = 11.3137f};
    ops->embed(dev, &p);
    for (int i = 0; i < 2 * DIM; i++)
        assert_true(out.ptr[i] == 11.3137f * fw.values[(size_t)ids[i / DIM] * DIM + (size_t)(i % DIM)]);
    fixture_out_check_and_free(&out);
    fixture_weight_free(&fw);
}

/* Some columns of some rows: from an odd one on, up to the last, one alone; rows of ids that are given by others. */
static void embed_copies_columns_of_rows_that_are_picked(void **state)
{
    (void)state;
    enum { VOCAB = 90, DIM = 77, T = 40, IDS = 60 };
    static const int parts[][2] = {{0, 16}, {1, 16}, {16, 1}, {33, 1}, {33, 44}, {76, 1}, {20, 57}, {0, DIM}};
    uint64_t seed = 41;
    for (size_t d = 0; d < 3; d++) {
        struct fixture_weight fw = fixture_weight(dev, &seed, lf_format_plain(fixture_dtypes[d]), VOCAB, DIM);
        int32_t ids[IDS], rows[T];
        for (int i = 0; i < IDS; i++) ids[i] = fixture_between(&seed, 0, VOCAB - 1);
        for (int t = 0; t < T; t++) rows[t] = fixture_between(&seed, 0, IDS - 1);
        for (size_t s = 0; s < sizeof parts / sizeof *parts * 2; s++) {
            int column = parts[s / 2][0], n = parts[s / 2][1];
            struct fixture_out out = fixture_out((size_t)T * (size_t)n);
            struct lf_embed_params p = {.scale = s % 3 ? 1.0f : 4.5f,
                                        .out = out.ptr,
                                        .table = &fw.w,
                                        .ids = ids,
                                        .n_tokens = T,
                                        .column = column,
                                        .n_columns = n,
                                        .rows = s % 2 ? rows : NULL};
            ops->embed(dev, &p);
            for (int t = 0; t < T; t++)
                for (int i = 0; i < n; i++)
                    assert_true(out.ptr[t * n + i] ==
                                p.scale * fw.values[ids[p.rows ? rows[t] : t] * DIM + column + i]);
            fixture_out_check_and_free(&out);
        }
        fixture_weight_free(&fw);
    }
}

/* Parts of a table, of different sizes, one behind the other: each id has its row in one of them, and zeros of the
 * others. */
static void embed_makes_zeros_of_rows_that_a_part_has_not(void **state)
{
    (void)state;
    enum { PARTS = 3, DIM = 77, T = 60 };
    static const int sizes[PARTS] = {65, 1, 34};
    uint64_t seed = 43;
    int32_t ids[T];
    for (int t = 0; t < T; t++) ids[t] = fixture_between(&seed, 0, 99);
    ids[0] = 64, ids[1] = 65, ids[2] = 66, ids[3] = 99;
    for (int k = 0, first = 0; k < PARTS; first += sizes[k++]) {
        struct fixture_weight fw = fixture_weight(dev, &seed, lf_format_plain(fixture_dtypes[k]), sizes[k], DIM);
        struct fixture_out out = fixture_out((size_t)T * DIM);
        struct lf_embed_params p = {.scale = 2.5f,
                                    .out = out.ptr,
                                    .table = &fw.w,
                                    .ids = ids,
                                    .n_tokens = T,
                                    .is_part = true,
                                    .first_id = first};
        ops->embed(dev, &p);
        for (int t = 0; t < T; t++)
            for (int i = 0; i < DIM; i++) {
                bool has = ids[t] >= first && ids[t] < first + sizes[k];
                float expected = has ? 2.5f * fw.values[(ids[t] - first) * DIM + i] : 0;
                assert_true(out.ptr[t * DIM + i] == expected);
            }
        fixture_out_check_and_free(&out);
        fixture_weight_free(&fw);
    }
}

/* in_place: out is the residual, or x where there is none */
struct norm_case {
    int n_tokens, dim;
    float eps;
    bool weight, residual, in_place;
    float times; /* 0: the sum is not scaled */
};

static void check_norm_row(const struct norm_case *c, const float *got, const float *x, const float *weight,
                           const float *residual)
{
    double sum = 0.0;
    for (int i = 0; i < c->dim; i++) sum += (double)x[i] * (double)x[i];
    double scale = 1.0 / sqrt(sum / c->dim + (double)c->eps);
    for (int i = 0; i < c->dim; i++) {
        double normed = (double)x[i] * scale * (c->weight ? (double)weight[i] : 1.0);
        double expected = normed + (c->residual ? (double)residual[i] : 0.0),
               times = c->times != 0 ? (double)c->times : 1;
        /* the sum's error, halved by the root, and five roundings, a sixth where it is scaled */
        double allowed =
            fabs(normed) * ldexp(c->dim / 2.0 + 4.0, -23) + fabs(expected) * ldexp(c->times != 0 ? 2.0 : 1.0, -23);
        expected *= times;
        allowed *= fabs(times);
        double off = fabs((double)got[i] - expected);
        if (!(off <= allowed))
            fail_msg("rmsnorm T=%d dim=%d: off by %g, %g allowed", c->n_tokens, c->dim, off, allowed);
    }
}

static void run_rmsnorm_case(const struct norm_case *c, uint64_t *seed)
{
    size_t dim = (size_t)c->dim, n = (size_t)c->n_tokens * dim;
    float *x_values = fixture_floats(seed, n, 2.0f), *weight = fixture_floats(seed, dim, 1.0f);
    float *added = fixture_floats(seed, n, 3.0f);
    struct test_guarded x = test_guarded_copy(x_values, n * sizeof(float));
    struct test_guarded residual = test_guarded_copy(added, n * sizeof(float));
    struct test_guarded w = test_guarded_copy(weight, dim * sizeof(float));
    struct fixture_out out = fixture_out(n);
    struct lf_rmsnorm_params p = {.out = !c->in_place  ? (void *)out.ptr
                                         : c->residual ? (void *)residual.ptr
                                                       : (void *)x.ptr,
                                  .x = (const float *)(const void *)x.ptr,
                                  .weight = c->weight ? (const float *)(const void *)w.ptr : NULL,
                                  .residual = c->residual ? (const float *)(const void *)residual.ptr : NULL,
                                  .out_float = c->residual,
                                  .scale = c->times != 0 ? &c->times : NULL,
                                  .eps = c->eps,
                                  .n_tokens = c->n_tokens,
                                  .dim = c->dim};
    ops->rmsnorm(dev, &p);
    for (size_t at = 0; at < n; at += dim)
        check_norm_row(c, (const float *)p.out + at, x_values + at, weight, added + at);
    fixture_out_check_and_free(&out);
    test_guarded_free(&w);
    test_guarded_free(&residual);
    test_guarded_free(&x);
    free(added);
    free(weight);
    free(x_values);
}

static void rmsnorm_is_right(void **state)
{
    (void)state;
    uint64_t seed = 5;
    static const int dims[] = {1, 7, 8, 15, 16, 33, 64, 100, 128, 256, 511, 896, 4096};
    for (int i = 0; i < (int)(sizeof dims / sizeof *dims) * 8; i++) {
        struct norm_case c = {.dim = dims[i / 8], .weight = i % 8 != 7, .residual = i % 8 / 2 % 2 == 1};
        c.n_tokens = i % 2 ? 50 : 1;
        c.eps = i % 2 ? 1e-6f : 1e-5f;
        c.in_place = i % 8 >= 4;
        c.times = c.residual && i % 3 == 0 ? -0.7f : 0;
        run_rmsnorm_case(&c, &seed);
    }
    /* a row of zeros is divided by the root of eps alone */
    float zero[20] = {0}, weight[20] = {0}, out[20];
    struct lf_rmsnorm_params p = {.out = out, .x = zero, .weight = weight, .eps = 1e-5f, .n_tokens = 1, .dim = 20};
    ops->rmsnorm(dev, &p);
    for (int i = 0; i < 20; i++) assert_true(out[i] == 0.0f);
}

#define OAI_LIMIT 7.0f

/* What a gate lets through, *steep being what its exponential is taken of: an error of the argument is a relative one
 * of the result. */
static double gated(enum lf_act act, double g, double up, double *steep)
{
    double u = sqrt(2.0 / acos(-1.0)) * (g + 0.044715 * g * g * g);
    *steep = act == LF_ACT_GELU_TANH ? 2 * u : act == LF_ACT_GELU ? g * g : act == LF_ACT_SILU ? g : 1.702 * g;
    if (act == LF_ACT_SILU) return g / (1.0 + exp(-g)) * up;
    if (act == LF_ACT_GELU) return 0.5 * g * erfc(-g / sqrt(2.0)) * up;
    if (act == LF_ACT_GELU_TANH) /* 1 + tanh(u) cancels below zero */
        return g / (1.0 + exp(-2 * u)) * up;
    g = fmin(g, (double)OAI_LIMIT);
    return g / (1.0 + exp(-1.702 * g)) * (fmin(fmax(up, -(double)OAI_LIMIT), (double)OAI_LIMIT) + 1.0);
}

static void check_gate(enum lf_act act, float got, float gate, float up)
{
    double steep, expected = gated(act, (double)gate, (double)up, &steep);
    /* ten roundings of exp, sum, quotient and product, those of the argument (SiLU has none); from -88.8 down e^-gate
     * is infinite and the result zero */
    double roundings = 10.0 + (act == LF_ACT_SILU ? 0.0 : 4.0 * fmin(fabs(steep), 100.0));
    double allowed = fabs(expected) * ldexp(roundings, -24) + 3e-37 * fabs((double)up) + 1e-37;
    if (!(fabs((double)got - expected) <= allowed))
        fail_msg("act %d of (%g, %g) is %.9g, expected %.9g", (int)act, (double)gate, (double)up, (double)got,
                 expected);
}

static void run_gate_case(enum lf_act act, size_t t, size_t dim, uint64_t *seed)
{
    float *values = fixture_floats(seed, t * 2 * dim, 4.0f);
    struct test_guarded x = test_guarded_copy(values, t * 2 * dim * sizeof(float));
    struct fixture_out out = fixture_out(t * dim);
    struct lf_gate_mul_params p = {
        .out = out.ptr, .gate_up = x.ptr, .n_tokens = (int)t, .dim = (int)dim, .act = act, .limit = OAI_LIMIT};
    ops->gate_mul(dev, &p);
    for (size_t r = 0; r < t; r++)
        for (size_t i = 0; i < dim; i++)
            check_gate(act, out.ptr[r * dim + i], values[r * 2 * dim + i], values[(r * 2 + 1) * dim + i]);
    fixture_out_check_and_free(&out);
    test_guarded_free(&x);
    free(values);
}

static void gate_mul_is_right(void **state)
{
    (void)state;
    uint64_t seed = 6;
    static const int dims[] = {1, 7, 8, 16, 17, 48, 100, 768, 4864};
    for (int act = 0; act < LF_ACTS_N; act++)
        for (size_t s = 0; s < sizeof dims / sizeof *dims; s++)
            for (size_t t = 1; t < 80; t += 26) run_gate_case((enum lf_act)act, t, (size_t)dims[s], &seed);
}

/* The bits of the same numbers in one value. */
static void gate_mul_by_a_value_of_its_own_is_the_same(void **state)
{
    (void)state;
    uint64_t seed = 42;
    static const size_t dims[] = {1, 7, 16, 100, 256};
    for (size_t s = 0; s < sizeof dims / sizeof *dims * LF_ACTS_N; s++) {
        size_t dim = dims[s / LF_ACTS_N], t = 1 + s;
        float *both = fixture_floats(&seed, t * 2 * dim, 4.0f), *halves = fixture_alloc(t * 2 * dim * sizeof(float));
        for (size_t r = 0; r < t; r++)
            for (size_t i = 0; i < 2 * dim; i++)
                halves[(i < dim ? 0 : t * dim) + r * dim + i % dim] = both[r * 2 * dim + i];
        struct test_guarded gate = test_guarded_copy(halves, t * dim * sizeof(float));
        struct test_guarded up = test_guarded_copy(halves + t * dim, t * dim * sizeof(float));
        struct fixture_out out = fixture_out(t * dim), apart = fixture_out(t * dim);
        struct lf_gate_mul_params p = {.out = out.ptr,
                                       .gate_up = both,
                                       .n_tokens = (int)t,
                                       .dim = (int)dim,
                                       .act = (enum lf_act)(s % LF_ACTS_N),
                                       .limit = OAI_LIMIT};
        ops->gate_mul(dev, &p);
        p.out = apart.ptr;
        p.gate_up = gate.ptr;
        p.up = (const float *)(const void *)up.ptr;
        ops->gate_mul(dev, &p);
        assert_memory_equal(out.ptr, apart.ptr, t * dim * sizeof(float));
        fixture_out_check_and_free(&apart);
        fixture_out_check_and_free(&out);
        test_guarded_free(&up);
        test_guarded_free(&gate);
        free(halves);
        free(both);
    }
}

static void gate_mul_holds_over_the_whole_range(void **state)
{
    (void)state;
    enum { N = 40001 };
    float *gate_up = fixture_alloc(2 * N * sizeof(float)), *out = fixture_alloc(N * sizeof(float));
    for (int act = 0; act < LF_ACTS_N; act++) {
        for (int i = 0; i < N; i++) {
            gate_up[i] = (float)(i - N / 2) * 0.01f; /* -200 .. 200 */
            gate_up[N + i] = 1.5f - (float)(i % 40);
        }
        struct lf_gate_mul_params p = {
            .out = out, .gate_up = gate_up, .n_tokens = 1, .dim = N, .act = (enum lf_act)act, .limit = OAI_LIMIT};
        ops->gate_mul(dev, &p);
        for (int i = 0; i < N; i++) check_gate((enum lf_act)act, out[i], gate_up[i], gate_up[N + i]);

        float special[8] = {NAN, INFINITY, 0.0f, -0.0f, 1.0f, 2.0f, 1.0f, 1.0f}, got[4];
        struct lf_gate_mul_params q = {
            .out = got, .gate_up = special, .n_tokens = 1, .dim = 4, .act = (enum lf_act)act, .limit = OAI_LIMIT};
        ops->gate_mul(dev, &q);
        assert_true(isnan(got[0]) && got[1] > 0.0f);
        assert_true(isinf(got[1]) || act == LF_ACT_SWIGLU_OAI); /* whose gate has a limit */
        assert_true(got[2] == 0.0f && got[3] == 0.0f);
    }
    float of_nan[2] = {1.0f, NAN}, nothing; /* of up, too */
    struct lf_gate_mul_params p = {
        .out = &nothing, .gate_up = of_nan, .n_tokens = 1, .dim = 1, .act = LF_ACT_SWIGLU_OAI, .limit = OAI_LIMIT};
    ops->gate_mul(dev, &p);
    assert_true(isnan(nothing));
    free(out);
    free(gate_up);
}

static void softcap_is_right(void **state)
{
    (void)state;
    uint64_t seed = 9;
    static const int sizes[] = {1, 7, 8, 31, 100, 8192, 8193, 30001};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t n = (size_t)sizes[s];
        float *values = fixture_floats(&seed, n, s % 2 ? 60.0f : 0.01f);
        if (n > 8) values[3] = 1e30f, values[4] = -INFINITY, values[5] = 0.0f, values[6] = NAN;
        struct fixture_out x = fixture_out(n);
        memcpy(x.ptr, values, n * sizeof(float));
        ops->softcap(dev, &(struct lf_softcap_params){.x = x.ptr, .n = (int64_t)n, .cap = 30.0f});
        for (size_t i = 0; i < n; i++) {
            double expected = 30.0 * tanh((double)values[i] / 30.0);
            if (isnan(values[i]) ? !isnan(x.ptr[i])
                                 : !(fabs((double)x.ptr[i] - expected) <= fabs(expected) * ldexp(12.0, -24)))
                fail_msg("softcap(%g) is %.9g, expected %.9g", (double)values[i], (double)x.ptr[i], expected);
        }
        fixture_out_check_and_free(&x);
        free(values);
    }
}

static void round_copies_floats(void **state)
{
    (void)state;
    uint64_t seed = 10;
    static const int sizes[] = {1, 100, 8192, 8193, 50000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t n = (size_t)sizes[s];
        float *x = fixture_floats(&seed, n, 1.0f);
        struct fixture_out out = fixture_out(n);
        ops->round(dev, &(struct lf_round_params){.out = out.ptr, .x = x, .n = (int64_t)n});
        assert_memory_equal(out.ptr, x, n * sizeof(float));
        fixture_out_check_and_free(&out);
        free(x);
    }
}

static void gather_copies_rows(void **state)
{
    (void)state;
    uint64_t seed = 7;
    enum { T = 40 };
    static const int dims[] = {1, 17, 256};
    for (size_t s = 0; s < sizeof dims / sizeof *dims; s++) {
        size_t dim = (size_t)dims[s];
        float *x = fixture_floats(&seed, T * dim, 1.0f);
        int32_t rows[2 * T];
        for (int i = 0; i < 2 * T; i++) rows[i] = fixture_between(&seed, 0, T - 1);
        struct fixture_out out = fixture_out(2 * T * dim);
        struct lf_gather_params p = {.out = out.ptr, .x = x, .rows = rows, .n_rows = 2 * T, .dim = dims[s]};
        ops->gather(dev, &p);
        for (size_t i = 0; i < 2 * T; i++)
            assert_memory_equal(out.ptr + i * dim, x + (size_t)rows[i] * dim, dim * sizeof(float));
        fixture_out_check_and_free(&out);
        free(x);
    }
}

static void no_rows_is_no_work(void **state)
{
    (void)state;
    struct lf_weight w = {.format.dtype = LF_F32, .n_out = 1, .n_in = 1};
    ops->gemm(dev, &(struct lf_gemm_params){.alpha = 1, .w = &w, .x_stride = 1, .y_stride = 1});
    ops->embed(dev, &(struct lf_embed_params){.scale = 1, .table = &w});
    ops->rmsnorm(dev, &(struct lf_rmsnorm_params){.dim = 1});
    ops->gate_mul(dev, &(struct lf_gate_mul_params){.dim = 1});
    ops->gather(dev, &(struct lf_gather_params){.dim = 1});
    ops->softcap(dev, &(struct lf_softcap_params){.cap = 1});
    float out;
    ops->round(dev, &(struct lf_round_params){.out = &out});
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s c|avx2|avx512|avx512-bf16|amx [--bench [THREADS]]\n", argv[0]);
        return 2;
    }
    int n_threads = argc > 3 ? (int)strtol(argv[3], NULL, 10) : argc > 2 ? 0 : 2;
    dev = fixture_open(fixture_isa(argv[1]), n_threads);
    ops = lf_device_ops(dev);
    int rc = 0;
    if (argc > 2 && strcmp(argv[2], "--bench") == 0) {
        bench_ops(dev);
    } else {
        const struct CMUnitTest tests[] = {
            cmocka_unit_test(a_packed_row_reads_back_exactly),
            cmocka_unit_test(the_bytes_of_a_weight_are_whole_panels),
            cmocka_unit_test(every_plain_format_has_kernels),
            cmocka_unit_test(every_coded_format_has_kernels),
            cmocka_unit_test(gemm_is_right_for_named_shapes),
            cmocka_unit_test(gemm_is_right_for_random_shapes),
            cmocka_unit_test(embed_copies_rows_of_the_table),
            cmocka_unit_test(embed_scales_rows),
            cmocka_unit_test(embed_copies_columns_of_rows_that_are_picked),
            cmocka_unit_test(embed_makes_zeros_of_rows_that_a_part_has_not),
            cmocka_unit_test(rmsnorm_is_right),
            cmocka_unit_test(gate_mul_is_right),
            cmocka_unit_test(gate_mul_by_a_value_of_its_own_is_the_same),
            cmocka_unit_test(gate_mul_holds_over_the_whole_range),
            cmocka_unit_test(softcap_is_right),
            cmocka_unit_test(round_copies_floats),
            cmocka_unit_test(gather_copies_rows),
            cmocka_unit_test(no_rows_is_no_work),
        };
        rc = cmocka_run_group_tests(tests, NULL, NULL);
    }
    lf_device_close(dev);
    return rc;
}
