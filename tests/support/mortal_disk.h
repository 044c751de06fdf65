/* System calls of one thread that writes files, as a program is linked with them by --wrap: open, write, fsync, rename
 * and unlink, of which one fails, or is the last one that happens.
 *
 * After an end by loss of power a file that was not synced has lost some of its bytes, and what was renamed or removed
 * since the directory was synced may be as it was before. */
#ifndef LF_TESTS_SUPPORT_MORTAL_DISK_H
#define LF_TESTS_SUPPORT_MORTAL_DISK_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MORTAL_WRITE_BYTES = 200 /* a write takes so many at most */ };

static struct {
    bool on;
    int n_calls;         /* so far */
    int bad_call;        /* the one that does not happen, */
    int bad_errno;       /* and what it says; 0: nor does any that comes later */
    char undo[PATH_MAX]; /* what lay at `to`, or has been removed from it; hard links on one file system */
    char written[PATH_MAX], from[PATH_MAX], to[PATH_MAX];
    bool is_unsynced, is_pending, had_old;
} mortal;

int __real_open(const char *path, int flags, ...);
ssize_t __real_write(int fd, const void *bytes, size_t n);
int __real_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __real_unlink(const char *path);
int __wrap_open(const char *path, int flags, ...);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);
int __wrap_fsync(int fd);
int __wrap_rename(const char *from, const char *to);
int __wrap_unlink(const char *path);

/* From the next call on; undo: a path beside the directory that is written. */
static void mortal_begin(int bad_call, int bad_errno, const char *undo)
{
    mortal.on = true;
    mortal.n_calls = 0;
    mortal.bad_call = bad_call;
    mortal.bad_errno = bad_errno;
    mortal.is_unsynced = mortal.is_pending = mortal.had_old = false;
    snprintf(mortal.undo, sizeof mortal.undo, "%s", undo);
}

/* Whether a call fails. */
static bool mortal_fails(void)
{
    if (!mortal.on) return false;
    int call = mortal.n_calls++;
    bool fails = call == mortal.bad_call || (call > mortal.bad_call && mortal.bad_errno == 0);
    if (fails) errno = mortal.bad_errno ? mortal.bad_errno : EIO;
    return fails;
}

/* What happened since is certain. */
static void mortal_settle(void)
{
    if (mortal.had_old) (void)__real_unlink(mortal.undo);
    mortal.is_pending = mortal.had_old = false;
}

/* The process has ended; with power the disk has all that it was told. */
static void mortal_end(bool has_power, unsigned *seed)
{
    struct stat st;
    mortal.on = false;
    bool is_undone = !has_power && mortal.is_pending && rand_r(seed) % 2;
    if (!has_power && mortal.is_unsynced && stat(mortal.written, &st) == 0 && st.st_size > 0 &&
        truncate(mortal.written, rand_r(seed) % st.st_size) != 0)
        abort();
    if (is_undone && mortal.from[0] && __real_rename(mortal.to, mortal.from) != 0) abort();
    if (is_undone && mortal.had_old && link(mortal.undo, mortal.to) != 0) abort();
    mortal_settle();
}

int __wrap_open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    if (mortal_fails()) return -1;
    int fd = __real_open(path, flags, mode);
    if (mortal.on && fd >= 0 && (flags & O_CREAT)) {
        snprintf(mortal.written, sizeof mortal.written, "%s", path);
        mortal.is_unsynced = true;
    }
    return fd;
}

ssize_t __wrap_write(int fd, const void *bytes, size_t n)
{
    if (mortal_fails()) return -1;
    return __real_write(fd, bytes, mortal.on && n > MORTAL_WRITE_BYTES ? MORTAL_WRITE_BYTES : n);
}

int __wrap_fsync(int fd)
{
    struct stat st;
    if (mortal_fails()) return -1;
    if (mortal.on && fstat(fd, &st) == 0) {
        if (S_ISDIR(st.st_mode))
            mortal_settle();
        else
            mortal.is_unsynced = false;
    }
    return __real_fsync(fd);
}

/* from NULL: it is removed. */
static void mortal_expect(const char *from, const char *to)
{
    mortal_settle();
    mortal.is_pending = true;
    mortal.had_old = link(to, mortal.undo) == 0;
    snprintf(mortal.from, sizeof mortal.from, "%s", from ? from : "");
    snprintf(mortal.to, sizeof mortal.to, "%s", to);
    if (from) snprintf(mortal.written, sizeof mortal.written, "%s", to);
}

int __wrap_rename(const char *from, const char *to)
{
    if (mortal_fails()) return -1;
    if (mortal.on) mortal_expect(from, to);
    return __real_rename(from, to);
}

int __wrap_unlink(const char *path)
{
    if (mortal_fails()) return -1;
    if (mortal.on) mortal_expect(NULL, path);
    return __real_unlink(path);
}

#endif
