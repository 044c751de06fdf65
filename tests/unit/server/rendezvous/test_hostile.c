/* server/rendezvous: who has no secret, or plays with messages, keeps no true rank out and gets in nowhere. */
#include "tests/unit/server/rendezvous/raw_rank.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>

#include "core/check.h"
#include "server/rendezvous/door.h"

enum { MIB = 1024 * 1024, FLOOD_N = 10000 };

static struct rig r;

static void begin_first(int n_ranks)
{
    rig_make(&r, n_ranks, "127.0.0.1");
    rig_start_rank(&r, 0);
}

/* The true ranks come and all is well. */
static void finish(void)
{
    for (int i = 1; i < r.n_ranks; i++) rig_start_rank(&r, i);
    for (int i = 0; i < r.n_ranks; i++) rig_join_rank(&r, i);
    rig_check(&r);
}

/* As much as the door takes. */
static void throw_bytes(int fd, const uint8_t *bytes, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t sent = send(fd, bytes + done, n - done, MSG_NOSIGNAL);
        if (sent <= 0) return;
        done += (size_t)sent;
    }
}

static void test_garbage(void **state)
{
    (void)state;
    static uint8_t bytes[MIB];
    uint32_t x = 1;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
    begin_first(3);
    for (size_t n = 1; n <= sizeof bytes; n *= 4) {
        int fd = raw_connect(r.port);
        throw_bytes(fd, bytes, n);
        shutdown(fd, SHUT_WR);
        raw_expect_closed(fd, RAW_PATIENCE_MS);
        close(fd);
    }
    finish();
}

/* Heads that are right up to one thing, and bodies that cannot be: closed at the head, or at the last byte. */
static void test_broken_messages(void **state)
{
    (void)state;
    struct lf_message hello = {.type = LF_WIRE_HELLO, .rank = 1, .n_ranks = 2};
    uint8_t good[LF_WIRE_BYTES_MOST];
    size_t n = lf_wire_put(good, &hello);
    static const size_t at[] = {0, 3, 6, 7, 8, 9, 10, 11, 44 + 3, 44 + 7, 44 + 11};
    begin_first(2);
    for (size_t i = 0; i < LF_N_ELEMS(at); i++) {
        uint8_t bad[LF_WIRE_BYTES_MOST];
        memcpy(bad, good, n);
        bad[at[i]] ^= 0x80;
        int fd = raw_connect(r.port);
        throw_bytes(fd, bad, at[i] < LF_WIRE_HEAD_BYTES ? LF_WIRE_HEAD_BYTES : n);
        raw_expect_closed(fd, LF_DOOR_SLOT_MS / 2);
        close(fd);
    }
    /* messages that a door does not take, from nobody it knows */
    for (int type = LF_WIRE_CHALLENGE; type < LF_WIRE_TYPES_N; type++) {
        struct lf_message m = {.type = (enum lf_wire_type)type, .address = {.family = 4, .port = 1}};
        int fd = raw_connect(r.port);
        n = lf_wire_put(good, &m);
        throw_bytes(fd, good, n);
        raw_expect_closed(fd, LF_DOOR_SLOT_MS / 2);
        close(fd);
    }
    finish();
}

static void test_another_version(void **state)
{
    (void)state;
    struct lf_message hello = {.type = LF_WIRE_HELLO, .rank = 1, .n_ranks = 2}, got;
    uint8_t bytes[LF_WIRE_BYTES_MOST];
    size_t n = lf_wire_put(bytes, &hello);
    bytes[4]++;
    begin_first(2);
    int fd = raw_connect(r.port);
    throw_bytes(fd, bytes, n);
    assert_int_equal(raw_hear(fd, &got), LF_OK);
    assert_int_equal(got.type, LF_WIRE_DENIED);
    close(fd);
    finish();
}

/* A byte a second, silence, and half a handshake all have the slot's time and no more. */
static void test_slow_ones(void **state)
{
    (void)state;
    struct lf_message hello = {.type = LF_WIRE_HELLO, .rank = 1, .n_ranks = 3};
    uint8_t bytes[LF_WIRE_BYTES_MOST];
    lf_wire_put(bytes, &hello);
    begin_first(3);
    int64_t start_ns = lf_clock_ns();
    int silent = raw_connect(r.port), drip = raw_connect(r.port);
    struct raw half = raw_hello(r.port, 1, 0, 3);
    size_t n_sent = 0;
    bool is_open = true;
    while (is_open && lf_clock_ns() - start_ns < RAW_PATIENCE_MS * LF_NS_PER_MS) {
        is_open = send(drip, bytes + n_sent++, 1, MSG_NOSIGNAL) == 1;
        struct pollfd p = {.fd = drip, .events = POLLIN};
        is_open = is_open && poll(&p, 1, 1000) == 0;
    }
    int64_t lived_ms = (lf_clock_ns() - start_ns) / LF_NS_PER_MS;
    assert_true(!is_open && lived_ms >= LF_DOOR_SLOT_MS && n_sent < LF_WIRE_HEAD_BYTES);
    raw_expect_closed(silent, LF_DOOR_SLOT_MS * SLOWNESS);
    raw_expect_closed(half.fd, LF_DOOR_SLOT_MS * SLOWNESS);
    assert_true(lived_ms < 2 * LF_DOOR_SLOT_MS * SLOWNESS);
    close(silent);
    close(drip);
    close(half.fd);
    finish();
}

static void test_immediate_close(void **state)
{
    (void)state;
    const struct linger reset = {.l_onoff = 1};
    begin_first(3);
    for (int i = 0; i < 200; i++) {
        int fd = raw_connect(r.port);
        if (i % 2) (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(fd);
    }
    struct raw half = raw_hello(r.port, 1, 0, 3);
    close(half.fd);
    finish();
}

static void expect_denied(const struct raw *raw, const struct lf_message *proof)
{
    struct lf_message got;
    raw_say(raw->fd, proof);
    assert_int_equal(raw_hear(raw->fd, &got), LF_OK);
    assert_int_equal(got.type, LF_WIRE_DENIED);
    raw_expect_closed(raw->fd, RAW_PATIENCE_MS);
    close(raw->fd);
}

/* All that the true rank said the last time, nonce included. */
static void test_replay(void **state)
{
    (void)state;
    begin_first(2);
    struct raw first = raw_hello(r.port, 1, 0, 2);
    struct lf_message recorded = raw_proof(&first, raw_secret), got;
    assert_int_equal(raw_prove(&first), LF_ANSWER_WELCOME);
    assert_int_equal(raw_hear(first.fd, &got), LF_OK); /* the table: all are in */
    close(first.fd);
    rig_join_rank(&r, 0); /* its READY never came */
    rig_check_failed(&r.ranks[0], LF_DEVICE, "rank 1 went away");

    begin_first(2);
    struct raw again = {.fd = raw_connect(r.port)};
    struct lf_message hello = {.type = LF_WIRE_HELLO, .rank = 1, .n_ranks = 2};
    memcpy(hello.nonce, first.t.caller_nonce, sizeof hello.nonce);
    raw_say(again.fd, &hello);
    assert_int_equal(raw_hear(again.fd, &got), LF_OK);
    assert_int_equal(got.type, LF_WIRE_CHALLENGE);
    assert_memory_not_equal(got.nonce, first.t.door_nonce, sizeof got.nonce);
    expect_denied(&again, &recorded);
    finish();
}

/* Each thing that a proof is over, changed after it was made. */
static void test_changed_proofs(void **state)
{
    (void)state;
    begin_first(3);
    for (int i = 0; i < 6; i++) {
        struct raw raw = raw_hello(r.port, 1, 0, 3);
        struct raw signer = raw;
        if (i == 0) signer.t.rank = 2;
        if (i == 1) signer.t.to = 1;
        if (i == 2) signer.t.n_ranks = 2;
        struct lf_message proof = raw_proof(&signer, raw_secret);
        if (i == 3) proof.text[0] = 'L';
        if (i == 4) proof.address.port++;
        if (i == 5) lf_wire_sign(&proof, &raw.t, LF_WIRE_DOOR, raw_secret);
        expect_denied(&raw, &proof);
    }
    finish();
}

/* Behind the handshake messages have proofs too: READY of who does not know the secret, or out of its turn. */
static void test_messages_behind_the_handshake(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        struct lf_message m;
        begin_first(2);
        struct raw raw = raw_hello(r.port, 1, 0, 2);
        assert_int_equal(raw_prove(&raw), LF_ANSWER_WELCOME);
        assert_int_equal(raw_hear(raw.fd, &m), LF_OK);
        assert_int_equal(m.type, LF_WIRE_TABLE);
        m = (struct lf_message){.type = way == 2 ? LF_WIRE_GO : LF_WIRE_READY};
        lf_wire_sign(&m, &raw.t, way == 1 ? LF_WIRE_DOOR : LF_WIRE_CALLER, raw_secret);
        if (way == 0) m.mac[0] ^= 1;
        raw_say(raw.fd, &m);
        rig_join_rank(&r, 0);
        rig_check_failed(&r.ranks[0], LF_CORRUPT, "rank 1 sent what it must not");
        close(raw.fd);
    }
}

/* A write to who has gone away is an error and no SIGPIPE, which would end this program. */
static void test_nobody_reads(void **state)
{
    (void)state;
    const struct lf_message m = {.type = LF_WIRE_DENIED};
    const struct lf_wait wait = raw_wait();
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    close(fds[1]);
    assert_int_equal(lf_stream_put(fds[0], &m, &wait), LF_IO);
    assert_false(lf_stream_put_now(fds[0], &m));
    close(fds[0]);
}

struct impostor {
    int listener;
    int way;
    pthread_t thread;
};

/* In place of rank 0, without the secret: what it gets it sends back as its own answer. */
static void *pretend(void *ctx)
{
    const struct impostor *im = ctx;
    struct lf_message m = {0}, answer = {.type = LF_WIRE_ANSWER, .rank = 1, .n_ranks = 2};
    int fd = accept4(im->listener, NULL, NULL, SOCK_CLOEXEC);
    bool ok = fd >= 0 && raw_hear(fd, &m) == LF_OK;
    struct lf_message challenge = {.type = LF_WIRE_CHALLENGE};
    memcpy(challenge.nonce, m.nonce, sizeof m.nonce); /* the rank's own nonce: both sides of the proof look the same */
    const struct lf_wait wait = raw_wait();
    ok = ok && lf_stream_put(fd, &challenge, &wait) == LF_OK && raw_hear(fd, &m) == LF_OK;
    memcpy(answer.mac, m.mac, sizeof m.mac);
    snprintf(answer.text, sizeof answer.text, "%s", m.text);
    ok = ok && lf_stream_put(fd, im->way == 0 ? &answer : &m, &wait) == LF_OK;
    if (ok) (void)raw_hear(fd, &m); /* until the rank goes away */
    if (fd >= 0) close(fd);
    return NULL;
}

static void test_reflected_proof(void **state)
{
    (void)state;
    static const char *const words[] = {"does not know the secret", "no LongFlash rank"};
    for (int way = 0; way < 2; way++) {
        rig_make(&r, 2, "127.0.0.1");
        struct impostor im = {.listener = raw_listen(r.port), .way = way};
        assert_int_equal(pthread_create(&im.thread, NULL, pretend, &im), 0);
        rig_run_rank(&r.ranks[1]);
        rig_check_failed(&r.ranks[1], LF_INVALID, words[way]);
        pthread_join(im.thread, NULL);
        close(im.listener);
    }
}

static void *answer_http(void *ctx)
{
    static const char page[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    const struct impostor *im = ctx;
    struct lf_message m;
    int fd = accept4(im->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) return NULL;
    (void)raw_hear(fd, &m);
    throw_bytes(fd, (const uint8_t *)page, sizeof page - 1);
    (void)raw_hear(fd, &m);
    close(fd);
    return NULL;
}

static void test_another_server_at_the_address(void **state)
{
    (void)state;
    rig_make(&r, 2, "127.0.0.1");
    struct impostor im = {.listener = raw_listen(r.port)};
    assert_int_equal(pthread_create(&im.thread, NULL, answer_http, &im), 0);
    rig_run_rank(&r.ranks[1]);
    rig_check_failed(&r.ranks[1], LF_INVALID, "no LongFlash rank");
    pthread_join(im.thread, NULL);
    close(im.listener);
}

struct flood {
    int port, n_opened;
    atomic_bool over;
    pthread_t thread;
};

/* Connections as fast as they go, so many held at once; every third says HELLO and waits for its challenge. Behind
 * the rendezvous nobody listens, and the rest of them is refused. */
static void *flood(void *ctx)
{
    enum { HELD_N = 200 };
    struct flood *f = ctx;
    const struct sockaddr_in a = raw_at(f->port);
    int held[HELD_N];
    uint8_t hello[LF_WIRE_BYTES_MOST];
    size_t n = lf_wire_put(hello, &(struct lf_message){.type = LF_WIRE_HELLO, .rank = 1, .n_ranks = 4});
    for (int i = 0; i < HELD_N; i++) held[i] = -1;
    for (int i = 0; i < FLOOD_N && !atomic_load(&f->over); i++) {
        int *fd = &held[i % HELD_N];
        if (*fd >= 0) close(*fd);
        *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (*fd < 0) continue;
        bool is_begun = connect(*fd, (const struct sockaddr *)&a, sizeof a) == 0 || errno == EINPROGRESS;
        if (is_begun && i % 3 == 0) (void)send(*fd, hello, n, MSG_NOSIGNAL);
        f->n_opened++;
    }
    for (int i = 0; i < HELD_N; i++)
        if (held[i] >= 0) close(held[i]);
    return NULL;
}

/* The ranks come into the middle of it; the last only when it is over, so that the door has seen all of it. */
static void test_flood(void **state)
{
    (void)state;
    begin_first(4);
    close(raw_connect(r.port));
    struct flood f = {.port = r.port};
    atomic_init(&f.over, false);
    assert_int_equal(pthread_create(&f.thread, NULL, flood, &f), 0);
    rig_start_rank(&r, 1);
    rig_start_rank(&r, 2);
    pthread_join(f.thread, NULL);
    assert_int_equal(f.n_opened, FLOOD_N);
    rig_start_rank(&r, 3);
    for (int i = 0; i < 4; i++) rig_join_rank(&r, i);
    rig_check(&r);
}

static void *flood_for_ever(void *ctx)
{
    struct flood *f = ctx;
    while (!atomic_load(&f->over)) flood(f);
    return NULL;
}

/* It does not end before all are in. */
static void test_endless_flood(void **state)
{
    (void)state;
    begin_first(4);
    close(raw_connect(r.port));
    struct flood f = {.port = r.port};
    atomic_init(&f.over, false);
    assert_int_equal(pthread_create(&f.thread, NULL, flood_for_ever, &f), 0);
    for (int i = 1; i < 4; i++) rig_start_rank(&r, i);
    for (int i = 0; i < 4; i++) rig_join_rank(&r, i);
    atomic_store(&f.over, true);
    pthread_join(f.thread, NULL);
    rig_check(&r);
}

/* More who wait than slots: the oldest makes room, and one that has said HELLO is kept longer than one that has not. */
static void test_full_door(void **state)
{
    (void)state;
    int silent[LF_DOOR_SLOTS_N + 8];
    begin_first(2);
    struct raw half = raw_hello(r.port, 1, 0, 2);
    for (size_t i = 0; i < LF_N_ELEMS(silent); i++) silent[i] = raw_connect(r.port);
    for (size_t i = 0; i < 8; i++) raw_expect_closed(silent[i], LF_DOOR_SLOT_MS / 2);
    struct pollfd p = {.fd = half.fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 0), 0);
    for (size_t i = 0; i < LF_N_ELEMS(silent); i++) close(silent[i]);
    close(half.fd);
    finish();
}

static void ignore(int signal)
{
    (void)signal;
}

/* Signals all the time, and none restarts a call. */
static void test_signals(void **state)
{
    (void)state;
    const struct sigaction act = {.sa_handler = ignore};
    const struct itimerval often = {.it_interval = {.tv_usec = 500}, .it_value = {.tv_usec = 500}}, never = {0};
    struct sigaction before;
    assert_int_equal(sigaction(SIGALRM, &act, &before), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    for (int i = 0; i < 5; i++) {
        rig_make(&r, 4, "127.0.0.1");
        r.ranks[0].delay_ms = i * 20;
        rig_run(&r);
        rig_check(&r);
    }
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
}

/* No descriptor is free for a while: rank 0 neither fails nor spins. */
static void test_no_descriptors(void **state)
{
    (void)state;
    struct rlimit before, few;
    struct timespec used_before, used;
    begin_first(2);
    int fd = raw_connect(r.port);
    close(fd);
    int waiting = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = (rlim_t)waiting + 1;
    lf_clock_sleep_ms(100);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    const struct sockaddr_in a = raw_at(r.port);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used_before);
    int connected = connect(waiting, (const struct sockaddr *)&a, sizeof a);
    lf_clock_sleep_ms(500);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(connected, 0);
    int64_t used_ns = (used.tv_sec - used_before.tv_sec) * LF_NS_PER_S + used.tv_nsec - used_before.tv_nsec;
    assert_true(used_ns < 100 * LF_NS_PER_MS);
    close(waiting);
    finish();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_garbage),
        TEST(test_broken_messages),
        TEST(test_another_version),
        TEST(test_slow_ones),
        TEST(test_immediate_close),
        TEST(test_replay),
        TEST(test_changed_proofs),
        TEST(test_messages_behind_the_handshake),
        TEST(test_nobody_reads),
        TEST(test_reflected_proof),
        TEST(test_another_server_at_the_address),
        TEST(test_flood),
        TEST(test_endless_flood),
        TEST(test_full_door),
        TEST(test_signals),
        TEST(test_no_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
