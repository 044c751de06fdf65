/* gated_norm and gate_sigmoid against float64, and a row's bits against the same row's alone, for one instruction set.
 *
 *     test_gated ISA
 *
 * Tolerances are bounds, as in test_ops.c. */
#include "tests/parity/device/ops_fixture.h"

#include "core/check.h"

static struct lf_device *devs[3]; /* 1, 2 and 3 threads */

static double silu(double x)
{
    return x / (1.0 + exp(-x));
}

static void check_gated_norm(int n_heads, int dim, int n_tokens, bool in_place, uint64_t *seed)
{
    size_t row = (size_t)n_heads * (size_t)dim, t = (size_t)n_tokens, d = (size_t)dim, stride = row + 5;
    float *values = fixture_floats(seed, t * row, 3.0f), *gates = fixture_floats(seed, t * stride, 4.0f);
    float *weight = fixture_floats(seed, d, 1.0f);
    struct test_guarded gate = test_guarded_copy(gates, (t * stride - 5) * sizeof(float));
    struct test_guarded x = test_guarded_copy(values, t * row * sizeof(float));
    struct fixture_out out = fixture_out(t * row);
    if (in_place) memcpy(out.ptr, values, t * row * sizeof(float));
    struct lf_gated_norm_params p = {.out = out.ptr,
                                     .x = in_place ? (void *)out.ptr : x.ptr,
                                     .gate = gate.ptr,
                                     .gate_stride = (int)stride,
                                     .weight = weight,
                                     .eps = 1e-3f,
                                     .n_tokens = n_tokens,
                                     .n_heads = n_heads,
                                     .dim = dim};
    lf_device_ops(devs[n_tokens % 3])->gated_norm(devs[n_tokens % 3], &p);
    for (size_t i = 0; i < t * row; i++) {
        const float *head = values + i / d * d;
        double sum = 0.0, by = (double)gates[i / row * stride + i % row];
        for (size_t j = 0; j < d; j++) sum += (double)head[j] * (double)head[j];
        double expected = (double)values[i] / sqrt(sum / dim + 1e-3) * (double)weight[i % d] * silu(by);
        double allowed = fabs(expected) * ldexp(dim / 2.0 + 16.0, -23) + 1e-36;
        if (!(fabs((double)out.ptr[i] - expected) <= allowed))
            fail_msg("gated_norm, %d heads of %d: [%zu] is %.9g, expected %.9g", n_heads, dim, i, (double)out.ptr[i],
                     expected);
    }
    /* a row alone has the same bits */
    float *alone = fixture_alloc(row * sizeof(float));
    for (size_t r = 0; r < t; r++) {
        p.out = alone;
        p.x = values + r * row;
        p.gate = gates + r * stride;
        p.n_tokens = 1;
        lf_device_ops(devs[r % 3])->gated_norm(devs[r % 3], &p);
        assert_memory_equal(alone, out.ptr + r * row, row * sizeof(float));
    }
    free(alone);
    fixture_out_check_and_free(&out);
    test_guarded_free(&x);
    test_guarded_free(&gate);
    free(weight);
    free(gates);
    free(values);
}

static void gated_norm_is_right(void **state)
{
    (void)state;
    uint64_t seed = 39;
    static const int dims[] = {8, 24, 64, 128, 256};
    for (size_t i = 0; i < LF_N_ELEMS(dims); i++)
        for (int n_heads = 1; n_heads < 8; n_heads += 3)
            for (int t = 1; t < 80; t += 26) check_gated_norm(n_heads, dims[i], t, i % 2 == 0, &seed);
}

enum target { APART, ON_X, ON_RESIDUAL };

static void check_sigmoid(int dim, int n_tokens, bool of_token, bool add, enum target target, uint64_t *seed)
{
    size_t t = (size_t)n_tokens, d = (size_t)dim, n_gates = of_token ? t : t * d;
    float *x = fixture_floats(seed, t * d, 3.0f), *gates = fixture_floats(seed, n_gates, 6.0f);
    float *residual = fixture_floats(seed, t * d, 2.0f);
    struct test_guarded gate = test_guarded_copy(gates, n_gates * sizeof(float));
    struct fixture_out out = fixture_out(t * d);
    if (target != APART) memcpy(out.ptr, target == ON_X ? x : residual, t * d * sizeof(float));
    struct lf_gate_sigmoid_params p = {.out = out.ptr,
                                       .x = target == ON_X ? out.ptr : x,
                                       .is_float = add,
                                       .gate = gate.ptr,
                                       .of_token = of_token,
                                       .residual = !add                    ? NULL
                                                   : target == ON_RESIDUAL ? out.ptr
                                                                           : residual,
                                       .n_tokens = n_tokens,
                                       .dim = dim};
    lf_device_ops(devs[n_tokens % 3])->gate_sigmoid(devs[n_tokens % 3], &p);
    for (size_t i = 0; i < t * d; i++) {
        double by = (double)gates[of_token ? i / d : i], product = (double)x[i] / (1.0 + exp(-by));
        double expected = product + (add ? (double)residual[i] : 0.0);
        double allowed = ldexp(8.0 * fabs(product) + fabs(expected), -23) + 1e-36;
        if (!(fabs((double)out.ptr[i] - expected) <= allowed))
            fail_msg("gate_sigmoid: [%zu] is %.9g, expected %.9g", i, (double)out.ptr[i], expected);
    }
    float *alone = fixture_alloc(d * sizeof(float));
    for (size_t r = 0; r < t; r++) {
        p.out = alone;
        p.x = x + r * d;
        p.gate = gates + (of_token ? r : r * d);
        p.residual = add ? residual + r * d : NULL;
        p.n_tokens = 1;
        lf_device_ops(devs[r % 3])->gate_sigmoid(devs[r % 3], &p);
        assert_memory_equal(alone, out.ptr + r * d, d * sizeof(float));
    }
    free(alone);
    fixture_out_check_and_free(&out);
    test_guarded_free(&gate);
    free(residual);
    free(gates);
    free(x);
}

static void gate_sigmoid_is_right(void **state)
{
    (void)state;
    uint64_t seed = 40;
    static const int dims[] = {1, 7, 16, 33, 256, 1000};
    for (size_t i = 0; i < LF_N_ELEMS(dims); i++)
        for (int kind = 0; kind < 4; kind++)
            for (int target = APART; target <= (kind % 2 ? ON_RESIDUAL : ON_X); target++)
                for (int t = 1; t < 40; t += 19)
                    check_sigmoid(dims[i], t, kind / 2 == 1, kind % 2 == 1, (enum target)target, &seed);
}

static void sigmoid_holds_over_the_whole_range(void **state)
{
    (void)state;
    enum { N = 40001 };
    float *x = fixture_alloc(N * sizeof(float)), *gate = fixture_alloc(N * sizeof(float));
    float *out = fixture_alloc(N * sizeof(float));
    for (int i = 0; i < N; i++) {
        gate[i] = (float)(i - N / 2) * 0.01f; /* -200 .. 200 */
        x[i] = 1.5f - (float)(i % 40);
    }
    struct lf_gate_sigmoid_params p = {.out = out, .x = x, .gate = gate, .n_tokens = 1, .dim = N};
    lf_device_ops(devs[0])->gate_sigmoid(devs[0], &p);
    for (int i = 0; i < N; i++) {
        double expected = (double)x[i] / (1.0 + exp(-(double)gate[i]));
        assert_true(fabs((double)out[i] - expected) <= fabs(expected) * ldexp(8.0, -23) + 1e-36);
    }
    float special[] = {NAN, INFINITY, -INFINITY, 0.0f}, ones[] = {1.0f, 1.0f, 1.0f, NAN}, got[4];
    p = (struct lf_gate_sigmoid_params){.out = got, .x = ones, .gate = special, .n_tokens = 1, .dim = 4};
    lf_device_ops(devs[0])->gate_sigmoid(devs[0], &p);
    assert_true(isnan(got[0]) && got[1] == 1.0f && fabsf(got[2]) < 1e-36f && isnan(got[3]));
    free(x);
    free(gate);
    free(out);
}

static void no_tokens_are_no_work(void **state)
{
    (void)state;
    const struct lf_ops *ops = lf_device_ops(devs[1]);
    ops->gated_norm(devs[1], &(struct lf_gated_norm_params){.n_heads = 1, .dim = 8});
    ops->gate_sigmoid(devs[1], &(struct lf_gate_sigmoid_params){.dim = 8});
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s c|avx2|avx512|avx512-bf16|amx\n", argv[0]);
        return 2;
    }
    for (int i = 0; i < 3; i++) devs[i] = fixture_open(fixture_isa(argv[1]), i + 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gated_norm_is_right),
        cmocka_unit_test(gate_sigmoid_is_right),
        cmocka_unit_test(sigmoid_holds_over_the_whole_range),
        cmocka_unit_test(no_tokens_are_no_work),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < 3; i++) lf_device_close(devs[i]);
    return rc;
}
