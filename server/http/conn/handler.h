/* What the handlers that take a JSON body begin with. */
#ifndef LF_SERVER_HTTP_CONN_HANDLER_H
#define LF_SERVER_HTTP_CONN_HANDLER_H

#include "server/http/api/ask.h"
#include "server/http/api/prompts.h"

struct lf_exchange;

/* Of routes with a JSON body: parses it, has the route's answer_body answer it, and frees what was read. A refusal
 * becomes the reply, in the route's own form. */
void lf_handle_body(struct lf_exchange *x);
struct lf_prompt_source lf_prompt_source_of(struct lf_exchange *x);

#endif
