/* Weights in a GPU's memory: their entries of the op table. Inside device/cuda/ only. */
#ifndef LF_DEVICE_CUDA_WEIGHTS_CUDA_H
#define LF_DEVICE_CUDA_WEIGHTS_CUDA_H

#include "device/cuda/cuda_impl.h"

void lf_weights_cuda_fill(struct lf_ops *ops);

#endif
