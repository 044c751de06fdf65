/* Where a request may come from: the Host allow-list (against DNS rebinding of a server on loopback) and CORS. */
#ifndef LF_SERVER_HTTP_CONN_ORIGIN_H
#define LF_SERVER_HTTP_CONN_ORIGIN_H

#include <stdbool.h>

#include "core/limits.h"
#include "core/str.h"
#include "server/http/conn/reply.h"

struct lf_http_opts;

/* A target in absolute form (RFC 9112 §3.2.2), http://authority/path: *path is set to what is behind the authority, "/"
 * where nothing is, and *host to the authority, which counts instead of the Host header. Any other target: both stay.
 * bad_host where the authority is none. */
LF_MUST_CHECK enum lf_status lf_target_split(const char *target, const char **path, struct lf_str *host,
                                             struct lf_api_err *err);
/* Whether a Host value (with or without port) names us. On loopback: localhost, 127.0.0.0/8, ::1 and what the options
 * allow. Elsewhere: anything, unless the options list names. */
bool lf_host_allowed(const struct lf_http_opts *opts, bool loopback, struct lf_str host);
/* 403 host_not_allowed: says which Host came, and the option that would allow it. */
LF_MUST_CHECK enum lf_status lf_refuse_host(struct lf_api_err *err, struct lf_str host);
/* The text for Access-Control-Allow-Origin, or NULL where the origin is not on the list. Borrowed from the options. */
const char *lf_cors_allow(const struct lf_http_opts *opts, struct lf_str origin);
/* The text for Access-Control-Allow-Headers: of the names in Access-Control-Request-Headers those that this server's
 * clients send, in lower case; all that have no prefix where nothing was asked for. What does not fit is left out,
 * whole names only. "" where nothing is allowed. The answer depends on the request's header: Vary says so. */
void lf_cors_headers(char out[LF_CORS_HEADERS_BYTES], struct lf_str asked);

#endif
