/* The grouped GEMM of coded weights on Hopper, a launcher as in kernels.h. */
#ifndef LF_DEVICE_CUDA_EXPERT_GEMM_CODED_SM90_H
#define LF_DEVICE_CUDA_EXPERT_GEMM_CODED_SM90_H

#include "device/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As lf_cuda_expert_gemm_sm90, whose restrictions on p are its own too; p->w has a format that
 * lf_experts_cuda_has_format allows, in the order of coded_order.h. tiles: 64 columns, 96 or 128; -1: what suits. They
 * change no bit of y: it is that of the same weights expanded. */
enum { LF_CUDA_EXPERT_CODED_TILES = 3 };
int lf_cuda_expert_gemm_coded_sm90_setup(void);
int lf_cuda_expert_gemm_coded_sm90(const struct lf_expert_gemm_params *p, size_t expert_bytes, int n_blocks, int tiles,
                                   struct lf_cuda_launch how);

#ifdef __cplusplus
}
#endif

#endif
