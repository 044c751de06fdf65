/* FP8 weights through the op table of a Hopper: which matrices FP8 activations meet (device/cuda/gemm_fp8.h), that
 * a token then has the same bits in any number of tokens, and that what makes activations writes the codes that
 * quantizing its elements makes (device/x_codes.h). gpu_quant has the ops against float64, gpu_gemm_fp8 the
 * kernels. */
#include "tests/gpu/gpu_quant.h"

#include "device/cuda/cuda_impl.h"
#include "device/cuda/gemm_fp8.h"
#include "device/cuda/gemm_fp8_sm90.h"
#include "device/device_impl.h"

enum { N_IN = 1424, N_OUT = 520, MOST_TOKENS = 700, RESIDUAL = 3 };

static const struct lf_format blocks = {.dtype = LF_BF16, .code = LF_CODE_E4M3, .group = 128, .group_rows = 128};
static const struct lf_format rows = {.dtype = LF_BF16, .code = LF_CODE_E4M3, .group_rows = 1};
static const struct lf_format columns = {.dtype = LF_BF16, .code = LF_CODE_E4M3, .group = 128, .group_rows = 1};
static const struct lf_format four_bit = {.dtype = LF_BF16, .code = LF_CODE_I4, .group = 128, .group_rows = 1};

/* A GEMM of MOST_TOKENS tokens. */
struct fp8_op {
    struct quant_weight q;
    struct gpu_tensor x, bias, residual, scratch;
    float *x_values, *bias_values, *residual_values;
};

static void op_make(struct fp8_op *d, const struct lf_format *f, int n_out, uint64_t *seed)
{
    d->q = quant_weight(seed, f, n_out, N_IN);
    d->x = gpu_random(gpu_act, seed, (size_t)MOST_TOKENS * N_IN, 0.01f, &d->x_values);
    d->bias = gpu_random(LF_F32, seed, (size_t)n_out, 1.0f, &d->bias_values);
    d->residual = gpu_random(LF_F32, seed, (size_t)MOST_TOKENS * (size_t)n_out, RESIDUAL, &d->residual_values);
    d->scratch = gpu_poisoned(LF_F32, gpu_ops->gemm_scratch_bytes(MOST_TOKENS, N_IN) / sizeof(float));
    lf_format_name(gpu_case, f);
}

static void op_free(struct fp8_op *d)
{
    quant_weight_free(&d->q);
    gpu_free(&d->x);
    gpu_free(&d->bias);
    gpu_free(&d->residual);
    gpu_free(&d->scratch);
    free(d->x_values);
    free(d->bias_values);
    free(d->residual_values);
}

/* Of n tokens from `first` on; y as floats has bias and residual. */
static struct lf_gemm_params params_of(const struct fp8_op *d, const struct gpu_tensor *y, int first, int n)
{
    const struct lf_weight *w = &d->q.w;
    bool y_float = y->dtype == LF_F32;
    size_t at = (size_t)first * (size_t)w->n_out * sizeof(float);
    return (struct lf_gemm_params){.y = y->ptr,
                                   .y_float = y_float,
                                   .x = d->x.ptr + (size_t)first * N_IN * 2,
                                   .w = w,
                                   .bias = y_float ? (const float *)(void *)d->bias.ptr : NULL,
                                   .residual = y_float ? (const float *)(void *)(d->residual.ptr + at) : NULL,
                                   .alpha = 1.0f,
                                   .n_tokens = n,
                                   .x_stride = N_IN,
                                   .y_stride = w->n_out,
                                   .scratch = d->scratch.ptr};
}

/* y of n tokens from `first` on, or of gate and up. Freed by the caller. */
static char *run(const struct fp8_op *d, enum lf_dtype y_dtype, bool gated, int first, int n)
{
    size_t n_out = (size_t)d->q.w.n_out;
    struct gpu_tensor y = gpu_poisoned(y_dtype, (size_t)n * n_out), act = gpu_poisoned(gpu_act, (size_t)n * n_out / 2);
    struct lf_gemm_params p = params_of(d, &y, first, n);
    struct lf_gate_mul_params gate = {
        .out = act.ptr, .gate_up = y.ptr, .n_tokens = n, .dim = (int)n_out / 2, .act = LF_ACT_SILU};
    if (gated)
        gpu_ops->gemm_gate_mul(gpu, &p, &gate);
    else
        gpu_ops->gemm(gpu, &p);
    char *raw = gpu_read_raw(gated ? &act : &y);
    gpu_free(&y);
    gpu_free(&act);
    return raw;
}

static void compare(const struct fp8_op *d, enum lf_dtype y_dtype, bool gated, uint64_t *seed)
{
    static const int tokens[] = {1, 2, 3, 4, 5, 8, 9, 16, 17, 64, 65, 128, 129, 300};
    size_t row_bytes = gated ? (size_t)d->q.w.n_out : (size_t)d->q.w.n_out * lf_dtype_bytes(y_dtype);
    char *all = run(d, y_dtype, gated, 0, MOST_TOKENS);
    for (size_t i = 0; i < LF_N_ELEMS(tokens); i++) {
        int first = fixture_between(seed, 0, MOST_TOKENS - tokens[i]);
        char *some = run(d, y_dtype, gated, first, tokens[i]);
        if (memcmp(some, all + (size_t)first * row_bytes, (size_t)tokens[i] * row_bytes) != 0)
            fail_msg("%s: %d tokens have other bits than among %d", gpu_case, tokens[i], MOST_TOKENS);
        free(some);
    }
    free(all);
}

static void a_token_has_the_same_bits_in_any_number_of_tokens(void **state)
{
    (void)state;
    uint64_t seed = 1;
    const struct lf_format *formats[] = {&blocks, &rows};
    if (gpu->info.sm != 90) skip();
    for (size_t i = 0; i < LF_N_ELEMS(formats); i++) {
        struct fp8_op d;
        op_make(&d, formats[i], N_OUT, &seed);
        compare(&d, LF_F32, false, &seed);
        compare(&d, gpu_act, false, &seed);
        compare(&d, gpu_act, true, &seed);
        op_free(&d);
    }
}

static bool takes(const struct lf_format *f, int n_out)
{
    uint64_t seed = 2;
    struct fp8_op d;
    op_make(&d, f, n_out, &seed);
    struct gpu_tensor y = gpu_poisoned(LF_F32, (size_t)MOST_TOKENS * (size_t)n_out);
    struct lf_gemm_params p = params_of(&d, &y, 0, 1);
    bool is_taken = lf_cuda_fp8_op_takes(gpu, &p);
    /* it has no half of a fused norm, which GEMVs have */
    assert_int_equal(gpu_ops->fused_norm_tokens(gpu, &p), is_taken || gpu_act == LF_F16 ? 0 : LF_FUSED_NORM_TOKENS);
    gpu_free(&y);
    op_free(&d);
    return is_taken;
}

static void blocks_and_rows_of_any_supported_shape_are_taken_and_nothing_else(void **state)
{
    (void)state;
    bool is_hopper = gpu->info.sm == 90;
    assert_int_equal(takes(&blocks, N_OUT), is_hopper);
    assert_int_equal(takes(&rows, N_OUT), is_hopper);
    assert_false(takes(&rows, N_OUT + 1)); /* rows of y that are no multiple of 16 bytes */
    assert_false(takes(&columns, N_OUT));
    assert_false(takes(&four_bit, N_OUT));
}

/* ---- codes by what makes activations ---- */

/* Activations of n_tokens tokens as codes, and their elements. */
struct made {
    int n_tokens, dim;
    struct gpu_tensor codes, elements;
    struct lf_x_codes q; /* in `codes` */
};

static void made_init(struct made *m, int n_tokens, int dim, enum lf_fp8_scales by)
{
    size_t n = (size_t)n_tokens * (size_t)dim;
    m->n_tokens = n_tokens;
    m->dim = dim;
    m->codes = gpu_poisoned(gpu_act, n); /* no more room than elements have */
    m->elements = gpu_poisoned(gpu_act, n);
    assert_true(lf_x_codes_bytes(n_tokens, dim) <= n * 2);
    m->q = lf_x_codes_at(m->codes.ptr, n_tokens, dim, by);
}

/* The codes are those of the elements; scales behind the last token are nobody's. */
static void made_check(struct made *m, const char *what)
{
    struct made other;
    made_init(&other, m->n_tokens, m->dim, m->q.by);
    struct lf_quant_params p = {
        .to = other.q, .x = m->elements.ptr, .n_tokens = m->n_tokens, .n_in = m->dim, .x_stride = m->dim};
    assert_int_equal(lf_cuda_quant_rows(&p, lf_cuda_launch(gpu)), 0);
    char *codes = gpu_read_raw(&m->codes), *expected = gpu_read_raw(&other.codes);
    if (memcmp(codes, expected, (size_t)m->n_tokens * (size_t)m->dim * 2) != 0)
        fail_msg("%s, %d x %d by %d: other codes than of its elements", what, m->n_tokens, m->dim, (int)m->q.by);
    free(codes);
    free(expected);
    gpu_free(&other.codes);
    gpu_free(&other.elements);
    gpu_free(&m->codes);
    gpu_free(&m->elements);
}

static void check_norm(int n_tokens, int dim, enum lf_fp8_scales by, uint64_t *seed)
{
    float *x_values, *weight_values;
    struct gpu_tensor x = gpu_random(LF_F32, seed, (size_t)n_tokens * (size_t)dim, 20.0f, &x_values);
    struct gpu_tensor weight = gpu_random(LF_F32, seed, (size_t)dim, 2.0f, &weight_values);
    for (int with_weight = 0; with_weight < 2; with_weight++) {
        struct made m;
        made_init(&m, n_tokens, dim, by);
        struct lf_rmsnorm_params p = {.out = m.elements.ptr,
                                      .x = (const float *)(void *)x.ptr,
                                      .weight = with_weight ? (const float *)(void *)weight.ptr : NULL,
                                      .eps = 1e-5f,
                                      .n_tokens = n_tokens,
                                      .dim = dim};
        gpu_ops->rmsnorm(gpu, &p);
        p.out = NULL;
        p.codes = m.q;
        gpu_ops->rmsnorm(gpu, &p);
        made_check(&m, "a norm");
    }
    gpu_free(&x);
    gpu_free(&weight);
    free(x_values);
    free(weight_values);
}

static void check_gate(int n_tokens, int dim, enum lf_fp8_scales by, enum lf_act act, uint64_t *seed)
{
    float *values;
    struct made m;
    struct gpu_tensor gate_up = gpu_random(gpu_act, seed, (size_t)n_tokens * 2 * (size_t)dim, 3.0f, &values);
    made_init(&m, n_tokens, dim, by);
    struct lf_gate_mul_params p = {
        .out = m.elements.ptr, .gate_up = gate_up.ptr, .n_tokens = n_tokens, .dim = dim, .act = act, .limit = 7.0f};
    gpu_ops->gate_mul(gpu, &p);
    p.out = NULL;
    p.codes = m.q;
    gpu_ops->gate_mul(gpu, &p);
    made_check(&m, "a gated activation");
    gpu_free(&gate_up);
    free(values);
}

static void norms_and_gates_write_the_codes_of_their_elements(void **state)
{
    (void)state;
    static const int dims[] = {128, 144, 1424, 4096, 5120, LF_NORM_CODES_DIM}, tokens[] = {1, 2, 16, 131};
    uint64_t seed = 3;
    if (gpu->info.sm != 90) skip();
    for (size_t i = 0; i < LF_N_ELEMS(dims); i++)
        for (size_t k = 0; k < LF_N_ELEMS(tokens); k++)
            for (int by = LF_FP8_BLOCKS; by <= LF_FP8_ROWS; by++) {
                check_norm(tokens[k], dims[i], (enum lf_fp8_scales)by, &seed);
                check_gate(tokens[k], dims[i], (enum lf_fp8_scales)by, (enum lf_act)(k % LF_ACTS_N), &seed);
            }
    check_gate(3, LF_GATE_CODES_DIM, LF_FP8_ROWS, LF_ACT_SILU, &seed);
    check_gate(3, LF_GATE_CODES_DIM, LF_FP8_BLOCKS, LF_ACT_SILU, &seed);
}

/* y of n tokens by elements and by codes. */
static void check_x_codes(const struct fp8_op *d, enum lf_fp8_scales by, int n)
{
    struct made m;
    struct gpu_tensor y = gpu_poisoned(LF_F32, (size_t)n * N_OUT), other = gpu_poisoned(LF_F32, (size_t)n * N_OUT);
    struct lf_gemm_params p = params_of(d, &y, 0, n);
    gpu_ops->gemm(gpu, &p);
    made_init(&m, n, N_IN, by);
    struct lf_quant_params quant = {.to = m.q, .x = d->x.ptr, .n_tokens = n, .n_in = N_IN, .x_stride = N_IN};
    assert_int_equal(lf_cuda_quant_rows(&quant, lf_cuda_launch(gpu)), 0);
    p.y = other.ptr;
    p.x = NULL;
    p.scratch = NULL;
    p.x_codes = m.q;
    gpu_ops->gemm(gpu, &p);
    char *a = gpu_read_raw(&y), *b = gpu_read_raw(&other);
    assert_memory_equal(a, b, (size_t)n * N_OUT * sizeof(float));
    free(a);
    free(b);
    gpu_free(&y);
    gpu_free(&other);
    gpu_free(&m.codes);
    gpu_free(&m.elements);
}

static void a_gemm_of_codes_is_that_of_their_elements(void **state)
{
    (void)state;
    uint64_t seed = 4;
    const struct lf_format *formats[] = {&blocks, &rows, &columns, &four_bit};
    for (size_t i = 0; i < LF_N_ELEMS(formats); i++) {
        struct fp8_op d;
        enum lf_fp8_scales by;
        op_make(&d, formats[i], N_OUT, &seed);
        bool is_taken = gpu_ops->quantizes_x(gpu, &d.q.w, &by);
        assert_int_equal(is_taken, i < 2 && gpu->info.sm == 90);
        if (is_taken) assert_int_equal(by, i == 0 ? LF_FP8_BLOCKS : LF_FP8_ROWS);
        static const int tokens[] = {1, 5, 64, 65, 300};
        for (size_t k = 0; k < LF_N_ELEMS(tokens) && is_taken; k++) check_x_codes(&d, by, tokens[k]);
        op_free(&d);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_has_the_same_bits_in_any_number_of_tokens),
        cmocka_unit_test(blocks_and_rows_of_any_supported_shape_are_taken_and_nothing_else),
        cmocka_unit_test(norms_and_gates_write_the_codes_of_their_elements),
        cmocka_unit_test(a_gemm_of_codes_is_that_of_their_elements),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return gpu_run(tests);
}
