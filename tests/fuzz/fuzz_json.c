/* Fuzzing core/json: the input is a text, and of what is accepted every value is read in every way.
 *
 * What must hold: a value's raw text parses alone to as many nodes; strings and numbers that are written out read back
 * the same. With LF_FUZZ_CANARY there is a bug in it on purpose, which shows that the lane finds bugs. */
#include "core/json.h"
#include "tests/fuzz/fuzz.h"

static void check_string(struct lf_json_value v)
{
    struct lf_buf text, again, written;
    struct lf_str raw = lf_json_raw(v), borrowed;
    struct lf_json doc = {0};
    lf_buf_init(&text, raw.len);
    lf_buf_init(&again, raw.len);
    lf_buf_init(&written, 6 * raw.len + 2);
    LF_ASSERT(lf_json_string(v, &text));
    LF_ASSERT(lf_utf8_valid(lf_buf_view(&text)));
    if (lf_json_borrow(v, &borrowed)) LF_ASSERT(lf_str_eq(borrowed, lf_buf_view(&text)));
    LF_ASSERT(lf_json_string_is(v, text.ptr ? text.ptr : ""));
    lf_json_write_string(&written, lf_buf_view(&text));
    LF_ASSERT(lf_json_parse(&doc, lf_buf_view(&written), &lf_json_limits_request, NULL) == LF_OK);
    LF_ASSERT(lf_json_string(lf_json_root(&doc), &again));
    LF_ASSERT(lf_str_eq(lf_buf_view(&text), lf_buf_view(&again)));
    lf_json_deinit(&doc);
    lf_buf_deinit(&written);
    lf_buf_deinit(&again);
    lf_buf_deinit(&text);
}

static void check_number(struct lf_json_value v)
{
    double x, y;
    int64_t whole;
    struct lf_json doc = {0};
    struct lf_buf written;
    LF_ASSERT(lf_json_double(v, &x) && x - x >= 0); /* finite */
    if (lf_json_int64(v, &whole)) LF_ASSERT((double)whole >= x && (double)whole <= x);
    lf_buf_init(&written, 64);
    lf_json_write_double(&written, x);
    LF_ASSERT(lf_json_parse(&doc, lf_buf_view(&written), &lf_json_limits_request, NULL) == LF_OK);
    LF_ASSERT(lf_json_double(lf_json_root(&doc), &y) && x >= y && x <= y);
    lf_json_deinit(&doc);
    lf_buf_deinit(&written);
}

static void check_members(struct lf_json_value v)
{
    uint32_t n = 0;
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it)) {
        struct lf_buf name;
        n++;
        if (lf_json_type(v) != LF_JSON_OBJECT) continue;
        lf_buf_init(&name, lf_json_raw(it).len);
        LF_ASSERT(lf_json_string(it, &name));
        LF_ASSERT(lf_json_get(v, name.ptr ? name.ptr : "").idx == lf_json_member(it).idx);
        lf_buf_deinit(&name);
    }
    LF_ASSERT(n == lf_json_len(v));
    LF_ASSERT(lf_json_type(lf_json_get(v, "\n")) == LF_JSON_NONE || lf_json_type(v) == LF_JSON_OBJECT);
}

#ifdef LF_FUZZ_CANARY
/* Copies the second of three elements into a block that is as long as its escaped text should be, and is not. */
static void planted_bug(struct lf_json_value v)
{
    if (lf_json_type(v) != LF_JSON_ARRAY || lf_json_len(v) != 3) return;
    struct lf_json_value second = lf_json_next(v, lf_json_first(v));
    struct lf_str raw = lf_json_raw(second);
    if (lf_json_type(second) != LF_JSON_STRING || raw.len == 0) return;
    char *copy = malloc(raw.len);
    LF_ASSERT(copy != NULL);
    for (size_t i = 0; i < raw.len + (raw.ptr[0] == '\\'); i++) copy[i] = 'x';
    free(copy);
}
#endif

/* An array of numbers only has no nodes for them; with a null behind it has, and they must read the same. */
static void check_packed(struct lf_json_value v)
{
    struct lf_buf text;
    struct lf_json doc = {0};
    struct lf_str raw = lf_json_raw(v);
    lf_buf_init(&text, raw.len + 8);
    lf_buf_append(&text, raw.ptr, raw.len - 1);
    lf_buf_cstr(&text, ",null]");
    LF_ASSERT(lf_json_parse(&doc, lf_buf_view(&text), &lf_json_limits_request, NULL) == LF_OK);
    LF_ASSERT(doc.n_nodes == lf_json_len(v) + 2);
    struct lf_json_value list = lf_json_root(&doc), other = lf_json_first(list);
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it)) {
        int64_t i = 0, other_i = 0;
        LF_ASSERT(lf_json_type(it) == LF_JSON_NUMBER && lf_str_eq(lf_json_raw(it), lf_json_raw(other)));
        LF_ASSERT(lf_json_int64(it, &i) == lf_json_int64(other, &other_i) && i == other_i);
        check_number(it);
        other = lf_json_next(list, other);
    }
    LF_ASSERT(lf_json_type(other) == LF_JSON_NULL);
    lf_json_deinit(&doc);
    lf_buf_deinit(&text);
}

static void check_value(struct lf_json_value v)
{
    bool flag;
    struct lf_str raw = lf_json_raw(v);
    enum lf_json_type type = lf_json_type(v);
    LF_ASSERT(lf_json_bool(v, &flag) == (type == LF_JSON_TRUE || type == LF_JSON_FALSE));
    LF_ASSERT(lf_json_is_absent(v) == (type == LF_JSON_NULL));
    LF_ASSERT(raw.ptr >= v.json->text && raw.len <= v.json->text_len - (size_t)(raw.ptr - v.json->text));
    LF_ASSERT(lf_json_type_name(v)[0] != 0);
    check_members(v);
    if (v.json->nodes[v.idx].packed && lf_json_len(v) < LF_JSON_NODES / 2) check_packed(v);
    if (type == LF_JSON_STRING) check_string(v);
    if (type == LF_JSON_NUMBER) check_number(v);
    if (type == LF_JSON_STRING) return;
    struct lf_json alone = {0};
    LF_ASSERT(lf_json_parse(&alone, raw, &lf_json_limits_request, NULL) == LF_OK);
    LF_ASSERT(alone.n_nodes == v.json->nodes[v.idx].next - v.idx);
    lf_json_deinit(&alone);
#ifdef LF_FUZZ_CANARY
    planted_bug(v);
#endif
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct lf_json_limits tight = {.max_depth = 3, .max_nodes = 12};
    struct lf_json doc = {0}, small = {0};
    struct lf_err err;
    struct lf_str text = lf_str_from((const char *)data, size);
    enum lf_status status = lf_json_parse(&doc, text, &lf_json_limits_request, &err);
    enum lf_status tight_status = lf_json_parse(&small, text, &tight, &err);
    LF_ASSERT(tight_status == status || tight_status == LF_LIMIT);
    lf_json_deinit(&small);
    if (status != LF_OK) return 0;
    for (uint32_t i = 0; i < LF_MIN(doc.n_nodes, 256u); i++)
        check_value((struct lf_json_value){.json = &doc, .idx = i});
    lf_json_deinit(&doc);
    return 0;
}
