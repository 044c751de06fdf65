/* One end of a handshake that a test plays by hand, message by message, rightly or wrongly. */
#ifndef LF_TESTS_UNIT_SERVER_RENDEZVOUS_RAW_RANK_H
#define LF_TESTS_UNIT_SERVER_RENDEZVOUS_RAW_RANK_H

#include "server/rendezvous/stream.h"
#include "server/rendezvous/wire.h"
#include "tests/unit/server/rendezvous/ranks_rig.h"

enum { RAW_PATIENCE_MS = 20 * 1000 };

struct raw {
    int fd;
    struct lf_transcript t;
};

static const struct lf_secret raw_secret = {(const uint8_t *)RIG_SECRET, sizeof RIG_SECRET - 1};

static inline struct lf_wait raw_wait(void)
{
    return (struct lf_wait){.deadline_ns = lf_clock_ns() + RAW_PATIENCE_MS * LF_NS_PER_MS, .watch_fd = -1};
}

static inline struct sockaddr_in raw_at(int port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

/* As soon as somebody listens. */
static inline int raw_connect(int port)
{
    const struct sockaddr_in a = raw_at(port);
    int64_t end_ns = lf_clock_ns() + RAW_PATIENCE_MS * LF_NS_PER_MS;
    while (lf_clock_ns() < end_ns) {
        struct sockaddr_in own;
        socklen_t n = sizeof own;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fd >= 0);
        bool is_in = connect(fd, (const struct sockaddr *)&a, sizeof a) == 0;
        /* a socket can connect to itself where nobody listens yet */
        if (is_in && getsockname(fd, (struct sockaddr *)&own, &n) == 0 && own.sin_port != a.sin_port) return fd;
        close(fd);
        lf_clock_sleep_ms(5);
    }
    fail_msg("nobody listens");
    return -1;
}

static inline int raw_listen(int port)
{
    const int on = 1;
    const struct sockaddr_in a = raw_at(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

static inline void raw_say(int fd, const struct lf_message *m)
{
    const struct lf_wait wait = raw_wait();
    assert_int_equal(lf_stream_put(fd, m, &wait), LF_OK);
}

static inline enum lf_status raw_hear(int fd, struct lf_message *m)
{
    const struct lf_wait wait = raw_wait();
    int version;
    return lf_stream_take(fd, m, &version, &wait);
}

/* HELLO and CHALLENGE. */
static inline struct raw raw_hello(int port, int rank, int to, int n_ranks)
{
    struct raw r = {.fd = raw_connect(port), .t = {.rank = rank, .to = to, .n_ranks = n_ranks}};
    struct lf_message hello = {.type = LF_WIRE_HELLO, .rank = rank, .to = to, .n_ranks = n_ranks}, got;
    assert_true(lf_random_bytes(r.t.caller_nonce, sizeof r.t.caller_nonce));
    memcpy(hello.nonce, r.t.caller_nonce, sizeof hello.nonce);
    raw_say(r.fd, &hello);
    assert_int_equal(raw_hear(r.fd, &got), LF_OK);
    assert_int_equal(got.type, LF_WIRE_CHALLENGE);
    memcpy(r.t.door_nonce, got.nonce, sizeof got.nonce);
    return r;
}

/* A PROOF as it should be, but that nobody listens at the address. */
static inline struct lf_message raw_proof(const struct raw *r, struct lf_secret secret)
{
    struct lf_message proof = {.type = LF_WIRE_PROOF, .address = {.family = 4, .port = 9, .ip = {127, 0, 0, 1}}};
    snprintf(proof.text, sizeof proof.text, "%s", RIG_IDENTITY);
    lf_wire_sign(&proof, &r->t, LF_WIRE_CALLER, secret);
    return proof;
}

/* The code of the ANSWER to a right proof. */
static inline int raw_prove(struct raw *r)
{
    struct lf_message proof = raw_proof(r, raw_secret), got;
    raw_say(r->fd, &proof);
    assert_int_equal(raw_hear(r->fd, &got), LF_OK);
    assert_int_equal(got.type, LF_WIRE_ANSWER);
    assert_true(lf_wire_verify(&got, &r->t, LF_WIRE_DOOR, raw_secret));
    return got.code;
}

/* The other side has closed, within so long. */
static inline void raw_expect_closed(int fd, int within_ms)
{
    char byte;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, within_ms), 1);
    assert_true(recv(fd, &byte, 1, MSG_DONTWAIT) <= 0);
}

/* Each test begins and ends with the same descriptors. */
static int n_fds_before;

static inline int begin(void **state)
{
    (void)state;
    n_fds_before = rig_count_fds();
    return 0;
}

static inline int end(void **state)
{
    (void)state;
    return rig_count_fds() == n_fds_before ? 0 : -1;
}

#endif
