#include "device/cpu/comm_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/clock.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "frames are little endian, and so are the floats in them");

enum {
    BEATS_N = 20,       /* in a timeout */
    FAREWELL_MS = 1000, /* for END to go out, and for the others to close */
    FRAMES_AT_ONCE = 64 /* of one peer, before the others are looked at again */
};
#define MAGIC UINT32_C(0x4b52464c) /* "LFRK" */

enum kind { TURN, PIECE, TAKEN, BEAT, END };

struct frame {
    uint32_t magic;
    uint8_t kind, from, n_ranks, axis;
    uint32_t seq, what;
    uint64_t bytes; /* of the whole message */
    uint32_t at, n;
};
_Static_assert(sizeof(struct frame) == 32, "as comm_wire.h says");

struct peer {
    int rank, fd; /* fd: -1 for this rank itself */

    pthread_mutex_t lock; /* of who sends */
    char rest[sizeof(struct frame)];
    size_t n_rest; /* of a beat, that did not go out at once */
    bool is_cut;   /* it is written to no more */

    /* the wire's thread's */
    struct frame in;
    size_t n_in; /* bytes of a frame that have come, with those behind its header */
    char *into;  /* where these belong */
    char reason[LF_ERR_MESSAGE_BYTES];
    int n_silent; /* beats of ours in which nothing has come */
    bool is_closed;
};

struct lf_comm_wire {
    int n_ranks, rank, timeout_ms;
    struct lf_comm_shared *shared;
    void (*end)(void *ctx, enum lf_status status, const char *reason);
    void *ctx;
    int wake_fd;
    pthread_t thread;
    bool is_started;

    atomic_bool is_ending; /* once the next three are written */
    enum lf_status status;
    char reason[LF_ERR_MESSAGE_BYTES];
    int64_t farewell_ns; /* when the last wait ends */

    struct peer peers[LF_RANKS_N];
};

LF_PRINTF(2, 3) static void fail(struct lf_comm_wire *w, const char *fmt, ...)
{
    char reason[LF_ERR_MESSAGE_BYTES];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(reason, sizeof(reason), fmt, args);
    va_end(args);
    w->end(w->ctx, LF_DEVICE, reason);
}

/* ---- sending ---- */

/* Up to three runs of bytes, of which `done` have gone. */
struct parts {
    struct iovec of[3];
    size_t done, n;
};

static struct parts parts_of(struct peer *p, const struct frame *frame, const void *data)
{
    struct parts parts = {.n = p->n_rest + sizeof(*frame) + frame->n};
    parts.of[0] = (struct iovec){.iov_base = p->rest, .iov_len = p->n_rest};
    parts.of[1] = (struct iovec){.iov_base = (void *)(uintptr_t)frame, .iov_len = sizeof(*frame)};
    parts.of[2] = (struct iovec){.iov_base = (void *)(uintptr_t)data, .iov_len = frame->n};
    return parts;
}

/* What goes out now; false: the socket takes no more, ever. */
static bool send_some(struct peer *p, struct parts *parts)
{
    struct iovec left[3];
    size_t n_left = 0, skip = parts->done;
    for (int i = 0; i < 3; i++) {
        size_t k = LF_MIN(skip, parts->of[i].iov_len);
        skip -= k;
        if (parts->of[i].iov_len == k) continue;
        left[n_left++] = (struct iovec){(char *)parts->of[i].iov_base + k, parts->of[i].iov_len - k};
    }
    struct msghdr message = {.msg_iov = left, .msg_iovlen = n_left};
    ssize_t n = sendmsg(p->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) parts->done += (size_t)n;
    return n >= 0 || errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

/* Until there is room again: how many ms; 0 where nobody waits any more. */
static int patience_ms(struct lf_comm_wire *w)
{
    int tick_ms = LF_MAX(w->timeout_ms / LF_COMM_TICKS_N, 1);
    if (!atomic_load(&w->is_ending)) return tick_ms;
    int64_t left_ns = w->farewell_ns - lf_clock_ns();
    return left_ns <= 0 ? 0 : (int)LF_MIN((int64_t)tick_ms, left_ns / LF_NS_PER_MS + 1);
}

/* All of it, under the peer's lock; false: not so, and then nothing may follow. Ticks, not time, as in comm_cpu.c. */
static bool send_all(struct lf_comm_wire *w, struct peer *p, struct parts *parts, bool *is_late)
{
    int n_ticks = 0;
    while (parts->done < parts->n) {
        size_t before = parts->done;
        if (!send_some(p, parts)) return false;
        if (parts->done > before) n_ticks = 0;
        if (parts->done > before) continue;
        int ms = patience_ms(w);
        struct pollfd room = {.fd = p->fd, .events = POLLOUT};
        *is_late = n_ticks++ == LF_COMM_TICKS_N;
        if (ms == 0 || *is_late) return false;
        (void)poll(&room, 1, ms);
    }
    return true;
}

/* A socket that takes nothing more is no news here: its reader will say so, behind what the peer still has to say. */
static void send_frame(struct lf_comm_wire *w, int to, struct frame *frame, const void *data)
{
    struct peer *p = &w->peers[to];
    bool is_late = false;
    frame->magic = MAGIC;
    frame->from = (uint8_t)w->rank;
    frame->n_ranks = (uint8_t)w->n_ranks;
    (void)pthread_mutex_lock(&p->lock);
    if (!p->is_cut) {
        struct parts parts = parts_of(p, frame, data);
        p->is_cut = !send_all(w, p, &parts, &is_late);
        p->n_rest = 0;
    }
    (void)pthread_mutex_unlock(&p->lock);
    if (is_late) fail(w, "rank %d waited %d ms for rank %d, to take what it is sent", w->rank, w->timeout_ms, to);
}

void lf_comm_wire_turn(struct lf_comm_wire *w, int to, enum lf_comm_axis axis, uint32_t turn,
                       const struct lf_comm_slot *slot, size_t at, size_t n)
{
    LF_ASSERT(at + n <= sizeof(slot->data));
    struct frame frame = {.kind = TURN, .axis = (uint8_t)axis, .seq = turn, .what = slot->what, .bytes = slot->bytes};
    frame.at = (uint32_t)at;
    frame.n = (uint32_t)n;
    send_frame(w, to, &frame, slot->data + at);
}

void lf_comm_wire_piece(struct lf_comm_wire *w, int to, uint32_t seq, uint64_t message_bytes, const void *data,
                        size_t n)
{
    struct frame frame = {.kind = PIECE, .seq = seq, .bytes = message_bytes, .n = (uint32_t)n};
    send_frame(w, to, &frame, data);
}

void lf_comm_wire_taken(struct lf_comm_wire *w, int to, uint32_t seq)
{
    struct frame frame = {.kind = TAKEN, .seq = seq};
    send_frame(w, to, &frame, NULL);
}

/* Without waiting: where somebody sends, or there is no room, the peer hears of this process anyway. */
static void beat(struct lf_comm_wire *w, struct peer *p)
{
    struct frame frame = {.magic = MAGIC, .kind = BEAT, .from = (uint8_t)w->rank, .n_ranks = (uint8_t)w->n_ranks};
    struct lf_comm_awaited *awaited = &w->shared->awaited[w->rank];
    frame.seq = (uint32_t)atomic_load(&awaited->rank);
    frame.what = atomic_load(&awaited->count);
    frame.bytes = atomic_load(&awaited->at_least);
    if (pthread_mutex_trylock(&p->lock) != 0) return;
    struct parts parts = parts_of(p, &frame, NULL);
    if (!p->is_cut && !send_some(p, &parts)) p->is_cut = true;
    if (!p->is_cut && parts.done > 0) { /* a frame that was begun is sent whole, by whoever sends next */
        char both[2 * sizeof(frame)];
        memcpy(both, p->rest, p->n_rest);
        memcpy(both + p->n_rest, &frame, sizeof(frame));
        bool is_begun = parts.done > p->n_rest;
        size_t end = is_begun ? parts.n : p->n_rest;
        memcpy(p->rest, both + parts.done, end - parts.done);
        p->n_rest = end - parts.done;
    }
    (void)pthread_mutex_unlock(&p->lock);
}

/* ---- reading ---- */

static struct lf_comm_channel *channel_of(struct lf_comm_wire *w, int from, int to)
{
    return &w->shared->channels[from * w->n_ranks + to];
}

/* How far a number of a frame is ahead of a count. */
static uint32_t ahead(uint32_t seq, struct lf_count *count)
{
    return (seq - lf_count_value(count)) & LF_COUNT_MASK;
}

/* Each of these: whether the frame is the one that may come now, and then where what is behind its header belongs. */

static bool begin_turn(struct lf_comm_wire *w, struct peer *p)
{
    const struct frame *f = &p->in;
    if (f->axis >= LF_COMM_AXES_N || f->what >= LF_COMM_WHATS_N) return false;
    if (f->n > LF_COMM_SLOT_BYTES || f->at > LF_COMM_SLOT_BYTES - f->n) return false;
    struct lf_comm_turns *turns = &w->shared->along[f->axis];
    uint32_t mine = (lf_count_value(&turns->arrived[w->rank]) - f->seq) & LF_COUNT_MASK;
    if (ahead(f->seq, &turns->arrived[p->rank]) != 0 || mine > 1) return false;
    struct lf_comm_slot *slot = &turns->slots[p->rank][f->seq % LF_COMM_SLOTS_N];
    slot->what = (enum lf_comm_what)f->what;
    slot->bytes = f->bytes;
    p->into = slot->data + f->at;
    return true;
}

static bool begin_piece(struct lf_comm_wire *w, struct peer *p)
{
    const struct frame *f = &p->in;
    struct lf_comm_channel *ch = channel_of(w, p->rank, w->rank);
    if (f->n > LF_COMM_PIECE_BYTES || ahead(f->seq, &ch->written) != 0) return false;
    if (ahead(f->seq, &ch->read) >= LF_COMM_SLOTS_N) return false;
    ch->bytes[f->seq % LF_COMM_SLOTS_N] = f->bytes;
    p->into = ch->data[f->seq % LF_COMM_SLOTS_N];
    return true;
}

static bool begin_taken(struct lf_comm_wire *w, struct peer *p)
{
    struct lf_comm_channel *ch = channel_of(w, w->rank, p->rank);
    uint32_t n_out = (lf_count_value(&ch->written) - p->in.seq) & LF_COUNT_MASK;
    return p->in.n == 0 && ahead(p->in.seq, &ch->read) == 0 && n_out >= 1 && n_out <= LF_COMM_SLOTS_N;
}

static bool begin_end(struct peer *p)
{
    p->into = p->reason;
    return p->in.n < sizeof(p->reason) && p->in.what > LF_OK && p->in.what <= LF_QUOTA;
}

static bool begin(struct lf_comm_wire *w, struct peer *p)
{
    const struct frame *f = &p->in;
    if (f->magic != MAGIC || f->from != p->rank || f->n_ranks != w->n_ranks) return false;
    switch (f->kind) {
    case TURN:
        return begin_turn(w, p);
    case PIECE:
        return begin_piece(w, p);
    case TAKEN:
        return begin_taken(w, p);
    case BEAT:
        return f->n == 0 && f->seq <= (uint32_t)w->n_ranks &&
               (size_t)f->what * LF_COUNT_ALIGN + sizeof(struct lf_count) <= lf_comm_shared_bytes(w->n_ranks);
    case END:
        return begin_end(p);
    default:
        return false;
    }
}

/* It has its reason from another process: printed as one line. */
static void take_end(struct lf_comm_wire *w, struct peer *p)
{
    for (uint32_t i = 0; i < p->in.n; i++)
        if ((unsigned char)p->reason[i] < ' ' || p->reason[i] == 0x7f) p->reason[i] = '?';
    p->reason[p->in.n] = 0;
    w->end(w->ctx, (enum lf_status)p->in.what, p->reason);
}

static void take_beat(struct lf_comm_awaited *awaited, const struct frame *f)
{
    atomic_store(&awaited->rank, 0);
    atomic_store(&awaited->count, f->what);
    atomic_store(&awaited->at_least, (uint32_t)f->bytes);
    atomic_store(&awaited->rank, (int)f->seq);
}

/* All of the frame is there. */
static void take(struct lf_comm_wire *w, struct peer *p)
{
    switch (p->in.kind) {
    case TURN:
        lf_count_raise(&w->shared->along[p->in.axis].arrived[p->rank]);
        break;
    case PIECE:
        lf_count_raise(&channel_of(w, p->rank, w->rank)->written);
        break;
    case TAKEN:
        lf_count_raise(&channel_of(w, w->rank, p->rank)->read);
        break;
    case BEAT:
        take_beat(&w->shared->awaited[p->rank], &p->in);
        break;
    default:
        take_end(w, p);
    }
}

/* What is there of the header, or of what follows it; recv's answer. */
static ssize_t receive(struct peer *p)
{
    size_t head = sizeof(p->in);
    char *to = p->n_in < head ? (char *)&p->in + p->n_in : p->into + (p->n_in - head);
    size_t n = p->n_in < head ? head - p->n_in : head + p->in.n - p->n_in;
    ssize_t got = recv(p->fd, to, n, MSG_DONTWAIT);
    if (got > 0) p->n_in += (size_t)got;
    return got;
}

static void lose(struct lf_comm_wire *w, struct peer *p, int error)
{
    char text[128];
    p->is_closed = true;
    if (error == 0)
        fail(w, "rank %d lost rank %d: its connection was closed", w->rank, p->rank);
    else
        fail(w, "rank %d lost rank %d: %s", w->rank, p->rank, strerror_r(error, text, sizeof(text)));
}

static void refuse(struct lf_comm_wire *w, struct peer *p)
{
    const struct frame *f = &p->in;
    p->is_closed = true;
    if (f->magic != MAGIC)
        fail(w, "rank %d got something of rank %d that is no message of ranks", w->rank, p->rank);
    else
        fail(w, "rank %d got message %u of kind %u, %u bytes from %u on, of rank %d: not what comes next", w->rank,
             (unsigned)f->seq, (unsigned)f->kind, (unsigned)f->n, (unsigned)f->at, p->rank);
}

static void read_peer(struct lf_comm_wire *w, struct peer *p)
{
    for (int i = 0; i < FRAMES_AT_ONCE && !p->is_closed; i++) {
        ssize_t n = receive(p);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
        if (n <= 0) {
            lose(w, p, n < 0 ? errno : 0);
            return;
        }
        p->n_silent = 0;
        if (p->n_in == sizeof(p->in) && !begin(w, p)) {
            refuse(w, p);
            return;
        }
        if (p->n_in < sizeof(p->in) || p->n_in < sizeof(p->in) + p->in.n) continue;
        p->n_in = 0;
        take(w, p);
        if (atomic_load(&w->is_ending)) return;
    }
}

/* ---- the wire's thread ---- */

/* Waits for something to read; bit r of the answer: rank r has something. */
static unsigned wait_readable(struct lf_comm_wire *w, int ms)
{
    struct pollfd fds[LF_RANKS_N + 1];
    unsigned readable = 0;
    for (int r = 0; r < w->n_ranks; r++) {
        struct peer *p = &w->peers[r];
        fds[r] = (struct pollfd){.fd = p->is_closed ? -1 : p->fd, .events = POLLIN};
    }
    fds[w->n_ranks] = (struct pollfd){.fd = atomic_load(&w->is_ending) ? -1 : w->wake_fd, .events = POLLIN};
    if (poll(fds, (nfds_t)w->n_ranks + 1, ms) <= 0) return 0;
    for (int r = 0; r < w->n_ranks; r++)
        if (fds[r].revents) readable |= 1u << r;
    return readable;
}

/* A beat's time has passed, or more where this process stood still. */
static void beat_all(struct lf_comm_wire *w)
{
    for (int r = 0; r < w->n_ranks && !atomic_load(&w->is_ending); r++) {
        struct peer *p = &w->peers[r];
        if (p->fd < 0) continue;
        beat(w, p);
        if (++p->n_silent > BEATS_N)
            fail(w, "rank %d has heard nothing of rank %d for %d ms", w->rank, r, w->timeout_ms);
    }
}

static void attend(struct lf_comm_wire *w)
{
    int64_t every_ns = (int64_t)w->timeout_ms * LF_NS_PER_MS / BEATS_N, next_ns = lf_clock_ns() + every_ns;
    while (!atomic_load(&w->is_ending)) {
        int64_t left_ns = next_ns - lf_clock_ns();
        unsigned readable = wait_readable(w, left_ns > 0 ? (int)(left_ns / LF_NS_PER_MS) + 1 : 0);
        for (int r = 0; r < w->n_ranks; r++)
            if ((readable >> r & 1) && !atomic_load(&w->is_ending)) read_peer(w, &w->peers[r]);
        if (lf_clock_ns() < next_ns) continue;
        beat_all(w);
        next_ns = lf_clock_ns() + every_ns;
    }
}

static void tell_end(struct lf_comm_wire *w)
{
    for (int r = 0; r < w->n_ranks; r++) {
        struct peer *p = &w->peers[r];
        struct frame frame = {.kind = END, .what = (uint32_t)w->status, .n = (uint32_t)strlen(w->reason)};
        if (p->fd < 0) continue;
        send_frame(w, r, &frame, w->reason);
        (void)shutdown(p->fd, SHUT_WR);
    }
}

/* A socket that is closed with something unread takes back what was sent. */
static void read_to_end(struct lf_comm_wire *w)
{
    char nothing[4096];
    for (;;) {
        int n_open = 0;
        int64_t left_ns = w->farewell_ns - lf_clock_ns();
        for (int r = 0; r < w->n_ranks; r++) n_open += !w->peers[r].is_closed;
        if (n_open == 0 || left_ns <= 0) return;
        unsigned readable = wait_readable(w, (int)(left_ns / LF_NS_PER_MS) + 1);
        for (int r = 0; r < w->n_ranks; r++) {
            if (!(readable >> r & 1)) continue;
            ssize_t n = recv(w->peers[r].fd, nothing, sizeof(nothing), MSG_DONTWAIT);
            if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
                w->peers[r].is_closed = true;
        }
    }
}

static void *wire_main(void *arg)
{
    struct lf_comm_wire *w = arg;
    attend(w);
    tell_end(w);
    read_to_end(w);
    return NULL;
}

void lf_comm_wire_end(struct lf_comm_wire *w, enum lf_status status, const char *reason)
{
    uint64_t one = 1;
    w->status = status;
    (void)snprintf(w->reason, sizeof(w->reason), "%s", reason);
    w->farewell_ns = lf_clock_ns() + (int64_t)FAREWELL_MS * LF_NS_PER_MS;
    atomic_store(&w->is_ending, true);
    ssize_t n = write(w->wake_fd, &one, sizeof(one));
    LF_ASSERT(n == sizeof(one));
}

/* ---- its life ---- */

enum lf_status lf_comm_wire_create(struct lf_comm_wire **out, const struct lf_comm_wire_opts *opts, struct lf_err *err)
{
    struct lf_comm_wire *w = calloc(1, sizeof(*w));
    int wake_fd = eventfd(0, EFD_CLOEXEC);
    if (!w || wake_fd < 0) {
        enum lf_status status = w ? lf_fail(err, LF_IO, "a descriptor for other ranks: no more may be open")
                                  : lf_fail(err, LF_NO_MEMORY, "no memory for what %d ranks send", opts->n_ranks);
        for (int r = 0; r < opts->n_ranks; r++)
            if (r != opts->rank) (void)close(opts->sockets[r]);
        if (wake_fd >= 0) (void)close(wake_fd);
        free(w);
        return status;
    }
    w->n_ranks = opts->n_ranks;
    w->rank = opts->rank;
    w->timeout_ms = opts->timeout_ms;
    w->shared = opts->shared;
    w->end = opts->end;
    w->ctx = opts->ctx;
    w->wake_fd = wake_fd;
    for (int r = 0; r < w->n_ranks; r++) {
        struct peer *p = &w->peers[r];
        p->rank = r;
        p->fd = r == w->rank ? -1 : opts->sockets[r];
        p->is_closed = r == w->rank;
        (void)pthread_mutex_init(&p->lock, NULL);
    }
    *out = w;
    return LF_OK;
}

enum lf_status lf_comm_wire_start(struct lf_comm_wire *w, struct lf_err *err)
{
    sigset_t all, before;
    char reason[128];
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&w->thread, NULL, wire_main, w);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        return lf_fail(err, LF_NO_MEMORY, "the thread that reads of other ranks does not start: %s",
                       strerror_r(rc, reason, sizeof(reason)));
    w->is_started = true;
    (void)pthread_setname_np(w->thread, "lf-wire");
    return LF_OK;
}

void lf_comm_wire_destroy(struct lf_comm_wire *w)
{
    if (!w) return;
    if (w->is_started) (void)pthread_join(w->thread, NULL);
    for (int r = 0; r < w->n_ranks; r++) {
        if (w->peers[r].fd >= 0) (void)close(w->peers[r].fd);
        (void)pthread_mutex_destroy(&w->peers[r].lock);
    }
    (void)close(w->wake_fd);
    free(w);
}
