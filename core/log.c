#include "core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The log is one of the two places with mutable state of their own (metrics is the other): a level, a descriptor and a
 * count, each an atomic. A line is formatted on the stack and written with one write(), so lines of different threads
 * do not mix and no lock is held while the disk is slow. Nobody waits for the reader of a pipe: a line that finds it
 * full is dropped. */
static _Atomic int min_level = LF_LOG_INFO;
static _Atomic int log_fd = STDERR_FILENO;
static _Atomic uint64_t n_dropped;

void lf_log_set_level(enum lf_log_level level)
{
    atomic_store(&min_level, (int)level);
}

enum lf_status lf_log_open(const char *path, struct lf_err *err)
{
    int fd = STDERR_FILENO;
    if (path) {
        /* a FIFO that nobody reads is an error and not a wait; regular files ignore O_NONBLOCK */
        fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0640);
        if (fd < 0) return lf_fail(err, LF_IO, "cannot open the log file %s: %s", path, strerror(errno));
    }
    int old = atomic_load(&log_fd);
    if (path && old != STDERR_FILENO) {
        /* dup2 swaps the file under the number: a thread that has just read it writes to the new file */
        int ok = dup2(fd, old);
        close(fd);
        if (ok < 0) return lf_fail(err, LF_IO, "cannot reopen the log file %s: %s", path, strerror(errno));
        return LF_OK;
    }
    atomic_store(&log_fd, fd);
    if (old != STDERR_FILENO) close(old);
    return LF_OK;
}

uint64_t lf_log_n_dropped(void)
{
    return atomic_load(&n_dropped);
}

/* "2026-01-31T12:00:00.123Z level " into line; returns its length. */
static size_t write_head(char *line, size_t cap, enum lf_log_level level)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    size_t n = strftime(line, cap, "%Y-%m-%dT%H:%M:%S", &tm);
    int m = snprintf(line + n, cap - n, ".%03dZ %s ", (int)(now.tv_nsec / 1000000), names[level]);
    return n + (size_t)m;
}

/* Standard error is shared with other processes and stays as it is, so it is asked whether it takes a line at once. */
static bool takes_a_line(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    return poll(&p, 1, 0) == 1;
}

static bool write_line(const char *line, size_t n)
{
    int fd = atomic_load(&log_fd);
    ssize_t written;
    if (!takes_a_line(fd)) return false;
    do written = write(fd, line, n);
    while (written < 0 && errno == EINTR);
    return written == (ssize_t)n;
}

void lf_log(enum lf_log_level level, const char *fmt, ...)
{
    if ((int)level < atomic_load_explicit(&min_level, memory_order_relaxed)) return;
    char line[LF_LOG_LINE_BYTES];
    size_t n = write_head(line, sizeof line, level);
    va_list args;
    va_start(args, fmt);
    int m = vsnprintf(line + n, sizeof line - n - 1, fmt, args);
    va_end(args);
    if (m < 0) m = 0;
    n += (size_t)m;
    if (n > sizeof line - 2) n = sizeof line - 2; /* cut: one message is one line */
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)line[i] < 0x20) line[i] = ' ';
    line[n++] = '\n';
    if (!write_line(line, n)) atomic_fetch_add(&n_dropped, 1);
}
