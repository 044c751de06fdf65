#include "server/rendezvous/stream.h"

#include <errno.h>
#include <sys/socket.h>

#include "core/check.h"
#include "core/clock.h"

int lf_wait_ms(const struct lf_wait *wait)
{
    int64_t left = wait->deadline_ns - lf_clock_ns();
    if (left <= 0) return 0;
    return (int)LF_MIN((left + LF_NS_PER_MS - 1) / LF_NS_PER_MS, (int64_t)LF_WAIT_TICK_MS);
}

enum lf_status lf_wait_check(const struct lf_wait *wait)
{
    if (wait->stop && atomic_load(wait->stop)) return LF_CANCELLED;
    return lf_clock_ns() < wait->deadline_ns ? LF_OK : LF_TIMEOUT;
}

enum lf_status lf_wait_fd(const struct lf_wait *wait, int fd, short events)
{
    for (;;) {
        enum lf_status status = lf_wait_check(wait);
        if (status != LF_OK) return status;
        struct pollfd p[] = {{.fd = fd, .events = events}, {.fd = wait->watch_fd, .events = POLLIN}};
        int n = poll(p, 2, lf_wait_ms(wait));
        if (n < 0 && errno != EINTR) return LF_IO;
        if (n > 0 && p[1].revents) return LF_SHUTDOWN;
        if (n > 0 && p[0].revents) return LF_OK;
    }
}

enum lf_status lf_wait_sleep(const struct lf_wait *wait, int ms)
{
    struct lf_wait nap = *wait;
    nap.deadline_ns = LF_MIN(wait->deadline_ns, lf_clock_ns() + ms * LF_NS_PER_MS);
    enum lf_status status = lf_wait_fd(&nap, -1, 0);
    return status == LF_TIMEOUT ? lf_wait_check(wait) : status;
}

static bool is_later(int reason)
{
    return reason == EAGAIN || reason == EWOULDBLOCK || reason == EINTR;
}

enum lf_status lf_stream_put(int fd, const struct lf_message *m, const struct lf_wait *wait)
{
    uint8_t bytes[LF_WIRE_BYTES_MOST];
    size_t n = lf_wire_put(bytes, m), done = 0;
    while (done < n) {
        ssize_t sent = send(fd, bytes + done, n - done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0) {
            done += (size_t)sent;
            continue;
        }
        if (!is_later(errno)) return LF_IO;
        enum lf_status status = lf_wait_fd(wait, fd, POLLOUT);
        if (status != LF_OK) return status;
    }
    return LF_OK;
}

static enum lf_status take_bytes(int fd, uint8_t *out, size_t n, const struct lf_wait *wait)
{
    size_t done = 0;
    while (done < n) {
        ssize_t got = recv(fd, out + done, n - done, MSG_DONTWAIT);
        if (got > 0) {
            done += (size_t)got;
            continue;
        }
        if (got == 0 || !is_later(errno)) return LF_IO;
        enum lf_status status = lf_wait_fd(wait, fd, POLLIN);
        if (status != LF_OK) return status;
    }
    return LF_OK;
}

enum lf_status lf_stream_take(int fd, struct lf_message *m, int *version, const struct lf_wait *wait)
{
    uint8_t bytes[LF_WIRE_BYTES_MOST];
    enum lf_wire_type type;
    enum lf_status status = take_bytes(fd, bytes, LF_WIRE_HEAD_BYTES, wait);
    if (status != LF_OK) return status;
    enum lf_wire_check check = lf_wire_head(&type, version, bytes);
    if (check != LF_WIRE_KNOWN) return check == LF_WIRE_FOREIGN ? LF_CORRUPT : LF_UNSUPPORTED;
    status = take_bytes(fd, bytes + LF_WIRE_HEAD_BYTES, lf_wire_bytes(type) - LF_WIRE_HEAD_BYTES, wait);
    if (status != LF_OK) return status;
    return lf_wire_get(m, bytes) ? LF_OK : LF_CORRUPT;
}

bool lf_stream_put_now(int fd, const struct lf_message *m)
{
    uint8_t bytes[LF_WIRE_BYTES_MOST];
    size_t n = lf_wire_put(bytes, m);
    ssize_t sent;
    do sent = send(fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)n;
}

bool lf_stream_is_gone(int fd)
{
    uint8_t byte;
    ssize_t got = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && !is_later(errno));
}
