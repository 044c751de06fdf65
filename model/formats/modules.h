/* Names of modules in quantization configurations: which layers a list leaves out, or is about.
 *
 * Programs that write such lists read them in three ways:
 *
 *     LF_MODULES_PARTS    transformers' modules_to_not_convert: an entry is the beginning of a name up to a dot, or its
 *                         end, or a regular expression of the former ("mlp.gate" is not "mlp.gate_proj")
 *     LF_MODULES_NAMES    compressed-tensors' targets and ignore: an exact name, or "re:" and a regular expression of
 *                         its beginning (Python's re.match)
 *     LF_MODULES_GLOBS    ModelOpt's exclude_modules: names with * and ? (Python's fnmatch)
 *
 * Regular expressions are matched by PCRE2, whose syntax is Python's as far as names go, under a limit of steps. */
#ifndef LF_MODEL_FORMATS_MODULES_H
#define LF_MODEL_FORMATS_MODULES_H

#include "core/arena.h"
#include "core/json.h"

enum lf_modules_kind { LF_MODULES_PARTS, LF_MODULES_NAMES, LF_MODULES_GLOBS };

struct lf_module_pattern {
    struct lf_str text;
    void *regex; /* owned; NULL: it is no regular expression */
};

struct lf_modules {
    enum lf_modules_kind kind;
    struct lf_module_pattern *patterns; /* [n] in the arena */
    int n;
};

/* Reads a list of strings, which may be absent; key: what it is called. Texts are copied to the arena. LF_CORRUPT,
 * LF_UNSUPPORTED for an expression that PCRE2 does not know, LF_LIMIT, LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_modules_read(struct lf_modules *out, enum lf_modules_kind kind,
                                             struct lf_json_value list, const char *key, struct lf_arena *arena,
                                             struct lf_err *err);
/* One entry, of LF_MODULES_NAMES. */
LF_MUST_CHECK enum lf_status lf_modules_of_regex(struct lf_modules *out, struct lf_str regex, const char *key,
                                                 struct lf_arena *arena, struct lf_err *err);
void lf_modules_deinit(struct lf_modules *modules); /* accepts a zeroed one; the arena stays */

/* *out: whether one of the entries is about the module. LF_LIMIT: an expression takes too long. */
LF_MUST_CHECK enum lf_status lf_modules_match(bool *out, const struct lf_modules *modules, struct lf_str module,
                                              struct lf_err *err);

#endif
