/* What the endpoints that take a JSON body begin with. */
#ifndef LF_SERVER_HTTP_HANDLER_H
#define LF_SERVER_HTTP_HANDLER_H

#include "server/http/call.h"
#include "server/http/openai_request.h"
#include "server/http/prompts.h"

/* Reads the call's body as a request of that kind, and frees the body. json holds what ask's values refer to; both are
 * to be deinitialized whatever comes back. */
LF_MUST_CHECK enum lf_status lf_handler_read(struct lf_call *call, enum lf_ask_kind kind, struct lf_json *json,
                                             struct lf_ask *ask, struct lf_api_err *err);
struct lf_prompt_source lf_handler_source(const struct lf_call *call);
/* All of /v1/completions and /v1/chat/completions: they differ in the kind only. */
void lf_handler_generate(struct lf_call *call, enum lf_ask_kind kind);

#endif
