/* The items of /v1/responses, brought into the messages that templates know.
 *
 *     message (user, system, developer)            a message
 *     reasoning, message (assistant), function_call …    one message of the assistant's: reasoning, content, calls
 *     function_call_output                         a message of role tool
 *
 * Items of the assistant's that follow each other are one turn; within it templates have an order of their own. */
#ifndef LF_SERVER_HTTP_API_RESPONSES_INPUT_H
#define LF_SERVER_HTTP_API_RESPONSES_INPUT_H

#include "server/http/api/ask.h"

/* Reads `input`, a string or an array of items, into the ask's messages, behind the conversation of the response that
 * it goes on from, where there is one: its input and its output, and before them those of the one before it. */
LF_MUST_CHECK enum lf_status lf_responses_input_read(struct lf_reading *r, struct lf_json_value input);
/* Puts `instructions` before them, as a system prompt. */
LF_MUST_CHECK enum lf_status lf_responses_add_instructions(struct lf_reading *r, struct lf_json_value instructions);

#endif
