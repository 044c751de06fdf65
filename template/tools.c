#include "template/tools.h"

#include "core/check.h"

/* Whether every one of these values is a string; false for none. */
static bool all_strings(struct lf_json_value values)
{
    bool all = lf_json_len(values) > 0;
    for (struct lf_json_value it = lf_json_first(values); lf_json_more(values, it); it = lf_json_next(values, it))
        all = all && lf_json_type(it) == LF_JSON_STRING;
    return all;
}

/* What the keywords of one schema say by themselves, without looking into others. */
static bool says_string(struct lf_json_value schema)
{
    struct lf_json_value type = lf_json_get(schema, "type"), one = lf_json_get(schema, "const");
    struct lf_json_value first = lf_json_first(type);
    if (lf_json_string_is(type, "string")) return true;
    if (lf_json_type(type) == LF_JSON_ARRAY) return lf_json_len(type) == 1 && lf_json_string_is(first, "string");
    return all_strings(lf_json_get(schema, "enum")) || lf_json_type(one) == LF_JSON_STRING;
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
 * nested deeper counts as no string, and is read as JSON where it is JSON. */
bool lf_tool_takes_strings(struct lf_json_value root, struct lf_json_value schema)
{
    static const char *const unions[] = {"anyOf", "oneOf"};
    schema = lf_tool_referred(root, schema);
    if (says_string(schema)) return true;
    for (size_t i = 0; i < LF_N_ELEMS(unions); i++) {
        struct lf_json_value branches = lf_json_get(schema, unions[i]);
        bool all = lf_json_len(branches) > 0 && lf_json_type(branches) == LF_JSON_ARRAY;
        for (struct lf_json_value it = lf_json_first(branches); lf_json_more(branches, it);
             it = lf_json_next(branches, it))
            all = all && says_string(it);
        if (all) return true;
    }
    return false;
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
            parameters[i].is_string = lf_tool_takes_strings(schema, lf_json_member(it));
        }
    }
    *tool = (struct lf_tool){.name = name, .schema = schema, .parameters = parameters, .n_parameters = n};
    return LF_OK;
}
