/* GEMMs of FP8 weights by FP8 activations (gemm_fp8_sm90.h), as ops of ops.h. Inside device/cuda/ only. */
#ifndef LF_DEVICE_CUDA_GEMM_FP8_H
#define LF_DEVICE_CUDA_GEMM_FP8_H

#include "device/ops.h"

/* How a matrix, or each of an expert's, is scaled; false: it is not multiplied by codes. */
bool lf_cuda_fp8_op_scales(const struct lf_weight *w, enum lf_fp8_scales *by);
/* Rows of x that are quantized at a time, so that the scratch is bounded. No token's bits depend on it. */
int lf_cuda_fp8_op_chunk(int n_in);
/* Bytes that a GEMM of up to so many tokens and columns needs in p->scratch. */
uint64_t lf_cuda_fp8_op_scratch(int max_tokens, int max_n_in);
/* Whether it multiplies p's matrix. p->n_tokens is not looked at: it is all numbers of tokens or none. */
bool lf_cuda_fp8_op_takes(const struct lf_device *dev, const struct lf_gemm_params *p);
/* As quantizes_x of ops.h, of a matrix. */
bool lf_cuda_fp8_op_quantizes_x(const struct lf_device *dev, const struct lf_weight *w, enum lf_fp8_scales *by);
/* It takes p, and p has no part of a fused RMSNorm. */
void lf_cuda_fp8_op(struct lf_device *dev, const struct lf_gemm_params *p);
/* At opening: whether this GPU has the kernels, and loads them. */
int lf_cuda_fp8_op_setup(struct lf_device *dev);

#endif
