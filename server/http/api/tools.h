/* Tools of a request: their definitions, which of them may or must be called, and calls in messages. */
#ifndef LF_SERVER_HTTP_API_TOOLS_H
#define LF_SERVER_HTTP_API_TOOLS_H

#include "server/http/api/ask.h"

struct lf_chat_call;

/* ---- for the rows of OpenAI's table ---- */

lf_read_fn lf_tools_read, lf_tools_read_choice, lf_tools_refuse_functions, lf_tools_read_effort;
/* Once all fields are read: what tool_choice makes of the tools. flat: the members of a choice stand beside its type,
 * as in /v1/responses, and not in an object of their own. */
LF_MUST_CHECK enum lf_status lf_tools_check(struct lf_ask *ask, bool flat, struct lf_api_err *err);

/* ---- for any dialect ---- */

/* A definition as its dialect has it. */
struct lf_tool_values {
    const char *at;             /* where it stands in the body, as a refusal names it: "tools[3].function" */
    const char *schema_member;  /* what the schema of the arguments is called there: "parameters" */
    struct lf_json_value value; /* the object with name, strict, and that */
};

/* Room for the tools of an array, which is to be one of 1 to LF_TOOLS_N objects. */
LF_MUST_CHECK enum lf_status lf_tools_begin(struct lf_reading *r, const char *name, struct lf_json_value v);
/* The next one; schema and strict may be absent. */
LF_MUST_CHECK enum lf_status lf_tools_add(struct lf_reading *r, const struct lf_tool_values *tool);
/* Only this one may be called, and must be: the tool that v names. */
LF_MUST_CHECK enum lf_status lf_tools_choose(struct lf_ask *ask, struct lf_json_value v, const char *param,
                                             struct lf_api_err *err);
/* Whether model and template know tools at all; refuses `param` where not. */
LF_MUST_CHECK enum lf_status lf_tools_are_known(const struct lf_ask_limits *limits, const char *param,
                                                struct lf_api_err *err);

/* The arguments of a call in a message: an object, or the text of one, which is parsed and kept in the ask. */
LF_MUST_CHECK enum lf_status lf_tools_arguments(struct lf_json_value *out, struct lf_reading *r, struct lf_json_value v,
                                                const char *param);

#endif
