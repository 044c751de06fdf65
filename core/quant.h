/* The numbers behind codes, and quantizing: the plain C reference of everything that reads, makes or multiplies coded
 * weights. No state; any thread. */
#ifndef LF_CORE_QUANT_H
#define LF_CORE_QUANT_H

#include "core/format.h"

/* The number of a code, zero points aside: E4M3 and E2M1 as the formats say (NaN included), I8 -128 to 127, I4 0 to 15.
 */
float lf_code_number(enum lf_code code, uint8_t c);
/* To nearest, ties to even; beyond ±448 it is ±448 (saturation); NaN stays NaN. */
uint8_t lf_e4m3_from_f32(float f);

/* Quantizes rows [n_rows, n_in] to codes [n_rows, n_in] and scales [n_rows, n_groups] of f, which is E4M3, I8, or I4
 * without zero points and blocks. With blocks n_rows is a multiple of group_rows, or ends at the matrix's last row.
 *
 * Symmetric, from the largest magnitude m of a group: scale m / 448 (E4M3), m / 127 (I8), and for I4 the first element
 * of that magnitude, with its sign, / -8: so the one code without a counterpart, -8, is used (as llama.cpp's Q4_0
 * does). The scale is rounded to bf16 first, and codes are the nearest ones under the rounded scale (ties to even): so
 * it can be kept in two bytes, and no code is further off than half a step for it. A group of zeros has scale 1.
 *
 * False, with what was written undefined, where an element is infinite or NaN. */
bool lf_quantize_rows(const struct lf_format *f, int n_rows, int n_in, const float *rows, uint8_t *codes,
                      float *scales);

/* The values of src, rows of f: out [n_rows, n_in]. */
void lf_dequantize_rows(const struct lf_format *f, int n_rows, int n_in, const struct lf_quant_rows *src, float *out);

#endif
