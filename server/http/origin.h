/* Where a request may come from: the Host allow-list (against DNS rebinding of a server on loopback) and CORS. */
#ifndef LF_SERVER_HTTP_ORIGIN_H
#define LF_SERVER_HTTP_ORIGIN_H

#include <stdbool.h>

#include "core/str.h"

struct lf_http_opts;

/* Whether a Host value (with or without port) names us. On loopback: localhost, 127.0.0.0/8, ::1 and what the options
 * allow. Elsewhere: anything, unless the options list names. */
bool lf_host_allowed(const struct lf_http_opts *opts, bool loopback, struct lf_str host);
/* The text for Access-Control-Allow-Origin, or NULL where the origin is not on the list. Borrowed from the options. */
const char *lf_cors_allow(const struct lf_http_opts *opts, struct lf_str origin);

#endif
