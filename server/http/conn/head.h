/* The head of a request: everything that can be said before its body, in the order in which it is said. */
#ifndef LF_SERVER_HTTP_CONN_HEAD_H
#define LF_SERVER_HTTP_CONN_HEAD_H

#include <stdbool.h>

struct lf_exchange;

struct lf_head_verdict {
    bool answer_now; /* with an answer known: without reading the body first */
};

/* Reads what the exchange needs of the head (route, ids, tenant, CORS). Where the answer is known by now, a refusal or
 * that to OPTIONS, it is in x->reply. */
struct lf_head_verdict lf_head_check(struct lf_exchange *x, const char *url, const char *method, const char *version);

#endif
