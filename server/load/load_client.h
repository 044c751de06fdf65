/* Many HTTP requests at once from one thread: non-blocking sockets over epoll.
 *
 * Each client sends one request after another on connections of their own. For each request the times of its events
 * are kept: first data, gaps between data, end. */
#ifndef LF_SERVER_LOAD_LOAD_CLIENT_H
#define LF_SERVER_LOAD_LOAD_CLIENT_H

#include <stdint.h>

#include "core/str.h"
#include "server/load/load_stats.h"
#include "server/load/load_stream.h"
#include "server/load/url.h"

enum { LF_LOAD_MESSAGE_BYTES = 256, LF_LOAD_CLIENTS_N = 4096 };

struct lf_load_spec {
    const struct lf_url *url;
    int n_clients;
    int n_requests; /* in all */
    int timeout_ms; /* of one request */
    /* Appends the whole HTTP request number idx. */
    void (*make)(void *ctx, struct lf_buf *out, uint64_t idx);
    void *make_ctx;
    /* Called about twice a second with requests done; may be NULL. */
    void (*progress)(void *ctx, int n_done, int n_failed, int64_t n_tokens);
    void *progress_ctx;
    /* Called with each answer that ended well; may be NULL. */
    void (*answered)(void *ctx, uint64_t idx, const struct lf_load_stream *stream);
    void *answered_ctx;
    enum lf_load_dialect dialect; /* of the answers, which are streams */
    bool json;                    /* the texts of answers are JSON: one that is whole and does not parse is a failure */
    struct lf_buf *body;          /* where the body of the last answer is kept; NULL: not wanted, else the answers
                                   * are no streams */
};

/* What came of it. Owned: deinit it. Times in milliseconds. */
struct lf_load_result {
    int n_ok, n_failed;
    int n_cut;                                   /* of n_ok: ended by their length; counted where they are JSON */
    int first_bad_status;                        /* of the first refusal; 0: none, or no answer */
    char first_bad[LF_LOAD_MESSAGE_BYTES];       /* its message, or what happened to the connection */
    int64_t n_tokens, n_prompt_tokens, n_cached; /* as the servers counted them, of the requests that ended well */
    double wall_ms;
    struct lf_samples ttft, gaps, e2e;
};

LF_MUST_CHECK enum lf_status lf_load_run(struct lf_load_result *out, const struct lf_load_spec *spec,
                                         struct lf_err *err);
void lf_load_result_deinit(struct lf_load_result *r);

#endif
