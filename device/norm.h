/* RMSNorms: on their own, or between two GEMMs as halves. Part of the op table (ops.h),
 * whose rules hold. */
#ifndef LF_DEVICE_NORM_H
#define LF_DEVICE_NORM_H

#include <stdbool.h>

#include "device/x_codes.h"

struct lf_rmsnorm_params { /* out = x / sqrt(mean(x²) + eps) · weight (+ residual) (· scale) (Zhang & Sennrich 2019) */
    void *out;             /* [T, dim], act_dtype unless out_float; may equal x on a CPU */
    const float *x;        /* [T, dim] */
    const float *weight;   /* [dim] or NULL: all are 1 */
    float eps;
    int n_tokens; /* T */
    int dim;
    const float *residual;   /* [T, dim] or NULL; only with out_float; may equal out */
    bool out_float;          /* out is float: a norm behind a GEMM, whose result is added to the residual stream */
    const float *scale;      /* [1] or NULL; only with out_float */
    struct lf_x_codes codes; /* instead of out, where quantizes_x() says so; no residual, no scale then */
};

/* Fused RMSNorm: between two GEMMs, without a pass of its own. The epilogue of the GEMM that writes the residual stream
 * y also writes h = y ∘ weight and the row sum of squares of y, in parts of LF_NORM_PART channels; the GEMM that takes
 * h as x divides its outputs by sqrt(Σ x_sum_squares / n_in + eps), which is the token's (its prologue adds the parts).
 * The roundings are as many and as large as rmsnorm's, not the same. */
enum { LF_NORM_PART = 16, LF_FUSED_NORM_TOKENS = 16 }; /* channels of a part; tokens at most */
struct lf_fused_norm {
    void *h;             /* [T, n_out], act_dtype; NULL: none */
    const float *weight; /* [n_out] */
    float *sum_squares;  /* [T, ceil(n_out / LF_NORM_PART)] */
};

#endif
