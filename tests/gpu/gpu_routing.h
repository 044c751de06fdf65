/* Random routings for the programs of the GPU lane, as the plain C reference has them. */
#ifndef LF_TESTS_GPU_GPU_ROUTING_H
#define LF_TESTS_GPU_GPU_ROUTING_H

#include "tests/gpu/gpu_fixture.h"

static struct lf_device *cpu; /* the plain C reference */

enum kind {
    SPREAD,  /* everybody has about as much to do */
    TIES,    /* logits of five values */
    EQUAL,   /* all the same */
    CROWDED, /* all tokens choose the last k experts */
    SPARSE,  /* every fifth expert, others have no row */
    WILD,    /* infinite ones and NaN among them */
    N_KINDS
};

struct routing {
    int n_tokens, n_experts, k;
    float *logits, *weights; /* host, as the reference has it */
    float *scales;           /* [n_experts], of every second routing: those of odd numbers of tokens */
    int32_t *rows, *places, *first;
    struct gpu_tensor dev_logits, dev_scales;
    struct lf_route_params p; /* of the reference */
};

static inline float logit(uint64_t *seed, enum kind kind, const struct routing *r, int expert)
{
    float x = fixture_normal(seed);
    switch (kind) {
    case TIES:
        return (float)fixture_between(seed, -2, 2) * (x < 0 ? -0.5f : 0.5f);
    case EQUAL:
        return 0.25f;
    case CROWDED:
        return expert >= r->n_experts - r->k ? 20.0f + x : x;
    case SPARSE:
        return expert % 5 == 0 ? 20.0f + x : x;
    case WILD:
        switch (fixture_between(seed, 0, 6)) {
        case 0:
            return NAN;
        case 1:
            return -INFINITY;
        case 2:
            return expert % 7 == 0 ? INFINITY : -0.0f;
        default:
            return x;
        }
    default:
        return x;
    }
}

static inline struct routing routing_make(uint64_t *seed, enum kind kind, enum lf_route route, int n_tokens,
                                          int n_experts, int k)
{
    struct routing r = {.n_tokens = n_tokens, .n_experts = n_experts, .k = k};
    size_t n = (size_t)n_tokens * (size_t)k, n_logits = (size_t)n_tokens * (size_t)n_experts;
    r.logits = fixture_alloc(n_logits * sizeof(float));
    for (size_t i = 0; i < n_logits; i++) r.logits[i] = logit(seed, kind, &r, (int)(i % (size_t)n_experts));
    r.dev_logits = gpu_poisoned(LF_F32, n_logits);
    lf_upload(gpu, r.dev_logits.ptr, r.logits, n_logits * sizeof(float));
    r.scales = fixture_alloc((size_t)n_experts * sizeof(float));
    for (int e = 0; e < n_experts; e++) r.scales[e] = 0.25f + (float)(e % 9) * 0.125f;
    r.dev_scales = gpu_poisoned(LF_F32, (size_t)n_experts);
    lf_upload(gpu, r.dev_scales.ptr, r.scales, (size_t)n_experts * sizeof(float));
    r.weights = fixture_alloc(n * sizeof(float));
    r.rows = fixture_alloc(n * sizeof(int32_t));
    r.places = fixture_alloc(n * sizeof(int32_t));
    r.first = fixture_alloc(((size_t)n_experts + 1) * sizeof(int32_t));
    r.p = (struct lf_route_params){.logits = r.logits,
                                   .route = route,
                                   .n_tokens = n_tokens,
                                   .n_experts = n_experts,
                                   .k = k,
                                   .scale = 1.5f,
                                   .expert_scale = n_tokens % 2 ? r.scales : NULL,
                                   .weights = r.weights,
                                   .rows = r.rows,
                                   .places = r.places,
                                   .first = r.first};
    lf_device_ops(cpu)->route(cpu, &r.p);
    return r;
}

static inline void routing_free(struct routing *r)
{
    gpu_free(&r->dev_logits);
    gpu_free(&r->dev_scales);
    free(r->logits);
    free(r->scales);
    free(r->weights);
    free(r->rows);
    free(r->places);
    free(r->first);
}

#endif
