/* server/http/conn/conn.c: a connection's place, its states, and when it is cut. Who makes room: test_conn_room.c. */
#include "tests/unit/server/http/conn_rig.h"

#include <malloc.h>

#include "server/http/conn/reply.h"

/* The tick finds nothing to do until so long after the state began, and then cuts. */
static void check_cut_after(struct rig *r, struct lf_conn *c, int64_t limit_ns, const struct lf_counter *why)
{
    int64_t since = c->since_ns;
    enum lf_conn_state state = c->state;
    lf_conns_tick(&r->conns, since + limit_ns);
    assert_int_equal(c->state, state);
    assert_int_equal(lf_counter_get(why), 0);
    assert_false(writes_end(c->fd));
    lf_conns_tick(&r->conns, since + limit_ns + 1);
    assert_int_equal(c->state, LF_CONN_CUT);
    assert_int_equal(lf_counter_get(why), 1);
    assert_true(reads_end(c->fd) && writes_end(c->fd));
    lf_conns_tick(&r->conns, since + 100 * limit_ns);
    assert_int_equal(lf_counter_get(why), 1);
}

/* ---- a place ---- */

static void a_place_is_taken_and_given_back(void **state)
{
    (void)state;
    struct rig r;
    bool full = true;
    open_rig(&r, 4, 0);
    assert_int_equal(r.conns.n_places, 4 + LF_CONN_HEALTH_N + LF_CONN_CUT_N);
    assert_int_equal(lf_conns_n_open(&r.conns), 0);
    struct lf_conn *c = admit(&r, 7, &full);
    assert_int_equal(c->state, LF_CONN_HEAD);
    assert_true(c->since_ns == now_ns && c->address == 7 && c->fd == r.ours[0] && !c->health_only && !c->hung_up);
    assert_int_equal(lf_conns_n_open(&r.conns), 1);
    assert_int_equal(lf_counter_get(&r.conns.metrics.accepted), 1);
    uint32_t generation = c->generation;
    struct lf_wake wake = {0};
    lf_conn_enter(&r.conns, c, LF_CONN_WORK, &wake);
    assert_ptr_equal(lf_conn_started(&r.conns, c->fd, (struct MHD_Connection *)(void *)"connection"), c);
    lf_conn_closed(&r.conns, c);
    assert_int_equal(lf_conns_n_open(&r.conns), 0);
    assert_int_equal(c->state, LF_CONN_FREE);
    assert_int_equal(c->fd, -1);
    assert_true(c->generation != generation && !c->mhd && !c->wake);
    close(r.peers[0]); /* nobody watches the socket any more */
    r.peers[0] = -1;
    struct epoll_event ev;
    assert_int_equal(epoll_wait(r.epoll_fd, &ev, 1, 0), 0);
    close_rig(&r);
    struct lf_conns none = {0};
    lf_conns_deinit(&none);
}

static void nothing_of_a_table_is_left(void **state)
{
    (void)state;
    struct lf_conns conns;
    struct lf_err err;
    size_t before = mallinfo2().uordblks;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(lf_conns_init(&conns, 16, LF_CONN_CUT_N, 0, (struct lf_conn_deadlines){1, 1, 1}, -1, &err),
                         LF_OK);
        lf_conns_deinit(&conns);
    }
    assert_true(mallinfo2().uordblks <= before);
}

static void libmicrohttpd_takes_it_or_does_not(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    struct MHD_Connection *mhd = (struct MHD_Connection *)(void *)"connection";
    open_rig(&r, 4, 0);
    struct lf_conn *a = admit(&r, 1, &full), *b = admit(&r, 2, &full);
    assert_ptr_equal(lf_conn_started(&r.conns, a->fd, mhd), a);
    assert_ptr_equal(a->mhd, mhd);
    assert_null(b->mhd);
    assert_null(lf_conn_started(&r.conns, r.epoll_fd, mhd));
    assert_null(lf_conn_started(&r.conns, -1, mhd)); /* what free places have */
    lf_conn_discard(&r.conns, b);
    assert_int_equal(b->state, LF_CONN_FREE);
    assert_int_equal(lf_conns_n_open(&r.conns), 1);
    assert_int_equal(lf_counter_get(&r.conns.metrics.failed), 1);
    close_rig(&r);
}

/* libmicrohttpd may close a descriptor without telling; the system then gives its number away again. */
static void a_descriptor_that_comes_again_frees_its_place(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    open_rig(&r, 4, 1);
    struct lf_conn *c = admit_busy(&r, 5);
    assert_int_equal(epoll_ctl(r.epoll_fd, EPOLL_CTL_DEL, c->fd, NULL), 0); /* as closing does */
    uint32_t generation = c->generation;
    struct lf_conn *again = lf_conn_admit(&r.conns, r.ours[0], 5, &full);
    assert_non_null(again);
    assert_int_equal(c == again ? c->generation : generation + 1, generation + 1);
    assert_int_equal(lf_conns_n_open(&r.conns), 1);
    close_rig(&r);
}

static void a_socket_that_cannot_be_watched_is_refused(void **state)
{
    (void)state;
    struct rig r;
    bool full = false;
    open_rig(&r, 4, 0);
    r.conns.epoll_fd = -1;
    assert_null(admit(&r, 1, &full));
    assert_true(full);
    assert_int_equal(lf_conns_n_open(&r.conns), 0);
    assert_int_equal(lf_counter_get(&r.conns.metrics.refused_full), 1);
    assert_int_equal(lf_counter_get(&r.conns.metrics.refused_address), 0);
    assert_int_equal(lf_counter_get(&r.conns.metrics.accepted), 0);
    close_rig(&r);
}

/* ---- states ---- */

static void the_worker_for_a_client_that_left_is_told(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    struct lf_wake wake = {0};
    open_rig(&r, 4, 0);
    struct lf_conn *c = admit(&r, 1, &full);
    lf_conn_enter(&r.conns, c, LF_CONN_BODY, &wake);
    assert_int_equal(wake.n_gone, 0);
    close(r.peers[0]);
    r.peers[0] = -1;
    struct epoll_event ev = {0};
    assert_int_equal(epoll_wait(r.epoll_fd, &ev, 1, 1000), 1);
    assert_true(ev.events & EPOLLRDHUP);
    lf_conns_hang_up(&r.conns, ev.data.u64);
    assert_int_equal(wake.n_gone, 1);
    lf_conn_enter(&r.conns, c, LF_CONN_WORK, &wake); /* whoever works for it from now on */
    assert_int_equal(wake.n_gone, 2);
    lf_conn_enter(&r.conns, c, LF_CONN_IDLE, NULL);
    lf_conns_hang_up(&r.conns, ev.data.u64);
    assert_int_equal(wake.n_gone, 2);
    close_rig(&r);
}

/* libmicrohttpd had no memory for it and closed its socket, without telling. Whatever has its number now is not it. */
static void one_that_was_closed_without_telling_gives_its_place_back(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    struct MHD_Connection *mhd = (struct MHD_Connection *)(void *)"connection";
    open_rig(&r, 8, 0);
    struct lf_conn *started = admit(&r, 1, &full), *waits = admit(&r, 1, &full), *lost = admit(&r, 1, &full),
                   *taken = admit(&r, 1, &full), *cut = admit(&r, 1, &full);
    assert_ptr_equal(lf_conn_started(&r.conns, started->fd, mhd), started);
    int lost_fd = lost->fd, taken_fd = taken->fd, cut_fd = cut->fd;
    lf_conn_end(cut, &(struct lf_api_err){.status = 400});
    assert_int_equal(cut->state, LF_CONN_CUT);
    close(lost_fd);
    close(cut_fd);
    assert_int_equal(dup2(waits->fd, taken_fd), taken_fd); /* its own was closed, and the number is another's */
    lf_conns_tick(&r.conns, now_ns);
    assert_int_equal(lost->state, LF_CONN_FREE);
    assert_int_equal(taken->state, LF_CONN_FREE);
    assert_int_equal(cut->state, LF_CONN_FREE);
    assert_int_equal(started->state, LF_CONN_HEAD);
    assert_int_equal(waits->state, LF_CONN_HEAD);
    assert_int_equal(lf_counter_get(&r.conns.metrics.failed), 3);
    close(started->fd); /* what it took it tells */
    lf_conns_drop_lost(&r.conns);
    assert_int_equal(started->state, LF_CONN_HEAD);
    assert_int_equal(lf_conns_n_open(&r.conns), 2);
    close_rig(&r);
}

static void a_place_that_was_given_away_is_not_hung_up(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    open_rig(&r, 4, 0);
    struct lf_conn *c = admit(&r, 1, &full);
    uint64_t data = (uint64_t)c->generation << 32 | (uint64_t)(c - r.conns.places);
    lf_conn_closed(&r.conns, c);
    lf_conns_hang_up(&r.conns, data); /* free */
    lf_conns_hang_up(&r.conns, (uint64_t)c->generation << 32 | (uint64_t)(c - r.conns.places));
    struct lf_conn *next = admit(&r, 1, &full);
    assert_ptr_equal(next, c);
    assert_false(next->hung_up);
    lf_conns_hang_up(&r.conns, data);
    assert_false(next->hung_up);
    lf_conns_hang_up(&r.conns, (uint64_t)r.conns.n_places); /* none: read past the table if it were taken */
    lf_conns_hang_up(&r.conns, (uint64_t)1 << 32 | data);
    lf_conns_hang_up(&r.conns, (uint64_t)c->generation << 32 | (uint64_t)(c - r.conns.places));
    assert_true(next->hung_up);
    lf_conn_closed(&r.conns, next);
    next = admit(&r, 1, &full);
    assert_false(next->hung_up); /* its own, not its predecessor's */
    close_rig(&r);
}

/* Only where a request is being read: an answer still goes to a client that will send no more. */
static void an_end_that_was_missed_is_shown_again(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    const enum lf_conn_state nudged[] = {LF_CONN_HEAD, LF_CONN_IDLE, LF_CONN_BODY},
                             left[] = {LF_CONN_WORK, LF_CONN_ANSWER};
    open_rig(&r, 16, 0);
    for (size_t i = 0; i < 3; i++) {
        struct lf_conn *c = admit(&r, 1, &full);
        lf_conn_enter(&r.conns, c, nudged[i], NULL);
        lf_conns_tick(&r.conns, now_ns);
        assert_false(reads_end(c->fd));
        lf_conns_hang_up(&r.conns, (uint64_t)c->generation << 32 | (uint64_t)(c - r.conns.places));
        assert_true(reads_end(c->fd) && !writes_end(c->fd));
        assert_int_equal(c->state, nudged[i]);
    }
    for (size_t i = 0; i < 2; i++) {
        struct lf_conn *c = admit(&r, 1, &full);
        lf_conn_enter(&r.conns, c, left[i], NULL);
        lf_conns_hang_up(&r.conns, (uint64_t)c->generation << 32 | (uint64_t)(c - r.conns.places));
        lf_conns_tick(&r.conns, now_ns);
        assert_false(reads_end(c->fd));
        lf_conn_enter(&r.conns, c, LF_CONN_IDLE, NULL); /* afterwards it is */
        lf_conns_tick(&r.conns, now_ns);
        assert_true(reads_end(c->fd));
    }
    close_rig(&r);
}

static void what_is_cut_stays_cut(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    struct lf_wake wake = {0};
    open_rig(&r, 4, 0);
    struct lf_conn *c = admit(&r, 1, &full);
    lf_conn_enter(&r.conns, c, LF_CONN_BODY, &wake);
    check_cut_after(&r, c, ms(LF_BODY_GRACE_MS), &r.conns.metrics.cut_body);
    assert_int_equal(wake.n_gone, 1);
    lf_conn_enter(&r.conns, c, LF_CONN_ANSWER, NULL);
    assert_int_equal(c->state, LF_CONN_CUT);
    assert_null(c->wake);
    close_rig(&r);
}

/* ---- deadlines ---- */

static void a_head_has_its_time(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    open_rig(&r, 4, 0);
    struct lf_conn *c = admit(&r, 1, &full);
    struct lf_conn *work = admit_busy(&r, 1);
    check_cut_after(&r, c, ms(HEAD_MS), &r.conns.metrics.cut_head);
    assert_int_equal(work->state, LF_CONN_WORK); /* it has a deadline of its own elsewhere */
    close_rig(&r);
}

/* What has come and was not read yet is late by us, for as long again at most. */
static void a_head_that_we_have_not_read_is_not_late(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    open_rig(&r, 4, 0);
    struct lf_conn *whole = admit(&r, 1, &full), *floods = admit(&r, 1, &full), *blind = admit(&r, 1, &full);
    int64_t since = now_ns;
    counters[whole->fd].unread_bytes = counters[floods->fd].unread_bytes = 1;
    lf_conns_tick(&r.conns, since + ms(HEAD_MS) + 1);
    assert_int_equal(whole->state, LF_CONN_HEAD);
    assert_int_equal(blind->state, LF_CONN_CUT);
    lf_conns_tick(&r.conns, since + ms(2 * HEAD_MS));
    assert_int_equal(floods->state, LF_CONN_HEAD);
    counters[whole->fd].unread_bytes = 0; /* read, and not the end of a head */
    lf_conns_tick(&r.conns, since + ms(2 * HEAD_MS));
    assert_int_equal(whole->state, LF_CONN_CUT);
    lf_conns_tick(&r.conns, since + ms(2 * HEAD_MS) + 1);
    assert_int_equal(floods->state, LF_CONN_CUT);
    assert_int_equal(lf_counter_get(&r.conns.metrics.cut_head), 3);
    close_rig(&r);
}

static void between_requests_there_is_time_and_the_first_byte_ends_it(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    open_rig(&r, 4, 0);
    struct lf_conn *c = admit(&r, 1, &full), *d = admit(&r, 1, &full), *early = admit(&r, 1, &full);
    struct lf_conn *all[] = {c, d, early};
    for (int i = 0; i < 3; i++) {
        counters[all[i]->fd].bytes_received = 100; /* of the request before */
        lf_conn_enter(&r.conns, all[i], LF_CONN_ANSWER, NULL);
    }
    counters[early->fd].bytes_received = 101; /* the answer is there before we know that it has been sent */
    pass(5);
    for (int i = 0; i < 3; i++) lf_conn_enter(&r.conns, all[i], LF_CONN_IDLE, NULL);
    assert_true(c->since_ns == now_ns);
    counters[d->fd].bytes_received = 101;
    lf_conns_tick(&r.conns, now_ns + 77);
    assert_int_equal(d->state, LF_CONN_HEAD);
    assert_int_equal(early->state, LF_CONN_HEAD);
    lf_conn_enter(&r.conns, early, LF_CONN_WORK, NULL);
    assert_true(d->since_ns == now_ns + 77);
    assert_int_equal(c->state, LF_CONN_IDLE);
    lf_conn_enter(&r.conns, d, LF_CONN_WORK, NULL);
    check_cut_after(&r, c, ms(LF_IDLE_MS), &r.conns.metrics.cut_idle);
    no_counters = true; /* where the kernel says nothing, the time counts all the same */
    lf_conn_enter(&r.conns, d, LF_CONN_IDLE, NULL);
    lf_conns_tick(&r.conns, now_ns + ms(LF_IDLE_MS) + 1);
    assert_int_equal(d->state, LF_CONN_CUT);
    close_rig(&r);
}

static void a_body_comes_at_a_least_rate_and_in_its_time(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    open_rig(&r, 8, 0);
    const int64_t at_ms = LF_BODY_GRACE_MS + 1000, need = at_ms * LF_BODY_BYTES_PER_S / 1000;
    struct lf_conn *slow = admit(&r, 1, &full), *fast = admit(&r, 1, &full);
    atomic_store(&slow->body_bytes, 1 << 20); /* of a request before */
    lf_conn_enter(&r.conns, slow, LF_CONN_BODY, NULL);
    lf_conn_enter(&r.conns, fast, LF_CONN_BODY, NULL);
    assert_int_equal(atomic_load(&slow->body_bytes), 0);
    lf_conns_tick(&r.conns, now_ns + ms(LF_BODY_GRACE_MS));
    assert_int_equal(slow->state, LF_CONN_BODY);
    atomic_store(&slow->body_bytes, (uint64_t)need - 1);
    atomic_store(&fast->body_bytes, (uint64_t)need);
    lf_conns_tick(&r.conns, now_ns + ms(at_ms));
    assert_int_equal(slow->state, LF_CONN_CUT);
    assert_int_equal(fast->state, LF_CONN_BODY);
    assert_int_equal(lf_counter_get(&r.conns.metrics.cut_body), 1);
    atomic_store(&fast->body_bytes, 1 << 30);
    lf_conns_tick(&r.conns, now_ns + ms(BODY_MS));
    assert_int_equal(fast->state, LF_CONN_BODY);
    lf_conns_tick(&r.conns, now_ns + ms(BODY_MS) + 1);
    assert_int_equal(fast->state, LF_CONN_CUT);
    assert_int_equal(lf_counter_get(&r.conns.metrics.cut_body), 2);
    close_rig(&r);
}

/* ---- what a client is told before ---- */

/* What the client reads until the end: the statuses of whole answers, one after the other. */
static void check_told(struct rig *r, int peer, const char *statuses)
{
    char text[4096], got[64] = "";
    ssize_t n = recv(r->peers[peer], text, sizeof text - 1, MSG_DONTWAIT);
    text[n > 0 ? n : 0] = '\0';
    for (const char *at = text; *at;) {
        const char *field = strstr(at, "Content-Length: "), *body = strstr(at, "\r\n\r\n");
        assert_true(strncmp(at, "HTTP/1.1 ", 9) == 0 && field && body);
        size_t length = strtoul(field + strlen("Content-Length: "), NULL, 10);
        assert_non_null(strstr(at, "Connection: close\r\n"));
        assert_non_null(strstr(at, "x-request-id: req-"));
        assert_true(strncmp(body + 4, "{\"error\":{\"message\":", 20) == 0 && strlen(body + 4) >= length);
        snprintf(got + strlen(got), sizeof got - strlen(got), "%.3s ", at + 9);
        at = body + 4 + length;
    }
    assert_string_equal(got, statuses);
    assert_int_equal(recv(r->peers[peer], text, 1, MSG_DONTWAIT), 0);
}

static void a_request_that_had_begun_is_told_408(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    open_rig(&r, 8, 0);
    struct lf_conn *head = admit(&r, 1, &full), *next = admit(&r, 1, &full), *body = admit(&r, 1, &full);
    lf_conn_enter(&r.conns, body, LF_CONN_BODY, NULL);
    counters[next->fd].bytes_received = 100;
    lf_conn_enter(&r.conns, next, LF_CONN_ANSWER, NULL);
    lf_conn_enter(&r.conns, next, LF_CONN_IDLE, NULL);
    counters[next->fd].bytes_received = 101;
    counters[head->fd].bytes_received = 1;
    lf_conns_tick(&r.conns, now_ns); /* from here on the next one's head is late */
    lf_conns_tick(&r.conns, now_ns + ms(BODY_MS) + 1);
    for (int i = 0; i < 3; i++) check_told(&r, i, "408 ");
    assert_int_equal(lf_counter_get(&r.conns.metrics.cut_head), 2);
    assert_int_equal(lf_counter_get(&r.conns.metrics.cut_body), 1);
    close_rig(&r);
}

static void a_body_that_is_late_gets_the_answer_that_is_known(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    struct lf_reply reply;
    struct lf_api_err err;
    open_rig(&r, 8, 0);
    struct lf_conn *c = admit(&r, 1, &full), *next = admit(&r, 1, &full);
    lf_reply_init(&reply);
    (void)!lf_refuse(&err, 413, NULL, "body_too_large", "Too large.");
    lf_reply_error(&reply, &err);
    lf_conn_enter(&r.conns, c, LF_CONN_BODY, NULL);
    lf_conn_enter(&r.conns, next, LF_CONN_BODY, NULL);
    lf_conn_answer_known(c, &reply, "req-1");
    lf_conn_answer_known(next, &reply, "req-1");
    lf_conn_enter(&r.conns, next, LF_CONN_IDLE, NULL);
    lf_conn_enter(&r.conns, next, LF_CONN_BODY, NULL); /* another request, of which nothing is known */
    lf_conns_tick(&r.conns, now_ns + ms(BODY_MS) + 1);
    check_told(&r, 0, "413 ");
    check_told(&r, 1, "408 ");
    lf_reply_deinit(&reply);
    close_rig(&r);
}

static void who_said_nothing_or_reads_nothing_is_told_nothing(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    open_rig(&r, 8, 0);
    struct lf_conn *silent = admit(&r, 1, &full), *deaf = admit(&r, 1, &full), *idle = admit(&r, 1, &full);
    counters[deaf->fd] = (struct lf_tcp_counters){.bytes_received = 1, .waiting_bytes = 1};
    counters[idle->fd].bytes_received = 100;
    lf_conn_enter(&r.conns, idle, LF_CONN_ANSWER, NULL);
    lf_conn_enter(&r.conns, idle, LF_CONN_IDLE, NULL);
    lf_conns_tick(&r.conns, now_ns + ms(LF_IDLE_MS) + 1);
    for (int i = 0; i < 3; i++) check_told(&r, i, "");
    assert_int_equal(silent->state, LF_CONN_CUT);
    lf_conn_closed(&r.conns, idle); /* its place, and not what it had said, goes to the next one */
    struct lf_conn *next = admit(&r, 1, &full);
    counters[next->fd].bytes_received = 0;
    lf_conns_tick(&r.conns, now_ns + ms(HEAD_MS) + 1);
    check_told(&r, 3, "");
    no_counters = true;
    struct lf_conn *unknown = admit(&r, 1, &full);
    lf_conn_enter(&r.conns, unknown, LF_CONN_BODY, NULL);
    lf_conns_tick(&r.conns, now_ns + ms(BODY_MS) + 1);
    check_told(&r, 4, "");
    close_rig(&r);
}

/* libmicrohttpd's refusal and the deadline meet: whoever comes first is the only one to speak. */
static void a_connection_ends_once(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    struct lf_api_err err;
    struct lf_wake wake = {0};
    open_rig(&r, 8, 0);
    struct lf_conn *refused = admit(&r, 1, &full), *late = admit(&r, 1, &full);
    (void)!lf_refuse(&err, 431, NULL, "headers_too_large", "Too many.");
    lf_conn_enter(&r.conns, late, LF_CONN_BODY, &wake);
    lf_conn_end(refused, &err);
    assert_int_equal(refused->state, LF_CONN_CUT);
    counters[refused->fd].bytes_received = 1;
    lf_conns_tick(&r.conns, now_ns + ms(BODY_MS) + 1);
    assert_int_equal(wake.n_gone, 1);
    lf_conn_end(late, &err);
    assert_int_equal(wake.n_gone, 1);
    check_told(&r, 0, "431 ");
    check_told(&r, 1, "408 ");
    assert_int_equal(lf_counter_get(&r.conns.metrics.cut_head), 0);
    close_rig(&r);
}

/* Whichever place it has. */
static void each_connection_can_be_ended(void **state)
{
    (void)state;
    struct rig r;
    struct lf_api_err err;
    enum { N = 3 };
    assert_int_equal(lf_refuse(&err, 503, NULL, "draining", "The server is shutting down."), LF_INVALID);
    open_rig(&r, N, 0);
    for (int i = 0; i < N + LF_CONN_HEALTH_N; i++) {
        struct lf_conn *c = admit_busy(&r, 1);
        lf_conn_end(c, &err);
        assert_int_equal(c->state, LF_CONN_CUT);
        assert_true(reads_end(c->fd));
    }
    for (int i = 0; i < r.conns.n_places; i++) assert_ptr_equal(r.conns.places[i].conns, &r.conns);
    close_rig(&r);
}

static void a_client_that_does_not_read_is_cut(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    open_rig(&r, 8, 0);
    struct lf_conn *c = admit(&r, 1, &full);
    counters[c->fd] = (struct lf_tcp_counters){.bytes_acked = 500, .waiting_bytes = 10};
    pass(1);
    lf_conn_enter(&r.conns, c, LF_CONN_ANSWER, NULL); /* what was acknowledged before is no progress */
    check_cut_after(&r, c, ms(READER_MS), &r.conns.metrics.cut_reader);
    close_rig(&r);
}

static void a_client_that_reads_slowly_or_has_all_is_not(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    open_rig(&r, 8, 0);
    struct lf_conn *reads = admit(&r, 1, &full), *has_all = admit(&r, 1, &full), *unknown = admit(&r, 1, &full);
    struct lf_conn *all[] = {reads, has_all, unknown};
    for (int i = 0; i < 3; i++) lf_conn_enter(&r.conns, all[i], LF_CONN_ANSWER, NULL);
    counters[reads->fd].waiting_bytes = 10;
    for (int i = 1; i <= 5; i++) {
        pass(ms(READER_MS));
        counters[reads->fd].bytes_acked += 2 * (uint64_t)LF_READER_BYTES_PER_S * READER_MS / 1000;
        lf_conns_tick(&r.conns, now_ns);
    }
    assert_int_equal(reads->state, LF_CONN_ANSWER);
    assert_int_equal(has_all->state, LF_CONN_ANSWER);
    counters[has_all->fd].waiting_bytes = 1; /* from the last look on */
    lf_conns_tick(&r.conns, now_ns + ms(READER_MS));
    assert_int_equal(reads->state, LF_CONN_ANSWER);
    assert_int_equal(has_all->state, LF_CONN_ANSWER);
    no_counters = true;
    lf_conns_tick(&r.conns, now_ns + ms(READER_MS) + 1);
    assert_int_equal(has_all->state, LF_CONN_ANSWER);
    no_counters = false;
    counters[unknown->fd].bytes_acked = 1; /* as if it had read meanwhile */
    lf_conns_tick(&r.conns, now_ns + ms(READER_MS) + 1);
    assert_int_equal(reads->state, LF_CONN_CUT);
    assert_int_equal(has_all->state, LF_CONN_CUT);
    assert_int_equal(unknown->state, LF_CONN_ANSWER);
    assert_int_equal(lf_counter_get(&r.conns.metrics.cut_reader), 2);
    close_rig(&r);
}

/* Behind for longer than the deadline, and never long without a byte: then it counts how many there were. */
static void a_client_that_reads_below_the_least_rate_is_cut(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    const int64_t late_ms = READER_MS + 1000;
    const uint64_t need = (uint64_t)late_ms * LF_READER_BYTES_PER_S / 1000;
    open_rig(&r, 8, 0);
    struct lf_conn *slow = admit(&r, 1, &full), *fast = admit(&r, 1, &full), *pauses = admit(&r, 1, &full);
    struct lf_conn *all[] = {slow, fast, pauses};
    for (int i = 0; i < 3; i++) {
        counters[all[i]->fd].bytes_acked = 777; /* of the answer before */
        lf_conn_enter(&r.conns, all[i], LF_CONN_ANSWER, NULL);
        counters[all[i]->fd] = (struct lf_tcp_counters){.bytes_acked = 778, .waiting_bytes = 10};
    }
    const int64_t began_ns = now_ns;
    lf_conns_tick(&r.conns, began_ns + ms(READER_MS)); /* one byte, and not late yet */
    for (int i = 0; i < 3; i++) assert_int_equal(all[i]->state, LF_CONN_ANSWER);
    counters[slow->fd].bytes_acked = 777 + need - 1;
    counters[fast->fd].bytes_acked = 777 + need;
    counters[pauses->fd].waiting_bytes = 0; /* it has read all there is: its time begins anew */
    lf_conns_tick(&r.conns, began_ns + ms(late_ms));
    assert_int_equal(slow->state, LF_CONN_CUT);
    assert_int_equal(fast->state, LF_CONN_ANSWER);
    assert_int_equal(pauses->state, LF_CONN_ANSWER);
    assert_int_equal(lf_counter_get(&r.conns.metrics.cut_reader), 1);
    counters[pauses->fd] = (struct lf_tcp_counters){.bytes_acked = 779, .waiting_bytes = 10};
    counters[fast->fd].bytes_acked = 1 << 30;
    lf_conns_tick(&r.conns, began_ns + ms(late_ms + READER_MS));
    assert_int_equal(pauses->state, LF_CONN_ANSWER);
    counters[pauses->fd].bytes_acked = 780;
    lf_conns_tick(&r.conns, began_ns + ms(late_ms + READER_MS) + ms(1) - 1);
    assert_int_equal(pauses->state, LF_CONN_ANSWER);
    lf_conns_tick(&r.conns, began_ns + ms(late_ms + READER_MS + 1));
    assert_int_equal(pauses->state, LF_CONN_CUT); /* three bytes in that time */
    assert_int_equal(fast->state, LF_CONN_ANSWER);
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_place_is_taken_and_given_back),
        cmocka_unit_test(nothing_of_a_table_is_left),
        cmocka_unit_test(libmicrohttpd_takes_it_or_does_not),
        cmocka_unit_test(a_descriptor_that_comes_again_frees_its_place),
        cmocka_unit_test(a_socket_that_cannot_be_watched_is_refused),
        cmocka_unit_test(the_worker_for_a_client_that_left_is_told),
        cmocka_unit_test(one_that_was_closed_without_telling_gives_its_place_back),
        cmocka_unit_test(a_place_that_was_given_away_is_not_hung_up),
        cmocka_unit_test(an_end_that_was_missed_is_shown_again),
        cmocka_unit_test(what_is_cut_stays_cut),
        cmocka_unit_test(a_head_has_its_time),
        cmocka_unit_test(a_head_that_we_have_not_read_is_not_late),
        cmocka_unit_test(between_requests_there_is_time_and_the_first_byte_ends_it),
        cmocka_unit_test(a_body_comes_at_a_least_rate_and_in_its_time),
        cmocka_unit_test(a_request_that_had_begun_is_told_408),
        cmocka_unit_test(a_body_that_is_late_gets_the_answer_that_is_known),
        cmocka_unit_test(who_said_nothing_or_reads_nothing_is_told_nothing),
        cmocka_unit_test(a_connection_ends_once),
        cmocka_unit_test(each_connection_can_be_ended),
        cmocka_unit_test(a_client_that_does_not_read_is_cut),
        cmocka_unit_test(a_client_that_reads_slowly_or_has_all_is_not),
        cmocka_unit_test(a_client_that_reads_below_the_least_rate_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
