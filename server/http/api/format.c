#include "server/http/api/format.h"

#include "core/check.h"
#include "server/http/api/ask.h"
#include "server/http/api/unsupported_fields.h"

/* ---- reading ---- */

/* What is asked for from now on; refuses a second wish. */
static enum lf_status choose(struct lf_reading *r, enum lf_format_kind kind, const char *name)
{
    struct lf_format *f = &r->ask->format;
    if (f->kind != LF_FORMAT_TEXT)
        return lf_refuse(r->err, 400, name, "invalid_value", "%s: %s asks for a format already; expected one of them.",
                         name, f->param);
    f->kind = kind;
    f->param = name;
    return LF_OK;
}

static enum lf_status read_optional_bool(struct lf_reading *r, const char *name, struct lf_json_value v, bool *out)
{
    if (lf_json_is_absent(v) || lf_json_bool(v, out)) return LF_OK;
    return lf_ask_expected(r, name, v, "true or false");
}

/* The text of a schema, parsed into a document that the ask owns. */
static enum lf_status parse_schema(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    struct lf_format *f = &r->ask->format;
    struct lf_str text;
    struct lf_err why = {0};
    if (lf_json_raw(v).len > LF_GRAMMAR_SOURCE_BYTES)
        return lf_refuse(r->err, 400, name, "schema_too_large", "%s: at most %d bytes, got %zu.", name,
                         LF_GRAMMAR_SOURCE_BYTES, lf_json_raw(v).len);
    LF_TRY(lf_ask_text(r->ask, &text, v, name, r->err));
    struct lf_json *parsed = lf_arena_alloc(&r->ask->arena, sizeof *parsed);
    if (!parsed) return lf_refuse_work(r->err, LF_NO_MEMORY);
    enum lf_status status = lf_json_parse_in(parsed, text, &lf_json_limits_request, r->limits->work, &why);
    if (status == LF_NO_MEMORY || status == LF_CANCELLED || status == LF_TIMEOUT) return lf_refuse_work(r->err, status);
    if (status != LF_OK)
        return lf_refuse(r->err, 400, name, "invalid_schema", "%s: the text is not valid JSON: %s", name, why.message);
    f->parsed = parsed;
    f->schema = lf_json_root(parsed);
    return LF_OK;
}

enum lf_status lf_format_read_schema(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    LF_TRY(choose(r, LF_FORMAT_JSON_SCHEMA, name));
    if (lf_json_type(v) == LF_JSON_STRING) return parse_schema(r, name, v);
    if (lf_json_type(v) != LF_JSON_OBJECT && lf_json_type(v) != LF_JSON_TRUE && lf_json_type(v) != LF_JSON_FALSE)
        return lf_ask_expected(r, name, v, "a JSON schema");
    r->ask->format.schema = v;
    return LF_OK;
}

enum lf_status lf_format_read_regex(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    LF_TRY(choose(r, LF_FORMAT_REGEX, name));
    return lf_ask_text(r->ask, &r->ask->format.pattern, v, name, r->err);
}

enum lf_status lf_format_read_choice(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    struct lf_format *f = &r->ask->format;
    LF_TRY(choose(r, LF_FORMAT_CHOICE, name));
    if (lf_json_type(v) != LF_JSON_ARRAY || lf_json_len(v) == 0)
        return lf_ask_expected(r, name, v, "an array with at least one string");
    struct lf_str *choices = lf_arena_array(&r->ask->arena, lf_json_len(v), sizeof *choices);
    if (!choices) return lf_refuse_work(r->err, LF_NO_MEMORY);
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it))
        LF_TRY(lf_ask_text(r->ask, &choices[f->n_choices++], it, name, r->err));
    f->choices = choices;
    return LF_OK;
}

enum lf_status lf_format_read_whitespace(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    struct lf_str *whitespace = &r->ask->format.options.whitespace;
    if (whitespace->len)
        return lf_refuse(r->err, 400, name, "invalid_value", "%s: the white space is given twice.", name);
    return lf_ask_text(r->ask, whitespace, v, name, r->err);
}

/* OpenAI's json_schema: {name, description, schema, strict}. */
static enum lf_status read_named_schema(struct lf_reading *r, struct lf_json_value v)
{
    static const char param[] = "response_format.json_schema.schema";
    struct lf_json_value schema = lf_json_get(v, "schema"), name = lf_json_get(v, "name");
    if (lf_json_type(v) != LF_JSON_OBJECT) return lf_ask_expected(r, "response_format.json_schema", v, "an object");
    if (!lf_json_is_absent(name) && lf_json_type(name) != LF_JSON_STRING)
        return lf_ask_expected(r, "response_format.json_schema.name", name, "a string");
    if (lf_json_is_absent(schema))
        return lf_refuse(r->err, 400, param, "missing_parameter", "%s: this field is needed.", param);
    LF_TRY(read_optional_bool(r, "response_format.json_schema.strict", lf_json_get(v, "strict"),
                              &r->ask->format.options.strict));
    return lf_format_read_schema(r, param, schema);
}

static enum lf_status refuse_beside(struct lf_reading *r, const char *param, const char *type)
{
    return lf_refuse(r->err, 400, param, "invalid_value", "%s: only together with the type %s.", param, type);
}

static enum lf_status read_text_format(struct lf_reading *r, struct lf_json_value v)
{
    if (!lf_json_is_absent(lf_json_get(v, "json_schema")))
        return refuse_beside(r, "response_format.json_schema", "json_schema");
    if (!lf_json_is_absent(lf_json_get(v, "schema")))
        return refuse_beside(r, "response_format.schema", "json_object or json_schema");
    return LF_OK;
}

/* llama.cpp and TGI have the schema beside the type. */
static enum lf_status read_json_format(struct lf_reading *r, struct lf_json_value v, bool is_schema)
{
    struct lf_json_value named = lf_json_get(v, "json_schema"), schema = lf_json_get(v, "schema");
    bool has_named = !lf_json_is_absent(named), has_schema = !lf_json_is_absent(schema);
    if (has_named && !is_schema) return refuse_beside(r, "response_format.json_schema", "json_schema");
    if (has_named && has_schema)
        return lf_refuse(r->err, 400, "response_format.schema", "invalid_value",
                         "response_format.schema: there is a schema in response_format.json_schema already.");
    if (has_schema) return lf_format_read_schema(r, "response_format.schema", schema);
    return is_schema ? read_named_schema(r, named) : choose(r, LF_FORMAT_JSON_OBJECT, "response_format");
}

enum lf_status lf_format_read_response_format(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    struct lf_json_value type = lf_json_get(v, "type");
    if (lf_json_type(v) != LF_JSON_OBJECT) return lf_ask_expected(r, name, v, "an object");
    if (lf_json_string_is(type, "text")) return read_text_format(r, v);
    if (lf_json_string_is(type, "json_object")) return read_json_format(r, v, false);
    if (lf_json_string_is(type, "json_schema")) return read_json_format(r, v, true);
    return lf_ask_expected(r, "response_format.type", type, "text, json_object or json_schema");
}

enum lf_status lf_format_read_text_format(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    static const char param[] = "text.format.schema";
    struct lf_json_value type = lf_json_get(v, "type"), schema = lf_json_get(v, "schema");
    (void)name;
    if (lf_json_type(v) != LF_JSON_OBJECT) return lf_ask_expected(r, "text.format", v, "an object");
    if (lf_json_string_is(type, "text") || lf_json_string_is(type, "json_object")) {
        if (!lf_json_is_absent(schema)) return refuse_beside(r, param, "json_schema");
        return lf_json_string_is(type, "text") ? LF_OK : choose(r, LF_FORMAT_JSON_OBJECT, "text.format");
    }
    if (!lf_json_string_is(type, "json_schema"))
        return lf_ask_expected(r, "text.format.type", type, "text, json_object or json_schema");
    if (lf_json_type(lf_json_get(v, "name")) != LF_JSON_STRING)
        return lf_ask_expected(r, "text.format.name", lf_json_get(v, "name"), "a string");
    if (lf_json_is_absent(schema))
        return lf_refuse(r->err, 400, param, "missing_parameter", "%s: this field is needed.", param);
    LF_TRY(read_optional_bool(r, "text.format.strict", lf_json_get(v, "strict"), &r->ask->format.options.strict));
    return lf_format_read_schema(r, param, schema);
}

static enum lf_status read_json_object_flag(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    bool wanted = false;
    LF_TRY(read_optional_bool(r, name, v, &wanted));
    return wanted ? choose(r, LF_FORMAT_JSON_OBJECT, name) : LF_OK;
}

/* Whether objects have other members than those listed, where the schema does not say. */
static enum lf_status read_no_others(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    return read_optional_bool(r, name, v, &r->ask->format.options.strict);
}

/* Of no effect on what an answer may be. */
static enum lf_status read_hint(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    bool ignored;
    return read_optional_bool(r, name, v, &ignored);
}

static enum lf_status refuse_member(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    (void)v;
    return lf_unsupported_refuse(r->err, name, true, NULL);
}

struct member {
    const char *name, *param;
    enum lf_status (*read)(struct lf_reading *r, const char *name, struct lf_json_value v);
};

#define MEMBER(name, read)                                                                                             \
    {                                                                                                                  \
        name, "structured_outputs." name, read                                                                         \
    }

static const struct member members[] = {
    MEMBER("json", lf_format_read_schema),
    MEMBER("regex", lf_format_read_regex),
    MEMBER("choice", lf_format_read_choice),
    MEMBER("json_object", read_json_object_flag),
    MEMBER("whitespace_pattern", lf_format_read_whitespace),
    MEMBER("disable_additional_properties", read_no_others),
    MEMBER("disable_any_whitespace", read_hint),
    MEMBER("disable_fallback", read_hint),
    MEMBER("grammar", refuse_member),
    MEMBER("structural_tag", refuse_member),
};

/* Members that nobody knows, and those among them that ask for something. */
static int count_unknown(struct lf_json_value v, int *n_asking)
{
    int n = 0;
    *n_asking = 0;
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it)) {
        bool known = false;
        for (size_t i = 0; i < LF_N_ELEMS(members) && !known; i++) known = lf_json_string_is(it, members[i].name);
        n += !known;
        *n_asking += !known && !lf_json_is_absent(lf_json_member(it));
    }
    return n;
}

enum lf_status lf_format_read_structured_outputs(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    int n_asking;
    if (lf_json_type(v) != LF_JSON_OBJECT) return lf_ask_expected(r, name, v, "an object");
    for (size_t i = 0; i < LF_N_ELEMS(members); i++) {
        struct lf_json_value value = lf_json_get(v, members[i].name);
        if (!lf_json_is_absent(value)) LF_TRY(members[i].read(r, members[i].param, value));
    }
    r->ask->n_unknown += count_unknown(v, &n_asking);
    if (n_asking == 0 || r->ask->format.kind != LF_FORMAT_TEXT) return LF_OK;
    /* a wish that nobody knows, and none beside it: the answer would be of any form */
    return lf_ask_expected(r, name, v, "one with json, json_object, regex or choice");
}

/* ---- making grammars ---- */

enum lf_status lf_format_grammar(struct lf_grammar **out, const struct lf_format *f, struct lf_work *work,
                                 struct lf_err *why)
{
    switch (f->kind) {
    case LF_FORMAT_TEXT:
        *out = NULL;
        return LF_OK;
    case LF_FORMAT_JSON_OBJECT:
        return lf_grammar_of_json_object(out, &f->options, work, why);
    case LF_FORMAT_JSON_SCHEMA:
        return lf_grammar_of_schema(out, f->schema, &f->options, work, why);
    case LF_FORMAT_REGEX:
        return lf_grammar_of_regex(out, f->pattern, work, why);
    case LF_FORMAT_CHOICE:
        return lf_grammar_of_choice(out, f->choices, f->n_choices, work, why);
    }
    LF_ASSERT(false);
    return LF_INVALID;
}

static enum lf_status part_of_choices(struct lf_grammar_part *out, const struct lf_format *f, struct lf_arena *arena)
{
    struct lf_grammar_part *texts = lf_arena_array(arena, f->n_choices, sizeof *texts);
    if (!texts) return LF_NO_MEMORY;
    for (size_t i = 0; i < f->n_choices; i++)
        texts[i] = (struct lf_grammar_part){.kind = LF_PART_TEXT, .text = f->choices[i]};
    *out = (struct lf_grammar_part){.kind = LF_PART_ALTERNATIVE, .parts = texts, .n_parts = f->n_choices};
    return LF_OK;
}

enum lf_status lf_format_part(struct lf_grammar_part *out, const struct lf_format *f, struct lf_arena *arena)
{
    switch (f->kind) {
    case LF_FORMAT_TEXT:
        break;
    case LF_FORMAT_JSON_OBJECT:
    case LF_FORMAT_JSON_SCHEMA:
        *out = (struct lf_grammar_part){.kind = LF_PART_SCHEMA, .schema = f->schema, .options = f->options};
        return LF_OK;
    case LF_FORMAT_REGEX:
        *out = (struct lf_grammar_part){.kind = LF_PART_REGEX, .text = f->pattern};
        return LF_OK;
    case LF_FORMAT_CHOICE:
        return part_of_choices(out, f, arena);
    }
    LF_ASSERT(false);
    return LF_INVALID;
}

enum lf_status lf_format_refuse(struct lf_api_err *err, const struct lf_format *f, enum lf_status status,
                                const struct lf_err *why)
{
    switch (status) {
    case LF_INVALID:
        return lf_refuse(err, 400, f->param, "invalid_schema", "%s: %s", f->param, why->message);
    case LF_UNSUPPORTED:
        return lf_refuse(err, 400, f->param, "unsupported_schema", "%s: %s", f->param, why->message);
    case LF_LIMIT:
        return lf_refuse(err, 400, f->param, "schema_too_large", "%s: %s", f->param, why->message);
    default:
        return lf_refuse_work(err, status);
    }
}
