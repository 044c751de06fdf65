/* Token boundaries: where in a rendered conversation the texts of its documents end.
 *
 * A document is read into the cache before anybody asks about it, so its tokens must be the same whatever comes behind:
 * the rendered text is cut there, and each part is encoded for itself. What a template does to a message is its own
 * business, but most write its text as it is, or without the white space at its ends. So the boundary is behind the
 * last byte of the text that is no white space, and it is looked for: a message's content, from its first byte that is
 * no white space to the boundary, among what came from the request, message after message. Where a template writes
 * something else there is no boundary, and the conversation is encoded as any other. */
#ifndef LF_SERVER_HTTP_API_BOUNDARIES_H
#define LF_SERVER_HTTP_API_BOUNDARIES_H

#include "server/http/api/ask.h"
#include "template/chat_template.h"

/* Fills at, which has room for ask->n_documents; ascending. How many there are. */
size_t lf_boundaries_find(size_t *at, const struct lf_chat_text *rendered, const struct lf_ask *ask);

#endif
