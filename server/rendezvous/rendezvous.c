#include "server/rendezvous/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/str.h"
#include "server/rendezvous/caller.h"
#include "server/rendezvous/door.h"
#include "server/rendezvous/identity.h"

enum { RESOLVE_PAUSE_MS = 200 };

struct meeting {
    const struct lf_rendezvous_opts *opts;
    struct lf_host_port at;
    struct lf_secret secret;
    struct lf_wait wait;
    struct lf_member members[LF_RANKS_N];
};

static enum lf_status check_opts(const struct lf_rendezvous_opts *o, struct lf_host_port *at, struct lf_err *err)
{
    if (o->n_ranks < 1 || o->n_ranks > LF_RANKS_N)
        return lf_fail(err, LF_INVALID, "expected 1 to %d ranks, got %d", LF_RANKS_N, o->n_ranks);
    if (o->rank < 0 || o->rank >= o->n_ranks)
        return lf_fail(err, LF_INVALID, "expected a rank of 0 to %d, got %d", o->n_ranks - 1, o->rank);
    if (o->n_secret < LF_SECRET_MIN_BYTES || o->n_secret > LF_SECRET_MAX_BYTES)
        return lf_fail(err, LF_INVALID, "expected a secret of %d to %d bytes, got %zu", LF_SECRET_MIN_BYTES,
                       LF_SECRET_MAX_BYTES, o->n_secret);
    if (o->timeout_ms <= 0) return lf_fail(err, LF_INVALID, "expected a timeout above 0 ms, got %d", o->timeout_ms);
    if (!lf_identity_is_valid(o->identity))
        return lf_fail(err, LF_INVALID, "expected an identity of %d bytes of text at most", LF_IDENTITY_BYTES);
    return lf_host_port_parse(at, o->address, err);
}

/* A message with a mac to a member, from this side of its connection. */
static enum lf_status send_signed(const struct meeting *g, int rank, struct lf_message *m, const struct lf_wait *wait)
{
    enum lf_wire_role role = rank > g->opts->rank ? LF_WIRE_DOOR : LF_WIRE_CALLER;
    lf_wire_sign(m, &g->members[rank].transcript, role, g->secret);
    return lf_stream_put(g->members[rank].fd, m, wait);
}

static enum lf_status fail_lost(enum lf_status status, int rank, const char *doing, struct lf_err *err)
{
    if (status == LF_IO) return lf_fail(err, LF_DEVICE, "rank %d went away while %s", rank, doing);
    if (status == LF_TIMEOUT) return lf_fail(err, status, "rank %d did not come in time while %s", rank, doing);
    if (status == LF_CANCELLED) return lf_fail(err, status, "stopped while %s", doing);
    return lf_fail(err, LF_CORRUPT, "rank %d sent what it must not while %s", rank, doing);
}

/* The next message of a member, with its mac checked. */
static enum lf_status take_signed(const struct meeting *g, int rank, struct lf_message *m, const char *doing,
                                  struct lf_err *err)
{
    enum lf_wire_role role = rank > g->opts->rank ? LF_WIRE_CALLER : LF_WIRE_DOOR;
    struct lf_wait wait = g->wait;
    int version = 0;
    wait.watch_fd = -1;
    enum lf_status status = lf_stream_take(g->members[rank].fd, m, &version, &wait);
    if (status != LF_OK) return fail_lost(status, rank, doing, err);
    bool is_signed =
        m->type == LF_WIRE_READY || m->type == LF_WIRE_TABLE || m->type == LF_WIRE_GO || m->type == LF_WIRE_END;
    if (!is_signed || !lf_wire_verify(m, &g->members[rank].transcript, role, g->secret))
        return fail_lost(LF_CORRUPT, rank, doing, err);
    return LF_OK;
}

/* What rank 0 says: this, or why it is over. */
static enum lf_status take_from_first(const struct meeting *g, enum lf_wire_type type, struct lf_message *m,
                                      struct lf_err *err)
{
    enum lf_status status = take_signed(g, 0, m, "the other ranks were awaited", err);
    if (status != LF_OK || m->type == type) return status;
    if (m->type != LF_WIRE_END) return fail_lost(LF_CORRUPT, 0, "the other ranks were awaited", err);
    status = m->code > LF_OK && m->code <= LF_QUOTA ? (enum lf_status)m->code : LF_CORRUPT;
    return lf_fail(err, status, "rank 0 gave up: %.480s", m->text);
}

/* Rank 0 is told by its own name where it is, which may not be known yet; the first address that can be listened at. */
static enum lf_status listen_first(int *fd, const struct meeting *g, struct lf_err *err)
{
    struct lf_address addresses[LF_ADDRESSES_N];
    int n = 0;
    enum lf_status status = lf_address_resolve(addresses, &n, &g->at, err);
    while (status == LF_NOT_FOUND) {
        enum lf_status over = lf_wait_sleep(&g->wait, RESOLVE_PAUSE_MS);
        if (over == LF_CANCELLED) return lf_fail(err, over, "stopped while looking for %.128s", g->at.host);
        if (over != LF_OK) return status;
        status = lf_address_resolve(addresses, &n, &g->at, err);
    }
    if (status != LF_OK) return status;
    for (int i = 0; i < n; i++) {
        status = lf_address_listen(fd, &addresses[i], err);
        if (status == LF_OK) return status;
    }
    return status;
}

/* Waits at the listener, which is closed in any case, for all ranks above this one. */
static enum lf_status await_above(struct meeting *g, int listener, struct lf_err *err)
{
    struct lf_door *door = NULL;
    const struct lf_door_opts opts = {.listener = listener,
                                      .rank = g->opts->rank,
                                      .n_ranks = g->opts->n_ranks,
                                      .secret = g->secret,
                                      .identity = g->opts->identity};
    enum lf_status status = lf_door_open(&door, &opts, err);
    if (status != LF_OK) {
        close(listener);
        return status;
    }
    status = lf_door_wait(door, g->members, &g->wait, err);
    lf_door_close(door);
    return status;
}

static enum lf_status send_to_all(const struct meeting *g, struct lf_message *m, const char *doing, struct lf_err *err)
{
    for (int r = 1; r < g->opts->n_ranks; r++) {
        enum lf_status status = send_signed(g, r, m, &g->wait);
        if (status != LF_OK) return fail_lost(status, r, doing, err);
    }
    return LF_OK;
}

static enum lf_status fail_not_ready(const bool ready[LF_RANKS_N], int n_ranks, enum lf_status status,
                                     struct lf_err *err)
{
    char text[128] = "";
    size_t n = 0;
    for (int r = 1; r < n_ranks; r++)
        if (!ready[r]) n += (size_t)snprintf(text + n, sizeof text - n, "%s%d", n ? ", " : "", r);
    if (status == LF_CANCELLED) return lf_fail(err, status, "stopped while rank %s connected to the others", text);
    return lf_fail(err, status, "rank %s of %d did not reach all others in time", text, n_ranks);
}

/* READY of each, in any order. */
static enum lf_status await_ready(const struct meeting *g, struct lf_err *err)
{
    static const char doing[] = "it connected to the other ranks";
    bool ready[LF_RANKS_N] = {0};
    int n_ready = 0, n_ranks = g->opts->n_ranks;
    while (n_ready < n_ranks - 1) {
        struct pollfd p[LF_RANKS_N];
        enum lf_status status = lf_wait_check(&g->wait);
        if (status != LF_OK) return fail_not_ready(ready, n_ranks, status, err);
        for (int r = 0; r < n_ranks; r++)
            p[r] = (struct pollfd){.fd = ready[r] ? -1 : g->members[r].fd, .events = POLLIN};
        int n = poll(p, (nfds_t)n_ranks, lf_wait_ms(&g->wait));
        if (n < 0 && errno != EINTR) return lf_fail(err, LF_IO, "cannot wait for ranks: %s", strerror(errno));
        for (int r = 1; n > 0 && r < n_ranks; r++) {
            struct lf_message m;
            if (!p[r].revents) continue;
            status = take_signed(g, r, &m, doing, err);
            if (status == LF_OK && m.type != LF_WIRE_READY) status = fail_lost(LF_CORRUPT, r, doing, err);
            if (status != LF_OK) return status;
            ready[r] = true;
            n_ready++;
        }
    }
    return LF_OK;
}

/* The others are told why, those who take it at once. */
static void end_all(const struct meeting *g, enum lf_status status, const struct lf_err *err)
{
    struct lf_message m = {.type = LF_WIRE_END, .code = (int)status};
    size_t n = strnlen(err->message, sizeof err->message - 1);
    for (size_t i = 0; i < n; i++) m.text[i] = (unsigned char)err->message[i] < 0x20 ? ' ' : err->message[i];
    for (; n > 0 && !lf_utf8_valid(lf_str_from(m.text, n)); n--) m.text[n - 1] = 0;
    for (int r = 1; r < g->opts->n_ranks; r++) {
        if (g->members[r].fd < 0) continue;
        lf_wire_sign(&m, &g->members[r].transcript, LF_WIRE_DOOR, g->secret);
        (void)lf_stream_put_now(g->members[r].fd, &m);
    }
}

static enum lf_status meet_as_first(struct meeting *g, struct lf_err *err)
{
    struct lf_message table = {.type = LF_WIRE_TABLE}, go = {.type = LF_WIRE_GO};
    int listener = -1;
    enum lf_status status = listen_first(&listener, g, err);
    if (status == LF_OK) status = await_above(g, listener, err);
    for (int r = 1; r < g->opts->n_ranks; r++) table.table[r] = g->members[r].address;
    if (status == LF_OK) status = send_to_all(g, &table, "it was told of the others", err);
    if (status == LF_OK) status = await_ready(g, err);
    if (status == LF_OK) status = send_to_all(g, &go, "it was told that all are in", err);
    if (status != LF_OK) end_all(g, status, err);
    return status;
}

/* From the table on: those below are called, those above come. */
static enum lf_status meet_others(struct meeting *g, struct lf_caller *caller, const struct lf_message *table,
                                  struct lf_err *err)
{
    for (int r = 1; r < g->opts->rank; r++) {
        if (table->table[r].family == 0) return lf_fail(err, LF_CORRUPT, "rank 0 did not say where rank %d is", r);
        struct lf_address at = lf_address_of_wire(&table->table[r], g->members[0].fd);
        enum lf_status status = lf_call_rank(&g->members[r], caller, r, &at, &g->wait, err);
        if (status != LF_OK) return status;
    }
    int listener = caller->listener;
    caller->listener = -1;
    return await_above(g, listener, err);
}

static enum lf_status meet_as_other(struct meeting *g, struct lf_err *err)
{
    struct lf_caller caller = {.rank = g->opts->rank,
                               .n_ranks = g->opts->n_ranks,
                               .secret = g->secret,
                               .identity = g->opts->identity,
                               .listener = -1};
    struct lf_message table, ready = {.type = LF_WIRE_READY}, go;
    enum lf_status status = lf_call_first(&g->members[0], &caller, &g->at, &g->wait, err);
    if (status == LF_OK) status = take_from_first(g, LF_WIRE_TABLE, &table, err);
    if (status == LF_OK) {
        g->wait.watch_fd = g->members[0].fd;
        status = meet_others(g, &caller, &table, err);
        g->wait.watch_fd = -1;
        if (status == LF_OK) {
            status = send_signed(g, 0, &ready, &g->wait);
            if (status != LF_OK) status = fail_lost(status, 0, "the other ranks were awaited", err);
        }
        bool is_early = status == LF_SHUTDOWN; /* rank 0 has given up, or it is not what it was */
        if (status == LF_OK || is_early) status = take_from_first(g, LF_WIRE_GO, &go, err);
        if (status == LF_OK && is_early) status = fail_lost(LF_CORRUPT, 0, "the other ranks were awaited", err);
    }
    if (caller.listener >= 0) close(caller.listener);
    return status;
}

static bool make_plain(int fd)
{
    const int on = 1;
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0 &&
           setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0;
}

/* To the caller as blocking sockets, or closed. */
static enum lf_status hand_out(int sockets[LF_RANKS_N], struct meeting *g, enum lf_status status, struct lf_err *err)
{
    for (int r = 0; status == LF_OK && r < LF_RANKS_N; r++)
        if (g->members[r].fd >= 0 && !make_plain(g->members[r].fd))
            status = lf_fail(err, LF_IO, "the connection to rank %d cannot be set up: %s", r, strerror(errno));
    for (int r = 0; r < LF_RANKS_N; r++) {
        sockets[r] = status == LF_OK ? g->members[r].fd : -1;
        if (status != LF_OK && g->members[r].fd >= 0) close(g->members[r].fd);
    }
    return status;
}

enum lf_status lf_rendezvous(int sockets[LF_RANKS_N], const struct lf_rendezvous_opts *opts, struct lf_err *err)
{
    struct lf_err local = {0};
    struct meeting g = {.opts = opts, .secret = {opts->secret, opts->n_secret}};
    for (int r = 0; r < LF_RANKS_N; r++) {
        sockets[r] = -1;
        g.members[r].fd = -1;
    }
    enum lf_status status = check_opts(opts, &g.at, &local);
    g.wait = (struct lf_wait){
        .deadline_ns = lf_clock_ns() + opts->timeout_ms * LF_NS_PER_MS, .stop = opts->stop, .watch_fd = -1};
    if (status == LF_OK && opts->n_ranks > 1)
        status = opts->rank == 0 ? meet_as_first(&g, &local) : meet_as_other(&g, &local);
    if (status == LF_OK)
        status = hand_out(sockets, &g, status, &local);
    else
        (void)hand_out(sockets, &g, status, &local);
    if (status != LF_OK && err) *err = local;
    return status;
}
