/* The tools of a request, as far as an answer's format needs them: what they are called, and which of their parameters
 * are written as plain text where a format has no JSON of its own. */
#ifndef LF_TEMPLATE_TOOLS_H
#define LF_TEMPLATE_TOOLS_H

#include "core/arena.h"
#include "core/json.h"

/* Types of JSON, as a set. */
enum {
    LF_TOOL_NULL = 1,
    LF_TOOL_BOOL = 2,
    LF_TOOL_NUMBER = 4,
    LF_TOOL_STRING = 8,
    LF_TOOL_ARRAY = 16,
    LF_TOOL_OBJECT = 32,
    LF_TOOL_ANY = 63,
    LF_TOOL_STRING_OR_NULL = LF_TOOL_STRING | LF_TOOL_NULL
};

struct lf_tool_parameter {
    struct lf_str name;
    uint8_t types; /* that its schema allows */
};

struct lf_tool {
    struct lf_str name;
    struct lf_json_value schema; /* of the arguments, as it came, or NONE: any object. Only while the request is read */
    bool strict;                 /* the arguments are to meet the schema, whatever tool_choice says */
    const struct lf_tool_parameter *parameters; /* [n_parameters], of the schema's properties, in their order */
    size_t n_parameters;
};

/* Fills name, schema and parameters; name and schema are borrowed, the names of parameters lie in the arena.
 * LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_tool_init(struct lf_tool *tool, struct lf_str name, struct lf_json_value schema,
                                          struct lf_arena *arena);

/* What is wrong with a definition: at `member` of it stands `value`, where `expected` is. */
struct lf_tool_fault {
    const char *member, *expected;
    struct lf_json_value value;
};

/* Reads tools[n] from a definition, an object with name, strict and the schema of the arguments under schema_member;
 * the last two may be absent. Names are copied, unlike those of the n tools before it, and plain, for models are shown
 * them and answers are matched with them byte by byte; the schema is borrowed. LF_INVALID (fault), LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_tool_read(struct lf_tool *tools, size_t n, struct lf_json_value definition,
                                          const char *schema_member, struct lf_arena *arena,
                                          struct lf_tool_fault *fault);

/* The types that a schema allows, as far as it says so by type, enum, const and one anyOf or oneOf; any where it does
 * not. */
uint8_t lf_tool_types(struct lf_json_value root, struct lf_json_value schema);

/* The schema that a $ref to the root's $defs or definitions names; schema itself where it is none. */
struct lf_json_value lf_tool_referred(struct lf_json_value root, struct lf_json_value schema);

#endif
