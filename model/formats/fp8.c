/* FP8 E4M3 as transformers and vLLM read it: `weight` and `weight_scale_inv`, which despite its name is what codes are
 * multiplied by, for each block of weight_block_size (DeepSeek-V3, Qwen3), or one number a tensor (Mistral's own).
 * fbgemm_fp8 has a scale for each row. activation_scale, where activations have a fixed one, is of how others compute,
 * not of what the matrix is: left unread. Values: transformers' dequantization multiplies in the type of the scales and
 * rounds once, as here. */
#include "core/check.h"
#include "model/config.h"
#include "model/formats/quantization.h"

static void shape(const struct lf_scheme *s, enum lf_source source, int n_out, int n_in, int dims[2])
{
    dims[0] = s->group_rows == 0 && source == LF_SOURCE_ZEROS ? 1 : n_out;
    dims[1] = source == LF_SOURCE_ZEROS ? lf_scheme_n_groups(s, n_in) : n_in;
}

static void codes(const struct lf_packed *p, int row, int n, uint8_t *out)
{
    size_t n_in = (size_t)p->n_in;
    memcpy(out, p->sources[LF_SOURCE_CODES] + (size_t)(row - p->codes_from) * n_in, (size_t)n * n_in);
}

/* Of a zero point in two's complement what is 128 more. */
static uint8_t zero(const struct lf_packed *p, int row, int group)
{
    const struct lf_scheme *s = p->scheme;
    size_t r = s->group_rows > 0 ? (size_t)(row / s->group_rows) : 0;
    return (uint8_t)(p->sources[LF_SOURCE_ZEROS][r * (size_t)lf_scheme_n_groups(s, p->n_in) + (size_t)group] ^ 0x80);
}

#define SCALE_TYPES (1 << LF_SOURCE_F32 | 1 << LF_SOURCE_F16 | 1 << LF_SOURCE_BF16)

const struct lf_packing lf_packing_fp8 = {
    .name = "FP8",
    .rows = {[LF_SOURCE_CODES] = {.suffixes = {".weight"}, .stacked = "", .types = 1 << LF_SOURCE_F8_E4M3},
             [LF_SOURCE_SCALES] = {.suffixes = {".weight_scale_inv", ".weight_scale"},
                                   .stacked = "_scale_inv",
                                   .types = SCALE_TYPES | 1 << LF_SOURCE_F8_E8M0}},
    .by_rows = true,
    .shape = shape,
    .codes = codes};

const struct lf_packing lf_packing_int8 = {
    .name = "int8",
    .rows = {[LF_SOURCE_CODES] = {.suffixes = {".weight"}, .stacked = "", .types = 1 << LF_SOURCE_I8},
             [LF_SOURCE_SCALES] = {.suffixes = {".weight_scale"}, .types = SCALE_TYPES},
             [LF_SOURCE_ZEROS] = {.suffixes = {".weight_zero_point"}, .types = 1 << LF_SOURCE_I8, .optional = true}},
    .by_rows = true,
    .shape = shape,
    .codes = codes,
    .zero = zero};

/* weight_block_size: [rows, columns] of a block. */
static enum lf_status read_block(struct lf_scheme *s, struct lf_json_value block, struct lf_err *err)
{
    if (lf_json_is_absent(block)) return LF_OK;
    return lf_quantization_read_block(s, block, "weight_block_size", err);
}

enum lf_status lf_fp8_read(struct lf_quantization *q, struct lf_json_value config, struct lf_err *err)
{
    struct lf_scheme s = {.packing = &lf_packing_fp8, .code = LF_CODE_E4M3, .bits = 8};
    struct lf_json_value fmt = lf_json_get(config, "fmt"), list = lf_json_get(config, "modules_to_not_convert");
    struct lf_str raw = lf_json_raw(fmt);
    q->ignore_key = "modules_to_not_convert";
    if (!lf_json_is_absent(fmt) && !lf_json_string_is(fmt, "e4m3"))
        return lf_fail(err, LF_UNSUPPORTED, "fmt %.*s is not implemented (e4m3 is)", (int)LF_MIN(raw.len, (size_t)40),
                       raw.ptr);
    if (lf_json_is_absent(list)) list = lf_json_get(config, "ignored_layers");
    LF_TRY(read_block(&s, lf_json_get(config, "weight_block_size"), err));
    LF_TRY(lf_modules_read(&q->ignored, LF_MODULES_PARTS, list, q->ignore_key, &q->arena, err));
    return lf_quantization_add(q, &s, NULL, err);
}

enum lf_status lf_fbgemm_fp8_read(struct lf_quantization *q, struct lf_json_value config, struct lf_err *err)
{
    struct lf_scheme s = {.packing = &lf_packing_fp8, .code = LF_CODE_E4M3, .bits = 8, .group_rows = 1};
    q->ignore_key = "modules_to_not_convert";
    LF_TRY(lf_modules_read(&q->ignored, LF_MODULES_PARTS, lf_json_get(config, q->ignore_key), q->ignore_key, &q->arena,
                           err));
    return lf_quantization_add(q, &s, NULL, err);
}
