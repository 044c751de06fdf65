/* GEMMs with a fused RMSNorm between them (struct lf_fused_norm of device/ops.h) against float64, and their tokens
 * alone and in a batch.
 *
 *     test_fused_norm [PATTERN]   (of the names of tests) */
#include "tests/gpu/gpu_gemm.h"

/* x += alpha · a · w1ᵀ, then alpha · norm(x) · w2ᵀ, the norm fused; every third is scaled. */
struct fused_pair {
    struct gemm_data first, second;
    struct gpu_tensor weight, h, sum_squares;
    float *weight_values;
    int n_parts;
};

static void pair_make(struct fused_pair *l, int n_tokens, int n_in, int hidden, int n_out, uint64_t *seed)
{
    float alpha = n_tokens % 3 == 0 ? 0.22f : 1.0f;
    struct gemm_case first = {
        .n_tokens = n_tokens, .n_in = n_in, .n_out = hidden, .y_float = true, .in_place = true, .alpha = alpha};
    struct gemm_case second = {.n_tokens = n_tokens, .n_in = hidden, .n_out = n_out, .bias = true, .alpha = alpha};
    gemm_make(&l->first, &first, seed);
    gemm_make(&l->second, &second, seed);
    l->n_parts = (hidden + LF_NORM_PART - 1) / LF_NORM_PART;
    l->weight = gpu_random(LF_F32, seed, (size_t)hidden, 1.0f, &l->weight_values);
    l->h = gpu_poisoned(gpu_act, (size_t)n_tokens * (size_t)hidden);
    l->sum_squares = gpu_poisoned(LF_F32, (size_t)n_tokens * (size_t)l->n_parts);
    l->first.p.norm =
        (struct lf_fused_norm){l->h.ptr, (const float *)(void *)l->weight.ptr, (float *)(void *)l->sum_squares.ptr};
    l->second.p.x = l->h.ptr;
    l->second.p.x_sum_squares = (const float *)(void *)l->sum_squares.ptr;
    l->second.p.x_eps = 1e-5f;
}

static void pair_free(struct fused_pair *l)
{
    gemm_free(&l->first);
    gemm_free(&l->second);
    gpu_free(&l->weight);
    gpu_free(&l->h);
    gpu_free(&l->sum_squares);
    free(l->weight_values);
}

/* What the first GEMM's epilogue writes, given what it adds up to: h to the bit, the parts within their roundings. */
static void check_epilogue(const struct fused_pair *l, const float *x)
{
    int hidden = l->first.p.w->n_out;
    float *h = gpu_read(&l->h), *parts = gpu_read(&l->sum_squares);
    for (int row = 0; row < l->first.p.n_tokens; row++) {
        for (int part = 0; part < l->n_parts; part++) {
            double sum = 0.0;
            for (int i = part * LF_NORM_PART; i < LF_MIN(hidden, (part + 1) * LF_NORM_PART); i++) {
                float v = x[row * hidden + i], half = v * l->weight_values[i];
                uint16_t raw;
                lf_from_f32(&raw, gpu_act, &half, 1);
                lf_to_f32(&half, &raw, gpu_act, 1);
                assert_true(h[row * hidden + i] == half);
                sum += (double)v * (double)v;
            }
            assert_true(fabs((double)parts[row * l->n_parts + part] - sum) <= ldexp(sum, -20));
        }
    }
    free(parts);
    free(h);
}

/* The second GEMM against float64, from the h it was given. */
static void check_prologue(const struct fused_pair *l, const float *x)
{
    int hidden = l->first.p.w->n_out, n_out = l->second.p.w->n_out, stride = l->second.p.y_stride;
    float *h = gpu_read(&l->h), *y = gpu_read(&l->second.y);
    for (int row = 0; row < l->second.p.n_tokens; row++) {
        double squares = 0.0;
        for (int i = 0; i < hidden; i++) squares += (double)x[row * hidden + i] * (double)x[row * hidden + i];
        double factor = 1.0 / sqrt(squares / hidden + (double)1e-5f);
        for (int col = 0; col < n_out; col++) {
            double sum = 0.0, magnitude = 0.0, bias = (double)l->second.bias_values[col], alpha = l->second.p.alpha;
            for (int i = 0; i < hidden; i++) {
                double t = (double)h[row * hidden + i] * (double)l->second.gw.values[col * hidden + i] * factor;
                sum += t;
                magnitude += fabs(t);
            }
            double expected = alpha * (sum + bias);
            double allowed = ldexp((hidden + 16) * alpha * (magnitude + fabs(bias)), -22);
            allowed += gpu_rounding(gpu_act, fabs(expected) + allowed);
            assert_true(fabs((double)y[row * stride + col] - expected) <= allowed);
        }
    }
    free(y);
    free(h);
}

static void a_norm_is_fused_into_two_gemms(void **state)
{
    (void)state;
    uint64_t seed = 16;
    static const int shapes[][3] = {{512, 264, 300}, {64, 4096, 144}, {1032, 70 * 8, 2 * 56}};
    for (int i = 0; i < 30; i++) {
        const int *shape = shapes[i % (int)LF_N_ELEMS(shapes)];
        int n_tokens = 1 + i % 16, hidden = shape[1];
        struct fused_pair l;
        pair_make(&l, n_tokens, shape[0], hidden, shape[2], &seed);
        int most = gpu_ops->fused_norm_tokens(gpu, &l.first.p);
        assert_int_equal(most, gpu_act == LF_BF16 ? 16 : 0);
        if (most > 0) {
            /* with and without the norm's epilogue the residual stream is the same */
            struct gpu_tensor x0 = gpu_tensor(LF_F32, l.first.residual_values, (size_t)n_tokens * (size_t)hidden);
            struct lf_gemm_params alone = l.first.p;
            alone.y = x0.ptr;
            alone.residual = (const float *)(void *)x0.ptr;
            alone.norm = (struct lf_fused_norm){.h = NULL};
            gpu_ops->gemm(gpu, &alone);
            gpu_ops->gemm(gpu, &l.first.p);
            gpu_ops->gemm(gpu, &l.second.p);
            float *x = gpu_read(&l.first.y), *x_alone = gpu_read(&x0);
            assert_memory_equal(x, x_alone, (size_t)n_tokens * (size_t)hidden * sizeof *x);
            check_epilogue(&l, x);
            check_prologue(&l, x);
            free(x_alone);
            free(x);
            gpu_free(&x0);
        }
        pair_free(&l);
    }
}

static void fused_tokens_are_the_same_in_every_batch(void **state)
{
    (void)state;
    uint64_t seed = 17;
    struct fused_pair l;
    pair_make(&l, 16, 520, 1032, 9024, &seed);
    if (gpu_ops->fused_norm_tokens(gpu, &l.first.p) > 0) {
        struct lf_gemm_params first = l.first.p, second = l.second.p;
        gpu_ops->gemm(gpu, &first);
        gpu_ops->gemm(gpu, &second);
        char *all = gpu_read_raw(&l.second.y), *gated_all, *parts = gpu_read_raw(&l.sum_squares);
        struct gpu_tensor act = gpu_poisoned(gpu_act, 16 * 4512);
        gpu_ops->gemm_gate_mul(gpu, &second,
                               &(struct lf_gate_mul_params){
                                   .out = act.ptr, .gate_up = second.y, .n_tokens = second.n_tokens, .dim = 4512});
        gated_all = gpu_read_raw(&act);
        for (int n = 1; n < 16; n++) {
            size_t at = (size_t)fixture_between(&seed, 0, 16 - n), rows = (size_t)n;
            struct gpu_tensor x = gpu_tensor(LF_F32, l.first.residual_values + at * 1032, rows * 1032);
            struct gpu_tensor y = gpu_poisoned(gpu_act, rows * 9024), gated = gpu_poisoned(gpu_act, rows * 4512);
            first.n_tokens = second.n_tokens = n;
            first.x = l.first.x.ptr + at * 520 * 2;
            first.y = x.ptr;
            first.residual = (const float *)(void *)x.ptr;
            second.y = y.ptr;
            gpu_ops->gemm(gpu, &first);
            gpu_ops->gemm(gpu, &second);
            gpu_ops->gemm_gate_mul(
                gpu, &second,
                &(struct lf_gate_mul_params){.out = gated.ptr, .gate_up = second.y, .n_tokens = n, .dim = 4512});
            char *some = gpu_read_raw(&y), *gated_some = gpu_read_raw(&gated),
                 *some_parts = gpu_read_raw(&l.sum_squares);
            assert_memory_equal(some_parts, parts + at * (size_t)l.n_parts * 4, rows * (size_t)l.n_parts * 4);
            assert_memory_equal(some, all + at * 9024 * 2, rows * 9024 * 2);
            assert_memory_equal(gated_some, gated_all + at * 4512 * 2, rows * 4512 * 2);
            free(some_parts);
            free(gated_some);
            free(some);
            gpu_free(&gated);
            gpu_free(&y);
            gpu_free(&x);
        }
        gpu_free(&act);
        free(parts);
        free(gated_all);
        free(all);
    }
    pair_free(&l);
}

int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_norm_is_fused_into_two_gemms),
        cmocka_unit_test(fused_tokens_are_the_same_in_every_batch),
    };
    return gpu_run(tests);
}
