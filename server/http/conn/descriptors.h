/* How many connections the limit of descriptors (ulimit -n) has room for.
 *
 * Accepting finds out too late that there is none: until then silent connections are the ones that are accepted, and
 * whoever comes next waits for their deadlines instead of having one make room. So the table of connections is never
 * larger than the descriptors that are left when the server starts, less those that the process opens itself later on:
 * files of the model, the log, the keys. Places that are not for connections shrink with it, but those for health. */
#ifndef LF_SERVER_HTTP_CONN_DESCRIPTORS_H
#define LF_SERVER_HTTP_CONN_DESCRIPTORS_H

#include "core/status.h"

enum { LF_CONN_LEAST_N = 4 }; /* fewer connections are no server */

struct lf_descriptors {
    int n_connections;
    int n_cut;     /* of connections that are being closed */
    int n_refused; /* of those that were turned away and may still read why */
};

/* What n_free descriptors are for where n_connections are wished; n_connections below LF_CONN_LEAST_N: too few. */
struct lf_descriptors lf_descriptors_share(int n_free, int n_connections);
/* Raises the limit as far as n_connections need it and the hard limit allows, and shares out what is left. LF_LIMIT: it
 * is not enough for anything. */
LF_MUST_CHECK enum lf_status lf_descriptors_fit(struct lf_descriptors *out, int n_connections, int n_threads,
                                                struct lf_err *err);

#endif
