/* Activations as FP8: E4M3 codes and scales, as GEMMs of FP8 weights on Hopper multiply them
 * (device/cuda/gemm_fp8_sm90.h). What makes activations may write them so at once, instead of as elements. Part of the
 * op table (ops.h), whose rules hold.
 *
 * A code is made of what would have been the element, already rounded to act_dtype, so a token's bits are the same
 * either way. A scale is the largest magnitude of its group / 448 (no less than 2^-126), a code the nearest to
 * x · (1 / scale). NaN makes a NaN of its own element, an infinity of all of its group. */
#ifndef LF_DEVICE_X_CODES_H
#define LF_DEVICE_X_CODES_H

#include <stdint.h>

enum lf_fp8_scales {
    LF_FP8_BLOCKS, /* a scale for each token and LF_FP8_BLOCK columns; of w for each block of as many rows and columns
                    */
    LF_FP8_ROWS    /* a scale for each token; of w for each row */
};
enum { LF_FP8_BLOCK = 128 };

/* The widest rows that a norm, and a gated activation, can write as codes. */
enum { LF_NORM_CODES_DIM = 16384, LF_GATE_CODES_DIM = 32768 };

/* All pointers are device addresses. */
struct lf_x_codes {
    uint8_t *codes;   /* [T, dim], 64-byte aligned; NULL: there are none */
    float *scales;    /* blocks: [ceil(dim / 128), scale_stride], of which T are used; rows: [T] */
    int scale_stride; /* at least T, a multiple of 4 */
    enum lf_fp8_scales by;
};

enum { LF_CODES_ALIGN = 64, LF_SCALES_STRIDE = 4 /* divides it */ };

static inline uint64_t lf_codes_bytes(int n_tokens, int dim)
{
    uint64_t n = (uint64_t)n_tokens * (uint64_t)dim;
    return (n + LF_CODES_ALIGN - 1) / LF_CODES_ALIGN * LF_CODES_ALIGN;
}

static inline int lf_scale_stride(int n_tokens)
{
    return (n_tokens + LF_SCALES_STRIDE - 1) / LF_SCALES_STRIDE * LF_SCALES_STRIDE;
}

/* Of codes and scales, by blocks or by rows. From LF_FP8_BLOCK columns on no more than of as many elements of 16 bits.
 */
static inline uint64_t lf_x_codes_bytes(int n_tokens, int dim)
{
    uint64_t n_blocks = ((uint64_t)dim + LF_FP8_BLOCK - 1) / LF_FP8_BLOCK;
    return lf_codes_bytes(n_tokens, dim) + n_blocks * (uint64_t)lf_scale_stride(n_tokens) * sizeof(float);
}

/* In so many bytes at `at`, 64-byte aligned: the scales lie behind the codes. */
static inline struct lf_x_codes lf_x_codes_at(void *at, int n_tokens, int dim, enum lf_fp8_scales by)
{
    char *codes = (char *)at, *scales = codes + lf_codes_bytes(n_tokens, dim);
    struct lf_x_codes q = {(uint8_t *)codes, (float *)(void *)scales, lf_scale_stride(n_tokens), by};
    return q;
}

#endif
