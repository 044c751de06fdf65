#include "template/tools.h"

#include "core/check.h"

static uint8_t type_of_name(struct lf_json_value name)
{
    static const struct {
        const char *name;
        uint8_t type;
    } types[] = {{"string", LF_TOOL_STRING}, {"integer", LF_TOOL_NUMBER}, {"number", LF_TOOL_NUMBER},
                 {"boolean", LF_TOOL_BOOL},  {"null", LF_TOOL_NULL},      {"array", LF_TOOL_ARRAY},
                 {"object", LF_TOOL_OBJECT}};
    for (size_t i = 0; i < LF_N_ELEMS(types); i++)
        if (lf_json_string_is(name, types[i].name)) return types[i].type;
    return 0;
}

static uint8_t type_of_value(struct lf_json_value v)
{
    switch (lf_json_type(v)) {
    case LF_JSON_NULL:
        return LF_TOOL_NULL;
    case LF_JSON_TRUE:
    case LF_JSON_FALSE:
        return LF_TOOL_BOOL;
    case LF_JSON_NUMBER:
        return LF_TOOL_NUMBER;
    case LF_JSON_STRING:
        return LF_TOOL_STRING;
    case LF_JSON_ARRAY:
        return LF_TOOL_ARRAY;
    default:
        return LF_TOOL_OBJECT;
    }
}

/* Of each element of a list together; any where it is none, or says nothing. */
static uint8_t types_of_all(struct lf_json_value list, uint8_t type_of(struct lf_json_value))
{
    uint8_t types = 0;
    if (lf_json_type(list) != LF_JSON_ARRAY) return LF_TOOL_ANY;
    for (struct lf_json_value it = lf_json_first(list); lf_json_more(list, it); it = lf_json_next(list, it))
        types |= type_of(it);
    return types ? types : LF_TOOL_ANY;
}

/* What the keywords of one schema say by themselves, without looking into others. */
static uint8_t types_said(struct lf_json_value schema)
{
    struct lf_json_value type = lf_json_get(schema, "type"), one = lf_json_get(schema, "const");
    uint8_t own = lf_json_type(type) == LF_JSON_ARRAY ? types_of_all(type, type_of_name) : type_of_name(type);
    uint8_t types = types_of_all(lf_json_get(schema, "enum"), type_of_value) & (own ? own : LF_TOOL_ANY);
    if (lf_json_type(one) != LF_JSON_NONE) types &= type_of_value(one);
    return types ? types : LF_TOOL_ANY;
}

struct lf_json_value lf_tool_referred(struct lf_json_value root, struct lf_json_value schema)
{
    static const struct {
        const char *prefix, *table;
    } tables[] = {{"#/$defs/", "$defs"}, {"#/definitions/", "definitions"}};
    struct lf_str ref;
    if (!lf_json_borrow(lf_json_get(schema, "$ref"), &ref)) return schema;
    for (size_t i = 0; i < LF_N_ELEMS(tables); i++) {
        char name[128];
        size_t n = strlen(tables[i].prefix);
        if (!lf_str_starts(ref, lf_str_c(tables[i].prefix)) || ref.len - n >= sizeof(name)) continue;
        memcpy(name, ref.ptr + n, ref.len - n);
        name[ref.len - n] = 0;
        struct lf_json_value target = lf_json_get(lf_json_get(root, tables[i].table), name);
        return lf_json_type(target) == LF_JSON_OBJECT ? target : schema;
    }
    return schema;
}

/* One step into $ref and into anyOf and oneOf, which is how libraries write an enum or an optional string: what is
 * nested deeper says nothing. */
uint8_t lf_tool_types(struct lf_json_value root, struct lf_json_value schema)
{
    static const char *const unions[] = {"anyOf", "oneOf"};
    schema = lf_tool_referred(root, schema);
    uint8_t types = types_said(schema);
    for (size_t i = 0; i < LF_N_ELEMS(unions); i++) {
        struct lf_json_value branches = lf_json_get(schema, unions[i]);
        uint8_t any = 0;
        if (lf_json_type(branches) != LF_JSON_ARRAY) continue;
        for (struct lf_json_value it = lf_json_first(branches); lf_json_more(branches, it);
             it = lf_json_next(branches, it))
            any |= types_said(lf_tool_referred(root, it));
        if (types & any) types &= any;
    }
    return types;
}

static enum lf_status copy_name(struct lf_str *out, struct lf_json_value name, struct lf_arena *arena)
{
    struct lf_buf text;
    struct lf_str raw = lf_json_raw(name);
    lf_buf_init_in(&text, raw.len, arena->memory);
    char *copy = lf_json_string(name, &text) ? lf_arena_strdup(arena, lf_buf_view(&text)) : NULL;
    if (copy) *out = lf_str_from(copy, text.len);
    lf_buf_deinit(&text);
    return copy ? LF_OK : LF_NO_MEMORY;
}

enum lf_status lf_tool_init(struct lf_tool *tool, struct lf_str name, struct lf_json_value schema,
                            struct lf_arena *arena)
{
    struct lf_json_value properties = lf_json_get(schema, "properties");
    bool has = lf_json_type(properties) == LF_JSON_OBJECT && lf_json_len(properties) > 0;
    size_t n = has ? lf_json_len(properties) : 0, i = 0;
    struct lf_tool_parameter *parameters = NULL;
    if (has) {
        parameters = lf_arena_array(arena, n, sizeof(*parameters));
        if (!parameters) return LF_NO_MEMORY;
        for (struct lf_json_value it = lf_json_first(properties); lf_json_more(properties, it);
             it = lf_json_next(properties, it), i++) {
            LF_TRY(copy_name(&parameters[i].name, it, arena));
            parameters[i].types = lf_tool_types(schema, lf_json_member(it));
        }
    }
    *tool = (struct lf_tool){.name = name, .schema = schema, .parameters = parameters, .n_parameters = n};
    return LF_OK;
}

/* ---- definitions ---- */

static bool is_plain(struct lf_str s)
{
    bool ok = s.len > 0 && s.len <= LF_TOOL_NAME_BYTES;
    for (size_t i = 0; i < s.len && ok; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        ok = c > ' ' && c != 0x7f && c != '"' && c != '\\' && c != '<' && c != '>' && c != '{' && c != '}';
    }
    return ok;
}

static enum lf_status fail(struct lf_tool_fault *fault, const char *member, struct lf_json_value value,
                           const char *expected)
{
    *fault = (struct lf_tool_fault){member, expected, value};
    return LF_INVALID;
}

enum lf_status lf_tool_read(struct lf_tool *tools, size_t n, struct lf_json_value definition, const char *schema_member,
                            struct lf_arena *arena, struct lf_tool_fault *fault)
{
    static const char rule[] = "a name of 1 to 256 bytes without white space, quotes, \\, <, >, { or }";
    _Static_assert(LF_TOOL_NAME_BYTES == 256, "the rule says how long a name may be");
    struct lf_json_value name = lf_json_get(definition, "name"), schema = lf_json_get(definition, schema_member),
                         strict = lf_json_get(definition, "strict");
    struct lf_str text;
    bool is_strict = false;
    if (lf_json_type(name) != LF_JSON_STRING) return fail(fault, "name", name, "a string");
    LF_TRY(copy_name(&text, name, arena));
    if (!is_plain(text)) return fail(fault, "name", name, rule);
    for (size_t i = 0; i < n; i++)
        if (lf_str_eq(tools[i].name, text)) return fail(fault, "name", name, "a name that no tool before it has");
    if (!lf_json_is_absent(schema) && lf_json_type(schema) != LF_JSON_OBJECT)
        return fail(fault, schema_member, schema, "an object, the schema of the arguments");
    if (!lf_json_is_absent(strict) && !lf_json_bool(strict, &is_strict))
        return fail(fault, "strict", strict, "true or false");
    if (lf_json_is_absent(schema)) schema = (struct lf_json_value){0};
    LF_TRY(lf_tool_init(&tools[n], text, schema, arena));
    tools[n].strict = is_strict;
    return LF_OK;
}
