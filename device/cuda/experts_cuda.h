/* The ops of experts on a GPU. Inside device/cuda/ only. */
#ifndef LF_DEVICE_CUDA_EXPERTS_CUDA_H
#define LF_DEVICE_CUDA_EXPERTS_CUDA_H

#include "device/cuda/cuda_impl.h"

/* Loads their kernels; a cudaError_t. */
int lf_experts_cuda_setup(struct lf_device *dev);
void lf_experts_cuda_fill(struct lf_ops *ops); /* their entries */
/* Whether coded matrices of experts can stay so; the device may be one that is only described. */
bool lf_experts_cuda_has_format(const struct lf_device *dev, const struct lf_format *format, int n_out, int n_in);

#endif
