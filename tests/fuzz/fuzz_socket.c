/* Fuzzing the server over real sockets: server, engine double and fuzzer in one process.
 *
 * An input is a script. Its bytes are what clients send; a byte 0xff begins a command of two bytes, so that a seed is
 * plain HTTP with a few commands in it, and the fuzzer can cut, merge and reorder by moving them:
 *
 *   ff 00..03   from here on connection 0..3 (opened when first used)
 *   ff 04       send what was collected for this connection, now: the next bytes are another segment
 *   ff 05       close the sending side
 *   ff 06       reset the connection
 *   ff 07       wait until the server has read what was sent (a good client's request beside it was answered)
 *   ff 08       read what has come
 *   ff 09       send the last segment 64 times more
 *   ff other    the byte 0xff
 *
 * One server serves all inputs. Nothing sleeps: a good client on a connection of its own asks for tokens, and its
 * answer says that the threads are alive and have passed over what came before. It must be 200 every time. What comes
 * back to the script's connections must be answers: a status line, its length, nothing between two. In the end each
 * connection is half-closed, and the server must close it too.
 *
 * Addresses: each connection comes from another one of 127/8, so that neither the limit for one address nor the ports
 * that wait after a close are in the way. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include "core/clock.h"
#include "core/log.h"
#include "server/http/conn/http_server.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/scripted_engine.h"
#include "tests/support/fake_tokenizer.h"

enum {
    CONNECTIONS_N = 4,
    SEGMENT_BYTES = 16 * 1024,
    ANSWER_BYTES = 256 * 1024,
    REPEATS_N = 64,
    WAIT_MS = 20 * 1000, /* far past every deadline of the server: then it hangs */
    TOKENS_EVERY = 4,
    COMPLETION_EVERY = 64
};

struct connection {
    int fd; /* -1: not open */
    char segment[SEGMENT_BYTES];
    size_t n_segment, n_last; /* collected; sent last, still in `segment` */
    struct lf_buf answers;
    bool half_closed, over; /* over: the server closed it */
    bool has_head;          /* "HEAD" was sent, perhaps in several segments: an answer may have a length and no body */
    uint32_t last_bytes;    /* sent, the latest lowest */
};

static struct {
    struct lf_http_server *server;
    struct lf_engine *engine;
    int port, good_fd;
    uint32_t n_opened, n_inputs;
    struct connection connections[CONNECTIONS_N];
} rig = {.good_fd = -1};

/* ---- the server ---- */

static void stop_server(void)
{
    if (!rig.server) return;
    close(rig.good_fd);
    lf_http_server_destroy(rig.server);
    /* the double's thread lets go of what was cancelled when it next looks */
    for (int i = 0; i < WAIT_MS && scripted_engine_n_requests(rig.engine) > 0; i++) lf_clock_sleep_ms(1);
    LF_ASSERT(scripted_engine_n_requests(rig.engine) == 0);
    lf_engine_destroy(rig.engine);
    for (int i = 0; i < CONNECTIONS_N; i++) lf_buf_deinit(&rig.connections[i].answers);
    rig.good_fd = -1;
    rig.server = NULL;
}

static void start_server(void)
{
    static const struct lf_http_opts http = {.host = "127.0.0.1",
                                             .max_body_bytes = 64 * 1024,
                                             .n_threads = 2,
                                             .request_deadline_ms = 500,
                                             .header_deadline_ms = 500,
                                             .body_deadline_ms = 500,
                                             .slow_reader_ms = 500,
                                             .model_id = "fake"};
    const struct scripted_engine_opts engine = {.ctx = 512,
                                                .n_blocks = 65536,
                                                .max_seqs = 64,
                                                .queue_n = 8192,
                                                .per_tenant_n = 8192,
                                                .tokenizer = fake_tokenizer(),
                                                .ends = {FAKE_EOS},
                                                .n_ends = 1};
    static bool registered = false;
    struct lf_err err;
    signal(SIGPIPE, SIG_IGN);
    lf_log_set_level(LF_LOG_ERROR);
    LF_ASSERT(lf_http_server_create(&rig.server, &http, &err) == LF_OK);
    rig.engine = scripted_engine_create(&engine);
    LF_ASSERT(rig.engine != NULL);
    lf_http_server_ready(rig.server, fake_tokenizer(), (const struct lf_chat_template *)(const void *)"double",
                         rig.engine);
    rig.port = lf_http_server_port(rig.server);
    for (int i = 0; i < CONNECTIONS_N; i++) {
        rig.connections[i].fd = -1;
        lf_buf_init(&rig.connections[i].answers, ANSWER_BYTES);
    }
    if (!registered) LF_ASSERT(atexit(stop_server) == 0);
    registered = true;
}

static bool engine_is_alive(void)
{
    struct lf_engine_state state;
    lf_engine_snapshot(rig.engine, &state);
    return state.alive;
}

/* The engine double dies when a prompt tells it to, and stays dead: another one then. */
static void replace_dead_engine(void)
{
    if (engine_is_alive()) return;
    stop_server();
    start_server();
}

/* ---- sockets ---- */

/* Whether an event came in time. libFuzzer's alarm interrupts. */
static bool wait_for(int fd, short events, int ms)
{
    struct pollfd p = {.fd = fd, .events = events};
    int64_t end = lf_clock_ns() + (int64_t)ms * LF_NS_PER_MS;
    for (;;) {
        int n = poll(&p, 1, ms);
        if (n >= 0 || errno != EINTR) return n == 1;
        ms = (int)LF_MAX((end - lf_clock_ns()) / LF_NS_PER_MS, 0);
    }
}

static int dial(uint32_t address)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)rig.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
    int yes = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    LF_ASSERT(fd >= 0);
    (void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    LF_ASSERT(bind(fd, (const struct sockaddr *)&from, sizeof from) == 0);
    if (connect(fd, (const struct sockaddr *)&to, sizeof to) == 0) return fd;
    /* libFuzzer's alarm interrupts one that waits for room in the queue of accept; it goes on by itself. */
    int error = errno;
    socklen_t n = sizeof error;
    if (error == EINTR && wait_for(fd, POLLOUT, WAIT_MS))
        LF_ASSERT(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) == 0);
    if (error != 0) (void)fprintf(stderr, "connect: %s\n", strerror(error));
    LF_ASSERT(error == 0);
    return fd;
}

/* 127.1.0.1 and up: 2 million addresses, each used for a connection before one is used again. */
static uint32_t next_address(void)
{
    return 0x7f010001u + rig.n_opened++ % (1u << 21);
}

/* What has come, without waiting (wait_ms 0) or after waiting for it; false when the connection is over. */
static bool receive(struct connection *c, int wait_ms)
{
    char bytes[16 * 1024];
    while (!c->over) {
        if (!wait_for(c->fd, POLLIN, wait_ms)) return true;
        ssize_t n = recv(c->fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n <= 0) c->over = true;
        if (n > 0 && c->answers.len + (size_t)n <= ANSWER_BYTES) lf_buf_append(&c->answers, bytes, (size_t)n);
        wait_ms = 0;
    }
    return false;
}

static void note_sent(struct connection *c, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        c->last_bytes = c->last_bytes << 8 | (uint8_t)bytes[i];
        if (c->last_bytes == 0x48454144u) c->has_head = true;
    }
}

static void send_all(struct connection *c, const char *bytes, size_t n)
{
    note_sent(c, bytes, n);
    while (n && !c->over && !c->half_closed) {
        ssize_t done = send(c->fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (done > 0) {
            bytes += done;
            n -= (size_t)done;
        } else if (errno == EAGAIN) {
            LF_ASSERT(wait_for(c->fd, POLLIN | POLLOUT, WAIT_MS)); /* the server neither reads nor cuts */
            (void)receive(c, 0);
        } else {
            (void)receive(c, 0);
            c->over = true;
        }
    }
}

static struct connection *open_connection(int i)
{
    struct connection *c = &rig.connections[i];
    if (c->fd >= 0) return c;
    c->fd = dial(next_address());
    c->n_segment = c->n_last = 0;
    c->half_closed = c->over = c->has_head = false;
    c->last_bytes = 0;
    lf_buf_clear(&c->answers);
    return c;
}

static void flush_segment(struct connection *c)
{
    send_all(c, c->segment, c->n_segment);
    if (c->n_segment) c->n_last = c->n_segment;
    c->n_segment = 0;
}

static void half_close(struct connection *c)
{
    flush_segment(c);
    if (!c->over && !c->half_closed) (void)shutdown(c->fd, SHUT_WR);
    c->half_closed = true;
}

/* ---- the good client ---- */

/* Sends the request and reads the answer, all of it; false where the connection ended, which the server may do between
 * two requests. */
static bool good_exchange(const char *request, const char *want)
{
    char answer[4096];
    size_t n = 0;
    if (send(rig.good_fd, request, strlen(request), MSG_NOSIGNAL) != (ssize_t)strlen(request)) return false;
    for (;;) {
        LF_ASSERT(wait_for(rig.good_fd, POLLIN, WAIT_MS)); /* the good client waits in vain: the server hangs */
        ssize_t got = recv(rig.good_fd, answer + n, sizeof answer - 1 - n, 0);
        if (got <= 0) return false;
        n += (size_t)got;
        answer[n] = 0;
        const char *body = strstr(answer, "\r\n\r\n"), *length = strstr(answer, "Content-Length: ");
        if (body && length && n >= (size_t)(body + 4 - answer) + strtoul(length + 16, NULL, 10)) break;
    }
    if (!engine_is_alive()) return true;
    /* this machine had no time for it in half a second */
    if (strncmp(answer, "HTTP/1.1 408 ", 13) == 0 || strstr(answer, "\"timed_out\":true")) return false;
    if (strncmp(answer, "HTTP/1.1 200 ", 13) != 0 || !strstr(answer, want)) {
        fprintf(stderr, "the good client got: %s\n", answer);
        abort();
    }
    return true;
}

static void ask_well(void)
{
    static const struct {
        const char *request, *want;
    } kinds[] = {{"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", "200"},
                 {"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                  "Content-Length: 18\r\n\r\n{\"content\":\"good\"}",
                  "103,111,111,100]"},
                 {"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                  "Content-Length: 25\r\n\r\n{\"prompt\":\"[[say=well]]\"}",
                  "\"well\""}};
    int kind = rig.n_inputs % COMPLETION_EVERY == 0 ? 2 : rig.n_inputs % TOKENS_EVERY == 0 ? 1 : 0;
    for (int attempt = 0; attempt < 3; attempt++) {
        if (rig.good_fd < 0) rig.good_fd = dial(INADDR_LOOPBACK);
        if (good_exchange(kinds[kind].request, kinds[kind].want)) return;
        close(rig.good_fd);
        rig.good_fd = -1;
    }
    fprintf(stderr, "the good client was cut off three times\n");
    abort();
}

/* ---- what came back ---- */

/* The answer at the beginning of the bytes: its length, 0 where it is cut or in chunks. */
static size_t answer_bytes(struct lf_str s)
{
    LF_ASSERT(lf_str_starts(s, lf_str_from("HTTP/1.", LF_MIN(s.len, sizeof "HTTP/1." - 1))));
    ptrdiff_t head = lf_str_find(s, LF_STR("\r\n\r\n"));
    if (head < 0) return 0;
    struct lf_str fields = lf_str_from(s.ptr, (size_t)head + 2);
    if (lf_str_starts(s, LF_STR("HTTP/1.1 100 "))) return (size_t)head + 4;
    LF_ASSERT(lf_str_find(fields, LF_STR("\r\nx-request-id: ")) >= 0); /* libmicrohttpd's own would have none */
    if (lf_str_starts(s, LF_STR("HTTP/1.1 204 "))) return (size_t)head + 4;
    ptrdiff_t length = lf_str_find(fields, LF_STR("\r\nContent-Length: "));
    if (length < 0) return 0;
    size_t n = (size_t)head + 4 + strtoul(fields.ptr + length + 18, NULL, 10);
    return n <= s.len ? n : 0;
}

static void check_answers(const struct connection *c)
{
    struct lf_str rest = lf_buf_view(&c->answers);
    for (size_t n; rest.len && (n = answer_bytes(rest)) > 0; rest = lf_str_from(rest.ptr + n, rest.len - n))
        if (c->has_head) return;
}

/* ---- the script ---- */

static struct connection *obey(struct connection *c, uint8_t command)
{
    switch (command) {
    case 0:
    case 1:
    case 2:
    case 3:
        return open_connection(command);
    case 4:
        flush_segment(c);
        break;
    case 5:
        half_close(c);
        break;
    case 6: {
        const struct linger reset = {.l_onoff = 1};
        flush_segment(c);
        (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(c->fd);
        c->fd = -1;
        return open_connection((int)(c - rig.connections));
    }
    case 7:
        flush_segment(c);
        ask_well();
        break;
    case 8:
        (void)receive(c, 0);
        break;
    case 9:
        flush_segment(c);
        for (int i = 0; i < REPEATS_N; i++) send_all(c, c->segment, c->n_last);
        break;
    default:
        return NULL;
    }
    return c;
}

static void collect(struct connection *c, uint8_t byte)
{
    if (c->n_segment == SEGMENT_BYTES) flush_segment(c);
    c->segment[c->n_segment++] = (char)byte;
}

static void run_script(const uint8_t *data, size_t size)
{
    struct connection *c = open_connection(0);
    for (size_t i = 0; i < size; i++) {
        if (data[i] == 0xff && i + 1 < size) {
            struct connection *next = obey(c, data[++i]);
            if (next)
                c = next;
            else
                collect(c, 0xff);
            continue;
        }
        collect(c, data[i]);
    }
}

/* All that is still collected goes out; when the good client was answered, the connections end, and the server must end
 * them too. */
static void finish(void)
{
    for (int i = 0; i < CONNECTIONS_N; i++)
        if (rig.connections[i].fd >= 0) flush_segment(&rig.connections[i]);
    ask_well();
    for (int i = 0; i < CONNECTIONS_N; i++) {
        struct connection *c = &rig.connections[i];
        if (c->fd < 0) continue;
        (void)receive(c, 0);
        half_close(c);
        int64_t end = lf_clock_ns() + (int64_t)WAIT_MS * LF_NS_PER_MS;
        while (receive(c, WAIT_MS)) LF_ASSERT(lf_clock_ns() < end); /* the server does not let go of the connection */
        check_answers(c);
        close(c->fd);
        c->fd = -1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!rig.server) start_server();
    rig.n_inputs++;
    run_script(data, size);
    finish();
    replace_dead_engine();
    return 0;
}
