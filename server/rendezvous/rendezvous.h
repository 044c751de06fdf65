/* The rendezvous: how the processes of a group's ranks find and trust each other over TCP.
 *
 * Every rank knows its number, how many there are, where rank 0 is, and a secret. When lf_rendezvous returns, each
 * process has a connected socket to each other one, and all of them have proven that they know the secret and run the
 * same program with the same model. Nothing listens any more.
 *
 *     rank 0                                   rank i                          rank j, i < j
 *     listens at the address
 *        <──────── caller, handshake ──────────── listens on a port of its own
 *        <──────── caller, handshake ──────────────────────────────────────────── listens on a port of its own
 *     all are in: closes its listener
 *        ──────── TABLE of addresses ──────────>  and ──────────────────────────>
 *                                                 <──────── caller, handshake ───
 *                                              closes its listener             closes its listener
 *        <──────── READY ────────────────────────  and <──────────────────────────
 *        ──────── GO ──────────────────────────>  and ──────────────────────────>
 *
 * A rank listens on the address of the interface through which it reaches rank 0, and rank 0 believes the address only
 * with the proof. GO makes "all are in" one fact: where a rank does not come, or goes away, rank 0 tells the others
 * why (END) and all of them fail with that sentence.
 *
 * The handshake (wire.h has the bytes) is a mutual challenge and response:
 *
 *     caller → door   HELLO      a nonce, the caller's rank, the rank it calls, the number of ranks
 *     door → caller   CHALLENGE  a nonce
 *     caller → door   PROOF      the caller's identity and the address of its listener
 *     door → caller   ANSWER     welcome or why not, the door's identity         or DENIED, which proves nothing
 *
 * PROOF, ANSWER and all that follows carry HMAC-SHA-256(secret, role ‖ both nonces ‖ caller ‖ called ‖ number of ranks
 * ‖ SHA-256 of the message, identity included). A recorded one has an old nonce; one that is sent back to where it came
 * from has the other role; one that is passed to another rank has another number in it. The caller proves itself first:
 * a door that anybody may reach gives nothing away, neither its identity nor material for guessing the secret. Only
 * who has proven the secret is told why it is refused; anybody else gets DENIED, and a stranger's bytes get silence.
 *
 * Who has proven nothing costs a slot of a fixed size in the door (door.h): so many at once, each for so long, and a
 * full door drops the one that has waited longest, so a flood makes a rank come again (callers do) but cannot shut it
 * out. The second claim of a rank is refused as long as the first one's connection lives.
 *
 * What it does not do: nothing is encrypted, and what is sent over the sockets afterwards is not authenticated either.
 * Who can change packets between two ranks can take over a connection behind the handshake: ranks belong in a private
 * network. Addresses are not translated: a rank behind NAT is not found by the others. Names are looked up with the
 * system's resolver, whose own timeouts count. */
#ifndef LF_SERVER_RENDEZVOUS_RENDEZVOUS_H
#define LF_SERVER_RENDEZVOUS_RENDEZVOUS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

enum { LF_SECRET_MIN_BYTES = 16, LF_SECRET_MAX_BYTES = 1024, LF_IDENTITY_BYTES = 1024 };

/* Everything is borrowed for the call. */
struct lf_rendezvous_opts {
    int rank, n_ranks;     /* of 1 to LF_RANKS_N */
    const char *address;   /* of rank 0: HOST:PORT, where HOST is IPv4, IPv6 in [], or a name */
    const uint8_t *secret; /* as from lf_rendezvous_read_secret (secret.h) */
    size_t n_secret;
    int timeout_ms;       /* for all of it; > 0 */
    const char *identity; /* equal on all ranks: the program's version, the model, the split; text of LF_IDENTITY_BYTES
                             at most */
    const atomic_bool *stop; /* ends it when it becomes true, as in a signal's handler; may be NULL */
};

/* Blocks until all ranks are in. sockets[r] is then connected to rank r's process: blocking, TCP_NODELAY,
 * close-on-exec, owned by the caller; −1 for this rank itself and for numbers that no rank has. On failure all are −1
 * and nothing is left open. Any thread, one call at a time for each rank; raises no SIGPIPE.
 *
 * LF_INVALID: an address, rank, secret or identity that cannot be one; another secret or another number of ranks than
 * rank 0's, a rank that is there already, something at the address that is no rank. LF_UNSUPPORTED: another identity
 * (both are named where they differ), another version of this protocol. LF_TIMEOUT: names the ranks that did not come.
 * LF_NOT_FOUND: the name of rank 0 is not known. LF_CANCELLED: stop. LF_IO: the system refuses a socket, the address is
 * in use. LF_DEVICE: a rank went away. LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_rendezvous(int sockets[LF_RANKS_N], const struct lf_rendezvous_opts *opts,
                                           struct lf_err *err);

#endif
