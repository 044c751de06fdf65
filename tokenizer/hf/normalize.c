#include "tokenizer/hf/normalize.h"

#include <stdio.h>

#include "core/check.h"
#include "core/work.h"
#include "tokenizer/config.h"
#include "tokenizer/unicode.h"

enum lf_status lf_pattern_open(struct lf_regex **out, struct lf_arena *arena, struct lf_json_value v, const char *place,
                               struct lf_err *err)
{
    struct lf_str text;
    struct lf_json_value string = lf_json_get(v, "String"), regex = lf_json_get(v, "Regex");
    bool literal = lf_json_type(string) == LF_JSON_STRING;
    LF_TRY(lf_json_keep(&text, arena, literal ? string : regex, "pattern", err));
    LF_TRY(literal ? lf_regex_literal(out, text, err) : lf_regex_compile(out, text, err));
    lf_regex_place_set(*out, place);
    return LF_OK;
}

static enum lf_status open_step(struct lf_normalize_step *step, struct lf_arena *arena, struct lf_json_value v,
                                const char *place, struct lf_err *err)
{
    static const struct {
        const char *type;
        enum lf_normalize_kind kind;
        enum lf_normal_form form;
    } kinds[] = {{"NFC", LF_NORMALIZE_FORM, LF_NFC},        {"NFD", LF_NORMALIZE_FORM, LF_NFD},
                 {"NFKC", LF_NORMALIZE_FORM, LF_NFKC},      {"NFKD", LF_NORMALIZE_FORM, LF_NFKD},
                 {"Prepend", LF_NORMALIZE_PREPEND, LF_NFC}, {"Replace", LF_NORMALIZE_REPLACE, LF_NFC},
                 {"Strip", LF_NORMALIZE_STRIP, LF_NFC},     {"Lowercase", LF_NORMALIZE_LOWERCASE, LF_NFC}};
    struct lf_json_value type = lf_json_get(v, "type");
    size_t i = 0;
    while (i < LF_N_ELEMS(kinds) && !lf_json_string_is(type, kinds[i].type)) i++;
    if (i == LF_N_ELEMS(kinds)) {
        struct lf_str raw = lf_json_raw(type);
        return lf_fail(err, LF_UNSUPPORTED, "normalizer \"%.*s\" is not implemented", (int)LF_MIN(raw.len, 64u),
                       raw.ptr);
    }
    step->kind = kinds[i].kind;
    step->form = kinds[i].form;
    if (step->kind == LF_NORMALIZE_PREPEND)
        return lf_json_keep(&step->text, arena, lf_json_get(v, "prepend"), "normalizer Prepend: prepend", err);
    if (step->kind == LF_NORMALIZE_REPLACE) {
        LF_TRY(lf_json_keep(&step->text, arena, lf_json_get(v, "content"), "normalizer Replace: content", err));
        return lf_pattern_open(&step->pattern, arena, lf_json_get(v, "pattern"), place, err);
    }
    if (step->kind == LF_NORMALIZE_STRIP) {
        step->left = step->right = true;
        (void)lf_json_bool(lf_json_get(v, "strip_left"), &step->left);
        (void)lf_json_bool(lf_json_get(v, "strip_right"), &step->right);
    }
    return LF_OK;
}

enum lf_status lf_normalizer_open(struct lf_normalizer *normalizer, struct lf_arena *arena, struct lf_json_value v,
                                  const char *place, struct lf_err *err)
{
    if (lf_json_is_absent(v)) return LF_OK;
    if (lf_json_string_is(lf_json_get(v, "type"), "Sequence")) {
        struct lf_json_value list = lf_json_get(v, "normalizers");
        if (lf_json_type(list) != LF_JSON_ARRAY)
            return lf_fail(err, LF_CORRUPT, "normalizer Sequence: a list is expected, not %s", lf_json_type_name(list));
        char inner[LF_REGEX_PLACE_BYTES];
        int n = 0;
        for (struct lf_json_value it = lf_json_first(list); lf_json_more(list, it); it = lf_json_next(list, it)) {
            (void)snprintf(inner, sizeof inner, "%s.normalizers[%d]", place, n++);
            LF_TRY(lf_normalizer_open(normalizer, arena, it, inner, err)); /* JSON's depth bounds it */
        }
        return LF_OK;
    }
    if (normalizer->n_steps == LF_NORMALIZE_STEPS_N)
        return lf_fail(err, LF_LIMIT, "more than %d normalizers", LF_NORMALIZE_STEPS_N);
    return open_step(&normalizer->steps[normalizer->n_steps++], arena, v, place, err);
}

void lf_normalizer_deinit(struct lf_normalizer *normalizer)
{
    for (int i = 0; i < normalizer->n_steps; i++) lf_regex_free(normalizer->steps[i].pattern);
    memset(normalizer, 0, sizeof *normalizer);
}

static enum lf_status replace(const struct lf_normalize_step *step, struct lf_regex_work *work,
                              const struct lf_marked *from, struct lf_marked *to)
{
    struct lf_str text = lf_buf_view(&from->text);
    struct lf_regex_walk walk = lf_regex_walk_init(text);
    const char *user = from->track ? from->user.ptr : NULL;
    size_t at = 0;
    bool found;
    for (;;) {
        LF_TRY(lf_regex_next(step->pattern, work, &walk, &found));
        LF_TRY(lf_marked_status(to));
        size_t end = found ? walk.first : text.len;
        lf_marked_copy(to, lf_str_from(text.ptr + at, end - at), user ? user + at : NULL);
        if (!found) return LF_OK;
        lf_marked_append(to, step->text, lf_marked_any(from, walk.first, walk.end));
        at = walk.end;
    }
}

enum { SPACE_STEPS = 8 };

static enum lf_status strip(const struct lf_normalize_step *step, struct lf_work *work, const struct lf_marked *from,
                            struct lf_marked *to)
{
    struct lf_str text = lf_buf_view(&from->text);
    size_t first = 0, end = text.len;
    uint32_t cp;
    while (step->left && first < end) {
        int n = lf_utf8_decode(text.ptr + first, end - first, &cp);
        if (n == 0 || !lf_unicode_is_space(cp)) break;
        first += (size_t)n;
        LF_TRY(lf_work_step(work, SPACE_STEPS));
    }
    while (step->right && end > first) {
        size_t before = lf_utf8_before(text, end);
        if (!lf_utf8_decode(text.ptr + before, end - before, &cp) || !lf_unicode_is_space(cp)) break;
        end = before;
        LF_TRY(lf_work_step(work, SPACE_STEPS));
    }
    lf_marked_copy(to, lf_str_from(text.ptr + first, end - first), from->track ? from->user.ptr + first : NULL);
    return LF_OK;
}

static enum lf_status run_step(const struct lf_normalize_step *step, struct lf_regex_work *work,
                               const struct lf_marked *from, struct lf_marked *to)
{
    switch (step->kind) {
    case LF_NORMALIZE_FORM:
        return lf_unicode_normalize(to, from, step->form, work->work);
    case LF_NORMALIZE_LOWERCASE:
        return lf_unicode_lowercase(to, from, work->work);
    case LF_NORMALIZE_STRIP:
        return strip(step, work->work, from, to);
    case LF_NORMALIZE_PREPEND:
        if (from->text.len > 0) lf_marked_append(to, step->text, false);
        lf_marked_copy(to, lf_buf_view(&from->text), from->track ? from->user.ptr : NULL);
        break;
    case LF_NORMALIZE_REPLACE:
        return replace(step, work, from, to);
    }
    return LF_OK;
}

enum lf_status lf_normalizer_run(const struct lf_normalizer *normalizer, struct lf_regex_work *work,
                                 struct lf_marked *text, struct lf_marked *other, enum lf_place place)
{
    for (int i = 0; i < normalizer->n_steps; i++) {
        if (place == LF_PLACE_GOES_ON && normalizer->steps[i].kind == LF_NORMALIZE_PREPEND) continue;
        lf_marked_clear(other);
        LF_TRY(run_step(&normalizer->steps[i], work, text, other));
        LF_TRY(lf_marked_status(other));
        struct lf_marked swap = *text;
        *text = *other;
        *other = swap;
    }
    return LF_OK;
}
