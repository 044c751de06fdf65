#include "model/activation.h"

#include <stdio.h>

#include "core/check.h"
#include "model/arch/arch.h"

/* Some are the same function by another name: those that approximate GELU by tanh, whose constants are rounded
 * differently, beyond what a float has. */
static const struct {
    const char *name;
    enum lf_act act;
} names[] = {{"silu", LF_ACT_SILU},
             {"swish", LF_ACT_SILU},
             {"gelu", LF_ACT_GELU},
             {"gelu_python", LF_ACT_GELU},
             {"gelu_pytorch_tanh", LF_ACT_GELU_TANH},
             {"gelu_python_tanh", LF_ACT_GELU_TANH},
             {"gelu_new", LF_ACT_GELU_TANH},
             {"gelu_fast", LF_ACT_GELU_TANH},
             {"gelu_accurate", LF_ACT_GELU_TANH}};

static enum lf_status not_implemented(struct lf_json_value v, const char *key, const struct lf_arch *arch,
                                      struct lf_err *err)
{
    struct lf_str raw = lf_json_raw(v);
    char known[160];
    size_t at = 0;
    for (size_t i = 0; i < LF_N_ELEMS(names) && !arch->only_silu; i++)
        at += (size_t)snprintf(known + at, sizeof(known) - at, "%s%s", i ? ", " : "", names[i].name);
    return lf_fail(err, LF_UNSUPPORTED, "%s \"%.*s\" is not implemented for %s (%s)", key,
                   (int)LF_MIN(raw.len, (size_t)64), raw.ptr, arch->name, arch->only_silu ? "silu" : known);
}

/* *out keeps its default where the key is absent. */
static enum lf_status read_key(enum lf_act *out, const struct lf_arch *arch, struct lf_json_value config,
                               const char *key, struct lf_err *err)
{
    struct lf_json_value v = lf_json_get(config, key);
    if (lf_json_is_absent(v)) return LF_OK;
    for (size_t i = 0; i < LF_N_ELEMS(names); i++) {
        if (!lf_json_string_is(v, names[i].name) || (arch->only_silu && names[i].act != LF_ACT_SILU)) continue;
        *out = names[i].act;
        return LF_OK;
    }
    return not_implemented(v, key, arch, err);
}

enum lf_status lf_activation_read(enum lf_act *out, const struct lf_arch *arch, struct lf_json_value config,
                                  struct lf_err *err)
{
    static const char *const keys[] = {"hidden_act", "hidden_activation"};
    const char *own = keys[arch->hidden_activation], *other = keys[!arch->hidden_activation];
    enum lf_act act = arch->hidden_activation ? LF_ACT_GELU_TANH : LF_ACT_SILU;
    LF_TRY(read_key(&act, arch, config, own, err));
    enum lf_act also = act;
    LF_TRY(read_key(&also, arch, config, other, err));
    if (also != act)
        return lf_fail(err, LF_UNSUPPORTED, "%s says something else than %s, which is the one that %s has", other, own,
                       arch->name);
    *out = act;
    return LF_OK;
}
