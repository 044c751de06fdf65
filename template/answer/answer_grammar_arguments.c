/* Arguments of formats that write no JSON, as grammars: parameters between markers, and Gemma's objects.
 *
 * Without `strict` any names and values may come. With it the schema's properties come in their order, those that are
 * required always: a string is text up to the marker behind it, or one of an enum; everything else is JSON of its
 * schema. What a schema asks beyond that is refused by name, since nothing would enforce it. */
#include "core/check.h"
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

/* How a format writes the values of one tool's parameters. */
typedef void list_value(struct lf_answer_list *list, const struct lf_tool *tool, struct lf_json_value schema,
                        bool is_string);

/* The texts of an enum or a const of strings, one of them; false: there is none. */
static bool list_enum(struct lf_answer_list *list, const struct lf_tool *tool, struct lf_json_value schema,
                      const char *end)
{
    struct lf_json_value values = lf_json_get(schema, "enum"), one = lf_json_get(schema, "const");
    bool is_one = lf_json_type(one) == LF_JSON_STRING;
    if (!is_one && lf_json_type(values) != LF_JSON_ARRAY) return false;
    struct lf_answer_list texts = lf_answer_list_begin(list->builder);
    for (struct lf_json_value it = is_one ? one : lf_json_first(values); is_one || lf_json_more(values, it);
         it = lf_json_next(values, it)) {
        struct lf_answer_list text = lf_answer_list_begin(list->builder);
        bool is_text = lf_json_string(it, &text.text); /* else there was no memory, which the list knows */
        if (lf_str_find(lf_buf_view(&text.text), lf_str_c(end)) >= 0)
            refuse(list->builder, tool, LF_STR("enum"), "has a value with a marker of this model's format in it");
        lf_answer_list_part(&texts, lf_answer_list_end(&text, LF_PART_SEQUENCE));
        if (is_one || !is_text) break;
    }
    lf_answer_list_part(list, lf_answer_list_end(&texts, LF_PART_ALTERNATIVE));
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

static void list_xml_value(struct lf_answer_list *list, const struct lf_tool *tool, struct lf_json_value schema,
                           bool is_string)
{
    const struct lf_answer_parameter_markers *m = &list->builder->format->parameters;
    lf_answer_list_text(list, is_string || !m->key_close_json ? m->key_close : m->key_close_json);
    lf_answer_list_text(list, m->value_open);
    lf_answer_list_text(list, m->value_lead);
    if (is_string) {
        list_string(list, tool, schema, m->value_tail, m->value_close);
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
    struct lf_json_value properties = lf_json_get(tool->schema, "properties");
    size_t n_required = 0, i = 0;
    only_these(b, tool, tool->schema, known);
    for (struct lf_json_value it = lf_json_first(properties); i < tool->n_parameters && b->status == LF_OK;
         it = lf_json_next(properties, it), i++) {
        struct lf_answer_list one = lf_answer_list_begin(b);
        bool must = is_required(tool->schema, it);
        lf_answer_list_text(&one, open);
        lf_answer_list_str(&one, tool->parameters[i].name);
        value(&one, tool, lf_tool_referred(tool->schema, lf_json_member(it)), tool->parameters[i].is_string);
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

/* element ("," element)*, or nothing, between brackets */
static struct lf_grammar_part gemma_many(struct lf_answer_builder *b, const char *open, struct lf_grammar_part element,
                                         const char *close)
{
    struct lf_answer_list list = lf_answer_list_begin(b), some = lf_answer_list_begin(b),
                          more = lf_answer_list_begin(b);
    lf_answer_list_text(&more, ",");
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
        if (i > 0) lf_answer_list_part(&values, gemma_many(b, "[", value, "]"));
        if (i > 0) lf_answer_list_part(&values, object);
        value = lf_answer_list_end(&values, LF_PART_ALTERNATIVE);
        object = gemma_many(b, "{", gemma_member(b, value), "}");
    }
    return object;
}

/* A value of a schema: a string, or what JSON and Gemma write alike. */
static void list_gemma_value(struct lf_answer_list *list, const struct lf_tool *tool, struct lf_json_value schema,
                             bool is_string)
{
    static const char *const alike[] = {"integer", "number", "boolean", "null", NULL};
    lf_answer_list_text(list, ":");
    if (is_string) {
        lf_answer_list_text(list, gemma_quote);
        list_string(list, tool, schema, NULL, gemma_quote);
    } else if (is_among(lf_json_get(schema, "type"), alike)) {
        lf_answer_list_part(list, lf_answer_part_schema(list->builder, tool, schema));
    } else {
        refuse(list->builder, tool, LF_STR("properties"),
               "with strict may be strings, numbers, booleans and null in this model's format of calls");
    }
}

/* Commas stand between the members that are there: each of them after the first that must be there has one before it,
 * and what is before that one behind it. */
static void list_gemma_members(struct lf_answer_list *list, const struct lf_tool *tool)
{
    static const char *const known[] = {"type", "properties", "required", "additionalProperties", NULL};
    struct lf_answer_builder *b = list->builder;
    struct lf_json_value schema = tool->schema, properties = lf_json_get(schema, "properties");
    size_t n_required = 0, i = 0;
    only_these(b, tool, schema, known);
    for (struct lf_json_value it = lf_json_first(properties); i < tool->n_parameters && b->status == LF_OK;
         it = lf_json_next(properties, it), i++) {
        struct lf_answer_list one = lf_answer_list_begin(b);
        bool must = is_required(schema, it);
        if (n_required > 0) lf_answer_list_text(&one, ",");
        lf_answer_list_str(&one, tool->parameters[i].name);
        list_gemma_value(&one, tool, lf_tool_referred(schema, lf_json_member(it)), tool->parameters[i].is_string);
        if (n_required == 0 && !must) lf_answer_list_text(&one, ",");
        struct lf_grammar_part part = lf_answer_list_end(&one, LF_PART_SEQUENCE);
        lf_answer_list_part(list, must ? part : lf_answer_part_repeat(b, part, 0, 1));
        n_required += must;
    }
    if (n_required < lf_json_len(lf_json_get(schema, "required")))
        refuse(b, tool, LF_STR("required"), "names what is no property");
    if (n_required == 0 && tool->n_parameters > 0)
        refuse(b, tool, LF_STR("required"), "with strict must name a property in this model's format of calls");
}

void lf_answer_list_gemma(struct lf_answer_list *list, const struct lf_tool *tool)
{
    if (!tool->strict || lf_json_type(tool->schema) != LF_JSON_OBJECT) {
        lf_answer_list_part(list, gemma_object(list->builder));
        return;
    }
    lf_answer_list_text(list, "{");
    list_gemma_members(list, tool);
    lf_answer_list_text(list, "}");
}
