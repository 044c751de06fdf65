#include "server/notify.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/log.h"

enum { MESSAGE_BYTES = 256, NS_PER_US = 1000 };

/* A path, or with an @ for its first byte a name in the abstract namespace. False: neither, or too long. */
static bool name_socket(struct lf_notify *n, const char *name)
{
    size_t len = strlen(name);
    if ((name[0] != '/' && name[0] != '@') || len < 2 || len >= sizeof n->to.sun_path) return false;
    n->to = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(n->to.sun_path, name, len);
    if (name[0] == '@') n->to.sun_path[0] = '\0';
    n->to_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (name[0] == '/'));
    return true;
}

/* 0: not set, or no number. */
static int64_t number_of(const char *variable)
{
    const char *text = getenv(variable);
    char *end;
    if (!text || *text < '0' || *text > '9') return 0;
    errno = 0;
    long long x = strtoll(text, &end, 10);
    return *end || errno ? 0 : x;
}

static int64_t watchdog_ns(void)
{
    int64_t us = number_of("WATCHDOG_USEC");
    if (getenv("WATCHDOG_PID") && number_of("WATCHDOG_PID") != getpid()) return 0;
    return us <= INT64_MAX / NS_PER_US ? us * NS_PER_US / 2 : 0;
}

void lf_notify_open(struct lf_notify *n)
{
    const char *name = getenv("NOTIFY_SOCKET");
    const struct timeval most = {.tv_sec = 1};
    *n = (struct lf_notify){.fd = -1, .percent = -1};
    if (!name || !name[0]) return;
    if (!name_socket(n, name)) {
        LF_WARN("NOTIFY_SOCKET: expected the absolute path of a socket, or @ and a name; nobody is notified");
        return;
    }
    n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (n->fd < 0) {
        LF_WARN("NOTIFY_SOCKET: no socket: %s", strerror(errno));
        return;
    }
    (void)setsockopt(n->fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
    n->every_ns = watchdog_ns();
}

void lf_notify_close(struct lf_notify *n)
{
    if (n->fd >= 0) close(n->fd);
    n->fd = -1;
}

/* Whether it has arrived. What is told again and again waits for nobody who has let the one before wait in vain. */
static bool send_text(struct lf_notify *n, const char *text, size_t len, bool is_repeated)
{
    int flags = is_repeated && n->failing ? MSG_DONTWAIT : 0;
    ssize_t sent;
    do sent = sendto(n->fd, text, len, MSG_NOSIGNAL | flags, (const struct sockaddr *)&n->to, n->to_bytes);
    while (sent < 0 && errno == EINTR);
    if (sent < 0 && !n->failing) LF_WARN("NOTIFY_SOCKET: %s", strerror(errno));
    n->failing = sent < 0;
    return !n->failing;
}

void lf_notify_tell(struct lf_notify *n, const char *fmt, ...)
{
    char text[MESSAGE_BYTES];
    va_list args;
    if (n->fd < 0) return;
    va_start(args, fmt);
    int len = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    LF_ASSERT(len > 0 && len < (int)sizeof text);
    (void)send_text(n, text, (size_t)len, false);
}

void lf_notify_progress(struct lf_notify *n, double fraction)
{
    char text[MESSAGE_BYTES];
    int percent = (int)(100 * fraction);
    if (n->fd < 0 || percent == n->percent) return;
    n->percent = percent;
    int len = snprintf(text, sizeof text, "STATUS=loading the model, %d%%", percent);
    (void)send_text(n, text, (size_t)len, true);
}

void lf_notify_alive(struct lf_notify *n)
{
    static const char text[] = "WATCHDOG=1";
    int64_t now_ns = lf_clock_ns();
    if (n->every_ns == 0 || now_ns < n->next_ns) return;
    if (send_text(n, text, sizeof text - 1, true)) n->next_ns = now_ns + n->every_ns;
}
