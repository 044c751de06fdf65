/* NVIDIA's ModelOpt, as hf_quant_config.json has it, or config.json of newer files: one algorithm for all linear layers
 * but those that exclude_modules (ignore) names. FP8 has one scale a tensor, or one a row; NVFP4 is in fp4.c. Scales of
 * activations and of the KV cache are left unread. */
#include "core/check.h"
#include "model/config.h"
#include "model/formats/quantization.h"

static const struct {
    const char *name;
    struct lf_scheme scheme;
} algorithms[] = {
    {"FP8", {.packing = &lf_packing_fp8, .code = LF_CODE_E4M3, .bits = 8}},
    {"FP8_PER_CHANNEL_PER_TOKEN", {.packing = &lf_packing_fp8, .code = LF_CODE_E4M3, .bits = 8, .group_rows = 1}},
    {"NVFP4", {.packing = &lf_packing_nvfp4_modelopt, .code = LF_CODE_E2M1, .bits = 4, .group = 16, .group_rows = 1}},
};

enum lf_status lf_modelopt_read(struct lf_quantization *q, struct lf_json_value config, struct lf_err *err)
{
    struct lf_json_value name = lf_json_get(config, "quant_algo"), list = lf_json_get(config, "exclude_modules");
    struct lf_str raw = lf_json_raw(name);
    q->ignore_key = "exclude_modules";
    if (lf_json_is_absent(list)) {
        q->ignore_key = "ignore";
        list = lf_json_get(config, "ignore");
    }
    LF_TRY(lf_modules_read(&q->ignored, LF_MODULES_GLOBS, list, q->ignore_key, &q->arena, err));
    for (size_t i = 0; i < LF_N_ELEMS(algorithms); i++)
        if (lf_json_string_is(name, algorithms[i].name))
            return lf_quantization_add(q, &algorithms[i].scheme, NULL, err);
    return lf_fail(err, LF_UNSUPPORTED,
                   "quant_algo %.*s is not implemented (FP8, FP8_PER_CHANNEL_PER_TOKEN and NVFP4 are)",
                   (int)LF_MIN(raw.len, (size_t)40), raw.ptr);
}
