/* A generation as a stream of events: text is shown as soon as it is made, choices in turn. */
#ifndef LF_SERVER_HTTP_API_STREAM_H
#define LF_SERVER_HTTP_API_STREAM_H

#include "server/http/conn/answer.h"
#include "server/http/api/generation.h"
#include "server/http/conn/http_server.h"

/* gen is taken over on success. LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_stream_create(struct lf_answer **out, struct lf_generation *gen,
                                              enum lf_keep_alive keep_alive, int keep_alive_ms);

#endif
