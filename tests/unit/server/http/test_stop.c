/* Ending the HTTP server while clients talk to it: libmicrohttpd is stopped when no connection is left, because a
 * refusal of its own at that moment would crash it; and the workers when nothing is on its way to them. */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/log.h"
#include "server/http/conn/server.h"
#include "tests/support/scripted_engine.h"
#include "tests/support/fake_tokenizer.h"

enum { CLIENTS_N = 6, STOPS_N = 40 };

static struct lf_http_server *server;
static _Atomic int port, n_open_at_stop;

struct MHD_Daemon;
void __real_MHD_stop_daemon(struct MHD_Daemon *daemon);
void __wrap_MHD_stop_daemon(struct MHD_Daemon *daemon);

void __wrap_MHD_stop_daemon(struct MHD_Daemon *daemon)
{
    atomic_fetch_add(&n_open_at_stop, lf_conns_n_open(&server->conns));
    __real_MHD_stop_daemon(daemon);
}

/* A thread of libmicrohttpd that is put aside between lending a connection to the workers and telling them: until they
 * have stopped, or for as long as they surely would have. */
static _Atomic bool put_late, on_its_way, workers_stopped;

void __real_lf_workers_enqueue(struct lf_workers *workers, struct lf_job *job);
void __wrap_lf_workers_enqueue(struct lf_workers *workers, struct lf_job *job);
void __real_lf_workers_stop(struct lf_workers *workers);
void __wrap_lf_workers_stop(struct lf_workers *workers);

void __wrap_lf_workers_enqueue(struct lf_workers *workers, struct lf_job *job)
{
    if (atomic_load(&put_late)) {
        atomic_store(&on_its_way, true);
        while (!atomic_load(&server->waker.stopping)) lf_clock_sleep_ms(1);
        for (int i = 0; i < 500 && !atomic_load(&workers_stopped); i++) lf_clock_sleep_ms(1);
        LF_ASSERT(!atomic_load(&workers_stopped));
    }
    __real_lf_workers_enqueue(workers, job);
}

void __wrap_lf_workers_stop(struct lf_workers *workers)
{
    __real_lf_workers_stop(workers);
    if (atomic_load(&put_late)) atomic_store(&workers_stopped, true);
}

static int connect_to(int to)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons((uint16_t)to)};
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&here, sizeof here) == 0) return fd;
    close(fd);
    return -1;
}

/* Also by a reset, where it had not been accepted yet. */
static bool has_ended(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, 0);
    return n == 0 || (n < 0 && errno == ECONNRESET);
}

/* What libmicrohttpd refuses by itself, again and again, until the test ends (a port of -1). */
static void *refused(void *ctx)
{
    static const char *const heads[] = {
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: none\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    };
    unsigned i = *(const unsigned *)ctx;
    int to;
    while ((to = atomic_load(&port)) >= 0) {
        int fd = to ? connect_to(to) : -1;
        if (fd < 0) continue;
        const char *head = heads[i++ % LF_N_ELEMS(heads)];
        (void)!send(fd, head, strlen(head), MSG_NOSIGNAL);
        if (i % 2) lf_clock_sleep_ms(1);
        close(fd);
    }
    return NULL;
}

static void no_connection_is_left_when_the_library_stops(void **state)
{
    (void)state;
    const struct lf_http_opts opts = {.n_connections = 64, .n_threads = 2, .model_id = "m"};
    struct scripted_engine_opts engine_opts = {
        .ctx = 64, .n_blocks = 4, .max_seqs = 2, .queue_n = 4, .per_tenant_n = 4};
    struct lf_engine *engine = scripted_engine_create(&engine_opts);
    pthread_t threads[CLIENTS_N];
    unsigned numbers[CLIENTS_N];
    for (unsigned i = 0; i < CLIENTS_N; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, refused, &numbers[i]), 0);
    }
    for (int i = 0; i < STOPS_N; i++) {
        struct lf_err err = {0};
        assert_int_equal(lf_http_server_create(&server, &opts, &err), LF_OK);
        lf_http_server_ready(server, fake_tokenizer(), NULL, engine);
        int silent = connect_to(lf_http_server_port(server)), half = connect_to(lf_http_server_port(server));
        assert_int_equal(send(half, "GET /hea", 8, MSG_NOSIGNAL), 8);
        atomic_store(&port, lf_http_server_port(server));
        lf_clock_sleep_ms(5 + i % 5);
        lf_http_server_drain(server);
        lf_http_server_destroy(server);
        assert_true(has_ended(silent));
        assert_true(has_ended(half));
        close(silent);
        close(half);
    }
    atomic_store(&port, -1);
    for (int i = 0; i < CLIENTS_N; i++) pthread_join(threads[i], NULL);
    lf_engine_destroy(engine);
    assert_int_equal(atomic_load(&n_open_at_stop), 0);
}

static void what_is_on_its_way_to_a_worker_reaches_it(void **state)
{
    (void)state;
    static const char request[] = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                  "Content-Length: 14\r\n\r\n{\"prompt\":\"a\"}";
    const struct lf_http_opts opts = {.n_connections = 64, .n_threads = 2, .model_id = "m"};
    struct scripted_engine_opts engine_opts = {
        .ctx = 64, .n_blocks = 4, .max_seqs = 2, .queue_n = 4, .per_tenant_n = 4};
    struct lf_engine *engine = scripted_engine_create(&engine_opts);
    struct lf_err err = {0};
    assert_int_equal(lf_http_server_create(&server, &opts, &err), LF_OK);
    lf_http_server_ready(server, fake_tokenizer(), NULL, engine);
    atomic_store(&put_late, true);
    int fd = connect_to(lf_http_server_port(server));
    assert_int_equal(send(fd, request, sizeof request - 1, MSG_NOSIGNAL), sizeof request - 1);
    while (!atomic_load(&on_its_way)) lf_clock_sleep_ms(1);
    lf_http_server_destroy(server);
    assert_true(has_ended(fd));
    close(fd);
    lf_engine_destroy(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_connection_is_left_when_the_library_stops),
        cmocka_unit_test(what_is_on_its_way_to_a_worker_reaches_it),
    };
    lf_log_set_level(LF_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
