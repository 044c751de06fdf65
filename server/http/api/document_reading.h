/* How a document is read: as the beginning of a conversation, by a request of the lowest priority that generates
 * nothing. */
#ifndef LF_SERVER_HTTP_API_DOCUMENT_READING_H
#define LF_SERVER_HTTP_API_DOCUMENT_READING_H

#include "server/http/api/prompts.h"

struct lf_gen_params;
struct lf_http_server;
struct lf_request;
struct lf_tenant;

/* The beginning that ask->system and ask->text are, under the date of ask->now_s. */
LF_MUST_CHECK enum lf_status lf_document_begin(struct lf_prompts *out, struct lf_ask *ask,
                                               const struct lf_prompt_source *source, struct lf_api_err *err);
/* What is to be computed of it, under the tenant's salt alone: a request with a cache_salt of its own shares with those
 * that have the same. */
struct lf_gen_params lf_document_params(struct lf_http_server *s, const struct lf_tenant *tenant,
                                        const struct lf_ask *ask, const struct lf_ids *ids);
/* Queues that. */
LF_MUST_CHECK enum lf_status lf_document_submit(struct lf_http_server *s, const struct lf_gen_params *params,
                                                struct lf_request **out, struct lf_api_err *err);

#endif
