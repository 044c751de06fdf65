#include "server/rendezvous/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/check.h"
#include "core/clock.h"

enum { BACKLOG = 128, CONNECT_MS = 3000 };

static bool is_port(const char *text)
{
    int value = 0;
    size_t n = strlen(text);
    for (size_t i = 0; i < n && n <= 5; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        value = value * 10 + (text[i] - '0');
    }
    return n >= 1 && n <= 5 && value >= 1 && value <= 65535;
}

enum lf_status lf_host_port_parse(struct lf_host_port *out, const char *text, struct lf_err *err)
{
    const char *host = text, *colon = strrchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : 0;
    bool is_v6 = n >= 2 && host[0] == '[' && host[n - 1] == ']';
    if (is_v6) {
        host++;
        n -= 2;
    }
    bool has_colon = n > 0 && memchr(host, ':', n) != NULL;
    if (n == 0 || n >= sizeof out->host || has_colon != is_v6 || !is_port(colon + 1))
        return lf_fail(err, LF_INVALID,
                       "expected HOST:PORT, with an IPv6 address in [] and a port of 1 to 65535, got \"%.128s\"", text);
    *out = (struct lf_host_port){0};
    memcpy(out->host, host, n);
    snprintf(out->port, sizeof out->port, "%s", colon + 1);
    return LF_OK;
}

enum lf_status lf_address_resolve(struct lf_address *out, int *n, const struct lf_host_port *where, struct lf_err *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int rc = getaddrinfo(where->host, where->port, &hints, &found);
    if (rc != 0)
        return lf_fail(err, LF_NOT_FOUND, "the host %.128s is not known: %s", where->host,
                       rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
    int n_found = 0;
    for (const struct addrinfo *a = found; a && n_found < LF_ADDRESSES_N; a = a->ai_next) {
        if ((a->ai_family != AF_INET && a->ai_family != AF_INET6) || a->ai_addrlen > sizeof out->sa) continue;
        out[n_found].sa = (struct sockaddr_storage){0};
        memcpy(&out[n_found].sa, a->ai_addr, a->ai_addrlen);
        out[n_found++].n = a->ai_addrlen;
    }
    freeaddrinfo(found);
    *n = n_found;
    return n_found > 0 ? LF_OK : lf_fail(err, LF_NOT_FOUND, "the host %.128s has no IP address", where->host);
}

static int tcp_socket(const struct lf_address *a)
{
    return socket(a->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

enum lf_status lf_address_listen(int *fd, const struct lf_address *at, struct lf_err *err)
{
    const int on = 1;
    char text[LF_ADDRESS_TEXT_BYTES];
    lf_address_text(text, at);
    int s = tcp_socket(at);
    /* a port that a group before this one has left is free at once */
    if (s >= 0 && setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(s, (const struct sockaddr *)&at->sa, at->n) == 0 && listen(s, BACKLOG) == 0) {
        *fd = s;
        return LF_OK;
    }
    int reason = errno;
    if (s >= 0) close(s);
    return lf_fail(err, LF_IO, "cannot listen at %s: %s", text,
                   reason == EADDRNOTAVAIL ? "it is no address of this machine" : strerror(reason));
}

static bool local_of(struct lf_address *out, int fd)
{
    *out = (struct lf_address){.n = sizeof out->sa};
    return getsockname(fd, (struct sockaddr *)&out->sa, &out->n) == 0;
}

static struct sockaddr_in *as_v4(struct lf_address *a)
{
    return (struct sockaddr_in *)(void *)&a->sa;
}

static struct sockaddr_in6 *as_v6(struct lf_address *a)
{
    return (struct sockaddr_in6 *)(void *)&a->sa;
}

static struct lf_wire_address to_wire(struct lf_address a)
{
    struct lf_wire_address out = {.family = a.sa.ss_family == AF_INET ? 4 : 6};
    if (out.family == 4) {
        out.port = ntohs(as_v4(&a)->sin_port);
        memcpy(out.ip, &as_v4(&a)->sin_addr, sizeof as_v4(&a)->sin_addr);
    } else {
        out.port = ntohs(as_v6(&a)->sin6_port);
        memcpy(out.ip, &as_v6(&a)->sin6_addr, sizeof as_v6(&a)->sin6_addr);
    }
    return out;
}

struct lf_address lf_address_of_wire(const struct lf_wire_address *a, int beside)
{
    struct lf_address out = {0}, local;
    if (a->family == 4) {
        out.n = sizeof(struct sockaddr_in);
        *as_v4(&out) = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(a->port)};
        memcpy(&as_v4(&out)->sin_addr, a->ip, sizeof as_v4(&out)->sin_addr);
        return out;
    }
    out.n = sizeof(struct sockaddr_in6);
    *as_v6(&out) = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(a->port)};
    memcpy(&as_v6(&out)->sin6_addr, a->ip, sizeof as_v6(&out)->sin6_addr);
    if (IN6_IS_ADDR_LINKLOCAL(&as_v6(&out)->sin6_addr) && local_of(&local, beside) && local.sa.ss_family == AF_INET6)
        as_v6(&out)->sin6_scope_id = as_v6(&local)->sin6_scope_id;
    return out;
}

enum lf_status lf_address_listen_beside(int *fd, struct lf_wire_address *out, int connected, struct lf_err *err)
{
    struct lf_address a;
    if (!local_of(&a, connected)) return lf_fail(err, LF_IO, "a connection has no address: %s", strerror(errno));
    if (a.sa.ss_family == AF_INET)
        as_v4(&a)->sin_port = 0;
    else
        as_v6(&a)->sin6_port = 0;
    int s = -1;
    enum lf_status status = lf_address_listen(&s, &a, err);
    if (status != LF_OK) return status;
    if (!local_of(&a, s)) {
        close(s);
        return lf_fail(err, LF_IO, "a listener has no address: %s", strerror(errno));
    }
    *out = to_wire(a);
    *fd = s;
    return LF_OK;
}

static bool is_own_end(int fd)
{
    struct lf_address local, peer = {.n = sizeof peer.sa};
    if (!local_of(&local, fd) || getpeername(fd, (struct sockaddr *)&peer.sa, &peer.n) != 0) return true;
    struct lf_wire_address a = to_wire(local), b = to_wire(peer);
    return a.port == b.port && memcmp(a.ip, b.ip, sizeof a.ip) == 0;
}

static enum lf_status finish_connect(int fd, const struct lf_wait *wait, int *reason)
{
    socklen_t n = sizeof *reason;
    struct lf_wait attempt = *wait;
    attempt.deadline_ns = LF_MIN(wait->deadline_ns, lf_clock_ns() + CONNECT_MS * LF_NS_PER_MS);
    enum lf_status status = lf_wait_fd(&attempt, fd, POLLOUT);
    if (status == LF_TIMEOUT && lf_wait_check(wait) == LF_OK) { /* nobody says no there: another address may say yes */
        *reason = ETIMEDOUT;
        return LF_IO;
    }
    if (status != LF_OK) return status;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, reason, &n) != 0) *reason = errno;
    if (*reason == 0 && is_own_end(fd)) *reason = ECONNREFUSED;
    return *reason == 0 ? LF_OK : LF_IO;
}

enum lf_status lf_address_connect(int *fd, const struct lf_address *to, const struct lf_wait *wait, struct lf_err *err)
{
    char text[LF_ADDRESS_TEXT_BYTES];
    lf_address_text(text, to);
    int s = tcp_socket(to);
    if (s < 0) return lf_fail(err, LF_IO, "no socket for %s: %s", text, strerror(errno));
    int reason = connect(s, (const struct sockaddr *)&to->sa, to->n) == 0 ? 0 : errno;
    /* an interrupted connect goes on by itself, as one that is in progress */
    enum lf_status status = LF_IO;
    if (reason == 0 || reason == EINPROGRESS || reason == EINTR) {
        reason = 0;
        status = finish_connect(s, wait, &reason);
    }
    if (status == LF_OK) {
        *fd = s;
        return LF_OK;
    }
    close(s);
    return lf_fail(err, status, "cannot connect to %s: %s", text,
                   status == LF_IO ? strerror(reason) : lf_status_name(status));
}

void lf_address_text(char out[LF_ADDRESS_TEXT_BYTES], const struct lf_address *a)
{
    char host[INET6_ADDRSTRLEN] = "?";
    struct lf_address copy = *a;
    bool is_v4 = a->sa.ss_family == AF_INET;
    inet_ntop(a->sa.ss_family, is_v4 ? (const void *)&as_v4(&copy)->sin_addr : (const void *)&as_v6(&copy)->sin6_addr,
              host, sizeof host);
    snprintf(out, LF_ADDRESS_TEXT_BYTES, is_v4 ? "%s:%u" : "[%s]:%u", host,
             (unsigned)ntohs(is_v4 ? as_v4(&copy)->sin_port : as_v6(&copy)->sin6_port));
}
