/* The one table of routes: default deny. What is not in it does not exist, and each row says whether it needs a key. */
#ifndef LF_SERVER_HTTP_API_ROUTES_H
#define LF_SERVER_HTTP_API_ROUTES_H

#include <stdbool.h>
#include <string.h>

#include "core/str.h"

struct lf_dialect;
struct lf_field_table;
struct lf_exchange;
struct lf_ask;
struct lf_ask_limits;
struct lf_json;
struct lf_api_err;

enum lf_auth { LF_AUTH_NONE, LF_AUTH_KEY };

/* Answers an exchange: fills x->reply, or sets x->answer. Routes with a body run on a worker and find the whole body,
 * and so do those that may wait for the disk; others run on libmicrohttpd's thread and must be quick. */
typedef void lf_route_fn(struct lf_exchange *x);
/* Answers what a body asks for; a refusal in err becomes the reply. */
typedef enum lf_status lf_parse_fn(struct lf_ask *ask, const struct lf_json *json, const struct lf_ask_limits *limits,
                                   struct lf_api_err *err);
typedef enum lf_status lf_answer_fn(struct lf_exchange *x, struct lf_ask *ask, struct lf_api_err *err);

struct lf_route {
    const char *path;   /* ends with '/' and is not that alone: everything below it, and the rest is x->tail; with a '*'
                           that stands for x->tail: what begins and ends so; rows of one path are neighbours */
    const char *method; /* "GET" (HEAD as well), "POST", "PUT" or "DELETE" */
    const char *allow;  /* for 405 and OPTIONS */
    enum lf_auth auth;
    bool before_ready; /* answered while loading, too */
    bool takes_text;   /* a body may be text/plain, too: ask->text */
    bool may_be_empty; /* a body: then it is {} */
    bool may_wait;     /* for the disk, or over a long list */
    bool is_health;    /* answered on the slots that are kept for it, too */
    bool is_page;      /* not there with --no-page */
    bool posts;        /* a GET that may come as a POST too; a body is dropped */
    bool generates;    /* counts as in flight; refused while draining */
    lf_route_fn *handle;
    lf_answer_fn *answer_body;           /* of lf_handle_body */
    const struct lf_dialect *dialect;    /* of lf_answer_generate; errors have its form too. NULL: OpenAI's errors */
    const struct lf_field_table *fields; /* a body without a dialect: what it has, */
    unsigned endpoint;                   /* its bit in that table, */
    lf_parse_fn *parse;                  /* and who reads it; NULL: lf_ask_read */
    const char *answers_text;            /* media type of an answer that is no JSON; NULL: it is */
    const char *summary;                 /* what it is for, in a line, and */
    const char *answer;                  /* what comes back, in Markdown: for docs/api.md */
};

/* The first row of a path, whatever the method; NULL: no such path. tail_at: where the rest of the path begins, and
 * lf_route_end_bytes of it belong to the route. */
const struct lf_route *lf_route_find(struct lf_str path, size_t *tail_at);
size_t lf_route_end_bytes(const struct lf_route *route);
/* Its path for people: what stands for a name is `name`. */
void lf_route_write_path(struct lf_buf *out, const struct lf_route *route, const char *name);
/* The row of the same path that answers a method; NULL: none does. */
const struct lf_route *lf_route_with_method(const struct lf_route *route, const char *method);
static inline bool lf_route_has_body(const struct lf_route *route)
{
    return route->method[0] == 'P';
}
/* Whether it is everything below its path, and not that alone. */
static inline bool lf_route_is_below(const struct lf_route *route)
{
    size_t n = strlen(route->path);
    return n > 1 && route->path[n - 1] == '/';
}
/* Whether a part of its path is an id: what is below it, or where its star is. */
static inline bool lf_route_has_id(const struct lf_route *route)
{
    return lf_route_is_below(route) || strchr(route->path, '*');
}
/* What other servers offer at a path that is none here, in a word ("embeddings"); NULL: nothing that is known. */
const char *lf_route_not_offered(struct lf_str path);
/* Index for metrics, of the first row of the path. */
int lf_route_idx(const struct lf_route *route);
/* All rows. */
int lf_routes_n(void);
const struct lf_route *lf_route_at(int i);

/* The table of a route's body, and its bit in it; NULL where it has none. */
const struct lf_field_table *lf_route_fields(const struct lf_route *route, unsigned *endpoint);

lf_route_fn lf_handle_models, lf_handle_model, lf_handle_livez, lf_handle_readyz, lf_handle_metrics, lf_handle_capacity,
    lf_handle_version, lf_handle_openapi, lf_handle_page, lf_handle_page_file, lf_handle_documents, lf_handle_document,
    lf_handle_document_delete, lf_handle_response, lf_handle_response_delete;
lf_answer_fn lf_answer_generate, lf_answer_document, lf_answer_document_pin, lf_answer_document_unpin,
    lf_answer_tokenize, lf_answer_detokenize, lf_answer_apply_template, lf_answer_count_tokens;

#endif
