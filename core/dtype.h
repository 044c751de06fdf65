/* Element types of weights, activations and KV. Conversions round to nearest even, as IEEE 754 asks; NaN stays NaN. */
#ifndef LF_CORE_DTYPE_H
#define LF_CORE_DTYPE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* LF_E4M3 is a KV cache's only: codes with scales beside them (kv/kv_fp8.h). Coded weights have formats (format.h). */
enum lf_dtype { LF_F32, LF_F16, LF_BF16, LF_E4M3 };

/* Of an element; scales not counted. */
static inline size_t lf_dtype_bytes(enum lf_dtype t)
{
    return t == LF_F32 ? 4 : t == LF_E4M3 ? 1 : 2;
}
const char *lf_dtype_name(enum lf_dtype t); /* "f32", "f16", "bf16", "fp8" */

static inline float lf_f32_from_bf16(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static inline uint16_t lf_bf16_from_f32(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u); /* NaN: quiet, sign kept */
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
float lf_f32_from_f16(uint16_t h);
uint16_t lf_f16_from_f32(float f);

/* n elements of type src_type at src to float / from float; not LF_E4M3. Buffers do not overlap. */
void lf_to_f32(float *dst, const void *src, enum lf_dtype src_type, size_t n);
void lf_from_f32(void *dst, enum lf_dtype dst_type, const float *src, size_t n);

#endif
