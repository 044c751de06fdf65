/* FP8 weights through the op table of a Hopper: which matrices FP8 activations meet (device/cuda/gemm_fp8.h), and that
 * a token then has the same bits in any number of tokens. gpu_quant has the ops against float64, gpu_gemm_fp8 the
 * kernels. */
#include "tests/gpu/gpu_quant.h"

#include "device/cuda/gemm_fp8.h"
#include "device/device_impl.h"

enum { N_IN = 1424, N_OUT = 520, MOST_TOKENS = 700, RESIDUAL = 3 };

static const struct lf_format blocks = {.dtype = LF_BF16, .code = LF_CODE_E4M3, .group = 128, .group_rows = 128};
static const struct lf_format rows = {.dtype = LF_BF16, .code = LF_CODE_E4M3, .group_rows = 1};
static const struct lf_format columns = {.dtype = LF_BF16, .code = LF_CODE_E4M3, .group = 128, .group_rows = 1};
static const struct lf_format int4 = {.dtype = LF_BF16, .code = LF_CODE_I4, .group = 128, .group_rows = 1};

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
    static const int tokens[] = {1, 2, 8, 9, 16, 17, 64, 65, 128, 129, 300};
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
    assert_false(takes(&int4, N_OUT));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_has_the_same_bits_in_any_number_of_tokens),
        cmocka_unit_test(blocks_and_rows_of_any_supported_shape_are_taken_and_nothing_else),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return gpu_run(tests);
}
