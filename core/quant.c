#include "core/quant.h"

#include <math.h>
#include <string.h>

#include "core/check.h"

enum { E4M3_MOST = 0x7e, E4M3_NAN = 0x7f };

/* ---- numbers of codes ---- */

static float number_of_e4m3(uint8_t c)
{
    int exponent = c >> 3 & 15, mantissa = c & 7;
    float f = exponent ? ldexpf((float)(8 + mantissa), exponent - 10) : (float)mantissa * 0x1p-9f;
    if ((c & E4M3_NAN) == E4M3_NAN) f = NAN;
    return c & 0x80 ? -f : f;
}

static float number_of_e2m1(uint8_t c)
{
    static const float values[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    return c & 8 ? -values[c & 7] : values[c & 7];
}

float lf_code_number(enum lf_code code, uint8_t c)
{
    switch (code) {
    case LF_CODE_E4M3:
        return number_of_e4m3(c);
    case LF_CODE_I8:
        return (float)(int8_t)c;
    case LF_CODE_I4:
        return (float)c;
    case LF_CODE_E2M1:
        return number_of_e2m1(c);
    case LF_CODE_NONE:
        break;
    }
    LF_ASSERT(!"a plain format has no codes");
    return NAN;
}

uint8_t lf_e4m3_from_f32(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    uint8_t sign = (uint8_t)(u >> 24 & 0x80u);
    uint32_t a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return (uint8_t)(sign | E4M3_NAN);
    if (a >= 0x43e00000u) return (uint8_t)(sign | E4M3_MOST); /* 448 and more */
    if (a < 0x3c800000u) {
        /* Below 2^-6 a step is 2^-9: adding 2^14 leaves the rounded number of steps in the low bits. */
        float m;
        memcpy(&m, &a, 4);
        m += 0x1p14f;
        memcpy(&a, &m, 4);
        return (uint8_t)(sign | (a - 0x46800000u));
    }
    return (uint8_t)(sign | ((a - 0x3c000000u + 0x7ffffu + (a >> 20 & 1u)) >> 20));
}

/* ---- quantizing ---- */

/* The largest of n magnitudes and `most`. As integers, among which a NaN is larger than infinity, and that larger than
 * the rest. */
static uint32_t largest(uint32_t most, const float *x, int n)
{
    for (int i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, x + i, 4);
        most = LF_MAX(most, u & 0x7fffffffu);
    }
    return most;
}

/* Whether the first of n elements with that magnitude, which is the largest, is negative. */
static bool is_negative(const float *x, int n, float magnitude)
{
    float least = 0, most = 0;
    for (int i = 0; i < n; i++) least = x[i] < least ? x[i] : least;
    for (int i = 0; i < n; i++) most = x[i] > most ? x[i] : most;
    if (least != -magnitude || most != magnitude) return least == -magnitude;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) == magnitude) return x[i] < 0;
    return false;
}

static float scale_of(enum lf_code code, float most, bool negative)
{
    float exact = code == LF_CODE_E4M3 ? most / 448 : code == LF_CODE_I8 ? most / 127 : negative ? most / 8 : most / -8;
    float scale = lf_f32_from_bf16(lf_bf16_from_f32(exact));
    return scale == 0 ? 1 : scale;
}

/* Nearest integer, ties to even, of |x| < 2^22: without a call, so that loops become vector code. */
static float nearest(float x)
{
    return (x + 0x1.8p23f) - 0x1.8p23f;
}

static float clamped(float x, float low, float high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

static void encode(enum lf_code code, uint8_t *codes, const float *x, int n, float scale)
{
    if (code == LF_CODE_E4M3) {
        for (int i = 0; i < n; i++) codes[i] = lf_e4m3_from_f32(x[i] / scale);
    } else if (code == LF_CODE_I8) {
        for (int i = 0; i < n; i++) codes[i] = (uint8_t)(int8_t)clamped(nearest(x[i] / scale), -127, 127);
    } else {
        for (int i = 0; i < n; i++) codes[i] = (uint8_t)(clamped(nearest(x[i] / scale), -8, 7) + LF_I4_ZERO);
    }
}

/* One group: n columns of n_rows rows, of matrices n_in and n_groups wide. */
static bool quantize_group(enum lf_code code, int n_rows, int n, int n_in, int n_groups, const float *rows,
                           uint8_t *codes, float *scales)
{
    uint32_t bits = 0;
    float most;
    for (int r = 0; r < n_rows; r++) bits = largest(bits, rows + (size_t)r * (size_t)n_in, n);
    memcpy(&most, &bits, 4);
    if (!isfinite(most)) return false;
    float scale = scale_of(code, most, code == LF_CODE_I4 && is_negative(rows, n, most));
    for (int r = 0; r < n_rows; r++) {
        encode(code, codes + (size_t)r * (size_t)n_in, rows + (size_t)r * (size_t)n_in, n, scale);
        scales[(size_t)r * (size_t)n_groups] = scale;
    }
    return true;
}

bool lf_quantize_rows(const struct lf_format *f, int n_rows, int n_in, const float *rows, uint8_t *codes, float *scales)
{
    LF_ASSERT(f->code == LF_CODE_E4M3 || f->code == LF_CODE_I8 || f->code == LF_CODE_I4);
    LF_ASSERT(!f->zeros && (f->group_rows == 1 || f->code != LF_CODE_I4));
    int group = lf_format_group(f, n_in), n_groups = lf_format_n_groups(f, n_in);
    for (int r = 0; r < n_rows; r += f->group_rows) {
        int n_block = LF_MIN(f->group_rows, n_rows - r);
        for (int g = 0; g < n_groups; g++) {
            size_t at = (size_t)r * (size_t)n_in + (size_t)g * (size_t)group;
            int n = LF_MIN(group, n_in - g * group);
            if (!quantize_group(f->code, n_block, n, n_in, n_groups, rows + at, codes + at,
                                scales + (size_t)r * (size_t)n_groups + g))
                return false;
        }
    }
    return true;
}

/* ---- and back ---- */

static void dequantize_row(const struct lf_format *f, int n_in, const uint8_t *codes, const float *scales,
                           const uint8_t *zeros, float *out)
{
    int group = lf_format_group(f, n_in);
    for (int k = 0; k < n_in; k++) {
        float zero = f->code != LF_CODE_I4 ? 0 : zeros ? (float)zeros[k / group] : (float)LF_I4_ZERO;
        out[k] = scales[k / group] * (lf_code_number(f->code, codes[k]) - zero);
    }
}

void lf_dequantize_rows(const struct lf_format *f, int n_rows, int n_in, const struct lf_quant_rows *src, float *out)
{
    size_t n_groups = (size_t)lf_format_n_groups(f, n_in);
    for (size_t r = 0; r < (size_t)n_rows; r++)
        dequantize_row(f, n_in, src->codes + r * (size_t)n_in, src->scales + r * n_groups,
                       f->zeros ? src->zeros + r * n_groups : NULL, out + r * (size_t)n_in);
}
