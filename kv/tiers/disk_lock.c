#include "kv/tiers/disk_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/check.h"
#include "core/file.h"

static enum lf_status failed(const char *what, const char *path, struct lf_err *err)
{
    return lf_fail(err, LF_IO, "cannot %s %s: %s", what, path, strerror(errno));
}

/* Names the owner, unless its number is left from a process that has ended: who only reads writes none. */
static enum lf_status in_use(int fd, const char *dir, struct lf_err *err)
{
    char text[24] = "";
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    long pid = n > 0 ? strtol(text, NULL, 10) : 0;
    bool lives = pid > 0 && (kill((pid_t)pid, 0) == 0 || errno == EPERM);
    if (!lives) return lf_fail(err, LF_INVALID, "%s is in use by another process", dir);
    return lf_fail(err, LF_INVALID, "%s is in use by another process, %ld", dir, pid);
}

/* Opens dir/lock and locks it; path holds PATH_MAX bytes. */
static enum lf_status take(int *out, char *path, const char *dir, int flags, int operation, struct lf_err *err)
{
    if (lf_path_join(path, PATH_MAX, dir, "lock") != LF_OK)
        return lf_fail(err, LF_LIMIT, "%s: the path is too long", dir);
    int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600); /* a FIFO must not hang us */
    if (fd < 0) return failed("open", path, err);
    if (flock(fd, operation | LOCK_NB) != 0) {
        enum lf_status status = errno == EWOULDBLOCK ? in_use(fd, dir, err) : failed("lock", path, err);
        close(fd);
        return status;
    }
    *out = fd;
    return LF_OK;
}

enum lf_status lf_disk_lock(int *out, const char *dir, struct lf_err *err)
{
    char path[PATH_MAX], number[24];
    int fd;
    LF_TRY(take(&fd, path, dir, O_RDWR | O_CREAT, LOCK_EX, err));
    int n = snprintf(number, sizeof(number), "%ld\n", (long)getpid());
    (void)!pwrite(fd, number, (size_t)n, 0); /* for a message: a full disk can be read all the same */
    *out = fd;
    return LF_OK;
}

enum lf_status lf_disk_lock_to_read(int *out, const char *dir, struct lf_err *err)
{
    char path[PATH_MAX];
    *out = -1;
    enum lf_status status = take(out, path, dir, O_RDONLY, LOCK_SH, err);
    return status == LF_IO && access(path, F_OK) != 0 && errno == ENOENT ? LF_OK : status;
}
