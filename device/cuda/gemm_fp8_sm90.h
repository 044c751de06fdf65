/* FP8 GEMM on Hopper: quantized activations times quantized weights, and the quantizing of activations.
 *
 *     y[t, n] = alpha · (Σ_k x[t, k] · w[n, k] (+ bias[n])) (+ residual[t, n])
 *
 * x and w are e4m3 codes times float scales, in one of two ways:
 *   blocks  a scale for each token × 128 of n_in, and one for each 128 × 128 of w (arXiv 2412.19437, 3.3)
 *   rows    a scale for each token, and one for each row of w
 *
 * One order of sums. Of each 128 of n_in, in ascending order, the tensor core makes a sum in its own accumulator, from
 * zero; it is added to a float, times the product of its two scales where there are blocks. So y[t, n] has the same
 * bits in any number of tokens, wherever the token stands and whatever the others hold.
 *
 * As in kernels.h launchers return a cudaError_t and neither allocate nor wait nor read device memory. Many tokens, and
 * who multiplies how many: gemm_fp8_sm90.cu; few: gemm_fp8_few_sm90.cu; quantizing: quant_rows.cu. */
#ifndef LF_DEVICE_CUDA_GEMM_FP8_SM90_H
#define LF_DEVICE_CUDA_GEMM_FP8_SM90_H

#include "device/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All pointers are device addresses, 16-byte aligned. */
struct lf_fp8_gemm_params {
    void *y;      /* [T, n_out], row stride y_stride; float if y_float, else the activations' type */
    bool y_float; /* also: residual may be given */
    enum lf_fp8_scales by;
    const uint8_t *x;      /* [T, n_in] codes */
    const float *x_scales; /* blocks: [ceil(n_in / 128), x_scale_stride], of which T are used; rows: [T] */
    int x_scale_stride;    /* at least T, a multiple of 4 */
    const uint8_t *w;      /* [n_out, n_in] codes */
    const float *w_scales; /* blocks: [ceil(n_out / 128), ceil(n_in / 128)]; rows: [n_out] */
    const float *bias;     /* [n_out] or NULL */
    const float *residual; /* [T, n_out], row stride y_stride, or NULL; may equal y */
    float alpha;           /* 1: as it is, to the bit */
    int n_tokens, n_in, n_out, y_stride;
};

/* Quantizes activations (x_codes.h). */
struct lf_quant_params {
    struct lf_x_codes to; /* [T, n_in] */
    const void *x;        /* [T, n_in], row stride x_stride, the activations' type */
    int n_tokens, n_in, x_stride;
};

int lf_cuda_quant_rows_setup(void);
/* n_in and x_stride are multiples of 8, x is 16-byte aligned, codes 8-byte. */
bool lf_cuda_quant_rows_supports(const struct lf_quant_params *p);
int lf_cuda_quant_rows(const struct lf_quant_params *p, struct lf_cuda_launch how);

/* sm_90 only, _setup too. tiles: 0 up to LF_FP8_FEW_TOKENS tokens, 1 of 128 tokens, 2 of 256, 3 of 256 in pairs; -1
 * what suits. They change no bit of y. n_blocks: multiprocessors to use, at least 2. */
enum { LF_FP8_TILES = 4, LF_FP8_FEW_TOKENS = 64 };
int lf_cuda_gemm_fp8_setup(void);
/* n_in is a multiple of 16, n_out and y_stride of 8. */
bool lf_cuda_gemm_fp8_supports(const struct lf_fp8_gemm_params *p);
int lf_cuda_gemm_fp8(const struct lf_fp8_gemm_params *p, int n_blocks, int tiles, struct lf_cuda_launch how);

#ifdef __cplusplus
}
#endif

#endif
