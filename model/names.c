#include "model/names.h"

#include <stdio.h>

#include "core/check.h"

void lf_name_bind(char out[LF_NAME_BYTES], const char *pattern, const char *suffix, int layer, int expert)
{
    size_t at = 0;
    for (const char *s = pattern; *s && at < LF_NAME_BYTES; s++) {
        if (*s == '#' || *s == '@')
            at += (size_t)snprintf(out + at, LF_NAME_BYTES - at, "%d", *s == '#' ? layer : expert);
        else
            out[at++] = *s;
    }
    LF_ASSERT(at + strlen(suffix) < LF_NAME_BYTES);
    memcpy(out + at, suffix, strlen(suffix) + 1);
}

/* What names have before them in place of what slots have; the first is what slots have. "lm_head" has no inner
 * prefix. */
static const struct prefix {
    const char *inner, *head;
} prefixes[] = {{"model.", ""}, {"", ""}, {"language_model.model.", "language_model."}, {"model.language_model.", ""}};

struct lf_str lf_name_bare(struct lf_str name)
{
    for (size_t i = LF_N_ELEMS(prefixes); i-- > 0;) {
        struct lf_str prefix = lf_str_c(prefixes[i].inner);
        if (prefix.len > 0 && lf_str_starts(name, prefix))
            return lf_str_from(name.ptr + prefix.len, name.len - prefix.len);
    }
    return name;
}

const struct lf_tensor *lf_name_find(const struct lf_tensor_set *set, const char *name)
{
    const struct lf_str own = lf_str_c(prefixes[0].inner);
    bool is_inner = lf_str_starts(lf_str_c(name), own);
    const struct lf_tensor *t = NULL;
    for (size_t i = 0; i < LF_N_ELEMS(prefixes) && !t; i++) {
        char other[2 * LF_NAME_BYTES];
        snprintf(other, sizeof(other), "%s%s", is_inner ? prefixes[i].inner : prefixes[i].head,
                 is_inner ? name + own.len : name);
        t = lf_tensor_find(set, lf_str_c(other));
    }
    return t;
}
