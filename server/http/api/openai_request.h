/* A request body of the OpenAI API: its table of fields, and what holds between them. */
#ifndef LF_SERVER_HTTP_API_OPENAI_REQUEST_H
#define LF_SERVER_HTTP_API_OPENAI_REQUEST_H

#include "server/http/api/ask.h"

/* Which endpoints know a field. */
enum lf_ask_kind {
    LF_ASK_COMPLETION = 1,
    LF_ASK_CHAT = 2,
    LF_ASK_TOKENIZE = 4,
    LF_ASK_DETOKENIZE = 8,
    LF_ASK_TEMPLATE = 16
};

extern const struct lf_field_table lf_openai_fields; /* its bits are an lf_ask_kind */

/* Reads the root object of a request of that kind. ask is to be deinitialized whatever comes back. */
LF_MUST_CHECK enum lf_status lf_ask_read(struct lf_ask *ask, enum lf_ask_kind kind, const struct lf_json *json,
                                         const struct lf_ask_limits *limits, struct lf_api_err *err);

#endif
