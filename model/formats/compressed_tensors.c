/* compressed-tensors (llm-compressor's format): groups of modules with a scheme each, by `targets`, less those that
 * `ignore` names. A format says how codes lie:
 *
 *     float-, naive-, int-quantized        `weight` of F8_E4M3 or I8, a byte a code
 *     pack-quantized                       `weight_packed`: code + 2^(bits - 1), along a row, in words of 32 bits;
 *                                          `weight_zero_point` likewise, but along a column
 *     mxfp4-, nvfp4-pack-quantized         `weight_packed`: two E2M1 in a byte (fp4.c)
 *
 * and `strategy` which codes share a scale. How activations are quantized (input_activations) is of speed, not of what
 * the matrix is: they are not. Values: dequantize() multiplies in the type of the scales and rounds once, as here. */
#include "core/check.h"
#include "model/config.h"
#include "model/formats/quantization.h"

/* ---- the order of pack-quantized ---- */

static size_t words_of(int n, int bits)
{
    return ((size_t)n * (size_t)bits + LF_WORD_BITS - 1) / LF_WORD_BITS;
}

static void shape(const struct lf_scheme *s, enum lf_source source, int n_out, int n_in, int dims[2])
{
    bool is_codes = source == LF_SOURCE_CODES;
    dims[0] = is_codes ? n_out : (int)words_of(n_out, s->bits);
    dims[1] = is_codes ? (int)words_of(n_in, s->bits) : lf_scheme_n_groups(s, n_in);
}

static void codes(const struct lf_packed *p, int row, int n, uint8_t *out)
{
    size_t n_in = (size_t)p->n_in, row_bytes = words_of(p->n_in, p->scheme->bits) * sizeof(uint32_t);
    for (int r = 0; r < n; r++) {
        const uint8_t *from = p->sources[LF_SOURCE_CODES] + (size_t)(row + r - p->codes_from) * row_bytes;
        uint8_t *to = out + (size_t)r * n_in;
        if (p->scheme->bits == 8)
            for (size_t k = 0; k < n_in; k++) to[k] = from[k] ^ 0x80;
        else
            for (size_t k = 0; k < n_in; k++) to[k] = from[k / 2] >> (k % 2 * 4) & 15;
    }
}

static uint8_t zero(const struct lf_packed *p, int row, int group)
{
    int bits = p->scheme->bits, of_word = LF_WORD_BITS / bits, n_groups = lf_scheme_n_groups(p->scheme, p->n_in);
    size_t word = (size_t)(row / of_word) * (size_t)n_groups + (size_t)group;
    return lf_word_bits(p->sources[LF_SOURCE_ZEROS], word, row % of_word * bits, bits);
}

const struct lf_packing lf_packing_int32 = {
    .name = "pack-quantized",
    .rows = {[LF_SOURCE_CODES] = {.suffixes = {".weight_packed"}, .types = 1 << LF_SOURCE_I32},
             [LF_SOURCE_SCALES] = {.suffixes = {".weight_scale"},
                                   .types = 1 << LF_SOURCE_F32 | 1 << LF_SOURCE_F16 | 1 << LF_SOURCE_BF16},
             [LF_SOURCE_ZEROS] = {.suffixes = {".weight_zero_point"}, .types = 1 << LF_SOURCE_I32, .optional = true},
             [LF_SOURCE_ORDER] = {.suffixes = {".weight_g_idx"}, .types = 1 << LF_SOURCE_I32, .optional = true},
             [LF_SOURCE_SHAPE] = {.suffixes = {".weight_shape"},
                                  .types = 1 << LF_SOURCE_I64 | 1 << LF_SOURCE_I32,
                                  .optional = true}},
    .by_rows = true,
    .shape = shape,
    .codes = codes,
    .zero = zero};

/* ---- config.json ---- */

/* What each format is with weights of a type and so many bits. */
static const struct format_row {
    const char *format, *type;
    int bits; /* 0: 4 or 8 */
    const struct lf_packing *packing;
    enum lf_code code; /* of 8 bits; of 4 that of `code4` */
    enum lf_code code4;
} format_rows[] = {
    {"float-quantized", "float", 8, &lf_packing_fp8, LF_CODE_E4M3, LF_CODE_NONE},
    {"naive-quantized", "float", 8, &lf_packing_fp8, LF_CODE_E4M3, LF_CODE_NONE},
    {"naive-quantized", "int", 8, &lf_packing_int8, LF_CODE_I8, LF_CODE_NONE},
    {"int-quantized", "int", 8, &lf_packing_int8, LF_CODE_I8, LF_CODE_NONE},
    {"pack-quantized", "int", 0, &lf_packing_int32, LF_CODE_I8, LF_CODE_I4},
    {"mxfp4-pack-quantized", "float", 4, &lf_packing_mxfp4, LF_CODE_NONE, LF_CODE_E2M1},
    {"nvfp4-pack-quantized", "float", 4, &lf_packing_nvfp4, LF_CODE_NONE, LF_CODE_E2M1},
};

#define FORMATS                                                                                                        \
    "float-quantized, int-quantized and naive-quantized of 8 bits, pack-quantized of 4 or 8, mxfp4-pack-quantized "    \
    "and "                                                                                                             \
    "nvfp4-pack-quantized are"

static enum lf_status find_format(struct lf_scheme *s, struct lf_json_value format, struct lf_json_value weights,
                                  struct lf_err *err)
{
    struct lf_json_value type = lf_json_get(weights, "type");
    struct lf_str raw = lf_json_raw(format), raw_type = lf_json_raw(type);
    LF_TRY(lf_config_int(weights, "num_bits", 1, 64, &s->bits, err));
    for (size_t i = 0; i < LF_N_ELEMS(format_rows); i++) {
        const struct format_row *row = &format_rows[i];
        bool is_type = lf_json_string_is(type, row->type) || (lf_json_is_absent(type) && row->type[0] == 'i');
        bool is_bits = row->bits ? s->bits == row->bits : s->bits == 4 || s->bits == 8;
        if (!lf_json_string_is(format, row->format) || !is_type || !is_bits) continue;
        s->packing = row->packing;
        s->code = s->bits == 4 ? row->code4 : row->code;
        return LF_OK;
    }
    return lf_fail(err, LF_UNSUPPORTED, "format %.*s of %d bits (%.*s) is not implemented (" FORMATS ")",
                   (int)LF_MIN(raw.len, (size_t)40), raw.ptr, s->bits, (int)LF_MIN(raw_type.len, (size_t)16),
                   raw_type.ptr);
}

/* Which codes share a scale. */
static enum lf_status read_strategy(struct lf_scheme *s, struct lf_json_value weights, struct lf_err *err)
{
    struct lf_json_value v = lf_json_get(weights, "strategy"), size = lf_json_get(weights, "group_size");
    struct lf_str raw = lf_json_raw(v);
    int64_t n = 0;
    bool has_size = lf_json_int64(size, &n) && n > 0;
    s->group_rows = 1;
    if (lf_json_string_is(v, "tensor")) {
        s->group_rows = 0;
    } else if (lf_json_string_is(v, "block")) {
        return lf_quantization_read_block(s, lf_json_get(weights, "block_structure"), "block_structure", err);
    } else if (lf_json_string_is(v, "group") || lf_json_string_is(v, "tensor_group")) {
        return lf_quantization_read_group(s, size, "group_size", err);
    } else if (lf_json_is_absent(v)) {
        if (!has_size && lf_json_is_absent(size)) s->group_rows = 0;
        return has_size ? lf_quantization_read_group(s, size, "group_size", err) : LF_OK;
    } else if (!lf_json_string_is(v, "channel")) {
        return lf_fail(err, LF_UNSUPPORTED,
                       "strategy %.*s of weights is not implemented (tensor, channel, group and block are)",
                       (int)LF_MIN(raw.len, (size_t)40), raw.ptr);
    }
    return LF_OK;
}

static enum lf_status read_weights(struct lf_scheme *s, struct lf_json_value weights, struct lf_err *err)
{
    struct lf_json_value order = lf_json_get(weights, "actorder");
    bool symmetric = true, dynamic = false;
    LF_TRY(read_strategy(s, weights, err));
    LF_TRY(lf_config_bool_or(weights, "symmetric", &symmetric, err));
    LF_TRY(lf_config_bool_or(weights, "dynamic", &dynamic, err));
    if (dynamic)
        return lf_fail(err, LF_UNSUPPORTED,
                       "weights that are quantized while they are computed with (dynamic) are not implemented");
    if (!symmetric && s->code != LF_CODE_I4 && s->code != LF_CODE_I8)
        return lf_fail(err, LF_UNSUPPORTED, "weights of type float that are not symmetric are not implemented");
    s->zeros = !symmetric;
    bool by_group = lf_json_string_is(order, "group") || lf_json_string_is(order, "dynamic"); /* its other name */
    s->act_order = (by_group || lf_json_type(order) == LF_JSON_TRUE) && s->group > 0;
    if (s->act_order && s->packing != &lf_packing_int32)
        return lf_fail(err, LF_UNSUPPORTED, "actorder of groups is not implemented but for pack-quantized");
    if (s->packing == &lf_packing_mxfp4 && s->group != 32)
        return lf_fail(err, LF_CORRUPT, "group_size of mxfp4-pack-quantized is %d, expected 32", s->group);
    if (s->packing == &lf_packing_nvfp4 && s->group != 16)
        return lf_fail(err, LF_CORRUPT, "group_size of nvfp4-pack-quantized is %d, expected 16", s->group);
    return LF_OK;
}

/* "Linear" among the targets: every linear layer. */
static bool names_all(struct lf_json_value targets)
{
    bool all = lf_json_is_absent(targets);
    for (struct lf_json_value it = lf_json_first(targets); lf_json_more(targets, it); it = lf_json_next(targets, it))
        all |= lf_json_string_is(it, "Linear");
    return all;
}

static enum lf_status read_group(struct lf_quantization *q, struct lf_json_value group, struct lf_json_value format,
                                 struct lf_err *err)
{
    struct lf_scheme s = {0};
    struct lf_modules targets;
    struct lf_json_value weights = lf_json_get(group, "weights"), own = lf_json_get(group, "format");
    struct lf_json_value names = lf_json_get(group, "targets");
    if (lf_json_type(group) != LF_JSON_OBJECT)
        return lf_config_wrong_type(group, "a group of config_groups", "an object", err);
    if (lf_json_is_absent(weights)) return LF_OK; /* of activations alone, or of a cache */
    if (lf_json_type(weights) != LF_JSON_OBJECT) return lf_config_wrong_type(weights, "weights", "an object", err);
    LF_TRY(find_format(&s, lf_json_is_absent(own) ? format : own, weights, err));
    LF_TRY(read_weights(&s, weights, err));
    LF_TRY(lf_modules_read(&targets, LF_MODULES_NAMES, names, "targets", &q->arena, err));
    enum lf_status status = lf_quantization_add(q, &s, &targets, err);
    if (status == LF_OK) q->groups[q->n_groups - 1].of_all = names_all(names);
    return status;
}

/* What would be computed with besides: sparse matrices, transforms; and a status other than of saved weights. */
static enum lf_status refuse_more(struct lf_json_value config, struct lf_err *err)
{
    struct lf_json_value sparsity = lf_json_get(lf_json_get(config, "sparsity_config"), "format");
    struct lf_json_value transform = lf_json_get(config, "transform_config");
    struct lf_json_value status = lf_json_get(config, "quantization_status");
    struct lf_str raw = lf_json_raw(sparsity), raw_status = lf_json_raw(status);
    if (!lf_json_is_absent(sparsity) && !lf_json_string_is(sparsity, "dense"))
        return lf_fail(err, LF_UNSUPPORTED, "sparsity_config: format %.*s is not implemented (dense is)",
                       (int)LF_MIN(raw.len, (size_t)40), raw.ptr);
    if (lf_json_len(lf_json_get(transform, "config_groups")) > 0)
        return lf_fail(err, LF_UNSUPPORTED, "transform_config: transforms of activations are not implemented");
    /* files of 2024 say frozen of weights that are stored as codes, too; which they are their tensors say */
    if (!lf_json_is_absent(status) && !lf_json_string_is(status, "compressed") && !lf_json_string_is(status, "frozen"))
        return lf_fail(err, LF_UNSUPPORTED, "quantization_status %.*s is not implemented (compressed and frozen are)",
                       (int)LF_MIN(raw_status.len, (size_t)40), raw_status.ptr);
    return LF_OK;
}

enum lf_status lf_compressed_tensors_read(struct lf_quantization *q, struct lf_json_value config, struct lf_err *err)
{
    struct lf_json_value groups = lf_json_get(config, "config_groups"), format = lf_json_get(config, "format");
    q->ignore_key = "ignore";
    LF_TRY(refuse_more(config, err));
    LF_TRY(lf_modules_read(&q->ignored, LF_MODULES_NAMES, lf_json_get(config, "ignore"), "ignore", &q->arena, err));
    if (lf_json_type(groups) != LF_JSON_OBJECT) return lf_config_wrong_type(groups, "config_groups", "an object", err);
    for (struct lf_json_value it = lf_json_first(groups); lf_json_more(groups, it); it = lf_json_next(groups, it))
        LF_TRY(read_group(q, lf_json_member(it), format, err));
    return LF_OK;
}
