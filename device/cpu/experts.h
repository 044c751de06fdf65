/* The ops of experts on a CPU (device/ops.h). Entries of the op table. */
#ifndef LF_DEVICE_CPU_EXPERTS_H
#define LF_DEVICE_CPU_EXPERTS_H

#include "device/ops.h"

void lf_cpu_route(struct lf_device *dev, const struct lf_route_params *p);
uint64_t lf_cpu_expert_gemm_scratch_bytes(const struct lf_expert_gemm_params *p);
void lf_cpu_expert_gemm(struct lf_device *dev, const struct lf_expert_gemm_params *p);
void lf_cpu_expert_sum(struct lf_device *dev, const struct lf_expert_sum_params *p);

#endif
