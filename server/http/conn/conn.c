#include "server/http/conn/conn.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "core/check.h"
#include "core/clock.h"
#include "server/http/conn/last_reply.h"
#include "server/http/conn/tcp_counters.h"
#include "server/http/conn/wake.h"

enum { ROOM_N = 8 }; /* that are cut at once where the system has no descriptors */

enum lf_status lf_conns_init(struct lf_conns *conns, int n, int n_cut, int n_per_address,
                             struct lf_conn_deadlines deadlines, int epoll_fd, struct lf_err *err)
{
    *conns = (struct lf_conns){
        .n = n, .n_cut = n_cut, .n_per_address = n_per_address, .deadlines = deadlines, .epoll_fd = epoll_fd};
    pthread_mutex_init(&conns->lock, NULL);
    conns->n_places = n + LF_CONN_HEALTH_N + n_cut;
    conns->places = calloc((size_t)conns->n_places, sizeof *conns->places);
    if (!conns->places) return lf_fail(err, LF_NO_MEMORY, "no memory for %d connections", n);
    for (int i = 0; i < conns->n_places; i++) {
        conns->places[i].conns = conns;
        conns->places[i].fd = -1;
    }
    return LF_OK;
}

void lf_conns_deinit(struct lf_conns *conns)
{
    if (!conns->places) return;
    free(conns->places);
    pthread_mutex_destroy(&conns->lock);
}

int lf_conns_n_open(struct lf_conns *conns)
{
    int n = 0;
    pthread_mutex_lock(&conns->lock);
    for (int i = 0; i < conns->n_places; i++) n += conns->places[i].state != LF_CONN_FREE;
    pthread_mutex_unlock(&conns->lock);
    return n;
}

/* ---- states ---- */

static void enter_locked(struct lf_conn *c, enum lf_conn_state state)
{
    struct lf_tcp_counters k;
    c->state = state;
    c->since_ns = c->acked_ns = c->behind_ns = lf_clock_ns();
    if (state == LF_CONN_ANSWER && lf_tcp_counters(c->fd, &k)) {
        c->acked_bytes = c->behind_acked_bytes = k.bytes_acked;
        c->received_bytes = k.bytes_received; /* what comes from here on is of the next request */
    }
    if (state == LF_CONN_BODY) atomic_store(&c->body_bytes, 0);
    if (state == LF_CONN_IDLE && c->by_proxy) c->address = LF_CONN_OF_PROXY;
}

void lf_conn_enter(struct lf_conns *conns, struct lf_conn *conn, enum lf_conn_state state, struct lf_wake *wake)
{
    pthread_mutex_lock(&conns->lock);
    if (conn->state != LF_CONN_CUT) enter_locked(conn, state);
    conn->wake = wake;
    conn->answer = NULL;
    bool gone = wake && conn->hung_up;
    pthread_mutex_unlock(&conns->lock);
    if (gone) lf_wake_gone(wake);
}

static void free_place_locked(struct lf_conn *c)
{
    c->state = LF_CONN_FREE;
    c->fd = -1;
    c->mhd = NULL;
    c->wake = NULL;
    c->answer = NULL;
    c->generation++;
}

/* Shuts the socket down and tells whoever works for it. */
static void shut_locked(struct lf_conn *c)
{
    (void)shutdown(c->fd, SHUT_RDWR);
    c->state = LF_CONN_CUT;
    if (c->wake) lf_wake_gone(c->wake);
}

static void cut_locked(struct lf_conn *c, struct lf_counter *why)
{
    lf_counter_add(why, 1);
    shut_locked(c);
}

static void tell_late(const struct lf_conn *c)
{
    struct lf_api_err err;
    const char *part = c->state == LF_CONN_HEAD ? "head" : "body";
    if (c->answer) {
        lf_last_reply_send(c->fd, c->answer, c->request_id);
        return;
    }
    (void)!lf_refuse(&err, 408, NULL, c->state == LF_CONN_HEAD ? "head_timeout" : "body_timeout",
                     "The %s of this request came too slowly.", part);
    lf_last_reply_refuse(c->fd, &err);
}

/* A request that did not come in time: no answer to it has begun. */
static void cut_request_locked(struct lf_conn *c, struct lf_counter *why)
{
    struct lf_tcp_counters k;
    bool known = lf_tcp_counters(c->fd, &k);
    bool began = c->state == LF_CONN_BODY || (known && k.bytes_received != c->received_bytes);
    if (known && began && k.waiting_bytes == 0) tell_late(c);
    cut_locked(c, why);
}

void lf_conns_cut_all(struct lf_conns *conns)
{
    pthread_mutex_lock(&conns->lock);
    for (int i = 0; i < conns->n_places; i++)
        if (conns->places[i].state != LF_CONN_FREE) shut_locked(&conns->places[i]);
    pthread_mutex_unlock(&conns->lock);
}

void lf_conn_answer_known(struct lf_conn *conn, const struct lf_reply *reply, const char *request_id)
{
    pthread_mutex_lock(&conn->conns->lock);
    conn->answer = reply;
    conn->request_id = request_id;
    pthread_mutex_unlock(&conn->conns->lock);
}

void lf_conn_end(struct lf_conn *conn, const struct lf_api_err *err)
{
    pthread_mutex_lock(&conn->conns->lock);
    if (conn->state != LF_CONN_CUT) {
        lf_last_reply_refuse(conn->fd, err);
        shut_locked(conn);
    }
    pthread_mutex_unlock(&conn->conns->lock);
}

/* ---- room ---- */

/* What the table holds, and who could leave it, as far as a new connection from an address is concerned. */
struct census {
    int n, n_same, n_health, n_free;
    struct lf_conn *free;                                    /* a place */
    struct lf_conn *silent, *silent_same, *silent_in_health; /* the longest silent one of each kind */
};

static bool is_silent(const struct lf_conn *c, int64_t now_ns)
{
    return c->state == LF_CONN_IDLE ||
           (c->state == LF_CONN_HEAD && now_ns - c->since_ns > LF_CONN_SILENT_MS * LF_NS_PER_MS);
}

static void keep_older(struct lf_conn **oldest, struct lf_conn *c)
{
    if (!*oldest || c->since_ns < (*oldest)->since_ns) *oldest = c;
}

static struct census take_census_locked(struct lf_conns *conns, int fd, uint64_t address)
{
    struct census all = {0};
    int64_t now_ns = lf_clock_ns();
    for (int i = 0; i < conns->n_places; i++) {
        struct lf_conn *c = &conns->places[i];
        /* libmicrohttpd closed this descriptor without telling (it had no memory for the connection) */
        if (c->state != LF_CONN_FREE && c->fd == fd) free_place_locked(c);
        if (c->state == LF_CONN_FREE) {
            all.free = c;
            all.n_free++;
        }
        if (c->state == LF_CONN_FREE || c->state == LF_CONN_CUT) continue;
        bool silent = is_silent(c, now_ns);
        all.n += !c->health_only;
        all.n_health += c->health_only;
        bool same = address != LF_CONN_OF_PROXY && c->address == address;
        all.n_same += same;
        if (silent) keep_older(c->health_only ? &all.silent_in_health : &all.silent, c);
        if (silent && same) keep_older(&all.silent_same, c);
    }
    return all;
}

static bool has_said_nothing(const struct lf_conn *c)
{
    struct lf_tcp_counters k;
    return c->state == LF_CONN_HEAD && lf_tcp_counters(c->fd, &k) && k.bytes_received == 0;
}

/* Of those in the places kept for the health routes, or of the others: who has said nothing yet, for the longest. */
static struct lf_conn *oldest_unheard(const struct lf_conns *conns, bool health_only)
{
    struct lf_conn *oldest = NULL;
    for (int i = 0; i < conns->n_places; i++) {
        struct lf_conn *c = &conns->places[i];
        if (c->health_only == health_only && has_said_nothing(c)) keep_older(&oldest, c);
    }
    return oldest;
}

/* A connection that gives way although it is not long that it said nothing: its address has many, the new one's few. */
static struct lf_conn *one_of_many(const struct lf_conns *conns, int n_same)
{
    struct lf_conn *oldest = oldest_unheard(conns, false);
    int n = 0;
    if (oldest && oldest->address == LF_CONN_OF_PROXY) return NULL;
    for (int i = 0; oldest && i < conns->n_places; i++) {
        const struct lf_conn *c = &conns->places[i];
        n += c->state != LF_CONN_FREE && c->state != LF_CONN_CUT && c->address == oldest->address;
    }
    return n >= LF_CONN_MANY * (n_same + 1) ? oldest : NULL;
}

/* Whether there is room now or could be made; *victim is who makes it. */
static bool find_room(const struct lf_conns *conns, const struct census *all, struct lf_conn **victim,
                      bool *health_only, bool *full)
{
    *victim = NULL;
    *health_only = *full = false;
    if (conns->n_per_address && all->n_same >= conns->n_per_address) {
        *victim = all->silent_same;
        *health_only = *victim && (*victim)->health_only;
        return *victim != NULL;
    }
    *full = true;
    int n_kept = LF_CONN_HEALTH_N + (all->n_same < LF_CONN_MANY ? 0 : conns->n_cut / 4);
    if (all->n_free > n_kept) { /* else too many are being closed right now */
        if (all->n < conns->n) return true;
        *victim = all->silent ? all->silent : one_of_many(conns, all->n_same);
        if (*victim) return true;
    }
    *health_only = true;
    if (all->n_health >= LF_CONN_HEALTH_N)
        *victim = all->silent_in_health ? all->silent_in_health : oldest_unheard(conns, true);
    return all->free && (all->n_health < LF_CONN_HEALTH_N || *victim);
}

/* False where epoll will not, or does not know the socket: it forgets one that is closed. */
static bool watch_locked(const struct lf_conns *conns, const struct lf_conn *c, int op)
{
    uint64_t idx = (uint64_t)(c - conns->places);
    struct epoll_event ev = {.events = EPOLLRDHUP | EPOLLET, .data.u64 = (uint64_t)c->generation << 32 | idx};
    return epoll_ctl(conns->epoll_fd, op, c->fd, &ev) == 0;
}

struct lf_conn *lf_conn_admit(struct lf_conns *conns, int fd, uint64_t address, bool *full)
{
    struct lf_conn *victim;
    bool health_only;
    pthread_mutex_lock(&conns->lock);
    struct census all = take_census_locked(conns, fd, address);
    struct lf_conn *place = find_room(conns, &all, &victim, &health_only, full) ? all.free : NULL;
    if (place && victim) cut_locked(victim, &conns->metrics.made_room);
    if (place) {
        place->fd = fd;
        place->address = address;
        place->by_proxy = address == LF_CONN_OF_PROXY;
        place->health_only = health_only;
        place->hung_up = false;
        place->received_bytes = 0;
        enter_locked(place, LF_CONN_HEAD);
        if (!watch_locked(conns, place, EPOLL_CTL_ADD)) {
            free_place_locked(place);
            place = NULL;
            *full = true; /* the system's table is */
        }
    }
    pthread_mutex_unlock(&conns->lock);
    if (place)
        lf_counter_add(&conns->metrics.accepted, 1);
    else
        lf_counter_add(*full ? &conns->metrics.refused_full : &conns->metrics.refused_address, 1);
    return place;
}

bool lf_conn_of_client(struct lf_conn *conn, uint64_t address)
{
    struct lf_conns *conns = conn->conns;
    int n = 0;
    pthread_mutex_lock(&conns->lock);
    for (int i = 0; i < conns->n_places; i++) {
        const struct lf_conn *c = &conns->places[i];
        n += c != conn && c->state != LF_CONN_FREE && c->state != LF_CONN_CUT && c->address == address;
    }
    bool ok = conns->n_per_address == 0 || n < conns->n_per_address;
    if (ok) conn->address = address;
    pthread_mutex_unlock(&conns->lock);
    if (!ok) lf_counter_add(&conns->metrics.refused_address, 1);
    return ok;
}

static int n_cut_locked(const struct lf_conns *conns)
{
    int n = 0;
    for (int i = 0; i < conns->n_places; i++) n += conns->places[i].state == LF_CONN_CUT;
    return n;
}

static struct lf_conn *longest_silent(const struct lf_conns *conns, int64_t now_ns)
{
    struct lf_conn *oldest = NULL;
    for (int i = 0; i < conns->n_places; i++)
        if (is_silent(&conns->places[i], now_ns)) keep_older(&oldest, &conns->places[i]);
    return oldest;
}

bool lf_conns_make_room(struct lf_conns *conns)
{
    struct lf_conn *victim;
    int64_t now_ns = lf_clock_ns();
    pthread_mutex_lock(&conns->lock);
    int n_cut = n_cut_locked(conns);
    for (bool more = n_cut == 0; more && n_cut < ROOM_N && (victim = longest_silent(conns, now_ns)); n_cut++)
        cut_locked(victim, &conns->metrics.made_room);
    pthread_mutex_unlock(&conns->lock);
    return n_cut > 0;
}

bool lf_conns_will_have_room(struct lf_conns *conns)
{
    bool taken = true, closing = false;
    pthread_mutex_lock(&conns->lock);
    for (int i = 0; taken && i < conns->n_places; i++) {
        taken = conns->places[i].state != LF_CONN_FREE;
        closing = closing || conns->places[i].state == LF_CONN_CUT;
    }
    pthread_mutex_unlock(&conns->lock);
    return taken && closing;
}

void lf_conn_discard(struct lf_conns *conns, struct lf_conn *conn)
{
    pthread_mutex_lock(&conns->lock);
    free_place_locked(conn);
    pthread_mutex_unlock(&conns->lock);
    lf_counter_add(&conns->metrics.failed, 1);
}

struct lf_conn *lf_conn_started(struct lf_conns *conns, int fd, struct MHD_Connection *mhd)
{
    struct lf_conn *found = NULL;
    pthread_mutex_lock(&conns->lock);
    for (int i = 0; i < conns->n_places && !found; i++)
        if (conns->places[i].state != LF_CONN_FREE && conns->places[i].fd == fd) found = &conns->places[i];
    if (found) found->mhd = mhd;
    pthread_mutex_unlock(&conns->lock);
    return found;
}

void lf_conn_closed(struct lf_conns *conns, struct lf_conn *conn)
{
    pthread_mutex_lock(&conns->lock);
    (void)epoll_ctl(conns->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
    free_place_locked(conn);
    pthread_mutex_unlock(&conns->lock);
}

/* Its descriptor may be somebody else's by now, so epoll is asked, which goes by the socket and not by the number. */
static void drop_lost_locked(struct lf_conns *conns)
{
    for (int i = 0; i < conns->n_places; i++) {
        struct lf_conn *c = &conns->places[i];
        if (c->state == LF_CONN_FREE || c->mhd || watch_locked(conns, c, EPOLL_CTL_MOD)) continue;
        free_place_locked(c);
        lf_counter_add(&conns->metrics.failed, 1);
    }
}

void lf_conns_drop_lost(struct lf_conns *conns)
{
    pthread_mutex_lock(&conns->lock);
    drop_lost_locked(conns);
    pthread_mutex_unlock(&conns->lock);
}

/* ---- deadlines ---- */

/* Time in which what came waits to be read by us is not the client's: on a starved machine a head that is here whole
 * would be late. It counts as ours once more for as long, so that nobody stays by sending more than we read. */
static void check_head_locked(struct lf_conns *conns, struct lf_conn *c, int64_t now_ns)
{
    struct lf_tcp_counters k;
    int64_t age_ns = now_ns - c->since_ns, limit_ns = conns->deadlines.head_ms * LF_NS_PER_MS;
    if (age_ns <= limit_ns) return;
    if (age_ns <= 2 * limit_ns && lf_tcp_counters(c->fd, &k) && k.unread_bytes > 0) return;
    cut_request_locked(c, &conns->metrics.cut_head);
}

/* The first bytes of the next request's head start its deadline. */
static void check_idle_locked(struct lf_conns *conns, struct lf_conn *c, int64_t now_ns)
{
    struct lf_tcp_counters k;
    if (lf_tcp_counters(c->fd, &k) && k.bytes_received != c->received_bytes) {
        c->state = LF_CONN_HEAD;
        c->since_ns = now_ns;
    } else if (now_ns - c->since_ns > LF_IDLE_MS * LF_NS_PER_MS) {
        cut_locked(c, &conns->metrics.cut_idle);
    }
}

static void check_body_locked(struct lf_conns *conns, struct lf_conn *c, int64_t now_ns)
{
    int64_t age_ns = now_ns - c->since_ns;
    uint64_t need = (uint64_t)(age_ns / LF_NS_PER_MS) * LF_BODY_BYTES_PER_S / 1000;
    bool slow = age_ns > LF_BODY_GRACE_MS * LF_NS_PER_MS && atomic_load(&c->body_bytes) < need;
    if (slow || age_ns > conns->deadlines.body_ms * LF_NS_PER_MS) cut_request_locked(c, &conns->metrics.cut_body);
}

/* Whether it has been behind for longer than the deadline and took less than the least rate: what it is to read may be
 * megabytes of the memory for texts. */
static bool drips(const struct lf_conns *conns, const struct lf_conn *c, int64_t now_ns)
{
    int64_t behind_ms = (now_ns - c->behind_ns) / LF_NS_PER_MS;
    if (behind_ms <= conns->deadlines.reader_ms) return false;
    return c->acked_bytes - c->behind_acked_bytes < (uint64_t)behind_ms * LF_READER_BYTES_PER_S / 1000;
}

/* A client that does not read: bytes wait in the kernel, and none was acknowledged for too long, or too few. */
static void check_reader_locked(struct lf_conns *conns, struct lf_conn *c, int64_t now_ns)
{
    struct lf_tcp_counters k;
    if (!lf_tcp_counters(c->fd, &k)) return;
    if (k.waiting_bytes == 0) {
        c->behind_acked_bytes = k.bytes_acked;
        c->behind_ns = now_ns;
    }
    if (k.waiting_bytes == 0 || k.bytes_acked != c->acked_bytes) {
        c->acked_bytes = k.bytes_acked;
        c->acked_ns = now_ns;
    }
    if (now_ns - c->acked_ns > conns->deadlines.reader_ms * LF_NS_PER_MS || drips(conns, c, now_ns))
        cut_locked(c, &conns->metrics.cut_reader);
}

/* libmicrohttpd takes a short read for the end of what is there, and misses an end of the stream that came with the
 * last bytes: no further event is due. Shutting down the reading side makes one, and what was received stays readable.
 */
static void nudge_locked(const struct lf_conn *c)
{
    bool reads = c->state == LF_CONN_HEAD || c->state == LF_CONN_IDLE || c->state == LF_CONN_BODY;
    if (c->hung_up && reads) (void)shutdown(c->fd, SHUT_RD);
}

static void check_locked(struct lf_conns *conns, struct lf_conn *c, int64_t now_ns)
{
    switch (c->state) {
    case LF_CONN_HEAD:
        check_head_locked(conns, c, now_ns);
        break;
    case LF_CONN_IDLE:
        check_idle_locked(conns, c, now_ns);
        break;
    case LF_CONN_BODY:
        check_body_locked(conns, c, now_ns);
        break;
    case LF_CONN_ANSWER:
        check_reader_locked(conns, c, now_ns);
        break;
    case LF_CONN_FREE:
    case LF_CONN_WORK:
    case LF_CONN_CUT:
        break;
    }
}

/* Of those that hold nothing but their place only a few are cut in a tick: a thousand that came together would all wait
 * to be closed at once, and keep everybody's places meanwhile. Until it is their turn they make room where it is
 * needed.
 */
void lf_conns_tick(struct lf_conns *conns, int64_t now_ns)
{
    pthread_mutex_lock(&conns->lock);
    drop_lost_locked(conns); /* before its number is taken for a connection's */
    int n_cut = n_cut_locked(conns);
    for (int i = 0; i < conns->n_places; i++) {
        struct lf_conn *c = &conns->places[i];
        enum lf_conn_state before = c->state;
        bool holds_little = before == LF_CONN_HEAD || before == LF_CONN_IDLE;
        nudge_locked(c);
        if (holds_little && n_cut >= LF_MAX(conns->n_cut / 8, 1)) continue;
        check_locked(conns, c, now_ns);
        n_cut += c->state != before && c->state == LF_CONN_CUT;
    }
    pthread_mutex_unlock(&conns->lock);
}

void lf_conns_hang_up(struct lf_conns *conns, uint64_t data)
{
    uint32_t idx = (uint32_t)data, generation = (uint32_t)(data >> 32);
    if (idx >= (uint32_t)conns->n_places) return;
    struct lf_conn *c = &conns->places[idx];
    pthread_mutex_lock(&conns->lock);
    if (c->state != LF_CONN_FREE && c->generation == generation) {
        c->hung_up = true;
        nudge_locked(c);
        if (c->wake) lf_wake_gone(c->wake);
    }
    pthread_mutex_unlock(&conns->lock);
}
