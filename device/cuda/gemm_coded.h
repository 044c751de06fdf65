/* GEMMs of coded weights on a GPU. Inside device/cuda/ only. */
#ifndef LF_DEVICE_CUDA_GEMM_CODED_H
#define LF_DEVICE_CUDA_GEMM_CODED_H

#include "device/ops.h"

/* Bytes that a GEMM of up to so many tokens and columns needs in p->scratch. */
uint64_t lf_cuda_gemm_coded_scratch(int max_tokens, int max_n_in);
/* p->w is coded and supported. */
void lf_cuda_gemm_coded(struct lf_device *dev, const struct lf_gemm_params *p);
/* As gemm_prepare of ops.h. */
void lf_cuda_gemm_coded_prepare(struct lf_device *dev, const struct lf_gemm_params *p);

#endif
