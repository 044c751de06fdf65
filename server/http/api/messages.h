/* Chat messages of OpenAI's form: checked, and brought into the one form that templates know. */
#ifndef LF_SERVER_HTTP_API_MESSAGES_H
#define LF_SERVER_HTTP_API_MESSAGES_H

#include "server/http/api/ask.h"
#include "template/chat_template.h"

/* Reads an array of messages into the ask. Roles are system, developer, user, assistant and tool; content is a string,
 * or text parts, which are joined by line ends, or null or left out where an assistant called tools, which is the
 * empty text to templates. The arguments of calls become values. Unless the template knows the role developer, it
 * becomes system. What is read lies in the ask's arena and borrows the document. */
LF_MUST_CHECK enum lf_status lf_messages_read(struct lf_reading *r, struct lf_json_value messages);

/* What a dialect calls the parts of a message. */
struct lf_part_form {
    const char *texts[4];  /* NULL-terminated: those with a member `text` */
    const char *file_type; /* the one that names a document */
    const char *known;     /* all of them, for a refusal */
};
extern const struct lf_part_form lf_part_form_chat;

/* The text of an array of text parts, joined by line ends; name is what a refusal calls it. message: the index of the
 * user's message that it is, which may have documents; LF_NO_DOCUMENTS: it may not. */
enum { LF_NO_DOCUMENTS = -1 };
LF_MUST_CHECK enum lf_status lf_message_parts_of(struct lf_str *out, struct lf_reading *r, struct lf_json_value content,
                                                 const char *name, int message, const struct lf_part_form *form);
/* In the form of chats. */
LF_MUST_CHECK static inline enum lf_status lf_message_parts(struct lf_str *out, struct lf_reading *r,
                                                            struct lf_json_value content, const char *name, int message)
{
    return lf_message_parts_of(out, r, content, name, message, &lf_part_form_chat);
}

#endif
