#include "core/dtype.h"

#include "core/check.h"

const char *lf_dtype_name(enum lf_dtype t)
{
    return t == LF_F32 ? "f32" : t == LF_F16 ? "f16" : t == LF_BF16 ? "bf16" : "fp8";
}

float lf_f32_from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exp = (h >> 10) & 31u, frac = h & 0x3ffu, u;
    if (exp == 31) {
        u = sign | 0x7f800000u | frac << 13 | (frac ? 0x400000u : 0); /* infinity, quiet NaN */
    } else if (exp) {
        u = sign | (exp + 112) << 23 | frac << 13;
    } else {
        float f = (float)frac * 0x1p-24f; /* subnormal, exact */
        memcpy(&u, &f, 4);
        u |= sign;
    }
    float f;
    memcpy(&f, &u, 4);
    return f;
}

uint16_t lf_f16_from_f32(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    uint16_t sign = (uint16_t)((u >> 16) & 0x8000u);
    uint32_t a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((a >> 13) & 0x3ffu)); /* NaN */
    if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);                       /* rounds to infinity */
    if (a < 0x38800000u) {
        /* subnormal: adding 2^-24 · 2^23 = 0.5 leaves the rounded fraction in the low bits */
        float m;
        memcpy(&m, &a, 4);
        m += 0.5f;
        memcpy(&a, &m, 4);
        return (uint16_t)(sign | (a - 0x3f000000u));
    }
    return (uint16_t)(sign | ((a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13));
}

void lf_to_f32(float *dst, const void *src, enum lf_dtype src_type, size_t n)
{
    LF_ASSERT(src_type != LF_E4M3);
    if (src_type == LF_F32) {
        memcpy(dst, src, n * 4);
        return;
    }
    const unsigned char *bytes = src; /* a safetensors file may place halves at odd addresses */
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, bytes + 2 * i, 2);
        dst[i] = src_type == LF_BF16 ? lf_f32_from_bf16(h) : lf_f32_from_f16(h);
    }
}

void lf_from_f32(void *dst, enum lf_dtype dst_type, const float *src, size_t n)
{
    LF_ASSERT(dst_type != LF_E4M3);
    if (dst_type == LF_F32) {
        memcpy(dst, src, n * 4);
        return;
    }
    uint16_t *out = dst;
    for (size_t i = 0; i < n; i++) out[i] = dst_type == LF_BF16 ? lf_bf16_from_f32(src[i]) : lf_f16_from_f32(src[i]);
}
