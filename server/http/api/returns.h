/* Returns: documents of the process before, on their way into the cache, one at a time, on a thread of their own.
 *
 * What was put before a restart has its name and its text again (server/documents/keeper.h). Its beginning is made as
 * it was: where all its full blocks are on disk it is ready, and comes from there when somebody asks for it; else it is
 * read as one that is put, and the next one waits until that has ended. A queue that is full is tried again.
 *
 * Those that are pinned come first, and until they have all been named nothing that is on disk makes room for another.
 *
 * The same thread lets go of documents whose time is over: that waits for the disk. */
#ifndef LF_SERVER_HTTP_API_RETURNS_H
#define LF_SERVER_HTTP_API_RETURNS_H

#include <pthread.h>
#include <stdbool.h>

#include "core/status.h"

struct lf_document;
struct lf_http_server;

struct lf_returns {
    pthread_t thread;
    bool is_running;
    struct lf_document **documents; /* [n], owned, as a reference on each that has not had its turn */
    int n, n_pinned;                /* the first n_pinned are pinned */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stops; /* under the lock */
};

/* Begins once the server is ready. Without a directory for documents nothing is started. */
LF_MUST_CHECK enum lf_status lf_returns_start(struct lf_http_server *s, struct lf_err *err);
/* Before the first request: what is on disk makes no room for anything until all that is pinned has had its turn. */
void lf_returns_guard(struct lf_http_server *s);
void lf_returns_stop(struct lf_http_server *s); /* accepts that it was not started */

#endif
