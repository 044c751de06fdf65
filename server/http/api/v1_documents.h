/* The body of a document to be put. */
#ifndef LF_SERVER_HTTP_API_V1_DOCUMENTS_H
#define LF_SERVER_HTTP_API_V1_DOCUMENTS_H

#include "server/http/api/ask.h"

/* Endpoints of the table. */
enum { LF_DOCUMENT_PUT = 1, LF_DOCUMENT_PIN = 2, LF_DOCUMENT_UNPIN = 4 };
extern const struct lf_field_table lf_document_fields;
/* As a dialect's parse, of a body to pin or to unpin: the latter has no fields. */
LF_MUST_CHECK enum lf_status lf_document_parse_pin(struct lf_ask *ask, const struct lf_json *json,
                                                   const struct lf_ask_limits *limits, struct lf_api_err *err);
/* As a dialect's parse; ask is to be deinitialized whatever comes back. */
LF_MUST_CHECK enum lf_status lf_document_parse(struct lf_ask *ask, const struct lf_json *json,
                                               const struct lf_ask_limits *limits, struct lf_api_err *err);

#endif
