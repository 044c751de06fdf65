/* MXFP4 (OCP Microscaling Formats 1.0, §5.2): 32 values of 4 bits share a power of two. Bytes of a checkpoint into
 * bfloat16, which holds every such value. No state; any thread. */
#ifndef LF_MODEL_FORMATS_MXFP4_H
#define LF_MODEL_FORMATS_MXFP4_H

#include <stddef.h>
#include <stdint.h>

/* Values that share a scale, and the bytes that they take. */
enum { LF_MXFP4_GROUP = 32, LF_MXFP4_GROUP_BYTES = 16 };

/* out [n_groups · 32] bf16 = the values of blocks [n_groups, 16] (two in a byte, the lower four bits first; a sign, two
 * bits of exponent, one of mantissa) times 2^(scale - 127), scales [n_groups]. Exact; what is beyond bf16 (from scale
 * 253 on) is infinite, and NaN where the scale is 255, which means that. */
void lf_mxfp4_expand(uint16_t *out, const uint8_t *blocks, const uint8_t *scales, size_t n_groups);

#endif
