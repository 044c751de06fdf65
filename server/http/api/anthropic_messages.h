/* Messages of Anthropic's form, brought into the one that templates know.
 *
 *     assistant  [thinking] [text] [tool_use] …      one message: reasoning, content, calls
 *     user       [tool_result] [tool_result] [text]  a message of role tool for each result, then one of the user
 *
 * The order of the blocks stays as far as messages go; within the assistant's, templates have an order of their own. */
#ifndef LF_SERVER_HTTP_API_ANTHROPIC_MESSAGES_H
#define LF_SERVER_HTTP_API_ANTHROPIC_MESSAGES_H

#include "server/http/api/ask.h"

/* Reads an array of messages into the ask. The last one may be the assistant's: the answer goes on from it. */
LF_MUST_CHECK enum lf_status lf_anthropic_messages_read(struct lf_reading *r, struct lf_json_value messages);
/* Puts the system prompt before them: a string or an array of text blocks. */
LF_MUST_CHECK enum lf_status lf_anthropic_add_system(struct lf_reading *r, struct lf_json_value system);

#endif
