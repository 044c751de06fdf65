/* The listening socket. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <unistd.h>

#include "core/check.h"
#include "server/http/conn/server.h"

/* Connections that wait to be accepted: more than the table holds may come within a tick, and one that finds no place
 * here tries again only after a second. The kernel has a limit of its own (net.core.somaxconn). */
enum { BACKLOG_N = 4096 };

/* The longest TCP segment of a connection; only loopback's are longer, with 64 KiB. One of those would fill the
 * socket's send buffer, and a receiver that has seen a single segment delays its acknowledgement: an answer of
 * megabytes would then go out at 64 KiB every 40 ms. Four segments in the buffer are acknowledged at once, and cost no
 * memory. */
enum { SEGMENT_BYTES = 16 * 1024 };
_Static_assert(4 * SEGMENT_BYTES <= 2 * LF_SOCKET_SEND_BYTES, "the kernel doubles the send buffer");

static bool is_loopback(const struct sockaddr *addr)
{
    if (addr->sa_family == AF_INET) {
        uint32_t v4 = ntohl(((const struct sockaddr_in *)(const void *)addr)->sin_addr.s_addr);
        return v4 >> 24 == 127;
    }
    return addr->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr);
}

static enum lf_status bind_first(int *fd, bool *loopback, const struct addrinfo *list, const char *host, int port,
                                 struct lf_err *err)
{
    int saved = EADDRNOTAVAIL;
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        int s = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        int yes = 1, segment_bytes = SEGMENT_BYTES;
        /* inherited by the connections; a kernel that refuses it only makes large answers slower */
        if (s >= 0) (void)setsockopt(s, IPPROTO_TCP, TCP_MAXSEG, &segment_bytes, sizeof segment_bytes);
        if (s >= 0 && setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
            bind(s, a->ai_addr, a->ai_addrlen) == 0 && listen(s, BACKLOG_N) == 0) {
            *fd = s;
            *loopback = is_loopback(a->ai_addr);
            return LF_OK;
        }
        saved = errno;
        if (s >= 0) close(s);
    }
    char why[128];
    const char *text = strerror_r(saved, why, sizeof why);
    const char *hint = saved == EADDRINUSE      ? "; --port N takes another, 0 any free one"
                       : saved == EADDRNOTAVAIL ? "; expected an address of this machine"
                       : saved == EACCES        ? "; ports below 1024 need privileges"
                                                : "";
    return lf_fail(err, LF_IO, "cannot listen on %s port %d: %s%s", host, port, text, hint);
}

static enum lf_status bound_port(int fd, int *port, struct lf_err *err)
{
    struct sockaddr_storage addr = {0};
    socklen_t n = sizeof addr;
    if (getsockname(fd, (struct sockaddr *)&addr, &n) != 0) return lf_fail(err, LF_IO, "the socket has no address");
    *port = addr.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)(void *)&addr)->sin6_port)
                                       : ntohs(((struct sockaddr_in *)(void *)&addr)->sin_port);
    return LF_OK;
}

enum lf_status lf_listen(int *fd, int *port, bool *loopback, const char *host, int want_port, struct lf_err *err)
{
    if (want_port < 0 || want_port > 65535) return lf_fail(err, LF_INVALID, "port %d: expected 0 to 65535", want_port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char service[8];
    snprintf(service, sizeof service, "%d", want_port);
    int rc = getaddrinfo(host, service, &hints, &list);
    if (rc != 0) return lf_fail(err, LF_IO, "host %s: %s", host, gai_strerror(rc));
    int bound = -1;
    enum lf_status status = bind_first(&bound, loopback, list, host, want_port, err);
    freeaddrinfo(list);
    LF_TRY(status);
    status = bound_port(bound, port, err);
    if (status == LF_OK)
        *fd = bound;
    else
        close(bound);
    return status;
}
