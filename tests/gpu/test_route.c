/* Who computes what with experts, on a GPU, against the plain C reference, to the last row. Skipped (77) where no GPU
 * opens.
 *
 *     test_route [PATTERN]   (of the names of tests) */
#include "tests/gpu/gpu_routing.h"

static void check_route(const struct routing *r)
{
    size_t n = (size_t)r->n_tokens * (size_t)r->k, n_first = (size_t)r->n_experts + 1;
    struct gpu_tensor weights = gpu_poisoned(LF_F32, n), rows = gpu_poisoned(LF_F32, n);
    struct gpu_tensor places = gpu_poisoned(LF_F32, n), first = gpu_poisoned(LF_F32, n_first);
    struct lf_route_params p = r->p;
    p.logits = (const float *)(void *)r->dev_logits.ptr;
    p.weights = (float *)(void *)weights.ptr;
    p.rows = (int32_t *)(void *)rows.ptr;
    p.places = (int32_t *)(void *)places.ptr;
    p.first = (int32_t *)(void *)first.ptr;
    gpu_ops->route(gpu, &p);
    char *got = gpu_read_raw(&first);
    assert_memory_equal(got, r->first, n_first * sizeof(int32_t));
    free(got);
    got = gpu_read_raw(&places);
    assert_memory_equal(got, r->places, n * sizeof(int32_t));
    free(got);
    got = gpu_read_raw(&rows);
    assert_memory_equal(got, r->rows, n * sizeof(int32_t));
    free(got);
    float *w = gpu_read(&weights);
    for (size_t i = 0; i < n; i++) {
        if (isnan(r->weights[i]) && isnan(w[i])) continue;
        double expected = (double)r->weights[i], allowed = fabs(expected) * 1e-5 + 1e-37; /* sums of up to 1,024 */
        if (!(fabs((double)w[i] - expected) <= allowed))
            fail_msg("%s: weight %zu is %g, expected %g", gpu_case, i, (double)w[i], expected);
    }
    free(w);
    gpu_free(&first);
    gpu_free(&places);
    gpu_free(&rows);
    gpu_free(&weights);
}

static void run_route_case(uint64_t *seed, int n_tokens, int n_experts, int k)
{
    for (int kind = 0; kind < N_KINDS; kind++) {
        for (int route = LF_ROUTE_SOFTMAX; route <= LF_ROUTE_TOPK_SOFTMAX; route++) {
            if (n_tokens > 1000 && route != kind % 3) continue;
            (void)snprintf(gpu_case, sizeof gpu_case, "T=%d E=%d k=%d kind %d route %d", n_tokens, n_experts, k, kind,
                           route);
            struct routing r = routing_make(seed, (enum kind)kind, (enum lf_route)route, n_tokens, n_experts, k);
            check_route(&r);
            routing_free(&r);
        }
    }
}

static void routes_are_those_of_the_reference(void **state)
{
    (void)state;
    uint64_t seed = 1;
    /* up to 512 rows in one block, then in three kernels */
    static const int shapes[][3] = {{1, 128, 8},   {1, 32, 4},    {1, 1, 1},      {1, 1024, 64},   {2, 8, 2},
                                    {7, 60, 4},    {16, 128, 8},  {16, 33, 32},   {64, 128, 8},    {65, 128, 8},
                                    {128, 32, 4},  {129, 32, 4},  {100, 512, 33}, {333, 1000, 17}, {512, 5, 1},
                                    {513, 1, 1},   {700, 257, 9}, {999, 64, 6},   {2048, 128, 8},  {8192, 128, 8},
                                    {8192, 32, 4}, {9001, 40, 3}};
    for (size_t s = 0; s < LF_N_ELEMS(shapes); s++) run_route_case(&seed, shapes[s][0], shapes[s][1], shapes[s][2]);
}

static void no_tokens_are_routed_nowhere(void **state)
{
    (void)state;
    static const int32_t zeros[9];
    struct gpu_tensor first = gpu_poisoned(LF_F32, 9);
    gpu_ops->route(
        gpu, &(struct lf_route_params){.n_experts = 8, .k = 2, .first = (int32_t *)(void *)first.ptr, .scale = 1});
    char *got = gpu_read_raw(&first);
    assert_memory_equal(got, zeros, sizeof zeros);
    free(got);
    gpu_free(&first);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(routes_are_those_of_the_reference),
        cmocka_unit_test(no_tokens_are_routed_nowhere),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    cpu = fixture_open(LF_ISA_C, 0);
    int rc = gpu_run(tests);
    lf_device_close(cpu);
    return rc;
}
