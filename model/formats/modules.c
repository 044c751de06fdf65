#include "model/formats/modules.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "core/check.h"
#include "core/limits.h"

enum { MATCH_STEPS = 10000, HEAP_KIB = 1024 };

/* Behind what transformers matches: a dot, or the end. */
#define BOUNDARY "(?:(?<=\\.)|(?=\\.|$))"

static enum lf_status compile(void **out, struct lf_str text, const char *before, const char *behind, const char *key,
                              struct lf_err *err)
{
    struct lf_buf pattern;
    int code;
    PCRE2_SIZE at;
    lf_buf_init(&pattern, LF_MODULE_PATTERN_BYTES + 64);
    lf_buf_cstr(&pattern, before);
    lf_buf_str(&pattern, text);
    lf_buf_cstr(&pattern, behind);
    if (pattern.status != LF_OK) {
        lf_buf_deinit(&pattern);
        return lf_fail(err, LF_NO_MEMORY, "%s: no memory for a pattern", key);
    }
    *out = pcre2_compile((PCRE2_SPTR)pattern.ptr, pattern.len, PCRE2_ANCHORED | PCRE2_UTF, &code, &at, NULL);
    lf_buf_deinit(&pattern);
    if (*out) return LF_OK;
    PCRE2_UCHAR reason[128];
    pcre2_get_error_message(code, reason, sizeof(reason));
    return lf_fail(err, LF_UNSUPPORTED, "%s: \"%.*s\" is no pattern that is implemented: %s", key,
                   (int)LF_MIN(text.len, (size_t)64), text.ptr, (const char *)reason);
}

static bool has_special(struct lf_str text)
{
    bool has = false;
    for (size_t i = 0; i < text.len; i++) has |= strchr("*+?^$|()[]{}\\", text.ptr[i]) != NULL;
    return has;
}

static enum lf_status read_pattern(struct lf_module_pattern *out, enum lf_modules_kind kind, struct lf_json_value v,
                                   const char *key, struct lf_arena *arena, struct lf_err *err)
{
    const struct lf_str mark = LF_STR("re:");
    struct lf_buf text;
    lf_buf_init(&text, LF_MODULE_PATTERN_BYTES);
    bool is_string = lf_json_string(v, &text);
    char *copy = is_string ? lf_arena_strdup(arena, lf_buf_view(&text)) : NULL;
    *out = (struct lf_module_pattern){.text = lf_str_from(copy, copy ? text.len : 0)};
    lf_buf_deinit(&text);
    if (!is_string && lf_json_type(v) == LF_JSON_STRING)
        return lf_fail(err, LF_LIMIT, "%s: a name of more than %d bytes", key, (int)LF_MODULE_PATTERN_BYTES);
    if (!is_string) return lf_fail(err, LF_CORRUPT, "%s has %s, expected names", key, lf_json_type_name(v));
    if (!copy) return lf_fail(err, LF_NO_MEMORY, "%s: no memory for a name", key);
    if (out->text.len == 0) return lf_fail(err, LF_CORRUPT, "%s has an empty name", key);
    if (kind == LF_MODULES_NAMES && lf_str_starts(out->text, mark))
        return compile(&out->regex, lf_str_from(copy + mark.len, out->text.len - mark.len), "", "", key, err);
    if (kind == LF_MODULES_PARTS && has_special(out->text))
        return compile(&out->regex, out->text, "(?:", ")" BOUNDARY, key, err);
    return LF_OK;
}

static enum lf_status make_room(struct lf_modules *out, size_t n, const char *key, struct lf_arena *arena,
                                struct lf_err *err)
{
    if (n > LF_MODULE_PATTERNS_N)
        return lf_fail(err, LF_LIMIT, "%s has %zu names, at most %d are read", key, n, (int)LF_MODULE_PATTERNS_N);
    out->patterns = lf_arena_array(arena, n, sizeof(*out->patterns));
    return out->patterns ? LF_OK : lf_fail(err, LF_NO_MEMORY, "no memory for %s", key);
}

enum lf_status lf_modules_read(struct lf_modules *out, enum lf_modules_kind kind, struct lf_json_value list,
                               const char *key, struct lf_arena *arena, struct lf_err *err)
{
    *out = (struct lf_modules){.kind = kind};
    if (lf_json_is_absent(list)) return LF_OK;
    if (lf_json_type(list) != LF_JSON_ARRAY)
        return lf_fail(err, LF_CORRUPT, "%s is %s, expected an array", key, lf_json_type_name(list));
    if (lf_json_len(list) == 0) return LF_OK;
    int n_regexes = 0;
    LF_TRY(make_room(out, lf_json_len(list), key, arena, err));
    for (struct lf_json_value it = lf_json_first(list); lf_json_more(list, it); it = lf_json_next(list, it)) {
        enum lf_status status = read_pattern(&out->patterns[out->n], kind, it, key, arena, err);
        if (status == LF_OK) n_regexes += out->patterns[out->n++].regex != NULL;
        if (status == LF_OK && n_regexes > LF_MODULE_REGEXES_N)
            status = lf_fail(err, LF_LIMIT, "%s has more than %d expressions", key, (int)LF_MODULE_REGEXES_N);
        if (status != LF_OK) {
            lf_modules_deinit(out);
            return status;
        }
    }
    return LF_OK;
}

enum lf_status lf_modules_of_regex(struct lf_modules *out, struct lf_str regex, const char *key, struct lf_arena *arena,
                                   struct lf_err *err)
{
    *out = (struct lf_modules){.kind = LF_MODULES_NAMES};
    LF_TRY(make_room(out, 1, key, arena, err));
    if (regex.len > LF_MODULE_PATTERN_BYTES)
        return lf_fail(err, LF_LIMIT, "%s: a name of more than %d bytes", key, (int)LF_MODULE_PATTERN_BYTES);
    out->patterns[0] = (struct lf_module_pattern){0};
    LF_TRY(compile(&out->patterns[0].regex, regex, "", "", key, err));
    out->n = 1;
    return LF_OK;
}

void lf_modules_deinit(struct lf_modules *modules)
{
    for (int i = 0; i < modules->n; i++) pcre2_code_free(modules->patterns[i].regex);
    *modules = (struct lf_modules){0};
}

static enum lf_status match_regex(bool *out, const struct lf_module_pattern *p, struct lf_str module,
                                  struct lf_err *err)
{
    pcre2_match_context *context = pcre2_match_context_create(NULL);
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    int rc = PCRE2_ERROR_NOMEMORY;
    if (context && data) {
        pcre2_set_match_limit(context, MATCH_STEPS);
        pcre2_set_heap_limit(context, HEAP_KIB);
        rc = pcre2_match(p->regex, (PCRE2_SPTR)module.ptr, module.len, 0, 0, data, context);
    }
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    *out = rc >= 0;
    if (rc >= 0 || rc == PCRE2_ERROR_NOMATCH || rc == PCRE2_ERROR_PARTIAL) return LF_OK;
    if (rc == PCRE2_ERROR_NOMEMORY) return lf_fail(err, LF_NO_MEMORY, "no memory to match names");
    return lf_fail(err, LF_LIMIT, "the pattern \"%.*s\" takes too long on %.*s", (int)LF_MIN(p->text.len, (size_t)64),
                   p->text.ptr, (int)LF_MIN(module.len, (size_t)100), module.ptr);
}

/* Whether text is the beginning of the module's name up to a dot, or all of it. */
static bool begins(struct lf_str text, struct lf_str module)
{
    return lf_str_starts(module, text) &&
           (module.len == text.len || module.ptr[text.len] == '.' || text.ptr[text.len - 1] == '.');
}

/* * is any characters, ? is one. Goes back to the last * only, so it takes time text · name at most. */
static bool is_glob_of(struct lf_str glob, struct lf_str name)
{
    size_t g = 0, i = 0, star = SIZE_MAX, from = 0;
    while (i < name.len) {
        if (g < glob.len && (glob.ptr[g] == '?' || glob.ptr[g] == name.ptr[i]) && glob.ptr[g] != '*') {
            g++;
            i++;
        } else if (g < glob.len && glob.ptr[g] == '*') {
            star = g++;
            from = i;
        } else if (star != SIZE_MAX) {
            g = star + 1;
            i = ++from;
        } else {
            return false;
        }
    }
    while (g < glob.len && glob.ptr[g] == '*') g++;
    return g == glob.len;
}

static enum lf_status match_one(bool *out, enum lf_modules_kind kind, const struct lf_module_pattern *p,
                                struct lf_str module, struct lf_err *err)
{
    *out = false;
    switch (kind) {
    case LF_MODULES_PARTS:
        *out = lf_str_ends(module, p->text) || (!p->regex && begins(p->text, module));
        break;
    case LF_MODULES_NAMES:
        *out = !p->regex && lf_str_eq(p->text, module);
        break;
    case LF_MODULES_GLOBS:
        *out = is_glob_of(p->text, module);
        break;
    }
    return !*out && p->regex ? match_regex(out, p, module, err) : LF_OK;
}

enum lf_status lf_modules_match(bool *out, const struct lf_modules *modules, struct lf_str module, struct lf_err *err)
{
    *out = false;
    for (int i = 0; i < modules->n && !*out; i++)
        LF_TRY(match_one(out, modules->kind, &modules->patterns[i], module, err));
    return LF_OK;
}
