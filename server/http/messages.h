/* Chat messages: checked, and brought into the one form that templates know. */
#ifndef LF_SERVER_HTTP_MESSAGES_H
#define LF_SERVER_HTTP_MESSAGES_H

#include "core/json.h"
#include "server/http/reply.h"

/* Roles are system, developer, user, assistant and tool; content is a string, or text parts, or absent where an
 * assistant called tools. LF_OK: *rewrite says whether a template needs lf_messages_write's form. */
LF_MUST_CHECK enum lf_status lf_messages_check(struct lf_json_value messages, bool *rewrite, struct lf_api_err *err);

/* The same messages as JSON, with text parts joined by line ends into one string and, unless keep_developer, the role
 * developer written as system, which is what templates without it know. */
void lf_messages_write(struct lf_buf *out, struct lf_json_value messages, bool keep_developer);

#endif
