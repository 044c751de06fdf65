/* Arguments of formats that write no JSON, as grammars: parameters between markers, Gemma's objects, calls of Python.
 *
 * Without `strict` any names and values may come. With it the schema's properties come in their order, or sorted by
 * name where the family's template sorts what it renders: a model has learned no other form. Those that are required
 * come always: a string is text up to the marker behind it, or one of an enum; everything else is JSON of its schema.
 * What a schema asks beyond that is refused by name, since nothing would enforce it. */
#include "core/check.h"
#include "core/sort.h"
#include "template/answer/answer_grammar.h"

static const char any_name[] = "[A-Za-z0-9_.$-]+";
static const char gemma_quote[] = "<|\"|>";

static void refuse(struct lf_answer_builder *b, const struct lf_tool *tool, struct lf_str what, const char *why)
{
    if (b->status != LF_OK) return;
    b->status = lf_fail(b->err, LF_UNSUPPORTED, "tool \"%.*s\": \"%.*s\" %s", (int)LF_MIN(tool->name.len, 64u),
                        tool->name.ptr, (int)LF_MIN(what.len, 64u), what.ptr, why);
}

static bool is_among(struct lf_json_value name, const char *const *words)
{
    for (; *words; words++)
        if (lf_json_string_is(name, *words)) return true;
    return false;
}

/* Every keyword beside those named is refused. */
static void only_these(struct lf_answer_builder *b, const struct lf_tool *tool, struct lf_json_value schema,
                       const char *const *words)
{
    static const char *const annotations[] = {"title",   "description", "default",   "examples",   "example",
                                              "$schema", "$comment",    "$id",       "deprecated", "readOnly",
                                              "$defs",   "definitions", "writeOnly", NULL};
    if (lf_json_type(schema) != LF_JSON_OBJECT) return;
    for (struct lf_json_value it = lf_json_first(schema); lf_json_more(schema, it); it = lf_json_next(schema, it))
        if (!is_among(it, words) && !is_among(it, annotations))
            refuse(b, tool, lf_json_raw(it), "with strict is not supported by this model's format of calls");
}

static bool is_required(struct lf_json_value schema, struct lf_json_value name)
{
    struct lf_json_value required = lf_json_get(schema, "required");
    for (struct lf_json_value it = lf_json_first(required); lf_json_more(required, it); it = lf_json_next(required, it))
        if (lf_json_type(it) == LF_JSON_STRING && lf_str_eq(lf_json_raw(it), lf_json_raw(name))) return true;
    return false;
}

/* A property of an object's schema. */
struct property {
    struct lf_json_value name;
    struct lf_str text; /* of the name */
};

static uint8_t lower(char c)
{
    return (uint8_t)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* As templates sort (dictsort): small and capital letters of ASCII are alike, and what is alike stays in its order. */
static bool comes_before(const void *a, const void *b)
{
    const struct property *x = a, *y = b;
    for (size_t i = 0; i < x->text.len && i < y->text.len; i++) {
        uint8_t c = lower(x->text.ptr[i]), d = lower(y->text.ptr[i]);
        if (c != d) return c < d;
    }
    return x->text.len != y->text.len ? x->text.len < y->text.len : x->name.idx < y->name.idx;
}

static struct lf_str copy_text(struct lf_answer_builder *b, struct lf_json_value v)
{
    struct lf_buf text;
    lf_buf_init_in(&text, lf_json_raw(v).len, b->arena.memory);
    char *copy = lf_json_string(v, &text) ? lf_arena_strdup(&b->arena, lf_buf_view(&text)) : NULL;
    struct lf_str out = lf_str_from(copy, copy ? text.len : 0);
    if (!copy) lf_answer_no_room(b, text.len);
    lf_buf_deinit(&text);
    return out;
}

/* The *n properties of an object's schema in the order in which the format writes them; none where there is no memory
 * or where they are too many (status): each is looked for among those that are required. */
static struct property *list_order(struct lf_answer_builder *b, const struct lf_tool *tool, struct lf_json_value schema,
                                   size_t *n)
{
    struct lf_json_value properties = lf_json_get(schema, "properties"), it = lf_json_first(properties);
    size_t n_all = lf_json_type(properties) == LF_JSON_OBJECT ? lf_json_len(properties) : 0;
    *n = 0;
    if (LF_MAX(n_all, (size_t)lf_json_len(lf_json_get(schema, "required"))) > LF_TOOL_VALUES_N) {
        refuse(b, tool, LF_STR("properties"), "with strict are too many for this model's format of calls");
        return NULL;
    }
    struct property *all = lf_arena_array(&b->arena, LF_MAX(n_all, (size_t)1), sizeof(*all));
    if (!all) lf_answer_no_room(b, LF_MAX(n_all, (size_t)1) * sizeof(*all));
    *n = all ? n_all : 0;
    for (size_t i = 0; i < *n; i++, it = lf_json_next(properties, it))
        all[i] = (struct property){.name = it, .text = copy_text(b, it)};
    if (b->format->sorts_names && b->status == LF_OK) lf_sort(all, *n, sizeof(*all), comes_before);
    return all;
}

/* How a format writes the values of one tool's parameters. */
typedef void list_value(struct lf_answer_list *list, const struct lf_tool *tool, struct lf_json_value schema,
                        uint8_t types);

/* As a pattern that matches these bytes alone. */
static void put_quoted(struct lf_buf *pattern, struct lf_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (strchr("\\^$.|?*+()[]{}", text.ptr[i])) lf_buf_char(pattern, '\\');
        lf_buf_char(pattern, text.ptr[i]);
    }
}

/* The texts of an enum or a const of strings (null is the word), one of them; false: there is none. They are one
 * pattern, in which thousands of them are one automaton. */
static bool list_enum(struct lf_answer_list *list, const struct lf_tool *tool, struct lf_json_value schema,
                      const char *end)
{
    struct lf_answer_builder *b = list->builder;
    struct lf_json_value values = lf_json_get(schema, "enum"), one = lf_json_get(schema, "const");
    bool is_one = lf_json_type(one) == LF_JSON_STRING;
    struct lf_buf pattern, text;
    bool is_first = true;
    if (!is_one && lf_json_type(values) != LF_JSON_ARRAY) return false;
    lf_buf_init_in(&pattern, 2 * LF_GRAMMAR_SOURCE_BYTES, b->arena.memory);
    lf_buf_init_in(&text, LF_GRAMMAR_SOURCE_BYTES, b->arena.memory);
    for (struct lf_json_value it = is_one ? one : lf_json_first(values); is_one || lf_json_more(values, it);
         it = lf_json_next(values, it)) {
        lf_buf_clear(&text);
        if (lf_json_type(it) == LF_JSON_NULL)
            lf_buf_cstr(&text, "null");
        else if (!lf_json_string(it, &text))
            pattern.status = text.status;
        if (lf_str_find(lf_buf_view(&text), lf_str_c(end)) >= 0)
            refuse(b, tool, LF_STR("enum"), "has a value with a marker of this model's format in it");
        if (!is_first) lf_buf_char(&pattern, '|');
        is_first = false;
        put_quoted(&pattern, lf_buf_view(&text));
        if (is_one || pattern.status != LF_OK) break;
    }
    char *copy = pattern.status == LF_OK ? lf_arena_strdup(&b->arena, lf_buf_view(&pattern)) : NULL;
    if (!copy) lf_answer_no_room(b, pattern.len);
    if (copy) lf_answer_list_part(list, lf_answer_part_regex(copy));
    lf_buf_deinit(&text);
    lf_buf_deinit(&pattern);
    return true;
}

/* The text of a string up to the marker behind it, and that. */
static void list_string(struct lf_answer_list *list, const struct lf_tool *tool, struct lf_json_value schema,
                        const char *tail, const char *end)
{
    static const char *const known[] = {"type", "enum", "const", NULL};
    only_these(list->builder, tool, schema, known);
    if (list_enum(list, tool, schema, end)) {
        lf_answer_list_text(list, tail);
        lf_answer_list_text(list, end);
    } else {
        lf_answer_list_part(list, lf_answer_part_until(list->builder, end));
    }
}

/* ---- parameters between markers ---- */

/* A string, or null, in one schema or in a branch of anyOf each; of oneOf where they cannot meet. */
static void list_xml_text(struct lf_answer_list *list, const struct lf_tool *tool, struct lf_json_value schema)
{
    struct lf_answer_builder *b = list->builder;
    const struct lf_answer_parameter_markers *m = &b->format->parameters;
    bool is_one = lf_json_type(lf_json_get(schema, "oneOf")) == LF_JSON_ARRAY;
    const char *const known[] = {is_one ? "oneOf" : "anyOf", NULL};
    struct lf_json_value branches = lf_json_get(schema, known[0]);
    if (lf_json_type(branches) != LF_JSON_ARRAY) {
        list_string(list, tool, schema, m->value_tail, m->value_close);
        return;
    }
    struct lf_answer_list either = lf_answer_list_begin(b);
    size_t n_strings = 0;
    only_these(b, tool, schema, known);
    for (struct lf_json_value it = lf_json_first(branches); lf_json_more(branches, it) && b->status == LF_OK;
         it = lf_json_next(branches, it)) {
        struct lf_answer_list one = lf_answer_list_begin(b);
        if (lf_tool_types(tool->schema, it) == LF_TOOL_NULL) {
            lf_answer_list_text(&one, "null");
            lf_answer_list_text(&one, m->value_tail);
            lf_answer_list_text(&one, m->value_close);
        } else {
            if (++n_strings > 1 && is_one)
                refuse(b, tool, LF_STR("oneOf"), "has several strings, which may be the same");
            list_string(&one, tool, lf_tool_referred(tool->schema, it), m->value_tail, m->value_close);
        }
        lf_answer_list_part(&either, lf_answer_list_end(&one, LF_PART_SEQUENCE));
    }
    lf_answer_list_part(list, lf_answer_list_end(&either, LF_PART_ALTERNATIVE));
}

static void list_xml_value(struct lf_answer_list *list, const struct lf_tool *tool, struct lf_json_value schema,
                           uint8_t types)
{
    const struct lf_answer_parameter_markers *m = &list->builder->format->parameters;
    bool is_text = types == LF_TOOL_STRING || (types == LF_TOOL_STRING_OR_NULL && !m->key_close_json);
    lf_answer_list_text(list, is_text || !m->key_close_json ? m->key_close : m->key_close_json);
    lf_answer_list_text(list, m->value_open);
    lf_answer_list_text(list, m->value_lead);
    if (is_text) {
        list_xml_text(list, tool, schema);
    } else {
        lf_answer_list_part(list, lf_answer_part_schema(list->builder, tool, schema));
        lf_answer_list_text(list, m->value_tail);
        lf_answer_list_text(list, m->value_close);
    }
    lf_answer_list_text(list, m->between);
}

static struct lf_grammar_part any_xml_parameter(struct lf_answer_builder *b)
{
    const struct lf_answer_parameter_markers *m = &b->format->parameters;
    struct lf_answer_list list = lf_answer_list_begin(b);
    lf_answer_list_text(&list, m->key_open);
    lf_answer_list_part(&list, lf_answer_part_regex(any_name));
    if (m->key_close_json) {
        struct lf_answer_list both = lf_answer_list_begin(b), as_text = lf_answer_list_begin(b),
                              as_json = lf_answer_list_begin(b);
        lf_answer_list_text(&as_text, m->key_close);
        lf_answer_list_text(&as_json, m->key_close_json);
        lf_answer_list_part(&both, lf_answer_list_end(&as_text, LF_PART_SEQUENCE));
        lf_answer_list_part(&both, lf_answer_list_end(&as_json, LF_PART_SEQUENCE));
        lf_answer_list_part(&list, lf_answer_list_end(&both, LF_PART_ALTERNATIVE));
    } else {
        lf_answer_list_text(&list, m->key_close);
    }
    lf_answer_list_text(&list, m->value_open);
    lf_answer_list_text(&list, m->value_lead);
    lf_answer_list_part(&list, lf_answer_part_until(b, m->value_close));
    lf_answer_list_text(&list, m->between);
    return lf_answer_list_end(&list, LF_PART_SEQUENCE);
}

/* One property after the other, `open` before each name and `value` behind it. */
static void list_properties(struct lf_answer_list *list, const struct lf_tool *tool, const char *open,
                            list_value *value)
{
    static const char *const known[] = {"type", "properties", "required", "additionalProperties", NULL};
    struct lf_answer_builder *b = list->builder;
    size_t n_required = 0, n;
    const struct property *properties = list_order(b, tool, tool->schema, &n);
    only_these(b, tool, tool->schema, known);
    for (size_t i = 0; i < n && b->status == LF_OK; i++) {
        const struct property *it = &properties[i];
        struct lf_answer_list one = lf_answer_list_begin(b);
        bool must = is_required(tool->schema, it->name);
        lf_answer_list_text(&one, open);
        struct lf_json_value member = lf_json_member(it->name);
        lf_answer_list_str(&one, it->text);
        value(&one, tool, lf_tool_referred(tool->schema, member), lf_tool_types(tool->schema, member));
        struct lf_grammar_part part = lf_answer_list_end(&one, LF_PART_SEQUENCE);
        lf_answer_list_part(list, must ? part : lf_answer_part_repeat(b, part, 0, 1));
        n_required += must;
    }
    if (n_required < lf_json_len(lf_json_get(tool->schema, "required")))
        refuse(b, tool, LF_STR("required"), "names what is no property");
}

void lf_answer_list_parameters(struct lf_answer_list *list, const struct lf_tool *tool)
{
    const struct lf_answer_parameter_markers *m = &list->builder->format->parameters;
    if (tool->strict && lf_json_type(tool->schema) == LF_JSON_OBJECT) {
        list_properties(list, tool, m->key_open, list_xml_value);
    } else {
        lf_answer_list_part(list, lf_answer_part_repeat(list->builder, any_xml_parameter(list->builder), 0, 0));
    }
    lf_answer_list_text(list, m->end);
}

/* ---- Gemma ---- */

static const char gemma_scalar[] = "-?(0|[1-9][0-9]*)(\\.[0-9]+)?|true|false|null";

static struct lf_grammar_part gemma_string(struct lf_answer_builder *b)
{
    struct lf_answer_list list = lf_answer_list_begin(b);
    lf_answer_list_text(&list, gemma_quote);
    lf_answer_list_part(&list, lf_answer_part_until(b, gemma_quote));
    return lf_answer_list_end(&list, LF_PART_SEQUENCE);
}

/* element ("," element)*, or nothing, between brackets; spaced: a space may stand behind each comma. */
static struct lf_grammar_part many(struct lf_answer_builder *b, const char *open, struct lf_grammar_part element,
                                   const char *close, bool spaced)
{
    struct lf_answer_list list = lf_answer_list_begin(b), some = lf_answer_list_begin(b),
                          more = lf_answer_list_begin(b);
    lf_answer_list_text(&more, ",");
    if (spaced) {
        struct lf_answer_list space = lf_answer_list_begin(b);
        lf_answer_list_text(&space, " ");
        lf_answer_list_part(&more, lf_answer_part_repeat(b, lf_answer_list_end(&space, LF_PART_SEQUENCE), 0, 1));
    }
    lf_answer_list_part(&more, element);
    lf_answer_list_part(&some, element);
    lf_answer_list_part(&some, lf_answer_part_repeat(b, lf_answer_list_end(&more, LF_PART_SEQUENCE), 0, 0));
    lf_answer_list_text(&list, open);
    lf_answer_list_part(&list, lf_answer_part_repeat(b, lf_answer_list_end(&some, LF_PART_SEQUENCE), 0, 1));
    lf_answer_list_text(&list, close);
    return lf_answer_list_end(&list, LF_PART_SEQUENCE);
}

static struct lf_grammar_part gemma_member(struct lf_answer_builder *b, struct lf_grammar_part value)
{
    struct lf_answer_list list = lf_answer_list_begin(b);
    lf_answer_list_part(&list, lf_answer_part_regex(any_name));
    lf_answer_list_text(&list, ":");
    lf_answer_list_part(&list, value);
    return lf_answer_list_end(&list, LF_PART_SEQUENCE);
}

/* Any object, nested this deep: what parts can say has no recursion. */
static struct lf_grammar_part gemma_object(struct lf_answer_builder *b)
{
    enum { NESTED = 2 };
    struct lf_grammar_part value = {0}, object = {0};
    for (int i = 0; i <= NESTED; i++) {
        struct lf_answer_list values = lf_answer_list_begin(b);
        lf_answer_list_part(&values, gemma_string(b));
        lf_answer_list_part(&values, lf_answer_part_regex(gemma_scalar));
        if (i > 0) lf_answer_list_part(&values, many(b, "[", value, "]", false));
        if (i > 0) lf_answer_list_part(&values, object);
        value = lf_answer_list_end(&values, LF_PART_ALTERNATIVE);
        object = many(b, "{", gemma_member(b, value), "}", false);
    }
    return object;
}

/* Types that JSON and Gemma write alike, each with what it may look like where it is one of several. */
static const struct {
    const char *name, *pattern;
} gemma_types[] = {{"null", "null"},
                   {"boolean", "true|false"},
                   {"integer", "-?(0|[1-9][0-9]{0,17})"},
                   {"number", "-?(0|[1-9][0-9]{0,17})(\\.[0-9]{1,17})?"}};

static struct lf_grammar_part gemma_value(struct lf_answer_builder *b, const struct lf_tool *tool,
                                          struct lf_json_value schema, int depth);

static struct lf_grammar_part gemma_refused(struct lf_answer_builder *b, const struct lf_tool *tool, const char *word,
                                            const char *why)
{
    refuse(b, tool, lf_str_c(word), why);
    return (struct lf_grammar_part){.kind = LF_PART_SEQUENCE};
}

static struct lf_grammar_part gemma_text(struct lf_answer_builder *b, const struct lf_tool *tool,
                                         struct lf_json_value schema)
{
    struct lf_answer_list list = lf_answer_list_begin(b);
    lf_answer_list_text(&list, gemma_quote);
    list_string(&list, tool, schema, NULL, gemma_quote);
    return lf_answer_list_end(&list, LF_PART_SEQUENCE);
}

/* The index of a type that both write alike, or -1. */
static int alike(struct lf_json_value type)
{
    for (size_t i = 0; i < LF_N_ELEMS(gemma_types); i++)
        if (lf_json_string_is(type, gemma_types[i].name)) return (int)i;
    return -1;
}

/* {"type": ["string", "null"]}: one of them, of which nothing else is asked. */
static struct lf_grammar_part gemma_any_type(struct lf_answer_builder *b, const struct lf_tool *tool,
                                             struct lf_json_value schema, struct lf_json_value types)
{
    static const char *const known[] = {"type", NULL};
    struct lf_answer_list list = lf_answer_list_begin(b);
    only_these(b, tool, schema, known);
    for (struct lf_json_value it = lf_json_first(types); lf_json_more(types, it); it = lf_json_next(types, it)) {
        int i = alike(it);
        if (i < 0 && !lf_json_string_is(it, "string"))
            refuse(b, tool, LF_STR("type"), "may not list objects or arrays");
        lf_answer_list_part(&list, i < 0 ? gemma_string(b) : lf_answer_part_regex(gemma_types[i].pattern));
    }
    return lf_answer_list_end(&list, LF_PART_ALTERNATIVE);
}

static struct lf_grammar_part gemma_any_of(struct lf_answer_builder *b, const struct lf_tool *tool,
                                           struct lf_json_value schema, struct lf_json_value branches, int depth)
{
    static const char *const known[] = {"anyOf", NULL};
    struct lf_answer_list list = lf_answer_list_begin(b);
    only_these(b, tool, schema, known);
    for (struct lf_json_value it = lf_json_first(branches); lf_json_more(branches, it) && b->status == LF_OK;
         it = lf_json_next(branches, it))
        lf_answer_list_part(&list, gemma_value(b, tool, it, depth));
    return lf_answer_list_end(&list, LF_PART_ALTERNATIVE);
}

static struct lf_grammar_part gemma_array(struct lf_answer_builder *b, const struct lf_tool *tool,
                                          struct lf_json_value schema, int depth)
{
    static const char *const known[] = {"type", "items", NULL};
    struct lf_json_value items = lf_json_get(schema, "items");
    only_these(b, tool, schema, known);
    if (lf_json_type(items) != LF_JSON_OBJECT)
        return gemma_refused(b, tool, "items", "must be a schema with strict in this model's format of calls");
    return many(b, "[", gemma_value(b, tool, items, depth + 1), "]", false);
}

/* A name stands without quotes, up to its colon. */
static bool is_bare_name(struct lf_str name)
{
    if (name.len == 0 || name.ptr[0] == gemma_quote[0] || lf_json_is_space(name.ptr[0])) return false;
    for (size_t i = 0; i < name.len; i++)
        if (strchr(":,{}[]", name.ptr[i])) return false; /* NUL too */
    return true;
}

/* Commas stand between the members that are there: each of them after the first that must be there has one before it,
 * and what is before that one behind it. */
static struct lf_grammar_part gemma_members(struct lf_answer_builder *b, const struct lf_tool *tool,
                                            struct lf_json_value schema, int depth)
{
    static const char *const known[] = {"type", "properties", "required", "additionalProperties", NULL};
    struct lf_answer_list list = lf_answer_list_begin(b);
    size_t n_required = 0, n;
    const struct property *properties = list_order(b, tool, schema, &n);
    only_these(b, tool, schema, known);
    if (lf_json_type(lf_json_get(schema, "additionalProperties")) == LF_JSON_OBJECT)
        refuse(b, tool, LF_STR("additionalProperties"), "with strict has no schema in this model's format of calls");
    lf_answer_list_text(&list, "{");
    for (size_t i = 0; i < n && b->status == LF_OK; i++) {
        const struct property *it = &properties[i];
        struct lf_answer_list one = lf_answer_list_begin(b);
        bool must = is_required(schema, it->name);
        if (!is_bare_name(it->text)) refuse(b, tool, it->text, "is no name in this model's format of calls");
        if (n_required > 0) lf_answer_list_text(&one, ",");
        lf_answer_list_str(&one, it->text);
        lf_answer_list_text(&one, ":");
        lf_answer_list_part(&one, gemma_value(b, tool, lf_json_member(it->name), depth + 1));
        if (n_required == 0 && !must) lf_answer_list_text(&one, ",");
        struct lf_grammar_part part = lf_answer_list_end(&one, LF_PART_SEQUENCE);
        lf_answer_list_part(&list, must ? part : lf_answer_part_repeat(b, part, 0, 1));
        n_required += must;
    }
    lf_answer_list_text(&list, "}");
    if (n_required < lf_json_len(lf_json_get(schema, "required")))
        refuse(b, tool, LF_STR("required"), "names what is no property");
    if (n_required == 0 && n > 0)
        refuse(b, tool, LF_STR("required"), "with strict must name a property in this model's format of calls");
    return lf_answer_list_end(&list, LF_PART_SEQUENCE);
}

/* A value of a schema. Its references are followed as often as they stand there: what parts can say has no recursion,
 * and depth and number are bounded. */
static struct lf_grammar_part gemma_value(struct lf_answer_builder *b, const struct lf_tool *tool,
                                          struct lf_json_value schema, int depth)
{
    schema = lf_tool_referred(tool->schema, schema);
    struct lf_json_value type = lf_json_get(schema, "type"), any = lf_json_get(schema, "anyOf");
    if (depth > LF_TOOL_DEPTH + 1)
        return gemma_refused(b, tool, "properties", "with strict are nested too deep for this model's format of calls");
    if (++b->n_values > LF_TOOL_VALUES_N)
        return gemma_refused(b, tool, "properties", "with strict are too many for this model's format of calls");
    if (lf_json_type(any) == LF_JSON_ARRAY && lf_json_len(any) > 0) return gemma_any_of(b, tool, schema, any, depth);
    if (lf_tool_types(tool->schema, schema) == LF_TOOL_STRING) return gemma_text(b, tool, schema);
    if (alike(type) >= 0) return lf_answer_part_schema(b, tool, schema);
    if (lf_json_type(type) == LF_JSON_ARRAY && lf_json_len(type) > 0) return gemma_any_type(b, tool, schema, type);
    if (lf_json_string_is(type, "object")) return gemma_members(b, tool, schema, depth);
    if (lf_json_string_is(type, "array")) return gemma_array(b, tool, schema, depth);
    return gemma_refused(b, tool, "properties", "with strict need a type in this model's format of calls");
}

void lf_answer_list_gemma(struct lf_answer_list *list, const struct lf_tool *tool)
{
    struct lf_answer_builder *b = list->builder;
    bool is_strict = tool->strict && lf_json_type(tool->schema) == LF_JSON_OBJECT;
    b->n_values = 0;
    lf_answer_list_part(list, is_strict ? gemma_members(b, tool, tool->schema, 0) : gemma_object(b));
}

/* ---- Python ---- */

/* Words of Python and of JSON, which a schema writes. */
static const char python_scalar[] = "-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][-+]?[0-9]{1,3})?|[Tt]rue|[Ff]alse|None|null|"
                                    "\"([^\"\\\\\\n]|\\\\[^\\nuUxN])*\"|'([^'\\\\\\n]|\\\\[^\\nuUxN])*'";

/* Any arguments: words, texts, JSON objects, and lists of these, nested this deep. */
static struct lf_grammar_part python_any(struct lf_answer_builder *b)
{
    enum { NESTED = 2 };
    struct lf_grammar_part value = {0};
    for (int i = 0; i <= NESTED; i++) {
        struct lf_answer_list values = lf_answer_list_begin(b);
        lf_answer_list_part(&values, lf_answer_part_regex(python_scalar));
        lf_answer_list_part(&values, (struct lf_grammar_part){.kind = LF_PART_SCHEMA});
        if (i > 0) lf_answer_list_part(&values, many(b, "[", value, "]", true));
        value = lf_answer_list_end(&values, LF_PART_ALTERNATIVE);
    }
    struct lf_answer_list argument = lf_answer_list_begin(b);
    lf_answer_list_part(&argument, lf_answer_part_regex("[A-Za-z_][A-Za-z0-9_]{0,63}"));
    lf_answer_list_text(&argument, "=");
    lf_answer_list_part(&argument, value);
    return many(b, "(", lf_answer_list_end(&argument, LF_PART_SEQUENCE), ")", true);
}

static bool is_python_name(struct lf_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!is_letter && (i == 0 || lf_digit(c) >= 10)) return false;
    }
    return name.len > 0;
}

/* Whether it is the type's name, or a list with it. */
static bool lists_type(struct lf_json_value types, const char *type)
{
    if (lf_json_type(types) != LF_JSON_ARRAY) return lf_json_string_is(types, type);
    for (struct lf_json_value it = lf_json_first(types); lf_json_more(types, it); it = lf_json_next(types, it))
        if (lf_json_string_is(it, type)) return true;
    return false;
}

/* Whether a schema allows all values of a type, as libraries write it: by `type`, or by a branch of anyOf. */
static bool says_type(const struct lf_tool *tool, struct lf_json_value schema, const char *type)
{
    static const char *const others[] = {"enum", "const", "allOf", "oneOf", "not", NULL};
    struct lf_json_value own = lf_tool_referred(tool->schema, schema), any = lf_json_get(own, "anyOf");
    for (const char *const *word = others; *word; word++)
        if (!lf_json_is_absent(lf_json_get(own, *word))) return false;
    if (lf_json_is_absent(any)) return lists_type(lf_json_get(own, "type"), type);
    if (lf_json_type(any) != LF_JSON_ARRAY || !lf_json_is_absent(lf_json_get(own, "type"))) return false;
    for (struct lf_json_value it = lf_json_first(any); lf_json_more(any, it); it = lf_json_next(any, it)) {
        struct lf_json_value branch = lf_tool_referred(tool->schema, it);
        if (lf_json_len(branch) == 1 && lists_type(lf_json_get(branch, "type"), type)) return true;
    }
    return false;
}

/* JSON of its schema; truths and nothing in Python's words too: a parser of calls reads both. */
static struct lf_grammar_part python_value(struct lf_answer_builder *b, const struct lf_tool *tool,
                                           struct lf_json_value schema)
{
    struct lf_answer_list list = lf_answer_list_begin(b);
    lf_answer_list_part(&list, lf_answer_part_schema(b, tool, schema));
    if (says_type(tool, schema, "boolean")) lf_answer_list_part(&list, lf_answer_part_regex("True|False"));
    if (says_type(tool, schema, "null")) lf_answer_list_part(&list, lf_answer_part_regex("None"));
    return lf_answer_list_end(&list, LF_PART_ALTERNATIVE);
}

/* The schema's properties, in their order; commas as between Gemma's members. */
static struct lf_grammar_part python_arguments(struct lf_answer_builder *b, const struct lf_tool *tool)
{
    static const char *const known[] = {"type", "properties", "required", "additionalProperties", NULL};
    struct lf_answer_list list = lf_answer_list_begin(b);
    size_t n_required = 0, n;
    const struct property *properties = list_order(b, tool, tool->schema, &n);
    only_these(b, tool, tool->schema, known);
    lf_answer_list_text(&list, "(");
    for (size_t i = 0; i < n && b->status == LF_OK; i++) {
        const struct property *it = &properties[i];
        struct lf_answer_list one = lf_answer_list_begin(b);
        bool must = is_required(tool->schema, it->name);
        if (!is_python_name(it->text)) refuse(b, tool, it->text, "is no name in this model's format of calls");
        if (n_required > 0) lf_answer_list_text(&one, ", ");
        lf_answer_list_str(&one, it->text);
        lf_answer_list_text(&one, "=");
        lf_answer_list_part(&one, python_value(b, tool, lf_json_member(it->name)));
        if (n_required == 0 && !must) lf_answer_list_text(&one, ", ");
        struct lf_grammar_part part = lf_answer_list_end(&one, LF_PART_SEQUENCE);
        lf_answer_list_part(&list, must ? part : lf_answer_part_repeat(b, part, 0, 1));
        n_required += must;
    }
    lf_answer_list_text(&list, ")");
    if (n_required < lf_json_len(lf_json_get(tool->schema, "required")))
        refuse(b, tool, LF_STR("required"), "names what is no property");
    if (n_required == 0 && n > 0)
        refuse(b, tool, LF_STR("required"), "with strict must name a property in this model's format of calls");
    return lf_answer_list_end(&list, LF_PART_SEQUENCE);
}

void lf_answer_list_python(struct lf_answer_list *list, const struct lf_tool *tool)
{
    bool is_strict = tool->strict && lf_json_type(tool->schema) == LF_JSON_OBJECT;
    lf_answer_list_part(list, is_strict ? python_arguments(list->builder, tool) : python_any(list->builder));
}
