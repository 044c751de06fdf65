/* Documents in messages: parts of the user's that stand for a text.
 *
 *     {"type": "document", "name": "contract"}                                    in any dialect
 *     {"type": "file", "file": {"file_id": "contract"}}                           OpenAI's
 *     {"type": "input_file", "file_id": "contract"}                               OpenAI's in /v1/responses
 *     {"type": "document", "source": {"type": "file", "file_id": "contract"}}     Anthropic's
 *     {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "…"}}
 *
 * The text is the user's, and behind it is a token boundary. Where the first message of the user's begins with a
 * document that has a name, the conversation is as the document was read: the template is told the day on which it was
 * put, and its system prompt stands before it, unless the request brings one of its own. */
#ifndef LF_SERVER_HTTP_API_DOCUMENT_PARTS_H
#define LF_SERVER_HTTP_API_DOCUMENT_PARTS_H

#include "server/http/api/ask.h"

/* file_type: what a dialect calls the part that names a file: "file", "input_file". */
bool lf_document_part_is(struct lf_json_value part, const char *file_type);
/* Adds it to ask->documents, with its text; name is what a refusal calls the part. 404 where there is no such document.
 */
LF_MUST_CHECK enum lf_status lf_document_part_read(struct lf_reading *r, struct lf_json_value part, const char *name);
/* Its text, which ends there, in the message of that index. */
void lf_document_part_append(struct lf_ask *ask, size_t i, struct lf_buf *text, size_t message);
/* A message more before all others, zeroed; NULL: no memory. */
struct lf_chat_message *lf_document_parts_prepend(struct lf_ask *ask) LF_MUST_CHECK;
/* Once all messages are there. */
LF_MUST_CHECK enum lf_status lf_document_parts_settle(struct lf_ask *ask, struct lf_api_err *err);
/* Bytes of the texts of those that have names. */
uint64_t lf_document_parts_bytes(const struct lf_ask *ask);
/* The request is answered with them. */
void lf_document_parts_hit(const struct lf_ask *ask);

#endif
