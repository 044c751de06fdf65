/* The ops that work on one row at a time. A row's result depends on nothing but the row: the drivers in ops_cpu.c
 * spread rows over threads and never cut one. */
#ifndef LF_DEVICE_CPU_ROW_KERNELS_H
#define LF_DEVICE_CPU_ROW_KERNELS_H

#include <stdint.h>

#include "core/dtype.h"
#include "device/ops.h"

/* gelu_tanh(g) = g · σ(LF_GELU_TANH_1·g + LF_GELU_TANH_3·g³): 2·√(2/π), and that times 0.044715. */
#define LF_GELU_TANH_1      1.59576912f
#define LF_GELU_TANH_3      0.0713548163f
#define LF_SWIGLU_OAI_SLOPE 1.702f

struct lf_row_kernels {
    /* out[i] = x[i] / sqrt(mean(x²) + eps) · weight[i] + residual[i]; weight and residual may be NULL, out may equal x
     * and residual */
    void (*rmsnorm)(float *out, const float *x, const float *weight, const float *residual, float eps, int dim);
    /* out[i] = act(gate[i], up[i]); no overlap. limit: of LF_ACT_SWIGLU_OAI */
    void (*gate_mul[LF_ACTS_N])(float *out, const float *gate, const float *up, int dim, float limit);
    /* x[i] = cap · tanh(x[i] / cap) */
    void (*softcap)(float *x, int n, float cap);
    /* x[i] = scale · x[i] */
    void (*scale)(float *x, int n, float scale);
    /* One column of a packed panel widened to float. col points at the column's k = 0. */
    void (*panel_col)(float *out, const void *col, enum lf_dtype dtype, int n_in);
    /* y = alpha · (acc + bias) + residual; bias and residual may be NULL, residual may equal y */
    void (*finish)(float *y, const float *acc, float alpha, const float *bias, const float *residual, int n);
    /* y = Σ_j weights[j] · x[j] over n_rows rows in ascending order, then + residual, which may be NULL, or y */
    void (*weighted_sum)(float *y, const float *residual, const float *const *x, const float *weights, int n_rows,
                         int n);
    /* dst[0..n) = src rounded to nearest even, dst[n..n_padded) = 0; n_padded is a multiple of 32 */
    void (*to_bf16)(uint16_t *dst, const float *src, int n, int n_padded);
};

extern const struct lf_row_kernels lf_rows_c;

/* Each replaces the entries it has something faster for. */
void lf_rows_use_avx2(struct lf_row_kernels *rows);
void lf_rows_use_avx512(struct lf_row_kernels *rows);
void lf_rows_use_avx512bf16(struct lf_row_kernels *rows);

#endif
