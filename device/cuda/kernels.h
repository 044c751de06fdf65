/* The kernels of device/cuda/: launchers that host C calls and .cu files define.
 *
 * A launcher puts its kernel into the stream and returns a cudaError_t, 0 for success. It neither allocates nor waits
 * nor reads device memory, so all can be captured in a graph. No tokens, no launch. Activations are fp16 or bf16 as
 * the launch says. `_setup` loads the file's kernels, so that no launch does; once per device, outside of a capture. */
#ifndef LF_DEVICE_CUDA_KERNELS_H
#define LF_DEVICE_CUDA_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

struct lf_cuda_launch {
    void *stream;  /* cudaStream_t */
    bool fp16;     /* activations and weights, else bf16 */
    bool overlaps; /* programmatic dependent launch */
};

int lf_cuda_norm_setup(void);
int lf_cuda_rmsnorm(const struct lf_rmsnorm_params *p, struct lf_cuda_launch how);

int lf_cuda_act_setup(void);
int lf_cuda_gate_mul(const struct lf_gate_mul_params *p, struct lf_cuda_launch how);
/* p->codes, of up to LF_GATE_CODES_DIM columns, a multiple of 8; act_codes.cu. */
int lf_cuda_gate_codes_setup(void);
int lf_cuda_gate_codes(const struct lf_gate_mul_params *p, struct lf_cuda_launch how);
int lf_cuda_softcap(const struct lf_softcap_params *p, struct lf_cuda_launch how);
/* out[i] = scale · x[i], rounded to the activations' type unless out_float. */
int lf_cuda_scale(void *out, bool out_float, const float *x, float scale, int64_t n, struct lf_cuda_launch how);

int lf_cuda_embed_setup(void);
int lf_cuda_embed(const struct lf_embed_params *p, struct lf_cuda_launch how);
/* Rows of row_bytes bytes, an even number. */
int lf_cuda_gather(void *out, const void *x, const int32_t *rows, int n_rows, size_t row_bytes,
                   struct lf_cuda_launch how);

int lf_cuda_sample_setup(void);
int lf_cuda_sample(const struct lf_sample_params *p, struct lf_cuda_launch how);
int lf_cuda_sample_counts(const struct lf_sample_counts_params *p, struct lf_cuda_launch how);

/* GEMV, gemv.cu: also with half of a fused RMSNorm. */
enum { LF_CUDA_GEMV_TOKENS = 16 };

/* *fits: a block may have the shared memory lf_cuda_gemv needs. */
int lf_cuda_gemv_setup(bool *fits);
bool lf_cuda_gemv_supports(const struct lf_gemm_params *p);
/* p's tokens, strides and alignment are supported. n_blocks: of the grid at most; it changes no bit of y. */
int lf_cuda_gemv(const struct lf_gemm_params *p, int n_blocks, struct lf_cuda_launch how);
/* As gemm_gate_mul of ops.h; p->y is not written. The same bits as lf_cuda_gate_mul of lf_cuda_gemv. */
bool lf_cuda_gemv_gate_mul_supports(const struct lf_gemm_params *p);
int lf_cuda_gemv_gate_mul(const struct lf_gemm_params *p, const struct lf_gate_mul_params *gate, int n_blocks,
                          struct lf_cuda_launch how);
/* Any shape and number of tokens, slowly. */
int lf_cuda_gemm_any(const struct lf_gemm_params *p, struct lf_cuda_launch how);

/* Coded weights, in the order of coded_order.h, gemv_quant.cu: as those above, but the grid has up to two blocks for
 * each of n_blocks. */
int lf_cuda_gemv_quant_setup(bool *fits);
bool lf_cuda_gemv_quant_supports(const struct lf_gemm_params *p, bool fp16);
int lf_cuda_gemv_quant(const struct lf_gemm_params *p, int n_blocks, struct lf_cuda_launch how);
bool lf_cuda_gemv_quant_gate_mul_supports(const struct lf_gemm_params *p, bool fp16);
int lf_cuda_gemv_quant_gate_mul(const struct lf_gemm_params *p, const struct lf_gate_mul_params *gate, int n_blocks,
                                struct lf_cuda_launch how);

/* Rows [row_first, row_first + n_rows) of w, coded, as elements of the activations' type: out [n_rows, n_in],
 * row-major. row_first is a multiple of 8. expand.cu. */
int lf_cuda_expand_setup(void);
int lf_cuda_expand(void *out, const struct lf_weight *w, int row_first, int n_rows, struct lf_cuda_launch how);

/* Experts. expert_bytes: from one expert's matrix to the next one's (lf_weight_expert_bytes). n_blocks: of the grid; it
 * changes no bit. */

int lf_cuda_route_setup(void);
int lf_cuda_route(const struct lf_route_params *p, struct lf_cuda_launch how); /* up to LF_EXPERTS_N experts */
int lf_cuda_expert_rows_setup(void);
int lf_cuda_expert_sum(const struct lf_expert_sum_params *p, struct lf_cuda_launch how);
/* Any shape and number of tokens, slowly. */
int lf_cuda_expert_gemm_any(const struct lf_expert_gemm_params *p, size_t expert_bytes, struct lf_cuda_launch how);
/* Any number of tokens; made for up to LF_CUDA_GEMV_TOKENS. *fits: a block may have the shared memory. */
int lf_cuda_expert_gemv_setup(bool *fits);
bool lf_cuda_expert_gemv_supports(const struct lf_expert_gemm_params *p);
int lf_cuda_expert_gemv(const struct lf_expert_gemm_params *p, size_t expert_bytes, int n_blocks,
                        struct lf_cuda_launch how);
/* sm_90 only, _setup too. tiles: 128 columns, 256 or 96; -1: what suits. */
enum { LF_CUDA_EXPERT_TILES = 3 };
int lf_cuda_expert_gemm_sm90_setup(void);
bool lf_cuda_expert_gemm_sm90_supports(const struct lf_expert_gemm_params *p);
int lf_cuda_expert_gemm_sm90(const struct lf_expert_gemm_params *p, size_t expert_bytes, int n_blocks, int tiles,
                             struct lf_cuda_launch how);

#ifdef __cplusplus
}
#endif

#endif
