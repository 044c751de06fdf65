/* The calling side of the handshake (rendezvous.h): connects to a rank's door, and comes again while nobody is there or
 * the door was full, until the deadline. One thread's own. */
#ifndef LF_SERVER_RENDEZVOUS_CALLER_H
#define LF_SERVER_RENDEZVOUS_CALLER_H

#include "server/rendezvous/address.h"
#include "server/rendezvous/door.h"

struct lf_caller {
    int rank, n_ranks;
    struct lf_secret secret; /* borrowed */
    const char *identity;    /* borrowed */
    int listener;            /* -1, or the listener whose address is told; the caller's owner closes it */
    struct lf_wire_address listens_at;
};

/* Calls rank 0 at this place, whose name is looked up each time. Opens the listener beside the connection. */
LF_MUST_CHECK enum lf_status lf_call_first(struct lf_member *out, struct lf_caller *caller,
                                           const struct lf_host_port *at, const struct lf_wait *wait,
                                           struct lf_err *err);
/* Calls another rank, with the listener open. */
LF_MUST_CHECK enum lf_status lf_call_rank(struct lf_member *out, struct lf_caller *caller, int rank,
                                          const struct lf_address *at, const struct lf_wait *wait, struct lf_err *err);

#endif
