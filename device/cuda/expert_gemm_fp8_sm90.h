/* The grouped GEMM of FP8 weights by FP8 activations on Hopper, a launcher as in kernels.h. */
#ifndef LF_DEVICE_CUDA_EXPERT_GEMM_FP8_SM90_H
#define LF_DEVICE_CUDA_EXPERT_GEMM_FP8_SM90_H

#include "device/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of p: n_in divisible by 16, n_out by 8, what lf_cuda_expert_gemm_sm90 asks for beside that; x_codes [T, n_in] by
 * token, else those of sorted rows [row0, row0 + n_rows), and of y these rows alone are written. w_scales: of the first
 * expert, as those of struct lf_fp8_gemm_params. A row has the bits that lf_cuda_gemm_fp8 gives it with its expert's
 * matrix. tiles: 128 rows by 128 columns, 256 by 128, or 128 by 96; -1: what suits. They change no bit of y. */
enum { LF_CUDA_EXPERT_FP8_TILES = 3 };
int lf_cuda_expert_gemm_fp8_sm90_setup(void);
int lf_cuda_expert_gemm_fp8_sm90(const struct lf_expert_gemm_params *p, const float *w_scales, size_t expert_bytes,
                                 int row0, int n_rows, int n_blocks, int tiles, struct lf_cuda_launch how);

#ifdef __cplusplus
}
#endif

#endif
