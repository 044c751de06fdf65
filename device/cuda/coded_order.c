#include "device/cuda/coded_order.h"

#include <math.h>
#include <string.h>

#include "core/check.h"
#include "core/quant.h"

enum { PAIRS = 4, STEP_K = 32, LANE_K = 8, SCALES_ALIGN = 256, E2M1_ELEMENT = 0x81c0, BF16_BIAS = 127 };
/* How far to the right a word of E2M1 is rotated for each pair; of the last one the mantissa goes another way. */
static const int rotations[PAIRS] = {0, 4, 10, 32 - 10};
enum { MANTISSA = 0x0040, MANTISSA_ROTATION = 32 - 2 };

/* ---- sizes ---- */

static int block_groups(const struct lf_format *f)
{
    return f->group > 0 && f->group < LF_CODED_BLOCK_K ? LF_CODED_BLOCK_K / f->group : 1;
}

bool lf_coded_order_has(const struct lf_format *f, int n_in)
{
    if (f->code == LF_CODE_E4M3) return n_in % 16 == 0 && (f->group == 0 || f->group == LF_CODED_BLOCK_K);
    if (f->group_rows > 1 || n_in % LANE_K != 0) return false;
    if (f->code == LF_CODE_E2M1) return f->group == STEP_K;
    return f->code == LF_CODE_I4 && (f->group == 32 || f->group == 64 || f->group % LF_CODED_BLOCK_K == 0);
}

static struct lf_coded_order order_of_bytes(const struct lf_format *f, int n_out, int n_in)
{
    int rows = LF_MAX(f->group_rows, 1), n_groups = lf_format_n_groups(f, n_in);
    size_t n_codes = (size_t)n_out * (size_t)n_in;
    struct lf_coded_order o = {.groups = 1, .scale_rows = rows, .n_groups = n_groups};
    o.scale_columns = lf_format_group(f, n_in);
    o.scales_at = (n_codes + SCALES_ALIGN - 1) / SCALES_ALIGN * SCALES_ALIGN;
    o.zeros_at = o.scales_at + (size_t)((n_out + rows - 1) / rows) * (size_t)n_groups * sizeof(float);
    o.bytes = o.zeros_at;
    return o;
}

struct lf_coded_order lf_coded_order_of(const struct lf_format *f, int n_out, int n_in)
{
    LF_ASSERT(lf_coded_order_has(f, n_in));
    if (f->code == LF_CODE_E4M3) return order_of_bytes(f, n_out, n_in);
    struct lf_coded_order o = {.groups = block_groups(f), .scale_rows = 1};
    o.n_runs = (n_out + LF_CODED_RUN - 1) / LF_CODED_RUN;
    o.n_blocks = (n_in + LF_CODED_BLOCK_K - 1) / LF_CODED_BLOCK_K;
    o.scale_bytes = o.groups * (f->code == LF_CODE_I4 ? 2 : 1);
    o.zero_bytes = f->zeros ? o.groups : 0;
    size_t n = (size_t)o.n_runs * (size_t)o.n_blocks * LF_CODED_RUN;
    o.scales_at = n * LF_CODED_ROW_BYTES;
    o.zeros_at = o.scales_at + n * (size_t)o.scale_bytes;
    o.bytes = o.zeros_at + n * (size_t)o.zero_bytes;
    return o;
}

/* ---- words ---- */

static uint32_t rotated(uint32_t x, int right)
{
    return right == 0 ? x : x >> right | x << (32 - right);
}

/* As the bits of a bf16 that is 2^-126 of its value. */
static uint32_t element_of_e2m1(uint8_t c)
{
    return (uint32_t)(c & 8) << 12 | (uint32_t)(c & 7) << 6;
}

uint32_t lf_e2m1_word(const uint8_t codes[8])
{
    uint32_t word = 0;
    for (int p = 0; p < PAIRS; p++) {
        uint32_t pair = element_of_e2m1(codes[2 * p]) | element_of_e2m1(codes[2 * p + 1]) << 16;
        uint32_t mantissa = p == PAIRS - 1 ? MANTISSA | (uint32_t)MANTISSA << 16 : 0;
        word |= rotated(pair & ~mantissa, (32 - rotations[p]) % 32) | rotated(pair & mantissa, 32 - MANTISSA_ROTATION);
    }
    return word;
}

static void codes_of_e2m1(uint32_t word, uint8_t codes[8])
{
    for (int p = 0; p < PAIRS; p++) {
        uint32_t pair = rotated(word, rotations[p]);
        uint32_t mantissa = MANTISSA | (uint32_t)MANTISSA << 16;
        if (p == PAIRS - 1) pair = (pair & ~mantissa) | (rotated(word, MANTISSA_ROTATION) & mantissa);
        for (int e = 0; e < 2; e++, pair >>= 16) codes[2 * p + e] = (uint8_t)((pair >> 12 & 8) | (pair >> 6 & 7));
    }
}

static uint32_t word_of_i4(const uint8_t codes[8])
{
    uint32_t word = 0;
    for (int i = 0; i < 8; i++) word |= (uint32_t)(codes[i] & 15) << (i / 2 * 4 + i % 2 * 16);
    return word;
}

static void codes_of_i4(uint32_t word, uint8_t codes[8])
{
    for (int i = 0; i < 8; i++) codes[i] = word >> (i / 2 * 4 + i % 2 * 16) & 15;
}

/* ---- scales ---- */

uint8_t lf_e2m1_scale_byte(float scale)
{
    enum { LEAST = 50, MOST = 176 }; /* e of a scale 2^(e - 127) */
    int e = ilogbf(scale) + BF16_BIAS;
    return (uint8_t)(LF_MIN(LF_MAX(e, LEAST), MOST) + 126 - LF_E2M1_SHIFT);
}

static float scale_of_byte(uint8_t byte)
{
    return ldexpf(1.0f, byte - 126 + LF_E2M1_SHIFT - BF16_BIAS);
}

/* The group of a row's columns that block b's group g keeps. */
static int group_of(const struct lf_format *f, int n_in, int groups, int b, int g)
{
    int k = b * LF_CODED_BLOCK_K + g * (LF_CODED_BLOCK_K / groups);
    return LF_MIN(k, n_in - 1) / lf_format_group(f, n_in);
}

/* ---- what a row has in a block ---- */

void lf_coded_pack_codes(const struct lf_format *f, const uint8_t *codes, int n, uint8_t out[LF_CODED_ROW_BYTES])
{
    for (int k = 0; k < LF_CODED_BLOCK_K; k += LANE_K) {
        int s = k / STEP_K, t = k % STEP_K / LANE_K;
        uint32_t word = 0;
        if (k < n) word = f->code == LF_CODE_I4 ? word_of_i4(codes + k) : lf_e2m1_word(codes + k);
        memcpy(out + t * 16 + s * 4, &word, sizeof word);
    }
}

void lf_coded_pack_scales(const struct lf_format *f, int n_in, enum lf_dtype act, int block, const float *scales,
                          uint8_t *out)
{
    int groups = block_groups(f);
    for (int g = 0; g < groups; g++) {
        float scale = scales[group_of(f, n_in, groups, block, g)];
        if (f->code == LF_CODE_I4)
            lf_from_f32(out + 2 * g, act, &scale, 1);
        else
            out[g] = lf_e2m1_scale_byte(scale);
    }
}

void lf_coded_pack_zeros(const struct lf_format *f, int n_in, int block, const uint8_t *zeros, uint8_t *out)
{
    int groups = block_groups(f);
    for (int g = 0; g < groups; g++) out[g] = zeros[group_of(f, n_in, groups, block, g)];
}

static float scale_at(const struct lf_format *f, enum lf_dtype act, const uint8_t *scales, int g)
{
    float scale;
    if (f->code != LF_CODE_I4) return scale_of_byte(scales[g]);
    lf_to_f32(&scale, scales + 2 * g, act, 1);
    return scale;
}

void lf_coded_unpack(const struct lf_format *f, enum lf_dtype act, int n, const uint8_t codes[LF_CODED_ROW_BYTES],
                     const uint8_t *scales, const uint8_t *zeros, float *out)
{
    int groups = block_groups(f);
    for (int k = 0; k < n; k += LANE_K) {
        int s = k / STEP_K, t = k % STEP_K / LANE_K, g = k * groups / LF_CODED_BLOCK_K;
        float zero = f->code != LF_CODE_I4 ? 0.0f : zeros ? (float)zeros[g] : (float)LF_I4_ZERO;
        uint32_t word;
        uint8_t eight[LANE_K];
        memcpy(&word, codes + t * 16 + s * 4, sizeof word);
        (f->code == LF_CODE_I4 ? codes_of_i4 : codes_of_e2m1)(word, eight);
        for (int i = 0; i < LANE_K; i++)
            out[k + i] = scale_at(f, act, scales, g) * (lf_code_number(f->code, eight[i]) - zero);
    }
}
