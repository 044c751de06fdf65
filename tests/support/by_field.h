/* A JSON text with one of its values or names replaced, for each of them and each of a list of replacements. */
#ifndef LF_TESTS_SUPPORT_BY_FIELD_H
#define LF_TESTS_SUPPORT_BY_FIELD_H

#include "core/json.h"
#include "tests/support/test.h"

typedef void by_field_fn(void *ctx, struct lf_str changed);

static const char *const by_field_values[] = {
    "null",    "true",         "false",         "0",          "1",       "-1",          "2",           "1.5",
    "1e300",   "2147483648",   "1e10",          "4294967297", "\"\"",    "\"x\"",       "\"\\u00e9\"", "[]",
    "{}",      "[0]",          "[\"a\",\"b\"]", "{\"a\":0}",  "\"{0}\"", "\"\\u2581\"", "\"always\"",  "\"never\"",
    "\"BPE\"", "\"Sequence\"", "\"Fuse\""};

/* Where the n-th child of the list or object v begins; past the end its end. What lies behind is like what came. */
static inline uint32_t by_field_cut(struct lf_json_value v, uint32_t n)
{
    struct lf_json_value it = lf_json_first(v);
    for (uint32_t i = 0; i < n && lf_json_more(v, it); i++) it = lf_json_next(v, it);
    return it.idx;
}

/* Calls fn for every change of the bytes from begin to end, and counts them in *n. */
static inline void by_field_replace(struct lf_str text, size_t begin, size_t end, by_field_fn *fn, void *ctx, int *n)
{
    for (size_t v = 0; v < sizeof by_field_values / sizeof *by_field_values; v++, ++*n) {
        struct lf_buf changed;
        lf_buf_init(&changed, 1 << 24);
        lf_buf_append(&changed, text.ptr, begin);
        lf_buf_cstr(&changed, by_field_values[v]);
        lf_buf_append(&changed, text.ptr + end, text.len - end);
        assert_int_equal(changed.status, LF_OK);
        fn(ctx, lf_buf_view(&changed));
        lf_buf_deinit(&changed);
    }
}

/* The same for each number of a packed array, which has no nodes for them. */
static inline void by_field_replace_numbers(struct lf_str text, const struct lf_json_node *array, by_field_fn *fn,
                                            void *ctx, int *n)
{
    static const char number[] = "+-.0123456789Ee";
    size_t at = array->text_off, end = at + array->text_len;
    while (at < end) {
        size_t begin = at;
        while (at < end && strchr(number, text.ptr[at])) at++;
        if (at > begin) by_field_replace(text, begin, at, fn, ctx, n);
        at += at == begin;
    }
}

/* Calls fn for every change of text. Of the two long lists, which may be absent, only the first few are changed.
 * Returns how many changes there were. */
static inline int by_field(struct lf_str text, const char *const long_lists[2], by_field_fn *fn, void *ctx)
{
    struct lf_json json;
    int n = 0;
    assert_int_equal(lf_json_parse(&json, text, &lf_json_limits_file, NULL), LF_OK);
    struct lf_json_value model = lf_json_get(lf_json_root(&json), "model");
    for (uint32_t i = 0; i < json.n_nodes; i++) {
        for (int k = 0; k < 2; k++) {
            struct lf_json_value list = lf_json_get(model, long_lists[k]);
            if (lf_json_len(list) > 4 && i == by_field_cut(list, 4)) i = json.nodes[list.idx].next;
        }
        if (i >= json.n_nodes) break;
        const struct lf_json_node *node = &json.nodes[i];
        size_t quote = node->type == LF_JSON_STRING, begin = node->text_off - quote;
        by_field_replace(text, begin, begin + node->text_len + 2 * quote, fn, ctx, &n);
        if (node->packed) by_field_replace_numbers(text, node, fn, ctx, &n);
    }
    lf_json_deinit(&json);
    return n;
}

#endif
