/* The model that requests may name. */
#ifndef LF_SERVER_HTTP_API_MODELS_H
#define LF_SERVER_HTTP_API_MODELS_H

#include "server/http/conn/reply.h"

struct lf_http_opts;

/* 404 model_not_found, with the name that was asked for and the one that there is. */
LF_MUST_CHECK enum lf_status lf_refuse_model(struct lf_api_err *err, struct lf_str wanted,
                                             const struct lf_http_opts *opts);

#endif
