/* Where documents' tokens are to stay: which tier a wish comes to, whether there is room, and the request that brings
 * them there and holds them.
 *
 * What is pinned to a tier stays in it and in those below. So without a tier a pin is to the lowest one there is: it
 * takes nothing from what requests may reserve, and the document is never read again. */
#ifndef LF_SERVER_HTTP_API_DOCUMENT_PINS_H
#define LF_SERVER_HTTP_API_DOCUMENT_PINS_H

#include "server/documents/documents.h"
#include "server/http/api/ask.h"

struct lf_http_server;

/* Fields: {"pin": false, true or a tier}, {"tier": a tier}. */
lf_read_fn lf_document_read_pin, lf_document_read_tier;
/* What the wish of ask comes to here; refuses a tier that there is not. NONE: it is to be pinned nowhere. */
LF_MUST_CHECK enum lf_status lf_document_tier(enum lf_pin *out, struct lf_http_server *s, const struct lf_ask *ask,
                                              struct lf_api_err *err);
/* Pins a document that is read or being read, from the place where it is pinned now. NONE: unpins it. The same place
 * again: nothing to do. */
LF_MUST_CHECK enum lf_status lf_document_pin_to(struct lf_http_server *s, struct lf_document *doc, enum lf_pin pin,
                                                struct lf_work *work, struct lf_api_err *err);

/* Tokens of a document in each tier; -1: there is no such tier. */
struct lf_document_places {
    int64_t n_tokens[LF_PIN_N];
};
/* false: not known. */
bool lf_document_places(struct lf_http_server *s, const struct lf_document_view *view, struct lf_document_places *out);

#endif
