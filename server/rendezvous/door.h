/* The door of a rank: the side of the handshake that listens (rendezvous.h).
 *
 * One poll loop, no thread. A caller has a slot until it has proven the secret: a socket, a deadline and a buffer of
 * the largest message it may send. A state of a slot expects one message:
 *
 *     accepted ── HELLO / CHALLENGE ──> challenged ── PROOF / ANSWER ──> in, or refused and closed
 *
 * and whatever else comes closes it: foreign bytes without a word, another version and a wrong proof with DENIED. There
 * are LF_DOOR_SLOTS_N slots, each for LF_DOOR_SLOT_MS; where none is free the oldest that has not even said HELLO makes
 * room, else the oldest. An answer that the socket does not take at once (it is the first or second thing ever sent on
 * it) closes the slot too, so there is nothing to be sent later.
 *
 * Who is in stays in as long as its connection lives: a second claim of its rank is refused, but when the first has
 * gone away the rank is free again. One thread's own. */
#ifndef LF_SERVER_RENDEZVOUS_DOOR_H
#define LF_SERVER_RENDEZVOUS_DOOR_H

#include "server/rendezvous/stream.h"
#include "server/rendezvous/wire.h"

enum { LF_DOOR_SLOTS_N = 64, LF_DOOR_SLOT_MS = 2000 };

struct lf_door_opts {
    int listener; /* taken over: closed with the door */
    int rank;     /* whose door it is: callers are those above it */
    int n_ranks;
    struct lf_secret secret; /* borrowed */
    const char *identity;    /* borrowed */
};

/* A rank that has proven itself. */
struct lf_member {
    int fd; /* -1: not in. Non-blocking */
    struct lf_transcript transcript;
    struct lf_wire_address address; /* of its listener */
};

struct lf_door;
/* LF_NO_MEMORY: the listener is then still the caller's. */
LF_MUST_CHECK enum lf_status lf_door_open(struct lf_door **out, const struct lf_door_opts *opts, struct lf_err *err);
/* Until all ranks above are in, and moves them to members[rank]; on failure those that are in, so that they can be
 * told. LF_TIMEOUT with the ranks that did not come, and why the last one was refused; LF_CANCELLED, LF_SHUTDOWN
 * (lf_wait_fd), LF_IO. */
LF_MUST_CHECK enum lf_status lf_door_wait(struct lf_door *door, struct lf_member members[LF_RANKS_N],
                                          const struct lf_wait *wait, struct lf_err *err);
/* Closes the listener, every slot, and the sockets that were not moved. Accepts NULL. */
void lf_door_close(struct lf_door *door);

#endif
