/* A generation as a stream of events: text is shown as soon as it is made, choices in turn. */
#ifndef LF_SERVER_HTTP_STREAM_H
#define LF_SERVER_HTTP_STREAM_H

#include "server/http/answer.h"
#include "server/http/generation.h"
#include "server/http/http_server.h"

/* gen is taken over on success. LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_stream_create(struct lf_answer **out, struct lf_generation *gen,
                                              enum lf_keep_alive keep_alive, int keep_alive_ms);

#endif
