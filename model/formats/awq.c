/* AWQ (Lin et al. 2023, arXiv:2306.00978) as AutoAWQ's "gemm" version stores it: (qweight - qzeros) · scales, eight
 * rows of the matrix in a word, in the order 0 2 4 6 1 3 5 7 from the lowest bits on. Without zero_point all
 * zero points are 8. */
#include "core/check.h"
#include "model/config.h"
#include "model/formats/quantization.h"

enum { OF_WORD = 8, BITS = 4 };

/* Where in its word each of eight rows stands. */
static const uint8_t places[OF_WORD] = {0, 4, 1, 5, 2, 6, 3, 7};

static void shape(const struct lf_scheme *s, enum lf_source source, int n_out, int n_in, int dims[2])
{
    dims[0] = source == LF_SOURCE_CODES ? n_in : lf_scheme_n_groups(s, n_in);
    dims[1] = n_out / OF_WORD;
}

static uint8_t bits_at(const uint8_t *words, const struct lf_packed *p, int line, int row)
{
    size_t word = (size_t)line * (size_t)(p->n_out / OF_WORD) + (size_t)(row / OF_WORD);
    return lf_word_bits(words, word, places[row % OF_WORD] * BITS, BITS);
}

static void codes(const struct lf_packed *p, int row, int n, uint8_t *out)
{
    for (int k = 0; k < p->n_in; k++)
        for (int r = 0; r < n; r++)
            out[(size_t)r * (size_t)p->n_in + (size_t)k] = bits_at(p->sources[LF_SOURCE_CODES], p, k, row + r);
}

static uint8_t zero(const struct lf_packed *p, int row, int group)
{
    return bits_at(p->sources[LF_SOURCE_ZEROS], p, group, row);
}

const struct lf_packing lf_packing_awq = {
    .name = "AWQ",
    .rows = {[LF_SOURCE_CODES] = {.suffixes = {".qweight"}, .types = 1 << LF_SOURCE_I32},
             [LF_SOURCE_SCALES] = {.suffixes = {".scales"},
                                   .types = 1 << LF_SOURCE_F32 | 1 << LF_SOURCE_F16 | 1 << LF_SOURCE_BF16},
             [LF_SOURCE_ZEROS] = {.suffixes = {".qzeros"}, .types = 1 << LF_SOURCE_I32}},
    .scales_by_group = true,
    .fills_rows = true,
    .shape = shape,
    .codes = codes,
    .zero = zero};

static struct lf_json_value either(struct lf_json_value config, const char *key, const char *other)
{
    struct lf_json_value v = lf_json_get(config, key);
    return lf_json_is_absent(v) ? lf_json_get(config, other) : v;
}

enum lf_status lf_awq_read(struct lf_quantization *q, struct lf_json_value config, struct lf_err *err)
{
    struct lf_scheme s = {.packing = &lf_packing_awq, .code = LF_CODE_I4, .group = 128, .group_rows = 1};
    struct lf_json_value version = lf_json_get(config, "version"), group = either(config, "group_size", "q_group_size");
    struct lf_str raw = lf_json_raw(version);
    q->ignore_key = "modules_to_not_convert";
    LF_TRY(lf_quantization_read_bits(&s, either(config, "bits", "w_bit"), "bits", BITS, err));
    if (!lf_json_is_absent(group)) LF_TRY(lf_quantization_read_group(&s, group, "group_size", err));
    s.zeros = true;
    LF_TRY(lf_config_bool_or(config, "zero_point", &s.zeros, err));
    if (!lf_json_is_absent(version) && !lf_str_is_word(raw, "gemm"))
        return lf_fail(err, LF_UNSUPPORTED, "version %.*s is not implemented (gemm is)",
                       (int)LF_MIN(raw.len, (size_t)40), raw.ptr);
    LF_TRY(lf_modules_read(&q->ignored, LF_MODULES_PARTS, lf_json_get(config, q->ignore_key), q->ignore_key, &q->arena,
                           err));
    return lf_quantization_add(q, &s, NULL, err);
}
