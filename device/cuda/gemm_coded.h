/* GEMMs of coded weights on a GPU. Inside device/cuda/ only. */
#ifndef LF_DEVICE_CUDA_GEMM_CODED_H
#define LF_DEVICE_CUDA_GEMM_CODED_H

#include "device/ops.h"

/* Bytes that a GEMM of up to so many tokens and columns needs in p->scratch. */
uint64_t lf_cuda_gemm_coded_scratch(int max_tokens, int max_n_in);
/* p->w is coded and supported. */
void lf_cuda_gemm_coded(struct lf_device *dev, const struct lf_gemm_params *p);
/* p of n_tokens tokens from token `first` on. */
static inline struct lf_gemm_params lf_cuda_gemm_tokens(const struct lf_gemm_params *p, int first, int n_tokens)
{
    struct lf_gemm_params some = *p;
    size_t y = (size_t)first * (size_t)p->y_stride;
    some.x = (const char *)p->x + (size_t)first * (size_t)p->x_stride * 2;
    some.y = (char *)p->y + y * (p->y_float ? sizeof(float) : 2);
    if (p->residual) some.residual = p->residual + y;
    some.n_tokens = n_tokens;
    return some;
}
/* As gemm_prepare of ops.h. */
void lf_cuda_gemm_coded_prepare(struct lf_device *dev, const struct lf_gemm_params *p);

#endif
