/* GEMM by cuBLASLt, float accumulation. Inside device/cuda/ only; see gemm_cublaslt.c. */
#ifndef LF_DEVICE_CUDA_GEMM_CUBLASLT_H
#define LF_DEVICE_CUDA_GEMM_CUBLASLT_H

#include "device/cuda/cuda_impl.h"

LF_MUST_CHECK enum lf_status lf_cuda_gemm_create(struct lf_device *dev, struct lf_err *err);
void lf_cuda_gemm_destroy(struct lf_device *dev); /* accepts a device without */
/* Chooses algorithms for 1 .. p->n_tokens tokens of p's shape and runs each once over p's tensors. */
void lf_cuda_gemm_prepare(struct lf_device *dev, const struct lf_gemm_params *p);
void lf_cuda_gemm_run(struct lf_device *dev, const struct lf_gemm_params *p);

#endif
