#include "server/load/prompt_sources.h"

#include <stdlib.h>

#include "core/check.h"

static const struct {
    const char *label;
    size_t at;
} sources[] = {
    {"source=\"local_compute\"", offsetof(struct lf_prompt_sources, n_computed)},
    {"source=\"local_cache_hit\"", offsetof(struct lf_prompt_sources, n_memory)},
    {"source=\"external_kv_transfer\"", offsetof(struct lf_prompt_sources, n_disk)},
};

/* A sample of the counters: whatever its prefix is, its labels and value. */
static bool is_sample(struct lf_str line, struct lf_str *labels, struct lf_str *value)
{
    ptrdiff_t at = lf_str_find(line, LF_STR(":prompt_tokens_by_source_total{")), end = lf_str_find(line, LF_STR("} "));
    if (at < 0 || end < at || line.ptr[0] == '#') return false;
    *labels = lf_str_from(line.ptr + at, (size_t)(end - at));
    *value = lf_str_from(line.ptr + end + 2, line.len - (size_t)end - 2);
    return true;
}

static bool read_count(struct lf_str text, int64_t *out)
{
    char digits[32];
    char *end;
    if (text.len == 0 || text.len >= sizeof(digits)) return false;
    memcpy(digits, text.ptr, text.len);
    digits[text.len] = '\0';
    double value = strtod(digits, &end);
    if (*end != '\0' || !(value >= 0 && value < 9e15)) return false;
    *out = (int64_t)value;
    return true;
}

bool lf_prompt_sources_read(struct lf_prompt_sources *out, struct lf_str page)
{
    struct lf_prompt_sources found = {0};
    unsigned seen = 0;
    while (page.len > 0) {
        const char *end = memchr(page.ptr, '\n', page.len);
        struct lf_str line = lf_str_from(page.ptr, end ? (size_t)(end - page.ptr) : page.len), labels, value;
        page = lf_str_from(page.ptr + line.len + (end ? 1 : 0), page.len - line.len - (end ? 1 : 0));
        if (!is_sample(line, &labels, &value)) continue;
        for (unsigned i = 0; i < LF_N_ELEMS(sources); i++)
            if (lf_str_find(labels, lf_str_c(sources[i].label)) >= 0 &&
                read_count(value, (int64_t *)(void *)((char *)&found + sources[i].at)))
                seen |= 1u << i;
    }
    if (seen != (1u << LF_N_ELEMS(sources)) - 1) return false;
    *out = found;
    return true;
}

struct lf_prompt_sources lf_prompt_sources_between(const struct lf_prompt_sources *from,
                                                   const struct lf_prompt_sources *to)
{
    return (struct lf_prompt_sources){.n_computed = to->n_computed - from->n_computed,
                                      .n_memory = to->n_memory - from->n_memory,
                                      .n_disk = to->n_disk - from->n_disk};
}
