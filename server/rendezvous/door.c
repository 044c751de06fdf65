#include "server/rendezvous/door.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/log.h"
#include "server/rendezvous/address.h"
#include "server/rendezvous/identity.h"

enum { ACCEPTS_N = 16, LISTENER_REST_MS = 20, POLLED_N = 2 + LF_DOOR_SLOTS_N };

struct slot {
    int fd; /* -1: free */
    bool is_challenged;
    int64_t since_ns;
    struct lf_transcript transcript;
    size_t n; /* of bytes */
    uint8_t bytes[LF_WIRE_BYTES_MOST];
};

/* One line a second and what it leaves out. */
struct log_rate {
    int64_t next_ns;
    int n_left_out;
};

struct lf_door {
    struct lf_door_opts opts;
    struct lf_member members[LF_RANKS_N];
    struct slot slots[LF_DOOR_SLOTS_N];
    struct log_rate strangers, refusals; /* apart: strangers do not silence what ranks are told */
    int64_t listener_rests_ns;           /* no descriptor is free: it is not asked before */
    char refused[LF_ERR_MESSAGE_BYTES];  /* the last of who had proven the secret; empty: nobody */
};

static void report(struct log_rate *rate, const char *what)
{
    int64_t now = lf_clock_ns();
    if (now < rate->next_ns) {
        rate->n_left_out++;
        return;
    }
    if (rate->n_left_out > 0)
        LF_WARN("rendezvous: %s (and %d more of this kind)", what, rate->n_left_out);
    else
        LF_WARN("rendezvous: %s", what);
    *rate = (struct log_rate){.next_ns = now + LF_NS_PER_S};
}

static void close_fd(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

enum lf_status lf_door_open(struct lf_door **out, const struct lf_door_opts *opts, struct lf_err *err)
{
    struct lf_door *door = calloc(1, sizeof *door);
    if (!door) return lf_fail(err, LF_NO_MEMORY, "no memory for a rendezvous");
    door->opts = *opts;
    for (int i = 0; i < LF_DOOR_SLOTS_N; i++) door->slots[i].fd = -1;
    for (int r = 0; r < LF_RANKS_N; r++) door->members[r].fd = -1;
    *out = door;
    return LF_OK;
}

void lf_door_close(struct lf_door *door)
{
    if (!door) return;
    close_fd(&door->opts.listener);
    for (int i = 0; i < LF_DOOR_SLOTS_N; i++) close_fd(&door->slots[i].fd);
    for (int r = 0; r < LF_RANKS_N; r++) close_fd(&door->members[r].fd);
    free(door);
}

static void name_peer(char out[LF_ADDRESS_TEXT_BYTES], int fd)
{
    struct lf_address a = {.n = sizeof a.sa};
    if (getpeername(fd, (struct sockaddr *)&a.sa, &a.n) == 0)
        lf_address_text(out, &a);
    else
        snprintf(out, LF_ADDRESS_TEXT_BYTES, "an address that is gone");
}

static void drop_stranger(struct lf_door *door, struct slot *slot, const char *why)
{
    char peer[LF_ADDRESS_TEXT_BYTES], line[256];
    name_peer(peer, slot->fd);
    snprintf(line, sizeof line, "%s: %s", peer, why);
    report(&door->strangers, line);
    close_fd(&slot->fd);
}

static void deny(struct lf_door *door, struct slot *slot, const char *why)
{
    (void)lf_stream_put_now(slot->fd, &(struct lf_message){.type = LF_WIRE_DENIED});
    drop_stranger(door, slot, why);
}

static void challenge(struct lf_door *door, struct slot *slot, const struct lf_message *hello)
{
    struct lf_message m = {.type = LF_WIRE_CHALLENGE};
    struct lf_transcript *t = &slot->transcript;
    *t = (struct lf_transcript){.rank = hello->rank, .to = hello->to, .n_ranks = hello->n_ranks};
    if (!lf_random_bytes(t->door_nonce, sizeof t->door_nonce)) {
        drop_stranger(door, slot, "the system has no random bytes for a challenge");
        return;
    }
    memcpy(t->caller_nonce, hello->nonce, sizeof t->caller_nonce);
    memcpy(m.nonce, t->door_nonce, sizeof m.nonce);
    slot->is_challenged = true;
    if (!lf_stream_put_now(slot->fd, &m)) close_fd(&slot->fd);
}

/* A member whose connection is gone makes room for another process of its rank. */
static void forget_gone(struct lf_door *door)
{
    for (int r = 0; r < door->opts.n_ranks; r++) {
        struct lf_member *m = &door->members[r];
        if (m->fd < 0 || !lf_stream_is_gone(m->fd)) continue;
        LF_WARN("rendezvous: rank %d went away before all were in", r);
        close_fd(&m->fd);
    }
}

static enum lf_answer judge(struct lf_door *door, const struct lf_transcript *t, const char *identity)
{
    if (t->n_ranks != door->opts.n_ranks) return LF_ANSWER_COUNT;
    if (t->to != door->opts.rank || t->rank <= door->opts.rank || t->rank >= door->opts.n_ranks) return LF_ANSWER_RANK;
    if (strcmp(identity, door->opts.identity) != 0) return LF_ANSWER_IDENTITY;
    forget_gone(door);
    return door->members[t->rank].fd >= 0 ? LF_ANSWER_TAKEN : LF_ANSWER_WELCOME;
}

static void report_refusal(struct lf_door *door, const struct slot *slot, enum lf_answer answer, const char *identity)
{
    char peer[LF_ADDRESS_TEXT_BYTES], why[LF_ERR_MESSAGE_BYTES - 128];
    const struct lf_transcript *t = &slot->transcript;
    name_peer(peer, slot->fd);
    if (answer == LF_ANSWER_IDENTITY)
        lf_identity_compare(why, sizeof why, "it", identity, "this rank", door->opts.identity);
    else if (answer == LF_ANSWER_COUNT)
        snprintf(why, sizeof why, "it expects %d ranks, this rank %d", t->n_ranks, door->opts.n_ranks);
    else if (answer == LF_ANSWER_RANK)
        snprintf(why, sizeof why, "it calls rank %d of ranks below %d, this is rank %d of %d", t->to, t->rank,
                 door->opts.rank, door->opts.n_ranks);
    else
        snprintf(why, sizeof why, "that rank is in already");
    snprintf(door->refused, sizeof door->refused, "rank %d at %s was refused: %s", t->rank, peer, why);
    report(&door->refusals, door->refused);
}

static void answer_proof(struct lf_door *door, struct slot *slot, const struct lf_message *proof)
{
    const struct lf_transcript *t = &slot->transcript;
    if (!lf_wire_verify(proof, t, LF_WIRE_CALLER, door->opts.secret)) {
        deny(door, slot, "its secret differs");
        return;
    }
    enum lf_answer answer = judge(door, t, proof->text);
    struct lf_message m = {
        .type = LF_WIRE_ANSWER, .rank = t->rank, .to = door->opts.rank, .n_ranks = door->opts.n_ranks};
    m.code = (int)answer;
    snprintf(m.text, sizeof m.text, "%s", door->opts.identity);
    lf_wire_sign(&m, t, LF_WIRE_DOOR, door->opts.secret);
    bool is_sent = lf_stream_put_now(slot->fd, &m);
    if (answer != LF_ANSWER_WELCOME) report_refusal(door, slot, answer, proof->text);
    if (answer != LF_ANSWER_WELCOME || !is_sent) {
        close_fd(&slot->fd);
        return;
    }
    door->members[t->rank] = (struct lf_member){.fd = slot->fd, .transcript = *t, .address = proof->address};
    slot->fd = -1;
}

static void take_message(struct lf_door *door, struct slot *slot)
{
    struct lf_message m;
    bool is_whole = lf_wire_get(&m, slot->bytes);
    slot->n = 0;
    if (!is_whole)
        drop_stranger(door, slot, "it sent a message that cannot be");
    else if (m.type == LF_WIRE_HELLO)
        challenge(door, slot, &m);
    else
        answer_proof(door, slot, &m);
}

/* The bytes that the slot's message is known to have: its head, and once that is in and is the one expected, all of
 * it. 0: the slot is closed. */
static size_t bytes_expected(struct lf_door *door, struct slot *slot)
{
    enum lf_wire_type type, expected = slot->is_challenged ? LF_WIRE_PROOF : LF_WIRE_HELLO;
    int version = 0;
    if (slot->n < LF_WIRE_HEAD_BYTES) return LF_WIRE_HEAD_BYTES;
    enum lf_wire_check check = lf_wire_head(&type, &version, slot->bytes);
    if (check == LF_WIRE_KNOWN && type == expected) return lf_wire_bytes(type);
    if (check == LF_WIRE_OTHER_VERSION)
        deny(door, slot, "it speaks another version of the protocol");
    else
        drop_stranger(door, slot, "it is no rank");
    return 0;
}

/* Reads until the socket has no more or the slot is done with: two messages at most. */
static void read_slot(struct lf_door *door, struct slot *slot)
{
    while (slot->fd >= 0) {
        size_t expected = bytes_expected(door, slot);
        if (expected == 0) return;
        if (slot->n == expected) {
            take_message(door, slot);
            continue;
        }
        ssize_t got = recv(slot->fd, slot->bytes + slot->n, expected - slot->n, MSG_DONTWAIT);
        if (got > 0)
            slot->n += (size_t)got;
        else if (got < 0 && errno == EINTR)
            continue;
        else if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        else
            close_fd(&slot->fd);
    }
}

/* A free one, or the one that makes room. */
static struct slot *find_slot(struct lf_door *door)
{
    struct slot *oldest = &door->slots[0];
    for (int i = 0; i < LF_DOOR_SLOTS_N; i++) {
        struct slot *s = &door->slots[i];
        if (s->fd < 0) return s;
        bool is_less_worth =
            s->is_challenged != oldest->is_challenged ? oldest->is_challenged : s->since_ns < oldest->since_ns;
        if (is_less_worth) oldest = s;
    }
    drop_stranger(door, oldest, "it has proven nothing, and others wait");
    return oldest;
}

/* Where no descriptor is free the listener rests for a moment: polled, it would be ready at once, for ever. */
static enum lf_status accept_failed(struct lf_door *door, int reason, struct lf_err *err)
{
    if (reason == EMFILE || reason == ENFILE || reason == ENOBUFS || reason == ENOMEM) {
        report(&door->strangers, "a connection cannot be accepted: the system has no room for it");
        door->listener_rests_ns = lf_clock_ns() + LISTENER_REST_MS * LF_NS_PER_MS;
        return LF_OK;
    }
    if (reason == EBADF || reason == EINVAL || reason == ENOTSOCK)
        return lf_fail(err, LF_IO, "cannot accept connections: %s", strerror(reason));
    return LF_OK; /* nobody waits, or who waited is gone: accept(2) passes on the network's errors too */
}

static enum lf_status accept_some(struct lf_door *door, struct lf_err *err)
{
    for (int i = 0; i < ACCEPTS_N; i++) {
        int fd = accept4(door->opts.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && errno == EINTR) continue;
        if (fd < 0) return accept_failed(door, errno, err);
        struct slot *slot = find_slot(door);
        slot->fd = fd;
        slot->is_challenged = false;
        slot->n = 0;
        slot->since_ns = lf_clock_ns();
        read_slot(door, slot);
    }
    return LF_OK;
}

static void drop_late(struct lf_door *door)
{
    int64_t oldest_ns = lf_clock_ns() - LF_DOOR_SLOT_MS * LF_NS_PER_MS;
    for (int i = 0; i < LF_DOOR_SLOTS_N; i++)
        if (door->slots[i].fd >= 0 && door->slots[i].since_ns < oldest_ns)
            drop_stranger(door, &door->slots[i], "it has not proven itself in time");
}

/* What is waited for: the listener unless it rests, who may say that it is over, and the slots in use, no more: poll
 * refuses a set larger than the limit of descriptors. Returns how many; at[] has the slot of each, NULL for the first
 * two. */
static nfds_t gather(struct lf_door *door, const struct lf_wait *wait, bool rests, struct pollfd p[POLLED_N],
                     struct slot *at[POLLED_N])
{
    nfds_t n = 2;
    p[0] = (struct pollfd){.fd = rests ? -1 : door->opts.listener, .events = POLLIN};
    p[1] = (struct pollfd){.fd = wait->watch_fd, .events = POLLIN};
    for (int i = 0; i < LF_DOOR_SLOTS_N; i++) {
        if (door->slots[i].fd < 0) continue;
        at[n] = &door->slots[i];
        p[n++] = (struct pollfd){.fd = door->slots[i].fd, .events = POLLIN};
    }
    return n;
}

/* One round of the loop: what slots have sent, before anybody new. */
static enum lf_status poll_once(struct lf_door *door, const struct lf_wait *wait, struct lf_err *err)
{
    struct pollfd p[POLLED_N];
    struct slot *at[POLLED_N];
    bool rests = lf_clock_ns() < door->listener_rests_ns;
    nfds_t n = gather(door, wait, rests, p, at);
    int timeout_ms = lf_wait_ms(wait);
    int ready = poll(p, n, rests ? LF_MIN(timeout_ms, LISTENER_REST_MS) : timeout_ms);
    if (ready < 0 && errno == EINTR) return LF_OK;
    if (ready < 0) return lf_fail(err, LF_IO, "cannot wait for connections: %s", strerror(errno));
    if (p[1].revents) return lf_fail(err, LF_SHUTDOWN, "rank 0 has something to say");
    for (nfds_t i = 2; i < n; i++)
        if (p[i].revents) read_slot(door, at[i]);
    drop_late(door);
    return p[0].revents ? accept_some(door, err) : LF_OK;
}

/* Whether all are in, and still are. */
static bool is_complete(struct lf_door *door)
{
    for (int r = door->opts.rank + 1; r < door->opts.n_ranks; r++)
        if (door->members[r].fd < 0) return false;
    forget_gone(door);
    for (int r = door->opts.rank + 1; r < door->opts.n_ranks; r++)
        if (door->members[r].fd < 0) return false;
    return true;
}

static enum lf_status fail_waiting(const struct lf_door *door, enum lf_status status, struct lf_err *err)
{
    char missing[128] = "";
    size_t n = 0;
    int n_missing = 0;
    for (int r = door->opts.rank + 1; r < door->opts.n_ranks; r++) {
        if (door->members[r].fd >= 0) continue;
        n += (size_t)snprintf(missing + n, sizeof missing - n, "%s%d", n_missing++ ? ", " : "", r);
        LF_ASSERT(n < sizeof missing);
    }
    if (status == LF_CANCELLED)
        return lf_fail(err, status, "stopped while waiting for rank%s %s", n_missing > 1 ? "s" : "", missing);
    return lf_fail(err, status, "rank%s %s of %d did not come in time%s%s", n_missing > 1 ? "s" : "", missing,
                   door->opts.n_ranks, door->refused[0] ? "; " : "", door->refused);
}

static enum lf_status wait_for_all(struct lf_door *door, const struct lf_wait *wait, struct lf_err *err)
{
    while (!is_complete(door)) {
        enum lf_status status = lf_wait_check(wait);
        if (status != LF_OK) return fail_waiting(door, status, err);
        status = poll_once(door, wait, err);
        if (status != LF_OK) return status;
    }
    return LF_OK;
}

enum lf_status lf_door_wait(struct lf_door *door, struct lf_member members[LF_RANKS_N], const struct lf_wait *wait,
                            struct lf_err *err)
{
    enum lf_status status = wait_for_all(door, wait, err);
    for (int r = door->opts.rank + 1; r < door->opts.n_ranks; r++) {
        members[r] = door->members[r];
        door->members[r].fd = -1;
    }
    return status;
}
