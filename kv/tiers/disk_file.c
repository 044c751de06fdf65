#include "kv/tiers/disk_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/check.h"
#include "core/file.h"

struct posix_file {
    struct lf_disk_file base;
    int fd;
    char path[PATH_MAX];
};

static enum lf_status failed(const struct posix_file *f, const char *what, int e, struct lf_err *err)
{
    enum lf_status status = e == ENOSPC || e == EDQUOT || e == EFBIG ? LF_FULL : LF_IO;
    return lf_fail(err, status, "cannot %s %s: %s", what, f->path, strerror(e));
}

static enum lf_status read_all(struct lf_disk_file *file, void *dst, size_t n, uint64_t offset, struct lf_err *err)
{
    const struct posix_file *f = (const struct posix_file *)file;
    return lf_file_pread(f->fd, dst, n, offset, f->path, err);
}

static enum lf_status write_all(struct lf_disk_file *file, const void *src, size_t n, uint64_t offset,
                                struct lf_err *err)
{
    const struct posix_file *f = (const struct posix_file *)file;
    for (size_t done = 0; done < n;) {
        ssize_t got = pwrite(f->fd, (const char *)src + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return failed(f, "write", got < 0 ? errno : EIO, err);
        done += (size_t)got;
    }
    return LF_OK;
}

static enum lf_status sync_all(struct lf_disk_file *file, struct lf_err *err)
{
    const struct posix_file *f = (const struct posix_file *)file;
    return fdatasync(f->fd) == 0 ? LF_OK : failed(f, "sync", errno, err);
}

static enum lf_status resize(struct lf_disk_file *file, uint64_t bytes, struct lf_err *err)
{
    const struct posix_file *f = (const struct posix_file *)file;
    struct stat st;
    if (fstat(f->fd, &st) != 0) return failed(f, "stat", errno, err);
    if ((uint64_t)st.st_size == bytes) return LF_OK;
    if (ftruncate(f->fd, (off_t)bytes) != 0) return failed(f, "resize", errno, err);
    return fsync(f->fd) == 0 ? LF_OK : failed(f, "sync", errno, err);
}

static void close_file(struct lf_disk_file *file)
{
    struct posix_file *f = (struct posix_file *)file;
    close(f->fd);
    free(f);
}

static const struct lf_disk_file_ops posix_ops = {
    .read = read_all, .write = write_all, .sync = sync_all, .resize = resize, .close = close_file};

enum lf_status lf_disk_file_open(struct lf_disk_file **out, const char *path, bool direct, struct lf_err *err)
{
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
    struct posix_file *f = calloc(1, sizeof(*f));
    if (!f) return lf_fail(err, LF_NO_MEMORY, "no memory to open %s", path);
    f->base.ops = &posix_ops;
    snprintf(f->path, sizeof(f->path), "%s", path);
    f->fd = direct ? open(path, flags | O_DIRECT, 0600) : -1;
    if (f->fd < 0) f->fd = open(path, flags, 0600);
    if (f->fd < 0) {
        enum lf_status status = failed(f, "open", errno, err);
        free(f);
        return status;
    }
    *out = &f->base;
    return LF_OK;
}
