#include "tests/support/answer_script.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/file.h"
#include "core/json.h"

enum { FILE_BYTES = 16 * 1024 * 1024 };

struct answer_script {
    struct lf_buf text;
    struct lf_json json;
    struct lf_buf *says; /* [n_rules], unescaped */
    uint32_t n_rules;
};

static bool is_list_of_texts(struct lf_json_value v)
{
    if (lf_json_is_absent(v)) return true;
    if (lf_json_type(v) != LF_JSON_ARRAY) return false;
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it))
        if (lf_json_type(it) != LF_JSON_STRING) return false;
    return true;
}

static bool is_text_or_absent(struct lf_json_value v)
{
    return lf_json_is_absent(v) || lf_json_type(v) == LF_JSON_STRING;
}

static bool read_rules(struct answer_script *s)
{
    struct lf_json_value root = lf_json_root(&s->json), it = lf_json_first(root);
    if (lf_json_type(root) != LF_JSON_ARRAY) return false;
    s->says = calloc(lf_json_len(root) + 1, sizeof *s->says);
    if (!s->says) return false;
    for (; lf_json_more(root, it); it = lf_json_next(root, it)) {
        lf_buf_init(&s->says[s->n_rules], FILE_BYTES);
        if (!lf_json_string(lf_json_get(it, "say"), &s->says[s->n_rules++])) return false;
        if (!is_list_of_texts(lf_json_get(it, "when")) || !is_list_of_texts(lf_json_get(it, "unless"))) return false;
        if (!is_text_or_absent(lf_json_get(it, "end"))) return false;
    }
    return true;
}

struct answer_script *answer_script_open(const char *path)
{
    struct answer_script *s = calloc(1, sizeof *s);
    struct lf_err err = {0};
    if (!s) return NULL;
    lf_buf_init(&s->text, FILE_BYTES);
    enum lf_status status = lf_file_read(&s->text, path, FILE_BYTES, &err);
    if (status == LF_OK) status = lf_json_parse(&s->json, lf_buf_view(&s->text), &lf_json_limits_file, &err);
    if (status == LF_OK && !read_rules(s))
        status = lf_fail(&err, LF_INVALID, "expected an array of objects with `say`, `when` and `unless`");
    if (status == LF_OK) return s;
    fprintf(stderr, "%s: %s\n", path, err.message);
    answer_script_close(s);
    return NULL;
}

void answer_script_close(struct answer_script *s)
{
    if (!s) return;
    for (uint32_t i = 0; i < s->n_rules; i++) lf_buf_deinit(&s->says[i]);
    free(s->says);
    lf_json_deinit(&s->json);
    lf_buf_deinit(&s->text);
    free(s);
}

enum where { ANYWHERE, AT_THE_END };

static bool stands_in(struct lf_json_value text, struct lf_str prompt, enum where where)
{
    struct lf_buf plain;
    lf_buf_init(&plain, FILE_BYTES);
    bool is_there = lf_json_string(text, &plain) && plain.len <= prompt.len;
    if (is_there && where == AT_THE_END) prompt = lf_str_from(prompt.ptr + prompt.len - plain.len, plain.len);
    is_there = is_there && lf_str_find(prompt, lf_buf_view(&plain)) >= 0;
    lf_buf_deinit(&plain);
    return is_there;
}

static bool applies(struct lf_json_value rule, struct lf_str prompt)
{
    struct lf_json_value when = lf_json_get(rule, "when"), unless = lf_json_get(rule, "unless");
    struct lf_json_value end = lf_json_get(rule, "end");
    for (struct lf_json_value it = lf_json_first(when); lf_json_more(when, it); it = lf_json_next(when, it))
        if (!stands_in(it, prompt, ANYWHERE)) return false;
    for (struct lf_json_value it = lf_json_first(unless); lf_json_more(unless, it); it = lf_json_next(unless, it))
        if (stands_in(it, prompt, ANYWHERE)) return false;
    return lf_json_is_absent(end) || stands_in(end, prompt, AT_THE_END);
}

bool answer_script_find(const struct answer_script *s, struct lf_str prompt, struct lf_str *say)
{
    struct lf_json_value root = lf_json_root(&s->json), it = lf_json_first(root);
    for (uint32_t i = 0; lf_json_more(root, it); it = lf_json_next(root, it), i++) {
        if (!applies(it, prompt)) continue;
        *say = lf_buf_view(&s->says[i]);
        return true;
    }
    return false;
}
