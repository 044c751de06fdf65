/* Coded weights on a GPU: GEMV against float64, its tokens alone and in a batch to the bit, gate and up as its
 * epilogue; and the matrix expanded, to the bit.
 *
 *     test_quant [PATTERN]   (of the names of tests) */
#include "tests/gpu/gpu_quant.h"

#include "device/cuda/cuda_impl.h"
#include "device/cuda/gemm_fp8.h"

static const struct lf_format formats[] = {
    {.dtype = LF_BF16, .code = LF_CODE_I4, .group = 128, .group_rows = 1},
    {.dtype = LF_BF16, .code = LF_CODE_I4, .group = 128, .group_rows = 1, .zeros = true},
    {.dtype = LF_BF16, .code = LF_CODE_I4, .group = 64, .group_rows = 1},
    {.dtype = LF_BF16, .code = LF_CODE_I4, .group = 64, .group_rows = 1, .zeros = true},
    {.dtype = LF_BF16, .code = LF_CODE_I4, .group = 32, .group_rows = 1},
    {.dtype = LF_BF16, .code = LF_CODE_I4, .group = 32, .group_rows = 1, .zeros = true},
    {.dtype = LF_BF16, .code = LF_CODE_I4, .group = 256, .group_rows = 1},
    {.dtype = LF_BF16, .code = LF_CODE_I4, .group = 0, .group_rows = 1, .zeros = true},
    {.dtype = LF_BF16, .code = LF_CODE_E2M1, .group = 32, .group_rows = 1},
    {.dtype = LF_BF16, .code = LF_CODE_E4M3, .group = 128, .group_rows = 128},
    {.dtype = LF_BF16, .code = LF_CODE_E4M3, .group = 128, .group_rows = 1},
    {.dtype = LF_BF16, .code = LF_CODE_E4M3, .group = 0, .group_rows = 1},
};

/* Each has bounds of its own: of a tile, of a run, of a block of columns, of the warps. */
static const struct {
    int n_out, n_in;
} shapes[] = {{16, 128}, {24, 144}, {8, 2880}, {1000, 1024}, {2200, 1040}, {17, 4112}};

static const int tokens[] = {1, 2, 8, 9, 16};

/* How far a sum of float may be from the exact one: its terms' magnitudes, added. */
static double bound(const float *w, const float *x, int n)
{
    double sum = 0.0;
    for (int k = 0; k < n; k++) sum += fabs((double)w[k] * (double)x[k]);
    return sum * 1e-5;
}

static double exact(const float *w, const float *x, int n)
{
    double sum = 0.0;
    for (int k = 0; k < n; k++) sum += (double)w[k] * (double)x[k];
    return sum;
}

static struct lf_gemm_params params_of(const struct quant_weight *q, const struct gpu_tensor *x,
                                       const struct gpu_tensor *y, int n_tokens)
{
    return (struct lf_gemm_params){.alpha = 1.0f,
                                   .y = y->ptr,
                                   .y_float = y->dtype == LF_F32,
                                   .x = x->ptr,
                                   .w = &q->w,
                                   .n_tokens = n_tokens,
                                   .x_stride = q->w.n_in,
                                   .y_stride = q->w.n_out};
}

static void launch(const struct lf_gemm_params *p, int n_blocks)
{
    lf_cuda_check(gpu, lf_cuda_gemv_quant(p, n_blocks, lf_cuda_launch(gpu)), gpu_case);
}

/* y of n_tokens tokens from token `first` on. */
static float *run_gemv(const struct quant_weight *q, const struct gpu_tensor *x, int first, int n_tokens, int n_blocks)
{
    struct gpu_tensor y = gpu_poisoned(LF_F32, (size_t)n_tokens * (size_t)q->w.n_out);
    struct lf_gemm_params p = params_of(q, x, &y, n_tokens);
    p.x = x->ptr + (size_t)first * (size_t)q->w.n_in * 2;
    launch(&p, n_blocks);
    float *out = gpu_read(&y);
    gpu_free(&y);
    return out;
}

static void check_sums(const struct quant_weight *q, const float *x, const float *y, int n_tokens)
{
    int n_in = q->w.n_in, n_out = q->w.n_out;
    for (int t = 0; t < n_tokens; t++) {
        for (int r = 0; r < n_out; r++) {
            const float *w = q->values + (size_t)r * (size_t)n_in, *row = x + (size_t)t * (size_t)n_in;
            double off = fabs((double)y[t * n_out + r] - exact(w, row, n_in));
            if (!(off <= bound(w, row, n_in)))
                fail_msg("%s: token %d, row %d: off by %g of %g", gpu_case, t, r, off, bound(w, row, n_in));
        }
    }
}

/* Each token alone, with another grid, has the bits that it has among the others. */
static void check_alone(const struct quant_weight *q, const struct gpu_tensor *x, const float *y, int n_tokens)
{
    size_t n_out = (size_t)q->w.n_out;
    for (int t = 0; t < n_tokens; t++) {
        float *alone = run_gemv(q, x, t, 1, 7);
        assert_memory_equal(alone, y + (size_t)t * n_out, n_out * sizeof *y);
        free(alone);
    }
}

static void check_shape(const struct lf_format *f, int n_out, int n_in, uint64_t *seed)
{
    char name[LF_FORMAT_NAME_BYTES];
    lf_format_name(name, f);
    struct quant_weight q = quant_weight(seed, f, n_out, n_in);
    float *x_values;
    struct gpu_tensor x = gpu_random(gpu_act, seed, (size_t)LF_CUDA_GEMV_TOKENS * (size_t)n_in, 1.0f, &x_values);
    for (size_t i = 0; i < LF_N_ELEMS(tokens); i++) {
        snprintf(gpu_case, sizeof gpu_case, "%s, %d x %d, %d tokens", name, n_out, n_in, tokens[i]);
        float *y = run_gemv(&q, &x, 0, tokens[i], lf_device_info(gpu)->n_sms);
        if (i == 0 || i + 1 == LF_N_ELEMS(tokens)) check_sums(&q, x_values, y, tokens[i]);
        if (i > 0) check_alone(&q, &x, y, tokens[i]);
        free(y);
    }
    gpu_free(&x);
    free(x_values);
    quant_weight_free(&q);
}

static void test_gemv(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (size_t i = 0; i < LF_N_ELEMS(formats); i++) {
        for (size_t s = 0; s < LF_N_ELEMS(shapes); s++) {
            int n_out = shapes[s].n_out, n_in = shapes[s].n_in;
            if (gpu_ops->supports_format(gpu, &formats[i], n_out, n_in, 0))
                check_shape(&formats[i], n_out, n_in, &seed);
        }
    }
}

/* act(gate) · up of a GEMV whose y was written and rounded, and the fused kernel's. */
static void check_gate(const struct lf_format *f, enum lf_act act, uint64_t *seed)
{
    enum { N_TOKENS = 11, DIM = 712, N_IN = 1040 };
    float *x_values;
    struct quant_weight q = quant_weight(seed, f, 2 * DIM, N_IN);
    struct gpu_tensor x = gpu_random(gpu_act, seed, (size_t)N_TOKENS * N_IN, 1.0f, &x_values);
    struct gpu_tensor y = gpu_poisoned(gpu_act, (size_t)N_TOKENS * 2 * DIM);
    struct gpu_tensor apart = gpu_poisoned(gpu_act, (size_t)N_TOKENS * DIM);
    struct gpu_tensor fused = gpu_poisoned(gpu_act, (size_t)N_TOKENS * DIM);
    struct lf_gemm_params p = params_of(&q, &x, &y, N_TOKENS);
    struct lf_gate_mul_params gate = {
        .out = apart.ptr, .gate_up = y.ptr, .n_tokens = N_TOKENS, .dim = DIM, .act = act, .limit = 7.0f};
    launch(&p, lf_device_info(gpu)->n_sms);
    gpu_ops->gate_mul(gpu, &gate);
    gate.out = fused.ptr;
    assert_true(lf_cuda_gemv_quant_gate_mul_supports(&p, gpu_act == LF_F16));
    lf_cuda_check(gpu, lf_cuda_gemv_quant_gate_mul(&p, &gate, 5, lf_cuda_launch(gpu)), gpu_case);
    char *a = gpu_read_raw(&apart), *b = gpu_read_raw(&fused);
    assert_memory_equal(a, b, (size_t)N_TOKENS * DIM * 2);
    free(a);
    free(b);
    gpu_free(&fused);
    gpu_free(&apart);
    gpu_free(&y);
    gpu_free(&x);
    free(x_values);
    quant_weight_free(&q);
}

static void test_gate(void **state)
{
    (void)state;
    uint64_t seed = 2;
    for (size_t i = 0; i < LF_N_ELEMS(formats); i++) {
        if (formats[i].code == LF_CODE_E2M1 && gpu_act == LF_F16) continue;
        check_gate(&formats[i], LF_ACT_SILU, &seed);
        check_gate(&formats[i], LF_ACT_SWIGLU_OAI, &seed);
    }
}

/* n_rows from row_first on, each value rounded once. */
static void check_expand(const struct quant_weight *q, int row_first, int n_rows)
{
    size_t n = (size_t)n_rows * (size_t)q->w.n_in;
    struct gpu_tensor out = gpu_poisoned(gpu_act, n);
    lf_cuda_check(gpu, lf_cuda_expand(out.ptr, &q->w, row_first, n_rows, lf_cuda_launch(gpu)), gpu_case);
    char *got = gpu_read_raw(&out), *want = malloc(n * 2);
    assert_non_null(want);
    lf_from_f32(want, gpu_act, q->values + (size_t)row_first * (size_t)q->w.n_in, n);
    assert_memory_equal(got, want, n * 2);
    free(want);
    free(got);
    gpu_free(&out);
}

static void test_expand(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (size_t i = 0; i < LF_N_ELEMS(formats); i++) {
        for (size_t s = 0; s < LF_N_ELEMS(shapes); s++) {
            if (formats[i].code == LF_CODE_E2M1 && gpu_act == LF_F16) continue;
            struct quant_weight q = quant_weight(&seed, &formats[i], shapes[s].n_out, shapes[s].n_in);
            lf_format_name(gpu_case, &formats[i]);
            check_expand(&q, 0, q.w.n_out);
            if (q.w.n_out > 8) check_expand(&q, 8, q.w.n_out - 8);
            quant_weight_free(&q);
        }
    }
}

/* weight_row is the inverse of weight_pack. */
static void test_rows(void **state)
{
    (void)state;
    uint64_t seed = 4;
    for (size_t i = 0; i < LF_N_ELEMS(formats); i++) {
        if (formats[i].code == LF_CODE_E2M1 && gpu_act == LF_F16) continue;
        struct quant_weight q = quant_weight(&seed, &formats[i], 141, 272);
        float row[272];
        for (int r = 0; r < q.w.n_out; r++) {
            gpu_ops->weight_row(gpu, &q.w, r, row);
            assert_memory_equal(row, q.values + (size_t)r * 272, sizeof row);
        }
        quant_weight_free(&q);
    }
}

/* The op, in slices and in strips: against float64, as far as rounding w and y may be off. Of FP8 by FP8 with x as it
 * is then, and four times what gpu_gemm_fp8 allows: all codes are equally likely here, so a few products of an
 * instruction are most of its sum, and the others are cut to 13 bits under the largest (simulated so, 30,000 sums were
 * off by up to 2.2e-4 of their terms). */
static void check_gemm(const struct lf_format *f, int n_out, int n_in, int n_tokens, uint64_t *seed)
{
    float *x_values, *bias_values, *residual_values;
    struct quant_weight q = quant_weight(seed, f, n_out, n_in);
    struct gpu_tensor x = gpu_random(gpu_act, seed, (size_t)n_tokens * (size_t)n_in, 1.0f, &x_values);
    struct gpu_tensor bias = gpu_random(LF_F32, seed, (size_t)n_out, 1.0f, &bias_values);
    struct gpu_tensor residual = gpu_random(LF_F32, seed, (size_t)n_tokens * (size_t)n_out, 1.0f, &residual_values);
    struct gpu_tensor y = gpu_poisoned(LF_F32, (size_t)n_tokens * (size_t)n_out);
    struct gpu_tensor scratch = gpu_poisoned(LF_F32, gpu_ops->gemm_scratch_bytes(n_tokens, n_in) / sizeof(float));
    struct lf_gemm_params p = params_of(&q, &x, &y, n_tokens);
    p.bias = (const float *)(void *)bias.ptr;
    p.residual = (const float *)(void *)residual.ptr;
    p.scratch = scratch.ptr;
    gpu_ops->gemm_prepare(gpu, &p);
    gpu_ops->gemm(gpu, &p);
    float *got = gpu_read(&y);
    bool is_fp8 = lf_cuda_fp8_op_takes(gpu, &p);
    double rounding = is_fp8 ? 0x1p-11 : n_tokens > 64 ? gpu_rounding(gpu_act, 1.0) : 0.0;
    if (is_fp8) quant_round_e4m3(x_values, n_tokens, n_in, lf_format_group(f, n_in));
    for (int t = 0; t < n_tokens; t += 3) {
        for (int r = 0; r < n_out; r += 7) {
            const float *w = q.values + (size_t)r * (size_t)n_in, *row = x_values + (size_t)t * (size_t)n_in;
            double sum = exact(w, row, n_in), terms = bound(w, row, n_in) * 1e5;
            double want = sum + (double)bias_values[r] + (double)residual_values[t * n_out + r];
            double off = fabs((double)got[t * n_out + r] - want);
            if (!(off <= terms * (1e-5 + rounding) + 1e-5))
                fail_msg("%s: token %d, row %d: off by %g of %g", gpu_case, t, r, off, terms);
        }
    }
    free(got);
    gpu_free(&scratch);
    gpu_free(&y);
    gpu_free(&residual);
    gpu_free(&bias);
    gpu_free(&x);
    free(residual_values);
    free(bias_values);
    free(x_values);
    quant_weight_free(&q);
}

static void test_gemm(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (size_t i = 0; i < LF_N_ELEMS(formats); i++) {
        if (formats[i].code == LF_CODE_E2M1 && gpu_act == LF_F16) continue;
        lf_format_name(gpu_case, &formats[i]);
        check_gemm(&formats[i], 72, 400, 16, &seed);
        check_gemm(&formats[i], 72, 400, 41, &seed);
        check_gemm(&formats[i], 200, 400, 65, &seed);
    }
    /* more than one strip */
    check_gemm(&formats[0], 2600, 16384, 67, &seed);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gemv), cmocka_unit_test(test_gate),
                                       cmocka_unit_test(test_rows), cmocka_unit_test(test_gemm),
                                       cmocka_unit_test(test_expand)};
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return gpu_run(tests);
}
