#include "core/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum lf_status lf_path_join(char *out, size_t out_bytes, const char *dir, const char *name)
{
    size_t n = strlen(dir);
    const char *slash = n && dir[n - 1] == '/' ? "" : "/";
    int len = snprintf(out, out_bytes, "%s%s%s", dir, slash, name);
    return len >= 0 && (size_t)len < out_bytes ? LF_OK : LF_LIMIT;
}

enum lf_status lf_file_open(int *fd_out, uint64_t *size, const char *path, struct lf_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hang us; regular files ignore it */
    if (fd < 0) {
        int e = errno;
        return lf_fail(err, e == ENOENT || e == ENOTDIR ? LF_NOT_FOUND : LF_IO, "cannot open %s: %s", path,
                       strerror(e));
    }
    struct stat st;
    if (fstat(fd, &st) != 0) {
        int e = errno;
        close(fd);
        return lf_fail(err, LF_IO, "cannot stat %s: %s", path, strerror(e));
    }
    if (!S_ISREG(st.st_mode)) {
        close(fd);
        return lf_fail(err, LF_INVALID, "%s is %s, expected a regular file", path,
                       S_ISDIR(st.st_mode) ? "a directory" : "a device or a pipe");
    }
    *fd_out = fd;
    *size = (uint64_t)st.st_size;
    return LF_OK;
}

enum lf_status lf_file_pread(int fd, void *dst, size_t n, uint64_t offset, const char *path, struct lf_err *err)
{
    char *out = dst;
    size_t done = 0;
    while (done < n) {
        ssize_t got = pread(fd, out + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            return lf_fail(err, LF_IO, "cannot read %s at byte %llu: %s", path, (unsigned long long)(offset + done),
                           strerror(errno));
        if (got == 0)
            return lf_fail(err, LF_CORRUPT, "%s ends at byte %llu, %zu bytes before expected: it was cut or changed",
                           path, (unsigned long long)(offset + done), n - done);
        done += (size_t)got;
    }
    return LF_OK;
}

enum lf_status lf_file_read(struct lf_buf *out, const char *path, size_t max_bytes, struct lf_err *err)
{
    int fd;
    uint64_t size;
    enum lf_status status = lf_file_open(&fd, &size, path, err);
    if (status != LF_OK) return status;
    if (size > max_bytes) {
        status = lf_fail(err, LF_LIMIT, "%s has %llu bytes, at most %zu are accepted", path, (unsigned long long)size,
                         max_bytes);
        goto done;
    }
    status = lf_buf_reserve(out, (size_t)size);
    if (status != LF_OK) {
        lf_fail(err, status, "no memory for the %llu bytes of %s", (unsigned long long)size, path);
        goto done;
    }
    status = lf_file_pread(fd, out->ptr + out->len, (size_t)size, 0, path, err);
    if (status != LF_OK) goto done;
    out->len += (size_t)size;
    out->ptr[out->len] = 0;
done:
    close(fd);
    return status;
}

enum lf_status lf_file_read_in(struct lf_buf *out, const char *dir, const char *name, size_t max_bytes,
                               struct lf_err *err)
{
    char path[PATH_MAX];
    if (lf_path_join(path, sizeof path, dir, name) != LF_OK)
        return lf_fail(err, LF_LIMIT, "the path of %.200s is too long", name);
    return lf_file_read(out, path, max_bytes, err);
}
