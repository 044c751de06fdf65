/* The order of coded weights (core/format.h) in a GPU's memory: what the packer writes and kernels read. Host and
 * device; no state.
 *
 * I4 and E2M1, [n_out, n_in]. Rows are taken in runs of 8, columns in blocks of 128; a block of a run is 512 bytes, one
 * run's blocks lie side by side, runs one behind the other, zeros behind the last row and column. In a block row r has
 * 64 bytes, and in these lane t of a quad has 16 (gemv.cuh: lane 4r + t of a warp):
 *
 *     word s of lane t │ columns 32 s + 8 t + 0 … 7 of the block, as four pairs
 *
 * so what a lane of a GEMV multiplies is one load of 16 bytes, and a warp's 32 lanes read 512 bytes in a row. In a word
 * a pair of codes is where two elements of 16 bits can be cut out of it with few instructions. I4: pair p has the bits
 * 4p … 4p + 3, its second element 16 bits on. E2M1: sign, exponent and mantissa of an element stand as those of a bf16
 * stand (bits 15, 8, 7 and 6), and the pairs, rotated, fill the word without overlap (lf_e2m1_word).
 *
 * Behind the codes their scales, in the same order of runs and blocks: [8 rows][128 / group], for I4 in the type of the
 * activations, for E2M1 a byte, the exponent of a bf16 (lf_e2m1_scale_byte). Behind these, of I4 with zero points, [8
 * rows][128 / group] bytes. A group of 0 or of a multiple of 128 is kept as 128.
 *
 * E4M3: row-major bytes [n_out, n_in] and behind them, at a multiple of 256, float scales [ceil(n_out / group_rows)]
 * [n_groups]. */
#ifndef LF_DEVICE_CUDA_CODED_ORDER_H
#define LF_DEVICE_CUDA_CODED_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/format.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    LF_CODED_RUN = 8,
    LF_CODED_BLOCK_K = 128,
    LF_CODED_ROW_BYTES = LF_CODED_BLOCK_K / 2, /* of a row in a block */
    LF_CODED_BLOCK_BYTES = LF_CODED_RUN * LF_CODED_ROW_BYTES,
    /* E2M1: sums are kept smaller by this power of two, so that no scale leaves bf16 (lf_e2m1_scale_byte). */
    LF_E2M1_SHIFT = 48
};

/* Sizes, and where the parts begin. */
struct lf_coded_order {
    int n_runs, n_blocks; /* I4, E2M1 */
    int groups;           /* of a row in a block */
    int scale_bytes;      /* of a row in a block */
    int zero_bytes;       /* likewise; 0: no zero points */
    int scale_rows;       /* E4M3: rows that share a scale, */
    int scale_columns;    /* and columns; */
    int n_groups;         /* scales of a row */
    size_t scales_at, zeros_at, bytes;
};

/* Whether there is an order for it: E4M3 with n_in divisible by 16 and whole or 128-column groups; I4 in groups of 32,
 * 64, a multiple of 128 or whole rows; E2M1 in groups of 32. */
bool lf_coded_order_has(const struct lf_format *f, int n_in);
/* f has one. */
struct lf_coded_order lf_coded_order_of(const struct lf_format *f, int n_out, int n_in);

/* A word of E2M1 codes: codes[i] is column i's. */
uint32_t lf_e2m1_word(const uint8_t codes[8]);
/* Of a scale, a power of two from 2^-77 to 2^49 (beyond, the nearest of these): the exponent field of scale ·
 * 2^(126 - LF_E2M1_SHIFT) as bf16. */
uint8_t lf_e2m1_scale_byte(float scale);

/* What a row has in a block: LF_CODED_ROW_BYTES of codes, from n columns' (128, or the last ones); its scales and zero
 * points, from the row's. act: what scales of I4 are rounded to, LF_BF16 or LF_F16. */
void lf_coded_pack_codes(const struct lf_format *f, const uint8_t *codes, int n, uint8_t out[LF_CODED_ROW_BYTES]);
void lf_coded_pack_scales(const struct lf_format *f, int n_in, enum lf_dtype act, int block, const float *scales,
                          uint8_t *out);
void lf_coded_pack_zeros(const struct lf_format *f, int n_in, int block, const uint8_t *zeros, uint8_t *out);
/* The inverse: the block's values, out [n]. zeros: NULL where there are none. */
void lf_coded_unpack(const struct lf_format *f, enum lf_dtype act, int n, const uint8_t codes[LF_CODED_ROW_BYTES],
                     const uint8_t *scales, const uint8_t *zeros, float *out);

#ifdef __cplusplus
}
#endif

#endif
