#include "model/generation_config.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>

#include "core/check.h"
#include "core/file.h"
#include "core/json.h"
#include "core/log.h"

#define AT(member) offsetof(struct lf_sampling_defaults, member)

/* Ranges are those of a request's fields (server/http/api/openai_request.c). */
static const struct {
    const char *key;
    size_t at;
    double min, max, plain;
} numbers[] = {
    {"temperature", AT(temperature), 0, 2, 1},
    {"top_p", AT(top_p), 0, 1, 1},
    {"min_p", AT(min_p), 0, 1, 0},
    {"repetition_penalty", AT(repetition_penalty), 0.01, 100, 1},
};

/* What changes an answer in transformers and is not done here, unless it has this value. */
static const struct {
    const char *key;
    double neutral;
} others[] = {
    {"num_beams", 1},
    {"no_repeat_ngram_size", 0},
    {"penalty_alpha", 0},
    {"typical_p", 1},
    {"epsilon_cutoff", 0},
    {"eta_cutoff", 0},
    {"guidance_scale", 1},
    {"encoder_repetition_penalty", 1},
    {"suppress_tokens", 0},
    {"bad_words_ids", 0},
    {"sequence_bias", 0},
    {"forced_bos_token_id", -1},
    {"forced_eos_token_id", -1},
};

static double *number_at(struct lf_sampling_defaults *d, size_t at)
{
    return (double *)(void *)((char *)d + at);
}

static enum lf_status read_numbers(struct lf_sampling_defaults *out, struct lf_json_value root, struct lf_err *err)
{
    for (size_t i = 0; i < LF_N_ELEMS(numbers); i++) {
        struct lf_json_value v = lf_json_get(root, numbers[i].key);
        double x;
        if (lf_json_is_absent(v)) continue;
        if (!lf_json_double(v, &x) || x < numbers[i].min || x > numbers[i].max)
            return lf_fail(err, LF_CORRUPT, "%s: expected a number from %g to %g", numbers[i].key, numbers[i].min,
                           numbers[i].max);
        *number_at(out, numbers[i].at) = x;
    }
    struct lf_json_value v = lf_json_get(root, "top_k");
    int64_t k = 0;
    if (!lf_json_is_absent(v) && (!lf_json_int64(v, &k) || k < -1 || k > INT32_MAX))
        return lf_fail(err, LF_CORRUPT, "top_k: expected a whole number from -1");
    out->top_k = k > 0 ? (int32_t)k : 0;
    return LF_OK;
}

static void name_others(struct lf_json_value root)
{
    for (size_t i = 0; i < LF_N_ELEMS(others); i++) {
        struct lf_json_value v = lf_json_get(root, others[i].key);
        double x;
        if (lf_json_is_absent(v) || (lf_json_double(v, &x) && fabs(x - others[i].neutral) == 0)) continue;
        if (lf_json_type(v) >= LF_JSON_ARRAY && lf_json_len(v) == 0) continue;
        LF_WARN("generation_config.json: %s is not implemented and left out", others[i].key);
    }
}

enum lf_status lf_generation_config_read(struct lf_sampling_defaults *out, const char *dir, struct lf_err *err)
{
    struct lf_sampling_defaults d = LF_SAMPLING_PLAIN;
    struct lf_json json = {0};
    struct lf_buf text;
    char path[4096];
    enum lf_status status;
    lf_buf_init(&text, LF_JSON_FILE_BYTES);
    if (lf_path_join(path, sizeof(path), dir, "generation_config.json") != LF_OK)
        return lf_fail(err, LF_LIMIT, "the path %.200s… is too long", dir);
    status = lf_file_read(&text, path, LF_JSON_FILE_BYTES, err);
    if (status != LF_OK) goto done;
    status = lf_json_parse(&json, lf_str_without_bom(lf_buf_view(&text)), &lf_json_limits_file, err);
    if (status == LF_INVALID) status = LF_CORRUPT;
    if (status == LF_OK && lf_json_type(lf_json_root(&json)) != LF_JSON_OBJECT)
        status = lf_fail(err, LF_CORRUPT, "expected an object, got %s", lf_json_type_name(lf_json_root(&json)));
    if (status == LF_OK) status = read_numbers(&d, lf_json_root(&json), err);
    if (status == LF_OK)
        name_others(lf_json_root(&json));
    else
        lf_fail_within(err, status, "%s", path);
done:
    if (status == LF_NOT_FOUND) status = LF_OK;
    if (status == LF_OK) *out = d;
    lf_json_deinit(&json);
    lf_buf_deinit(&text);
    return status;
}

void lf_sampling_defaults_print(const struct lf_sampling_defaults *defaults, struct lf_buf *out)
{
    struct lf_sampling_defaults d = *defaults;
    const char *comma = "";
    for (size_t i = 0; i < LF_N_ELEMS(numbers); i++) {
        double x = *number_at(&d, numbers[i].at);
        if (fabs(x - numbers[i].plain) == 0) continue;
        lf_buf_printf(out, "%s%s %g", comma, numbers[i].key, x);
        comma = ", ";
    }
    if (d.top_k > 0) lf_buf_printf(out, "%stop_k %" PRId32, comma, d.top_k);
}
