/* The names of the one model that is served. */
#ifndef LF_SERVER_HTTP_API_MODELS_H
#define LF_SERVER_HTTP_API_MODELS_H

#include "server/http/conn/reply.h"

struct lf_http_opts;

/* Whether a request may call the model this. */
bool lf_model_is_served(const struct lf_http_opts *opts, struct lf_str name);
/* 404 model_not_found, with the name that was asked for and those that there are. */
LF_MUST_CHECK enum lf_status lf_refuse_model(struct lf_api_err *err, struct lf_str wanted,
                                             const struct lf_http_opts *opts);

#endif
