/* A random GEMM for the programs of the GPU lane. */
#ifndef LF_TESTS_GPU_GPU_GEMM_H
#define LF_TESTS_GPU_GPU_GEMM_H

#include "tests/gpu/gpu_fixture.h"

struct gemm_case {
    int n_tokens, n_in, n_out;
    bool y_float, bias, residual, in_place;
    int x_gap, y_gap;
    float alpha; /* 0: 1 */
};

struct gemm_data {
    struct gpu_weight gw;
    struct gpu_tensor x, y, bias, residual;
    float *x_values, *bias_values, *residual_values;
    struct lf_gemm_params p;
};

static inline void gemm_make(struct gemm_data *d, const struct gemm_case *c, uint64_t *seed)
{
    d->gw = gpu_weight(seed, LF_BF16, c->n_out, c->n_in, 1.0f);
    size_t x_stride = (size_t)(c->n_in + c->x_gap), y_stride = (size_t)(c->n_out + c->y_gap), t = (size_t)c->n_tokens;
    enum lf_dtype y_dtype = c->y_float ? LF_F32 : gpu_act;
    d->x = gpu_random(gpu_act, seed, t * x_stride, 1.0f, &d->x_values);
    d->bias = gpu_random(LF_F32, seed, (size_t)c->n_out, 1.0f, &d->bias_values);
    d->residual = gpu_random(LF_F32, seed, t * y_stride, 3.0f, &d->residual_values);
    if (c->in_place)
        d->y = gpu_tensor(y_dtype, d->residual_values, t * y_stride);
    else
        d->y = gpu_poisoned(y_dtype, t * y_stride);
    d->p = (struct lf_gemm_params){.alpha = c->alpha != 0.0f ? c->alpha : 1.0f,
                                   .y = d->y.ptr,
                                   .y_float = c->y_float,
                                   .x = d->x.ptr,
                                   .w = &d->gw.w,
                                   .bias = c->bias ? (const float *)(void *)d->bias.ptr : NULL,
                                   .residual = c->in_place   ? (const float *)(void *)d->y.ptr
                                               : c->residual ? (const float *)(void *)d->residual.ptr
                                                             : NULL,
                                   .n_tokens = c->n_tokens,
                                   .x_stride = (int)x_stride,
                                   .y_stride = (int)y_stride};
}

static inline void gemm_free(struct gemm_data *d)
{
    gpu_weight_free(&d->gw);
    gpu_free(&d->x);
    gpu_free(&d->y);
    gpu_free(&d->bias);
    gpu_free(&d->residual);
    free(d->x_values);
    free(d->bias_values);
    free(d->residual_values);
}

#endif
