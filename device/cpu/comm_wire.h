/* The wire between ranks that are processes, on one host or on several: what a rank writes into its slots and channels
 * goes over sockets into the mirrors of the others (comm_shared.h).
 *
 * A socket to each other rank. On it are frames: a header of 32 bytes, little endian, and behind it `n` bytes.
 *
 *     TURN    a rank has arrived in turn `seq` of an axis, with what, bytes, and n bytes of its slot from `at` on
 *     PIECE   piece `seq` of an exchange
 *     TAKEN   piece `seq` was read
 *     BEAT    its process runs; seq: whom the rank has waited for longer than a tick, from 1 on, 0: nobody; what,
 *             bytes: for which count to be what (struct lf_comm_awaited)
 *     END     its group has ended: what is the status, the n bytes are the reason. Nothing comes behind it
 *
 * The rank's thread sends the first three. A thread of the wire sends the others, and reads: bytes go from the socket
 * to their place in the mirror, then the count is raised that the rank may wait for. It waits for nobody, so what is
 * sent is always read, whatever the ranks do, and no circle of sends stands still.
 *
 * A peer that is wrong is found out in one of four ways, each of which ends the group here, and by END in all
 * processes: its socket is closed; nothing has come from it for the timeout, in which this process ran; a send to it
 * has not got on for as long; a frame is none, or not the next one (its place, sequence number or length). Places and
 * lengths are checked before a byte of what follows is read, so a mirror is never written where its rank reads. */
#ifndef LF_DEVICE_CPU_COMM_WIRE_H
#define LF_DEVICE_CPU_COMM_WIRE_H

#include "device/cpu/comm_shared.h"

struct lf_comm_wire_opts {
    int n_ranks, rank;
    const int *sockets; /* [n_ranks], of which rank's is not looked at */
    int timeout_ms;
    struct lf_comm_shared *shared; /* borrowed: the mirror */
    /* Ends the group: called by the wire's thread, or by one that sends. It calls lf_comm_wire_end, once. */
    void (*end)(void *ctx, enum lf_status status, const char *reason);
    void *ctx;
};

struct lf_comm_wire;

/* The sockets are the wire's from here on, also where it fails. LF_NO_MEMORY, LF_IO. */
LF_MUST_CHECK enum lf_status lf_comm_wire_create(struct lf_comm_wire **out, const struct lf_comm_wire_opts *opts,
                                                 struct lf_err *err);
/* Its thread, once. LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_comm_wire_start(struct lf_comm_wire *wire, struct lf_err *err);
/* Behind lf_comm_wire_end, if it was started: a second at most, for the others to take what they are told. Accepts
 * NULL. */
void lf_comm_wire_destroy(struct lf_comm_wire *wire);

/* The rank's thread, whose count is raised already. They return when all bytes are on their way, or the group has
 * ended; `to` is a rank of the group. */
void lf_comm_wire_turn(struct lf_comm_wire *wire, int to, enum lf_comm_axis axis, uint32_t turn,
                       const struct lf_comm_slot *slot, size_t at, size_t n);
void lf_comm_wire_piece(struct lf_comm_wire *wire, int to, uint32_t seq, uint64_t message_bytes, const void *data,
                        size_t n);
void lf_comm_wire_taken(struct lf_comm_wire *wire, int to, uint32_t seq);
/* Tells the others that the group has ended. Any thread, once; returns at once. */
void lf_comm_wire_end(struct lf_comm_wire *wire, enum lf_status status, const char *reason);

#endif
