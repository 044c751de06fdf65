/* Who computes what with experts, on a GPU, against the plain C reference, to the last row. Skipped (77) where no GPU
 * opens.
 *
 *     test_route [PATTERN]   (of the names of tests) */
#include "tests/gpu/gpu_routing.h"

/* Of a token, against float64: a float exponential is off by 2 units and by its argument's rounding, a sum over the
 * lanes of a warp by a unit for each of its terms that a lane adds. NaN is where the reference has it. */
static void check_weights(const struct routing *r, size_t token, const float *weights)
{
    const float *logits = r->logits + token * (size_t)r->n_experts, *reference = r->weights + token * (size_t)r->k;
    double chosen[LF_EXPERTS_PER_TOKEN_N], scales[LF_EXPERTS_PER_TOKEN_N], all = 0.0, of_chosen = 0.0, top = 0.0;
    for (int e = 0, i = 0; i < r->k; i++) {
        int place = r->places[token * (size_t)r->k + (size_t)i];
        for (e = 0; r->first[e + 1] <= place; e++) continue;
        chosen[i] = (double)logits[e];
        scales[i] = (double)r->p.scale * (r->p.expert_scale ? (double)r->p.expert_scale[e] : 1.0);
        if (i == 0) top = chosen[0];
    }
    for (int e = 0; e < r->n_experts; e++) all += exp((double)logits[e] - top);
    for (int i = 0; i < r->k; i++) of_chosen += exp(chosen[i] - top);
    for (int i = 0; i < r->k; i++) {
        if (isnan(reference[i]) && isnan(weights[i])) continue;
        double sum = r->p.route == LF_ROUTE_SOFTMAX ? all : of_chosen;
        double expected = exp(chosen[i] - top) / sum * scales[i];
        double units = 24.0 + r->n_experts / 32.0 + fmin(top - chosen[i], 200.0),
               allowed = ldexp(units * expected, -23) + 1e-37;
        if (!(fabs((double)weights[i] - expected) <= allowed))
            fail_msg("%s: weight %d of token %zu is %g, expected %g within %g", gpu_case, i, token, (double)weights[i],
                     expected, allowed);
    }
}

static void check_route(const struct routing *r)
{
    size_t n = (size_t)r->n_tokens * (size_t)r->k, n_first = (size_t)r->n_experts + 1;
    struct gpu_tensor weights = gpu_poisoned(LF_F32, n), rows = gpu_poisoned(LF_F32, n);
    struct gpu_tensor places = gpu_poisoned(LF_F32, n), first = gpu_poisoned(LF_F32, n_first);
    struct lf_route_params p = r->p;
    p.logits = (const float *)(void *)r->dev_logits.ptr;
    if (p.expert_scale) p.expert_scale = (const float *)(void *)r->dev_scales.ptr;
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
    for (size_t t = 0; t < (size_t)r->n_tokens; t++) check_weights(r, t, w + t * (size_t)r->k);
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
