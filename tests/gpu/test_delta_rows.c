/* What stands around the delta rule and goes row by row, on a GPU against float64: norms of heads with a gate, and
 * gates of rows. */
#include "tests/gpu/gpu_fixture.h"

static void gated_norms_are_right(void **state)
{
    (void)state;
    uint64_t seed = 11;
    static const int dims[] = {128, 64, 8, 256, 20, 260, 7};
    for (size_t i = 0; i < LF_N_ELEMS(dims); i++)
        for (int extra = 0; extra < 2; extra++) {
            size_t t = 5, heads = 3, dim = (size_t)dims[i], n = t * heads * dim,
                   stride = heads * dim + (extra ? 12 : 0);
            float *x, *gate, *w;
            struct gpu_tensor x_t = gpu_random(gpu_act, &seed, n, 1.0f, &x),
                              w_t = gpu_random(LF_F32, &seed, dim, 1.0f, &w);
            struct gpu_tensor gate_t = gpu_random(gpu_act, &seed, t * stride, 1.0f, &gate),
                              out = gpu_poisoned(gpu_act, n);
            (void)snprintf(gpu_case, sizeof gpu_case, "gated norm of %zu, stride %zu", dim, stride);
            struct lf_gated_norm_params p = {out.ptr, x_t.ptr, gate_t.ptr, (int)stride, (float *)(void *)w_t.ptr,
                                             1e-6f,   (int)t,  (int)heads, (int)dim};
            gpu_ops->gated_norm(gpu, &p);
            p.out = x_t.ptr; /* in place: the same bytes */
            gpu_ops->gated_norm(gpu, &p);
            float *got = gpu_read(&out), *again = gpu_read(&x_t);
            for (size_t row = 0; row < t * heads; row++) {
                double sum = 0;
                for (size_t c = 0; c < dim; c++) sum += (double)x[row * dim + c] * (double)x[row * dim + c];
                for (size_t c = 0; c < dim; c++) {
                    double g = (double)gate[row / heads * stride + row % heads * dim + c];
                    double y =
                        (double)x[row * dim + c] / sqrt(sum / (double)dim + 1e-6) * (double)w[c] * g / (1 + exp(-g));
                    assert_true(fabs((double)got[row * dim + c] - y) <= gpu_rounding(gpu_act, y) + 4e-6 * fabs(y));
                    assert_true(got[row * dim + c] == again[row * dim + c]);
                }
            }
            free(got);
            free(again);
            free(x);
            free(gate);
            free(w);
            gpu_free(&x_t);
            gpu_free(&w_t);
            gpu_free(&gate_t);
            gpu_free(&out);
        }
}

static void check_gate(uint64_t *seed, size_t dim, bool is_float, bool of_token, bool has_residual)
{
    size_t t = 9, n = t * dim;
    float *x, *gate, *residual;
    enum lf_dtype type = is_float ? LF_F32 : gpu_act;
    struct gpu_tensor x_t = gpu_random(type, seed, n, 1.0f, &x),
                      residual_t = gpu_random(LF_F32, seed, n, 1.0f, &residual);
    struct gpu_tensor gate_t = gpu_random(of_token ? LF_F32 : gpu_act, seed, of_token ? t : n, 2.0f, &gate);
    struct gpu_tensor out = gpu_poisoned(type, n);
    gpu_ops->gate_sigmoid(
        gpu, &(struct lf_gate_sigmoid_params){.out = out.ptr,
                                              .x = x_t.ptr,
                                              .is_float = is_float,
                                              .gate = gate_t.ptr,
                                              .of_token = of_token,
                                              .residual = has_residual ? (float *)(void *)residual_t.ptr : NULL,
                                              .n_tokens = (int)t,
                                              .dim = (int)dim});
    float *got = gpu_read(&out);
    for (size_t i = 0; i < n; i++) {
        double y = (double)x[i] / (1 + exp(-(double)gate[of_token ? i / dim : i])),
               r = has_residual ? (double)residual[i] : 0;
        assert_true(fabs((double)got[i] - (y + r)) <= gpu_rounding(type, y + r) + 2e-6 * (fabs(y) + fabs(r)));
    }
    free(got);
    free(x);
    free(gate);
    free(residual);
    gpu_free(&x_t);
    gpu_free(&residual_t);
    gpu_free(&gate_t);
    gpu_free(&out);
}

static void gates_of_rows_are_right(void **state)
{
    (void)state;
    uint64_t seed = 12;
    static const size_t dims[] = {1, 6, 64, 1028};
    for (size_t i = 0; i < LF_N_ELEMS(dims); i++)
        for (int how = 0; how < 6; how++) check_gate(&seed, dims[i], how >= 2, how % 2 == 1, how >= 4);
}

static void no_tokens_is_no_work(void **state)
{
    (void)state;
    gpu_ops->gated_norm(gpu, &(struct lf_gated_norm_params){.n_heads = 1, .dim = 8, .gate_stride = 8});
    gpu_ops->gate_sigmoid(gpu, &(struct lf_gate_sigmoid_params){.dim = 8});
    gpu_sync();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gated_norms_are_right),
        cmocka_unit_test(gates_of_rows_are_right),
        cmocka_unit_test(no_tokens_is_no_work),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return gpu_run(tests);
}
