/* The packed order of coded weights (gemm_quant.h): its sizes, packing, and reading a column back. */
#include "device/cpu/gemm_quant.h"

#include <math.h>
#include <string.h>

#include "core/check.h"
#include "core/quant.h"

bool lf_quant_supports(const struct lf_format *f)
{
    return !lf_format_is_plain(f) && f->group % LF_QUANT_GROUP_MIN == 0;
}

static bool is_nibbles(enum lf_code code)
{
    return code == LF_CODE_I4 || code == LF_CODE_E2M1;
}

static size_t scale_bytes(const struct lf_quant_order *o)
{
    return o->code == LF_CODE_E2M1 ? sizeof(uint8_t) : lf_dtype_bytes(o->scales);
}

struct lf_quant_order lf_quant_order(const struct lf_format *f, int n_in)
{
    LF_ASSERT(lf_quant_supports(f));
    int group = LF_QUANT_GROUP_MAX;
    while (f->group % group != 0) group /= 2;
    struct lf_quant_order o = {.code = f->code,
                               .scales = f->code == LF_CODE_E4M3 ? LF_F32 : f->scales,
                               .zeros = f->zeros,
                               .group = group,
                               .n_groups = (n_in + group - 1) / group,
                               .format_group = lf_format_group(f, n_in)};
    o.zeros_at = LF_PANEL_COLS * scale_bytes(&o);
    o.codes_at = o.zeros_at + (f->zeros ? LF_PANEL_COLS : 0);
    o.group_bytes = o.codes_at + (size_t)group * LF_PANEL_COLS / (is_nibbles(f->code) ? 2 : 1);
    return o;
}

/* ---- packing ---- */

/* Four codes, or eight of four bits, as they lie in a panel; src has n of them, behind which there are zeros. */
static void pack_cell(enum lf_code code, char *cell, const uint8_t *src, int n)
{
    uint8_t c[8] = {0}, out[4];
    memcpy(c, src, (size_t)LF_MIN(n, 8));
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(is_nibbles(code) ? c[i] | c[i + 4] << 4 : code == LF_CODE_I8 ? c[i] ^ LF_I8_ZERO : c[i]);
    memcpy(cell, out, sizeof out);
}

static void pack_codes(const struct lf_quant_order *o, char *codes, int col, const uint8_t *src, int n)
{
    int step = is_nibbles(o->code) ? 8 : 4;
    for (int k = 0; k < n; k += step)
        pack_cell(o->code, codes + k / step * LF_QUANT_QUAD_BYTES + col * 4, src + k, n - k);
}

/* e of 2^(e - 127), whose smallest is a denormal float. */
static uint8_t exponent_of(float scale)
{
    uint32_t bits;
    memcpy(&bits, &scale, sizeof bits);
    if (bits == 0x400000u) return 0;
    LF_ASSERT((bits & 0x7fffffu) == 0 && bits > 0 && bits < 0x7f800000u);
    return (uint8_t)(bits >> 23);
}

static float power_of(uint8_t e)
{
    uint32_t bits = e == 0 ? 0x400000u : (uint32_t)e << 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

static void pack_scale(const struct lf_quant_order *o, char *group, int col, float scale)
{
    char *at = group + (size_t)col * scale_bytes(o);
    if (o->code == LF_CODE_E2M1) {
        *(uint8_t *)at = exponent_of(scale);
        return;
    }
    lf_from_f32(at, o->scales, &scale, 1);
    LF_ASSERT(o->scales == LF_F32 || lf_quant_scale_at(o, group, col) == scale); /* nothing is lost */
}

/* Kernels read the NaNs of E4M3 as ±480: their group's scale is NaN instead. */
static bool has_nan(enum lf_code code, const uint8_t *codes, int n)
{
    for (int i = 0; code == LF_CODE_E4M3 && i < n; i++)
        if ((codes[i] & 0x7f) == 0x7f) return true;
    return false;
}

void lf_quant_pack_cols(const struct lf_quant_order *o, char *panel, int col, int n_rows, int n_in,
                        const struct lf_quant_rows *src, int first)
{
    size_t src_groups = ((size_t)n_in + (size_t)o->format_group - 1) / (size_t)o->format_group;
    for (int g = 0; g < o->n_groups; g++) { /* of all columns: they lie together */
        char *group = panel + (size_t)g * o->group_bytes;
        int k = g * o->group, n = LF_MIN(o->group, n_in - k);
        for (int r = 0; r < n_rows; r++) {
            size_t row = (size_t)(first + r), at = row * src_groups + (size_t)(k / o->format_group);
            const uint8_t *codes = src->codes + row * (size_t)n_in + k;
            pack_scale(o, group, col + r, has_nan(o->code, codes, n) ? NAN : src->scales[at]);
            if (o->zeros) group[o->zeros_at + (size_t)(col + r)] = (char)src->zeros[at];
            pack_codes(o, group + o->codes_at, col + r, codes, n);
        }
    }
}

/* ---- reading ---- */

static uint8_t code_at(const struct lf_quant_order *o, const char *group, int k, int col)
{
    const uint8_t *codes = (const uint8_t *)group + o->codes_at;
    if (!is_nibbles(o->code)) {
        uint8_t c = codes[k / 4 * LF_QUANT_QUAD_BYTES + col * 4 + k % 4];
        return o->code == LF_CODE_I8 ? c ^ LF_I8_ZERO : c;
    }
    uint8_t both = codes[k / 8 * LF_QUANT_QUAD_BYTES + col * 4 + k % 4];
    return k % 8 < 4 ? both & 15 : both >> 4;
}

float lf_quant_scale_at(const struct lf_quant_order *o, const char *group, int col)
{
    float scale;
    const char *at = group + (size_t)col * scale_bytes(o);
    if (o->code == LF_CODE_E2M1) return power_of(*(const uint8_t *)at);
    lf_to_f32(&scale, at, o->scales, 1);
    return scale;
}

void lf_quant_panel_col(const struct lf_quant_order *o, const char *panel, int col, int first, int n, float *out)
{
    for (int k = first; k < first + n; k++) {
        const char *group = panel + (size_t)(k / o->group) * o->group_bytes;
        float zero = o->code != LF_CODE_I4 ? 0
                     : o->zeros            ? (float)(uint8_t)group[o->zeros_at + (size_t)col]
                                           : LF_I4_ZERO;
        float number = lf_code_number(o->code, code_at(o, group, k % o->group, col));
        *out++ = lf_quant_scale_at(o, group, col) * (number - zero);
    }
}
