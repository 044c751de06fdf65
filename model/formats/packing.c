/* A scale, a zero point and a column's group are numbers at a place that strides say, so they are read the same way
 * from every format. With act-order a column may be in any group: then each column becomes a group of its own, which is
 * wasteful and right. */
#include "model/formats/packing.h"

#include <math.h>
#include <string.h>

#include "core/check.h"
#include "core/quant.h"

/* ---- types ---- */

static const struct {
    const char *name;
    uint8_t bytes;
} types[] = {[LF_SOURCE_F32] = {"F32", 4},         [LF_SOURCE_F16] = {"F16", 2},         [LF_SOURCE_BF16] = {"BF16", 2},
             [LF_SOURCE_F8_E4M3] = {"F8_E4M3", 1}, [LF_SOURCE_F8_E8M0] = {"F8_E8M0", 1}, [LF_SOURCE_I8] = {"I8", 1},
             [LF_SOURCE_U8] = {"U8", 1},           [LF_SOURCE_I32] = {"I32", 4},         [LF_SOURCE_I64] = {"I64", 8}};

bool lf_source_type_of(const char *dtype_name, enum lf_source_type *out)
{
    for (size_t i = 0; i < LF_N_ELEMS(types); i++) {
        if (strcmp(types[i].name, dtype_name) != 0) continue;
        *out = (enum lf_source_type)i;
        return true;
    }
    return false;
}

const char *lf_source_type_name(enum lf_source_type type)
{
    return types[type].name;
}

size_t lf_source_type_bytes(enum lf_source_type type)
{
    return types[type].bytes;
}

static float power_of_two(uint8_t e)
{
    return e == 255 ? NAN : ldexpf(1, e - 127);
}

/* Element i of a source of numbers. */
static float number_at(const struct lf_packed *p, enum lf_source source, size_t i)
{
    const uint8_t *at = p->sources[source] + i * types[p->types[source]].bytes;
    uint16_t half;
    float f;
    switch (p->types[source]) {
    case LF_SOURCE_F32:
        memcpy(&f, at, sizeof(f));
        return f;
    case LF_SOURCE_F16:
        memcpy(&half, at, sizeof(half));
        return lf_f32_from_f16(half);
    case LF_SOURCE_BF16:
        memcpy(&half, at, sizeof(half));
        return lf_f32_from_bf16(half);
    case LF_SOURCE_F8_E4M3:
        return lf_code_number(LF_CODE_E4M3, *at);
    case LF_SOURCE_F8_E8M0:
    case LF_SOURCE_U8:
        return power_of_two(*at);
    case LF_SOURCE_I8:
    case LF_SOURCE_I32:
    case LF_SOURCE_I64:
        break;
    }
    LF_ASSERT(!"a source of whole numbers");
    return NAN;
}

static int32_t int32_at(const struct lf_packed *p, enum lf_source source, int i)
{
    int32_t x;
    memcpy(&x, p->sources[source] + (size_t)i * sizeof(x), sizeof(x));
    return x;
}

/* Element i of a source of whole numbers, of 4 bytes or of 8. */
static int64_t whole_at(const struct lf_packed *p, enum lf_source source, int i)
{
    int64_t x;
    if (p->types[source] == LF_SOURCE_I32) return int32_at(p, source, i);
    LF_ASSERT(p->types[source] == LF_SOURCE_I64);
    memcpy(&x, p->sources[source] + (size_t)i * sizeof(x), sizeof(x));
    return x;
}

/* ---- schemes ---- */

int lf_scheme_n_groups(const struct lf_scheme *s, int n_in)
{
    int group = s->group > 0 && s->group < n_in ? s->group : n_in;
    return (n_in + group - 1) / group;
}

struct lf_format lf_scheme_format(const struct lf_scheme *s, enum lf_dtype dtype)
{
    return (struct lf_format){.dtype = dtype,
                              .code = s->code,
                              .group = s->act_order ? 1 : s->group,
                              .group_rows = LF_MAX(s->group_rows, 1),
                              .zeros = s->zeros};
}

/* Of a list of dimensions those that are not 1. */
static int without_ones(int n, int dims[2])
{
    int rank = 0;
    for (int i = 0; i < n; i++)
        if (dims[i] != 1) dims[rank++] = dims[i];
    return rank;
}

int lf_source_shape(const struct lf_scheme *s, enum lf_source source, int n_out, int n_in, int dims[2])
{
    int n_groups = lf_scheme_n_groups(s, n_in);
    int n_rows = s->group_rows == 0 ? 1 : (n_out + s->group_rows - 1) / s->group_rows;
    bool is_turned = s->packing->scales_by_group;
    switch (source) {
    case LF_SOURCE_CODES:
    case LF_SOURCE_ZEROS:
        s->packing->shape(s, source, n_out, n_in, dims);
        break;
    case LF_SOURCE_SCALES:
        dims[0] = is_turned ? n_groups : n_rows;
        dims[1] = is_turned ? n_rows : n_groups;
        break;
    case LF_SOURCE_ORDER:
    case LF_SOURCE_FACTOR:
    case LF_SOURCE_SHAPE:
        dims[0] = source == LF_SOURCE_ORDER ? n_in : source == LF_SOURCE_SHAPE ? 2 : 1;
        dims[1] = 1;
        break;
    case LF_SOURCES_N:
        LF_ASSERT(!"no source");
    }
    return without_ones(2, dims);
}

/* ---- canonical rows ---- */

enum lf_status lf_packed_check(const struct lf_packed *p, const char *name, struct lf_err *err)
{
    int n_groups = lf_scheme_n_groups(p->scheme, p->n_in);
    for (int k = 0; p->sources[LF_SOURCE_ORDER] && k < p->n_in; k++) {
        int32_t g = int32_at(p, LF_SOURCE_ORDER, k), plain = p->scheme->group > 0 ? k / p->scheme->group : 0;
        if (g < 0 || g >= n_groups)
            return lf_fail(err, LF_CORRUPT, "%s: column %d is in group %d of %d", name, k, (int)g, n_groups);
        if (!p->scheme->act_order && g != plain)
            return lf_fail(err, LF_CORRUPT,
                           "%s: column %d is in group %d, expected %d: the configuration says nothing of act-order",
                           name, k, (int)g, plain);
    }
    if (p->sources[LF_SOURCE_FACTOR]) {
        float f = number_at(p, LF_SOURCE_FACTOR, 0);
        if (!isfinite(f) || f == 0) return lf_fail(err, LF_CORRUPT, "%s: %g is no factor of scales", name, (double)f);
    }
    if (p->sources[LF_SOURCE_SHAPE]) {
        int64_t shape[2] = {whole_at(p, LF_SOURCE_SHAPE, 0), whole_at(p, LF_SOURCE_SHAPE, 1)};
        if (shape[0] != p->n_out || shape[1] != p->n_in)
            return lf_fail(err, LF_CORRUPT, "%s: weight_shape says [%lld, %lld], expected [%d, %d]", name,
                           (long long)shape[0], (long long)shape[1], p->n_out, p->n_in);
    }
    return LF_OK;
}

/* The largest magnitude that a code less its zero point has. */
static float most_of(enum lf_code code)
{
    return code == LF_CODE_E4M3 ? 448 : code == LF_CODE_I8 ? 255 : code == LF_CODE_I4 ? 16 : 6;
}

/* Column of the canonical group: where in the file its scale and zero point are. */
static int file_group(const struct lf_packed *p, int group)
{
    return p->scheme->act_order ? int32_at(p, LF_SOURCE_ORDER, group) : group;
}

static bool fill_scales(const struct lf_packed *p, int row, int n_groups, float factor, float *out)
{
    const struct lf_scheme *s = p->scheme;
    size_t of_file = (size_t)lf_scheme_n_groups(s, p->n_in), r = s->group_rows > 0 ? (size_t)(row / s->group_rows) : 0;
    size_t n_rows = s->group_rows > 0 ? (size_t)((p->n_out + s->group_rows - 1) / s->group_rows) : 1;
    bool is_good = true, is_turned = s->packing->scales_by_group;
    for (int g = 0; g < n_groups; g++) {
        size_t in_file = (size_t)file_group(p, g);
        float x = number_at(p, LF_SOURCE_SCALES, is_turned ? in_file * n_rows + r : r * of_file + in_file);
        if (p->sources[LF_SOURCE_FACTOR]) x = s->packing->factor_divides ? x / factor : x * factor;
        is_good &= isfinite(x * most_of(s->code));
        out[g] = x;
    }
    return is_good;
}

/* Whether all are where the scheme says. */
static bool fill_zeros(const struct lf_packed *p, int row, int n_groups, uint8_t *out)
{
    const struct lf_scheme *s = p->scheme;
    int middle = 1 << (s->bits - 1);
    bool is_good = true;
    for (int g = 0; g < n_groups; g++) {
        uint8_t zero = s->packing->zero(p, row, file_group(p, g));
        is_good &= s->zeros || zero == middle;
        if (s->zeros) out[g] = s->code == LF_CODE_I8 ? (uint8_t)(zero - middle) : zero;
    }
    return is_good;
}

static bool are_numbers(enum lf_code code, const uint8_t *codes, size_t n)
{
    bool has_nan = false;
    for (size_t i = 0; code == LF_CODE_E4M3 && i < n; i++) has_nan |= (codes[i] & 0x7f) == 0x7f;
    return !has_nan;
}

const char *lf_packed_rows(const struct lf_packed *p, int row, int n, const struct lf_quant_room *out, int *bad)
{
    const struct lf_scheme *s = p->scheme;
    int n_groups = s->act_order ? p->n_in : lf_scheme_n_groups(s, p->n_in);
    float factor = p->sources[LF_SOURCE_FACTOR] ? number_at(p, LF_SOURCE_FACTOR, 0) : 1;
    s->packing->codes(p, row, n, out->codes);
    for (int i = 0; i < n; i++) {
        size_t at = (size_t)i * (size_t)n_groups;
        *bad = row + i;
        if (!fill_scales(p, row + i, n_groups, factor, out->scales + at))
            return "a scale is no finite number, or too large";
        if (!are_numbers(s->code, out->codes + (size_t)i * (size_t)p->n_in, (size_t)p->n_in)) return "a code is NaN";
        if (p->sources[LF_SOURCE_ZEROS] && !fill_zeros(p, row + i, n_groups, s->zeros ? out->zeros + at : NULL))
            return "a zero point is not in the middle, although the configuration says that all are";
    }
    return NULL;
}

/* ---- values ---- */

enum { CODES_N = 256 };

void lf_expand_rows(const struct lf_format *f, int n, int n_in, const struct lf_quant_rows *rows, void *out,
                    float *wide)
{
    float numbers[CODES_N];
    int group = lf_format_group(f, n_in), n_groups = lf_format_n_groups(f, n_in);
    int n_codes = f->code == LF_CODE_I4 || f->code == LF_CODE_E2M1 ? 16 : CODES_N;
    for (int c = 0; c < n_codes; c++) numbers[c] = lf_code_number(f->code, (uint8_t)c);
    for (size_t r = 0; r < (size_t)n; r++) {
        const uint8_t *codes = rows->codes + r * (size_t)n_in;
        for (int g = 0; g < n_groups; g++) {
            size_t at = r * (size_t)n_groups + (size_t)g;
            float zero = !f->zeros               ? 0
                         : f->code == LF_CODE_I8 ? (float)(int8_t)rows->zeros[at]
                                                 : (float)rows->zeros[at];
            if (f->code == LF_CODE_I4 && !f->zeros) zero = LF_I4_ZERO;
            int end = LF_MIN((g + 1) * group, n_in);
            for (int k = g * group; k < end; k++) wide[k] = rows->scales[at] * (numbers[codes[k]] - zero);
        }
        lf_from_f32((char *)out + r * (size_t)n_in * lf_dtype_bytes(f->dtype), f->dtype, wide, (size_t)n_in);
    }
}
