#include "server/http/api/tools.h"

#include <stdio.h>

#include "core/check.h"
#include "core/work.h"
#include "server/http/api/place.h"
#include "server/http/api/shown.h"

static struct lf_place member_of(const char *at, const char *member)
{
    return lf_place_at("%s.%s", at, member);
}

enum lf_status lf_tools_are_known(const struct lf_ask_limits *limits, const char *param, struct lf_api_err *err)
{
    if (!limits->template.has_tools)
        return lf_refuse(err, 400, param, "unsupported_parameter", "%s: this model's chat template has no tools.",
                         param);
    if (limits->answers && lf_answer_format_has_tools(limits->answers)) return LF_OK;
    return lf_refuse(err, 400, param, "unsupported_parameter",
                     "%s: in which form this model calls tools is not known; --tool-parser names one.", param);
}

/* ---- definitions ---- */

enum lf_status lf_tools_begin(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    struct lf_ask *ask = r->ask;
    if (lf_json_type(v) != LF_JSON_ARRAY) return lf_ask_expected(r, name, v, "an array of tools");
    if (lf_json_len(v) > LF_TOOLS_N)
        return lf_refuse(r->err, 400, name, "too_many_tools", "%s: at most %d, got %u.", name, LF_TOOLS_N,
                         lf_json_len(v));
    ask->tools = lf_arena_array(&ask->arena, (size_t)lf_json_len(v) + 1, sizeof *ask->tools);
    return ask->tools ? LF_OK : lf_refuse_work(r->err, LF_NO_MEMORY);
}

static struct lf_tool *find(struct lf_tool *tools, size_t n, struct lf_str name)
{
    for (size_t i = 0; i < n; i++)
        if (lf_str_eq(tools[i].name, name)) return &tools[i];
    return NULL;
}

enum lf_status lf_tools_add(struct lf_reading *r, const struct lf_tool_values *t)
{
    struct lf_ask *ask = r->ask;
    struct lf_tool_fault fault;
    enum lf_status status = lf_tool_read(ask->tools, ask->n_tools, t->value, t->schema_member, &ask->arena, &fault);
    if (status == LF_INVALID)
        return lf_place_expected(r->err, member_of(t->at, fault.member).name, fault.value, fault.expected);
    if (status != LF_OK) return lf_refuse_work(r->err, status);
    ask->n_tools++;
    return LF_OK;
}

/* {"type": "function", "function": {"name", "description", "parameters", "strict"}} */
static enum lf_status read_tool(struct lf_reading *r, size_t idx, struct lf_json_value v)
{
    struct lf_place whole = lf_place_at("tools[%zu]", idx), type = member_of(whole.name, "type"),
                    function = member_of(whole.name, "function"), description = member_of(function.name, "description");
    struct lf_json_value f = lf_json_get(v, "function"), text = lf_json_get(f, "description");
    if (lf_json_type(v) != LF_JSON_OBJECT) return lf_place_expected(r->err, whole.name, v, "an object");
    if (!lf_json_string_is(lf_json_get(v, "type"), "function"))
        return lf_refuse(r->err, 400, type.name, "unsupported_parameter",
                         "%s: only \"function\" is implemented, got %s.", type.name,
                         lf_shown_json(lf_json_get(v, "type")).text);
    if (lf_json_type(f) != LF_JSON_OBJECT) return lf_place_expected(r->err, function.name, f, "an object");
    if (!lf_json_is_absent(text) && lf_json_type(text) != LF_JSON_STRING)
        return lf_place_expected(r->err, description.name, text, "a string");
    return lf_tools_add(r, &(struct lf_tool_values){function.name, "parameters", f});
}

enum lf_status lf_tools_read(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    size_t i = 0;
    LF_TRY(lf_tools_begin(r, name, v));
    if (lf_json_len(v) == 0) return LF_OK;
    LF_TRY(lf_tools_are_known(r->limits, name, r->err));
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it))
        LF_TRY(read_tool(r, i++, it));
    r->ask->tool_values = v;
    return LF_OK;
}

enum lf_status lf_tools_refuse_functions(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    bool calls = strcmp(name, "function_call") == 0;
    if (calls ? lf_json_string_is(v, "none") : lf_json_type(v) == LF_JSON_ARRAY && lf_json_len(v) == 0) return LF_OK;
    return lf_refuse(r->err, 400, name, "unsupported_parameter", "%s: not implemented; here that is %s.", name,
                     calls ? "tool_choice" : "tools");
}

/* ---- which may be called ---- */

/* The tool that v names. */
static enum lf_status find_named(struct lf_tool **out, struct lf_ask *ask, struct lf_json_value v, const char *param,
                                 struct lf_api_err *err)
{
    struct lf_str name;
    LF_TRY(lf_ask_text(ask, &name, v, param, err));
    *out = find(ask->tools, ask->n_tools, name);
    return *out ? LF_OK : lf_place_expected(err, param, v, "the name of one of the tools");
}

enum lf_status lf_tools_choose(struct lf_ask *ask, struct lf_json_value v, const char *param, struct lf_api_err *err)
{
    struct lf_tool *tool;
    LF_TRY(find_named(&tool, ask, v, param, err));
    struct lf_tool chosen = *tool;
    ask->tools[0] = chosen;
    ask->n_tools = 1;
    ask->tool_choice = LF_TOOL_CHOICE_REQUIRED;
    ask->parallel_tool_calls = false; /* it is called once */
    return LF_OK;
}

enum lf_status lf_tools_read_choice(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    if (lf_json_type(v) != LF_JSON_STRING && lf_json_type(v) != LF_JSON_OBJECT)
        return lf_ask_expected(r, name, v, "a string or an object");
    r->ask->tool_choice_value = v; /* the tools may come behind it */
    return LF_OK;
}

static enum lf_status read_mode(struct lf_ask *ask, struct lf_json_value v, const char *param, bool may_be_none,
                                struct lf_api_err *err)
{
    if (lf_json_string_is(v, "auto"))
        ask->tool_choice = LF_TOOL_CHOICE_AUTO;
    else if (lf_json_string_is(v, "required"))
        ask->tool_choice = LF_TOOL_CHOICE_REQUIRED;
    else if (may_be_none && lf_json_string_is(v, "none"))
        ask->tool_choice = LF_TOOL_CHOICE_NONE;
    else
        return lf_place_expected(err, param, v, may_be_none ? "none, auto, required or an object" : "auto or required");
    return LF_OK;
}

/* The object with the members of a choice of that type, and the place of one of them. */
static struct lf_json_value members_of(struct lf_json_value v, const char *type, bool flat)
{
    return flat ? v : lf_json_get(v, type);
}

static struct lf_place choice_place(const char *type, const char *member, bool flat)
{
    return flat ? lf_place_at("tool_choice.%s", member) : lf_place_at("tool_choice.%s.%s", type, member);
}

/* {"mode": "auto" | "required", "tools": [{"type": "function", "function": {"name": …}}, …]}: the others stay in the
 * prompt, which so begins as it does without this. */
static enum lf_status read_allowed(struct lf_ask *ask, struct lf_json_value v, bool flat, struct lf_api_err *err)
{
    static const char type[] = "allowed_tools";
    struct lf_json_value list = lf_json_get(v, "tools");
    struct lf_place mode = choice_place(type, "mode", flat), tools = choice_place(type, "tools", flat);
    size_t i = 0, n = 0;
    LF_TRY(read_mode(ask, lf_json_get(v, "mode"), mode.name, false, err));
    if (lf_json_type(list) != LF_JSON_ARRAY || lf_json_len(list) == 0)
        return lf_place_expected(err, tools.name, list, "an array with at least one tool");
    for (struct lf_json_value it = lf_json_first(list); lf_json_more(list, it); it = lf_json_next(list, it), i++) {
        struct lf_place at = lf_place_at("%s[%zu]%s.name", tools.name, i, flat ? "" : ".function");
        struct lf_tool *found;
        LF_TRY(find_named(&found, ask, lf_json_get(members_of(it, "function", flat), "name"), at.name, err));
        if (found < ask->tools + n) continue; /* twice */
        struct lf_tool swap = ask->tools[n];
        ask->tools[n] = *found;
        *found = swap;
        n++;
    }
    ask->n_tools = n;
    return LF_OK;
}

static enum lf_status read_choice(struct lf_ask *ask, struct lf_json_value v, bool flat, struct lf_api_err *err)
{
    struct lf_json_value type = lf_json_get(v, "type");
    if (lf_json_type(v) == LF_JSON_STRING) return read_mode(ask, v, "tool_choice", true, err);
    if (lf_json_string_is(type, "function"))
        return lf_tools_choose(ask, lf_json_get(members_of(v, "function", flat), "name"),
                               choice_place("function", "name", flat).name, err);
    if (lf_json_string_is(type, "allowed_tools"))
        return read_allowed(ask, members_of(v, "allowed_tools", flat), flat, err);
    return lf_refuse(err, 400, "tool_choice.type", "unsupported_parameter",
                     "tool_choice.type: only function and allowed_tools are implemented, got %s.",
                     lf_shown_json(type).text);
}

enum lf_status lf_tools_check(struct lf_ask *ask, bool flat, struct lf_api_err *err)
{
    struct lf_json_value v = ask->tool_choice_value;
    ask->tool_choice = ask->n_tools ? LF_TOOL_CHOICE_AUTO : LF_TOOL_CHOICE_NONE;
    ask->tool_choice_value = (struct lf_json_value){0};
    if (lf_json_is_absent(v)) return LF_OK;
    if (ask->n_tools == 0) {
        if (lf_json_string_is(v, "none") || lf_json_string_is(v, "auto")) return LF_OK;
        return lf_refuse(err, 400, "tool_choice", "invalid_value", "tool_choice: only together with tools.");
    }
    return read_choice(ask, v, flat, err);
}

/* ---- calls in messages ---- */

enum lf_status lf_tools_arguments(struct lf_json_value *out, struct lf_reading *r, struct lf_json_value v,
                                  const char *param)
{
    struct lf_ask *ask = r->ask;
    struct lf_str text;
    struct lf_err why = {0};
    struct lf_json_limits limits = lf_json_limits_request;
    limits.max_nodes -= ask->n_argument_nodes; /* together no more than one body may have */
    *out = v;
    if (lf_json_type(v) == LF_JSON_OBJECT || lf_json_is_absent(v)) return LF_OK;
    LF_TRY(lf_ask_text(ask, &text, v, param, r->err));
    *out = (struct lf_json_value){0};
    if (text.len == 0) return LF_OK; /* of a tool without parameters */
    struct lf_json *json = &ask->arguments[ask->n_arguments];
    *json = (struct lf_json){0};
    enum lf_status status = lf_json_parse_in(json, text, &limits, r->limits->work, &why);
    if (status == LF_NO_MEMORY || status == LF_CANCELLED || status == LF_TIMEOUT) return lf_refuse_work(r->err, status);
    if (status == LF_OK) {
        ask->n_arguments++;
        ask->n_argument_nodes += json->n_nodes;
        *out = lf_json_root(json);
    }
    if (status == LF_OK && lf_json_type(*out) == LF_JSON_OBJECT) return LF_OK;
    return lf_refuse(r->err, 400, param, "invalid_value", "%s: expected the text of a JSON object, got %s%s%s", param,
                     lf_shown_json(v).text, status == LF_OK ? "." : ": ", status == LF_OK ? "" : why.message);
}

/* ---- reasoning ---- */

enum lf_status lf_tools_read_effort(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    static const char *const efforts[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
    for (size_t i = 0; i < LF_N_ELEMS(efforts); i++) {
        if (!lf_json_string_is(v, efforts[i])) continue;
        r->ask->reasoning_effort = lf_str_c(efforts[i]);
        return LF_OK;
    }
    return lf_ask_expected(r, name, v, "none, minimal, low, medium, high, xhigh or max");
}
