/* How a document is read: as the beginning of a conversation, by a request of the lowest priority that generates
 * nothing. */
#ifndef LF_SERVER_HTTP_API_DOCUMENT_READING_H
#define LF_SERVER_HTTP_API_DOCUMENT_READING_H

#include "core/json.h"
#include "server/engine/request.h"
#include "server/http/api/prompts.h"
#include "server/http/conn/auth.h"

struct lf_document;
struct lf_http_server;

/* The beginning that ask->system, its tools and ask->text are, under the date of ask->now_s. */
LF_MUST_CHECK enum lf_status lf_document_begin(struct lf_prompts *out, struct lf_ask *ask,
                                               const struct lf_prompt_source *source, struct lf_api_err *err);
/* What is to be computed of it, under the tenant's salt alone: a request with a cache_salt of its own shares with those
 * that have the same. */
struct lf_gen_params lf_document_params(struct lf_http_server *s, const struct lf_tenant *tenant,
                                        const struct lf_ask *ask, const struct lf_ids *ids);
/* Queues that. */
LF_MUST_CHECK enum lf_status lf_document_submit(struct lf_http_server *s, const struct lf_gen_params *params,
                                                struct lf_request **out, struct lf_api_err *err);
/* Definitions of tools as they are kept: into ask, as if they had come with a request. json is what they point into. */
LF_MUST_CHECK enum lf_status lf_document_read_tools(struct lf_ask *ask, struct lf_json *json, struct lf_str tools,
                                                    const struct lf_ask_limits *limits, struct lf_api_err *err);

/* A document that is there, as what is to be computed of it. Stays where it is: params point into it. */
struct lf_document_beginning {
    struct lf_tenant tenant;
    struct lf_ask ask;
    struct lf_json tools;
    struct lf_prompts prompts;
    struct lf_gen_params params;
};
/* Nothing to be deinitialized where it fails. */
LF_MUST_CHECK enum lf_status lf_document_begin_again(struct lf_document_beginning *out, struct lf_http_server *s,
                                                     const struct lf_document *doc, struct lf_work *work,
                                                     struct lf_api_err *err);
void lf_document_beginning_deinit(struct lf_document_beginning *beginning);
/* Keys of its blocks in the memory for texts, *n of them, LF_SHA256_BYTES each; NULL: there are none, or no memory. */
uint8_t *lf_document_keys(struct lf_http_server *s, const struct lf_gen_params *params, int *n) LF_MUST_CHECK;

#endif
