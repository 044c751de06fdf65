#include "model/formats/quantization.h"

#include <stdlib.h>

#include "core/check.h"
#include "core/limits.h"
#include "model/config.h"
#include "model/foreign.h"

enum { ARENA_CHUNK_BYTES = 16 * 1024 };

#define ARENA_CEILING ((size_t)256 << 20)

static const struct {
    const char *method;
    lf_quantization_read_fn *read;
} methods[] = {{"fp8", lf_fp8_read},
               {"fbgemm_fp8", lf_fbgemm_fp8_read},
               {"compressed-tensors", lf_compressed_tensors_read},
               {"gptq", lf_gptq_read},
               {"awq", lf_awq_read},
               {"modelopt", lf_modelopt_read}};

#define KNOWN "fp8, fbgemm_fp8, compressed-tensors, gptq, awq and modelopt are, and mxfp4 of gpt-oss"

enum lf_status lf_quantization_add(struct lf_quantization *q, const struct lf_scheme *scheme,
                                   const struct lf_modules *targets, struct lf_err *err)
{
    if (!q->groups) q->groups = lf_arena_array(&q->arena, LF_QUANT_GROUPS_N, sizeof(*q->groups));
    if (!q->groups || q->n_groups == LF_QUANT_GROUPS_N) {
        struct lf_modules own = targets ? *targets : (struct lf_modules){0};
        lf_modules_deinit(&own);
        if (!q->groups) return lf_fail(err, LF_NO_MEMORY, "no memory for groups of modules");
        return lf_fail(err, LF_LIMIT, "more than %d groups of modules", (int)LF_QUANT_GROUPS_N);
    }
    struct lf_quant_group *g = &q->groups[q->n_groups++];
    *g = (struct lf_quant_group){.scheme = *scheme, .of_all = !targets};
    if (targets) g->targets = *targets;
    return LF_OK;
}

enum lf_status lf_quantization_read_block(struct lf_scheme *s, struct lf_json_value block, const char *key,
                                          struct lf_err *err)
{
    int dims[2], n = 0;
    if (lf_json_type(block) != LF_JSON_ARRAY || lf_json_len(block) != 2)
        return lf_fail(err, LF_CORRUPT, "%s is not an array of two numbers", key);
    for (struct lf_json_value it = lf_json_first(block); lf_json_more(block, it); it = lf_json_next(block, it))
        LF_TRY(lf_config_int_of(it, key, 1, LF_HIDDEN_N, &dims[n++], err));
    s->group_rows = dims[0];
    s->group = dims[1];
    return LF_OK;
}

enum lf_status lf_quantization_read_group(struct lf_scheme *s, struct lf_json_value value, const char *key,
                                          struct lf_err *err)
{
    int64_t n;
    s->group = 0;
    if (lf_json_is_absent(value) || (lf_json_int64(value, &n) && n == -1)) return LF_OK;
    return lf_config_int_of(value, key, 1, LF_HIDDEN_N, &s->group, err);
}

enum lf_status lf_quantization_read_bits(struct lf_scheme *s, struct lf_json_value value, const char *key, int only,
                                         struct lf_err *err)
{
    if (lf_json_is_absent(value)) return lf_fail(err, LF_CORRUPT, "%s is missing", key);
    LF_TRY(lf_config_int_of(value, key, 1, 64, &s->bits, err));
    if (only ? s->bits == only : s->bits == 4 || s->bits == 8) return LF_OK;
    return lf_fail(err, LF_UNSUPPORTED, "%s is %d, which is not implemented (%s)", key, s->bits,
                   only ? "4 is" : "4 and 8 are");
}

void lf_quantization_free(struct lf_quantization *q)
{
    if (!q) return;
    for (int i = 0; i < q->n_groups; i++) lf_modules_deinit(&q->groups[i].targets);
    lf_modules_deinit(&q->ignored);
    lf_arena_deinit(&q->arena);
    free(q);
}

static enum lf_status read_with(struct lf_quantization **out, size_t method, const char *key,
                                struct lf_json_value config, struct lf_err *err)
{
    struct lf_quantization *q = calloc(1, sizeof(*q));
    if (!q) return lf_fail(err, LF_NO_MEMORY, "no memory for %s", key);
    lf_arena_init(&q->arena, ARENA_CHUNK_BYTES, ARENA_CEILING);
    q->method = methods[method].method;
    enum lf_status status = methods[method].read(q, config, err);
    if (status == LF_OK) {
        *out = q;
        return LF_OK;
    }
    lf_quantization_free(q);
    return lf_fail_within(err, status, "%s, %s", key, methods[method].method);
}

static bool says_nothing(struct lf_json_value v)
{
    return lf_json_is_absent(v) || lf_json_type(v) == LF_JSON_FALSE ||
           (lf_json_type(v) == LF_JSON_OBJECT && lf_json_len(v) == 0);
}

enum lf_status lf_quantization_read(struct lf_quantization **out, struct lf_json_value root, struct lf_json_value text,
                                    bool *mxfp4, struct lf_err *err)
{
    static const char *const keys[] = {"quantization_config", "compression_config"};
    struct lf_json_value places[] = {root, text};
    bool has_mxfp4 = *mxfp4;
    *out = NULL;
    *mxfp4 = false;
    for (size_t i = 0; i < LF_N_ELEMS(keys) * LF_N_ELEMS(places); i++) {
        struct lf_json_value config = lf_json_get(places[i / 2], keys[i % 2]),
                             method = lf_json_get(config, "quant_method");
        if (says_nothing(config)) continue;
        *mxfp4 = has_mxfp4 && lf_json_string_is(method, "mxfp4");
        if (*mxfp4) return LF_OK;
        for (size_t m = 0; m < LF_N_ELEMS(methods); m++)
            if (lf_json_string_is(method, methods[m].method)) return read_with(out, m, keys[i % 2], config, err);
        return lf_foreign_quantization(config, keys[i % 2], KNOWN, err);
    }
    for (size_t i = 0; i < LF_N_ELEMS(places); i++) {
        struct lf_json_value config = lf_json_get(places[i], "quantization");
        if (!says_nothing(config)) return lf_foreign_quantization(config, "quantization", KNOWN, err);
    }
    return LF_OK;
}

enum lf_status lf_quantization_read_modelopt(struct lf_quantization **out, struct lf_json_value root,
                                             struct lf_err *err)
{
    struct lf_json_value config = lf_json_get(root, "quantization");
    size_t m = 0;
    *out = NULL;
    while (strcmp(methods[m].method, "modelopt") != 0) m++;
    if (lf_json_type(config) != LF_JSON_OBJECT) return lf_config_wrong_type(config, "quantization", "an object", err);
    if (lf_json_is_absent(lf_json_get(config, "quant_algo"))) return LF_OK; /* of the KV cache alone */
    return read_with(out, m, "quantization", config, err);
}

enum lf_status lf_quantization_find(const struct lf_quantization *q, struct lf_str module, const struct lf_scheme **out,
                                    bool *ignored, struct lf_err *err)
{
    *out = NULL;
    LF_TRY(lf_modules_match(ignored, &q->ignored, module, err));
    for (int i = 0; i < q->n_groups && !*out && !*ignored; i++) {
        bool is_named;
        LF_TRY(lf_modules_match(&is_named, &q->groups[i].targets, module, err));
        if (is_named && !q->groups[i].scheme.packing) *ignored = true;
        if (is_named) *out = &q->groups[i].scheme;
    }
    for (int i = 0; i < q->n_groups && !*out && !*ignored; i++)
        if (q->groups[i].of_all) *out = &q->groups[i].scheme;
    if (*ignored) *out = NULL;
    return LF_OK;
}

enum lf_status lf_quantization_names(const struct lf_quantization *q, struct lf_str module, bool *named,
                                     struct lf_err *err)
{
    *named = false;
    for (int i = 0; i < q->n_groups && !*named; i++)
        LF_TRY(lf_modules_match(named, &q->groups[i].targets, module, err));
    return LF_OK;
}

bool lf_quantization_is_aside(struct lf_str tensor)
{
    static const char *const ends[] = {".input_scale",       ".activation_scale",
                                       ".input_zero_point",  ".input_global_scale",
                                       ".output_scale",      ".output_zero_point",
                                       ".k_scale",           ".v_scale",
                                       ".q_scale",           ".kv_scale",
                                       ".prob_output_scale", ".k_zero_point",
                                       ".v_zero_point",      ".activation_scale_ub",
                                       ".input_scale_ub"};
    bool is_aside = false;
    for (size_t i = 0; i < LF_N_ELEMS(ends); i++) is_aside |= lf_str_ends(tensor, lf_str_c(ends[i]));
    return is_aside;
}
