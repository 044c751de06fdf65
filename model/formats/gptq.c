/* GPTQ (Frantar et al. 2022, arXiv:2210.17323) as AutoGPTQ and GPTQModel store it, which means (qweight - qzeros) ·
 * scales of each column's group. The first version of the format ("gptq") stores zero points less 1, "gptq_v2" as they
 * are. With desc_act columns were quantized in the order of their activations and g_idx says which
 * group each is in. `dynamic` has other numbers for some modules, and leaves some out. */
#include "core/check.h"
#include "core/limits.h"
#include "model/config.h"
#include "model/formats/quantization.h"

/* ---- the order of codes ---- */

static int codes_of_word(const struct lf_scheme *s)
{
    return LF_WORD_BITS / s->bits;
}

/* The last word of a line may not be full. */
static int words_of(const struct lf_scheme *s, int n)
{
    return (n + codes_of_word(s) - 1) / codes_of_word(s);
}

static void shape(const struct lf_scheme *s, enum lf_source source, int n_out, int n_in, int dims[2])
{
    bool is_codes = source == LF_SOURCE_CODES;
    dims[0] = is_codes ? words_of(s, n_in) : lf_scheme_n_groups(s, n_in);
    dims[1] = is_codes ? n_out : words_of(s, n_out);
}

/* Words of a tile of rows, one after another as they lie. */
static void codes(const struct lf_packed *p, int row, int n, uint8_t *out)
{
    int bits = p->scheme->bits, of_word = codes_of_word(p->scheme), flip = bits == 8 ? 0x80 : 0;
    for (int k = 0; k < p->n_in; k += of_word)
        for (int r = 0; r < n; r++) {
            size_t word = (size_t)(k / of_word) * (size_t)p->n_out + (size_t)(row + r);
            uint8_t *to = out + (size_t)r * (size_t)p->n_in + (size_t)k;
            for (int i = 0; i < of_word && k + i < p->n_in; i++)
                to[i] = (uint8_t)(lf_word_bits(p->sources[LF_SOURCE_CODES], word, i * bits, bits) ^ flip);
        }
}

/* Zero points less 1 are made by one subtraction from a word of them, and undone by one addition: where a zero point is
 * 0 its neighbour pays, and is paid back. */
static uint8_t zero(const struct lf_packed *p, int row, int group)
{
    int bits = p->scheme->bits, of_word = codes_of_word(p->scheme);
    size_t i = (size_t)group * (size_t)words_of(p->scheme, p->n_out) + (size_t)(row / of_word);
    uint32_t word, ones = bits == 8 ? 0x01010101u : 0x11111111u;
    memcpy(&word, p->sources[LF_SOURCE_ZEROS] + i * sizeof(word), sizeof(word));
    if (p->scheme->zero_less_one) word += ones;
    return (uint8_t)(word >> (row % of_word * bits) & ((1u << bits) - 1));
}

#define SCALE_TYPES (1 << LF_SOURCE_F32 | 1 << LF_SOURCE_F16 | 1 << LF_SOURCE_BF16)

const struct lf_packing lf_packing_gptq = {
    .name = "GPTQ",
    .rows = {[LF_SOURCE_CODES] = {.suffixes = {".qweight"}, .types = 1 << LF_SOURCE_I32},
             [LF_SOURCE_SCALES] = {.suffixes = {".scales"}, .types = SCALE_TYPES},
             [LF_SOURCE_ZEROS] = {.suffixes = {".qzeros"}, .types = 1 << LF_SOURCE_I32},
             [LF_SOURCE_ORDER] = {.suffixes = {".g_idx"}, .types = 1 << LF_SOURCE_I32, .optional = true}},
    .scales_by_group = true,
    .shape = shape,
    .codes = codes,
    .zero = zero};

/* ---- config.json ---- */

/* Numbers of all modules, or of some (`dynamic`), what is absent stays as it is. */
static enum lf_status read_numbers(struct lf_scheme *s, struct lf_json_value config, struct lf_err *err)
{
    bool desc_act = s->act_order, sym = !s->zeros;
    if (!lf_json_is_absent(lf_json_get(config, "bits")))
        LF_TRY(lf_quantization_read_bits(s, lf_json_get(config, "bits"), "bits", 0, err));
    if (!lf_json_is_absent(lf_json_get(config, "group_size")))
        LF_TRY(lf_quantization_read_group(s, lf_json_get(config, "group_size"), "group_size", err));
    LF_TRY(lf_config_bool_or(config, "desc_act", &desc_act, err));
    LF_TRY(lf_config_bool_or(config, "sym", &sym, err));
    s->act_order = desc_act && s->group > 0;
    s->zeros = !sym; /* where it is not said they are looked at */
    s->code = s->bits == 8 ? LF_CODE_I8 : LF_CODE_I4;
    return LF_OK;
}

/* checkpoint_format, which some files call format. */
static enum lf_status read_version(struct lf_scheme *s, struct lf_json_value config, struct lf_err *err)
{
    struct lf_json_value v = lf_json_get(config, "checkpoint_format");
    bool is_marlin = false;
    if (lf_json_is_absent(v)) v = lf_json_get(config, "format");
    struct lf_str raw = lf_json_raw(v);
    LF_TRY(lf_config_bool_or(config, "is_marlin_format", &is_marlin, err));
    if (is_marlin)
        return lf_fail(err, LF_UNSUPPORTED,
                       "is_marlin_format: weights in Marlin's order are not implemented (gptq and gptq_v2 are)");
    s->zero_less_one = lf_json_is_absent(v) || lf_json_string_is(v, "gptq");
    if (s->zero_less_one || lf_json_string_is(v, "gptq_v2")) return LF_OK;
    return lf_fail(err, LF_UNSUPPORTED, "checkpoint_format %.*s is not implemented (gptq and gptq_v2 are)",
                   (int)LF_MIN(raw.len, (size_t)40), raw.ptr);
}

/* An object of expressions: "-:" before one leaves modules out, "+:" or nothing gives them other numbers. */
static enum lf_status read_dynamic(struct lf_quantization *q, const struct lf_scheme *common, struct lf_json_value v,
                                   struct lf_err *err)
{
    if (lf_json_is_absent(v) || lf_json_type(v) == LF_JSON_FALSE) return LF_OK;
    if (lf_json_type(v) != LF_JSON_OBJECT) return lf_config_wrong_type(v, "dynamic", "an object", err);
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it)) {
        struct lf_scheme s = *common;
        struct lf_modules targets;
        struct lf_buf text;
        lf_buf_init(&text, LF_MODULE_PATTERN_BYTES);
        bool is_whole = lf_json_string(it, &text);
        struct lf_str name = lf_buf_view(&text);
        bool skips = lf_str_starts(name, LF_STR("-:")), is_marked = skips || lf_str_starts(name, LF_STR("+:"));
        size_t mark = is_marked ? 2 : 0;
        enum lf_status status =
            is_whole ? LF_OK
                     : lf_fail(err, LF_LIMIT, "dynamic: a name of more than %d bytes", (int)LF_MODULE_PATTERN_BYTES);
        if (skips)
            s.packing = NULL;
        else if (status == LF_OK)
            status = read_numbers(&s, lf_json_member(it), err);
        if (status == LF_OK)
            status =
                lf_modules_of_regex(&targets, lf_str_from(name.ptr + mark, name.len - mark), "dynamic", &q->arena, err);
        lf_buf_deinit(&text);
        if (status == LF_OK) status = lf_quantization_add(q, &s, &targets, err);
        if (status != LF_OK) return status;
    }
    return LF_OK;
}

enum lf_status lf_gptq_read(struct lf_quantization *q, struct lf_json_value config, struct lf_err *err)
{
    struct lf_scheme s = {.packing = &lf_packing_gptq, .group = 128, .group_rows = 1, .zeros = true};
    q->ignore_key = "dynamic";
    LF_TRY(lf_quantization_read_bits(&s, lf_json_get(config, "bits"), "bits", 0, err));
    LF_TRY(read_version(&s, config, err));
    LF_TRY(read_numbers(&s, config, err));
    LF_TRY(read_dynamic(q, &s, lf_json_get(config, "dynamic"), err));
    return lf_quantization_add(q, &s, NULL, err);
}
