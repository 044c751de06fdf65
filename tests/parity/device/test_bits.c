/* A row's bits belong to the row: alone, in a batch of any size, at any place in it, beside rows of NaN, with any
 * number of threads. Compared as bytes, for every op and one instruction set.
 *
 *     test_bits ISA */
#include "tests/parity/device/weight_fixture.h"

#include "core/check.h"

enum { T = 70, T_LONG = 270 }; /* 270 rows are three row blocks of a GEMM, two with AMX */

static struct lf_device *devs[3]; /* 1, 2 and 3 threads */
static int step = 1;              /* between batch sizes; plain C is slow and has one kernel only */

struct shape {
    struct lf_format format;
    int n_in, n_out;
};

struct gemm_data {
    struct shape shape;
    struct fixture_weight fw;
    float *x, *bias, *residual, *expected, *y;
    void *scratch;
    int n_tokens;
};

static void multiply(struct lf_device *dev, struct gemm_data *d, float *y, int first, int n_tokens)
{
    struct lf_gemm_params p = {.alpha = 0.7f,
                               .y = y,
                               .x = d->x + (size_t)first * (size_t)d->shape.n_in,
                               .w = &d->fw.w,
                               .bias = d->bias,
                               .residual = d->residual + (size_t)first * (size_t)d->shape.n_out,
                               .n_tokens = n_tokens,
                               .x_stride = d->shape.n_in,
                               .y_stride = d->shape.n_out,
                               .scratch = d->scratch};
    lf_device_ops(dev)->gemm(dev, &p);
}

/* expected: every row alone, on one thread */
static struct gemm_data make_gemm(struct shape shape, int n_tokens, uint64_t *seed)
{
    struct gemm_data d = {.shape = shape, .n_tokens = n_tokens};
    size_t t = (size_t)n_tokens, n_in = (size_t)shape.n_in, n_out = (size_t)shape.n_out;
    d.fw = fixture_weight(devs[0], seed, shape.format, shape.n_out, shape.n_in);
    d.x = fixture_floats(seed, t * n_in, 1.0f);
    d.bias = fixture_floats(seed, n_out, 1.0f);
    d.residual = fixture_floats(seed, t * n_out, 1.0f);
    d.expected = fixture_alloc(t * n_out * sizeof(float));
    d.y = fixture_alloc(t * n_out * sizeof(float));
    d.scratch = fixture_alloc(lf_device_ops(devs[0])->gemm_scratch_bytes(n_tokens, shape.n_in));
    for (int r = 0; r < n_tokens; r++) multiply(devs[0], &d, d.expected + (size_t)r * n_out, r, 1);
    return d;
}

static void free_gemm(struct gemm_data *d)
{
    fixture_weight_free(&d->fw);
    free(d->x);
    free(d->bias);
    free(d->residual);
    free(d->expected);
    free(d->y);
    free(d->scratch);
}

static const char *format_name(const struct lf_format *format)
{
    static char name[LF_FORMAT_NAME_BYTES];
    lf_format_name(name, format);
    return name;
}

static void check_batch(struct lf_device *dev, struct gemm_data *d, int first, int n_tokens)
{
    size_t n_out = (size_t)d->shape.n_out;
    multiply(dev, d, d->y, first, n_tokens);
    if (memcmp(d->y, d->expected + (size_t)first * n_out, (size_t)n_tokens * n_out * sizeof(float)) != 0)
        fail_msg("%s n_in=%d n_out=%d: rows %d.. in a batch of %d differ from the rows alone (%d threads)",
                 format_name(&d->shape.format), d->shape.n_in, d->shape.n_out, first, n_tokens,
                 lf_device_info(dev)->n_threads);
}

static void gemm_rows_are_the_same_in_every_batch(void **state)
{
    (void)state;
    uint64_t seed = 21;
    static const int sizes[][2] = {{256, 96}, {77, 130}, {1100, 64}, {33, 1500}};
    for (size_t s = 0; s < LF_N_ELEMS(sizes); s++) {
        for (size_t i = 0; i < FIXTURE_FORMATS_N; i++) {
            struct gemm_data d = make_gemm((struct shape){fixture_formats[i], sizes[s][0], sizes[s][1]}, T, &seed);
            for (int n = 1; n <= T; n += step) {
                check_batch(devs[n % 3], &d, 0, n);
                check_batch(devs[(n + 1) % 3], &d, T - n, n);
            }
            free_gemm(&d);
        }
    }
}

static void gemm_rows_are_the_same_in_long_batches(void **state)
{
    (void)state;
    uint64_t seed = 22;
    static const int sizes[][2] = {{1300, 200}, {550, 840}}; /* 14 panels: work tiles of several */
    for (size_t i = 0; i < 2 * FIXTURE_FORMATS_N; i++) {
        const int *size = sizes[i % 2];
        struct gemm_data d = make_gemm((struct shape){fixture_formats[i / 2], size[0], size[1]}, T_LONG, &seed);
        for (size_t j = 0; j < LF_N_ELEMS(devs); j++) {
            check_batch(devs[j], &d, 0, T_LONG);
            check_batch(devs[j], &d, 13, 97);
            check_batch(devs[j], &d, 1, 269);
        }
        free_gemm(&d);
    }
}

static void rows_of_nan_stay_alone(void **state)
{
    (void)state;
    uint64_t seed = 23;
    for (size_t i = 0; i < FIXTURE_FORMATS_N; i++) {
        struct gemm_data d = make_gemm((struct shape){fixture_formats[i], 45, 70}, T, &seed);
        size_t n_in = (size_t)d.shape.n_in, n_out = (size_t)d.shape.n_out;
        for (size_t r = 0; r < T; r += 2)
            for (size_t k = 0; k < n_in; k++) d.x[r * n_in + k] = r % 4 == 0 ? NAN : INFINITY;
        memset(d.scratch, 0xff, lf_device_ops(devs[0])->gemm_scratch_bytes(T, d.shape.n_in));
        for (int n = 2; n <= T; n += 7) {
            multiply(devs[1], &d, d.y, 0, n);
            for (size_t r = 1; r < (size_t)n; r += 2)
                assert_memory_equal(d.y + r * n_out, d.expected + r * n_out, n_out * sizeof(float));
            for (size_t c = 0; c < n_out; c++) assert_true(isnan(d.y[c]));
        }
        free_gemm(&d);
    }
}

static void gemms_repeat(void **state)
{
    (void)state;
    uint64_t seed = 24;
    for (size_t i = 0; i < FIXTURE_FORMATS_N; i++) {
        struct gemm_data d = make_gemm((struct shape){fixture_formats[i], 300, 640}, T, &seed);
        for (int n = 0; n < 300; n += step) check_batch(devs[1 + n % 2], &d, 0, T);
        free_gemm(&d);
    }
}

/* Ops 0 to 3: rmsnorm with a weight, without, with a residual, softcap. From 4 on: gate_mul by its act. */
enum { NORM, NORM_PLAIN, NORM_ADD, SOFTCAP, GATE_MUL };

/* n_tokens rows at from. weight [dim]; residual as many rows */
static void run_row_op(struct lf_device *dev, int op, float *to, const float *from, const float *weight,
                       const float *residual, int n_tokens, int dim)
{
    const struct lf_ops *ops = lf_device_ops(dev);
    if (op < SOFTCAP) {
        struct lf_rmsnorm_params norm = {.out = to,
                                         .x = from,
                                         .weight = op == NORM_PLAIN ? NULL : weight,
                                         .residual = op == NORM_ADD ? residual : NULL,
                                         .out_float = op == NORM_ADD,
                                         .eps = 1e-6f,
                                         .n_tokens = n_tokens,
                                         .dim = dim};
        ops->rmsnorm(dev, &norm);
    } else if (op == SOFTCAP) {
        memcpy(to, from, (size_t)n_tokens * (size_t)dim * sizeof(float));
        ops->softcap(dev, &(struct lf_softcap_params){.x = to, .n = (int64_t)n_tokens * dim, .cap = 2.0f});
    } else {
        struct lf_gate_mul_params gate = {.out = to,
                                          .gate_up = from,
                                          .n_tokens = n_tokens,
                                          .dim = dim,
                                          .act = (enum lf_act)(op - GATE_MUL),
                                          .limit = 1.0f};
        ops->gate_mul(dev, &gate);
    }
}

static void check_row_op(int op, int dim, uint64_t *seed)
{
    size_t d = (size_t)dim, x_dim = op < GATE_MUL ? d : 2 * d;
    float *x = fixture_floats(seed, T * x_dim, 1.0f), *weight = fixture_floats(seed, d, 1.0f);
    float *residual = fixture_floats(seed, T * d, 1.0f);
    float *alone = fixture_alloc(T * d * sizeof(float)), *out = fixture_alloc(T * d * sizeof(float));
    for (size_t r = 0; r < T; r++)
        run_row_op(devs[r % 3], op, alone + r * d, x + r * x_dim, weight, residual + r * d, 1, dim);
    for (size_t n = 1; n <= T; n++) {
        run_row_op(devs[n % 3], op, out, x + (T - n) * x_dim, weight, residual + (T - n) * d, (int)n, dim);
        assert_memory_equal(out, alone + (T - n) * d, n * d * sizeof(float));
    }
    free(out);
    free(alone);
    free(residual);
    free(weight);
    free(x);
}

static void rows_of_each_op_are_the_same_in_every_batch(void **state)
{
    (void)state;
    uint64_t seed = 25;
    static const int dims[] = {1, 37, 256, 1000};
    for (size_t s = 0; s < LF_N_ELEMS(dims); s++)
        for (int op = 0; op < GATE_MUL + LF_ACTS_N; op++) check_row_op(op, dims[s], &seed);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s c|avx2|avx512|avx512-bf16|amx\n", argv[0]);
        return 2;
    }
    for (int i = 0; i < 3; i++) devs[i] = fixture_open(fixture_isa(argv[1]), i + 1);
    if (lf_device_info(devs[0])->isa == LF_ISA_C) step = 23;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemm_rows_are_the_same_in_every_batch),
        cmocka_unit_test(gemm_rows_are_the_same_in_long_batches),
        cmocka_unit_test(rows_of_nan_stay_alone),
        cmocka_unit_test(gemms_repeat),
        cmocka_unit_test(rows_of_each_op_are_the_same_in_every_batch),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < 3; i++) lf_device_close(devs[i]);
    return rc;
}
