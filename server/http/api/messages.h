/* Chat messages: checked, and brought into the one form that templates know. */
#ifndef LF_SERVER_HTTP_API_MESSAGES_H
#define LF_SERVER_HTTP_API_MESSAGES_H

#include "core/arena.h"
#include "server/http/conn/reply.h"
#include "template/chat_template.h"

/* Reads an array of messages. Roles are system, developer, user, assistant and tool; content is a string, or text
 * parts, which are joined by line ends, or null or left out where an assistant called tools. Unless keep_developer, the
 * role developer becomes system, which is what templates without it know. *out lies in the arena and borrows the
 * document. */
LF_MUST_CHECK enum lf_status lf_messages_read(const struct lf_chat_message **out, size_t *n,
                                              struct lf_json_value messages, bool keep_developer,
                                              struct lf_arena *arena, struct lf_api_err *err);

/* The text of an array of text parts, joined by line ends; name is what a refusal calls it. */
LF_MUST_CHECK enum lf_status lf_message_parts(struct lf_str *out, struct lf_json_value content, const char *name,
                                              struct lf_arena *arena, struct lf_api_err *err);

#endif
