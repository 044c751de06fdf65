/* GEMMs of FP8 experts by FP8 activations (expert_gemm_fp8_sm90.h), as ops of ops.h. Inside device/cuda/ only. */
#ifndef LF_DEVICE_CUDA_EXPERTS_FP8_H
#define LF_DEVICE_CUDA_EXPERTS_FP8_H

#include "device/ops.h"

/* As expert_gemm_scratch_bytes of ops.h. */
uint64_t lf_cuda_experts_fp8_scratch(const struct lf_expert_gemm_params *p);
/* Whether it multiplies these experts, and by which scales. Nothing but w's format and shape is looked at: it is all
 * numbers of tokens or none. */
bool lf_cuda_experts_fp8_takes(const struct lf_device *dev, const struct lf_weight *w, enum lf_fp8_scales *by);
/* It takes p->w. */
void lf_cuda_experts_fp8(struct lf_device *dev, const struct lf_expert_gemm_params *p);

#endif
