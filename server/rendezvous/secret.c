#include "server/rendezvous/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One byte more than a secret and a newline shows that there is too much. */
enum { READ_BYTES = LF_SECRET_MAX_BYTES + 2 };

static enum lf_status check_file(int fd, const char *path, struct lf_err *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return lf_fail(err, LF_IO, "cannot look at the secret's file %s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return lf_fail(err, LF_INVALID, "the secret's file %s is no regular file", path);
    if (st.st_mode & (S_IRWXG | S_IRWXO))
        return lf_fail(err, LF_INVALID,
                       "the secret's file %s is open to others than its owner (mode %03o): chmod 600 %s", path,
                       (unsigned)(st.st_mode & 0777), path);
    return LF_OK;
}

static enum lf_status read_some(uint8_t bytes[READ_BYTES], size_t *n, int fd, const char *path, struct lf_err *err)
{
    size_t done = 0;
    while (done < READ_BYTES) {
        ssize_t got = read(fd, bytes + done, READ_BYTES - done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return lf_fail(err, LF_IO, "cannot read the secret's file %s: %s", path, strerror(errno));
        if (got == 0) break;
        done += (size_t)got;
    }
    *n = done;
    return LF_OK;
}

enum lf_status lf_rendezvous_read_secret(uint8_t out[LF_SECRET_MAX_BYTES], size_t *n, const char *path,
                                         struct lf_err *err)
{
    uint8_t bytes[READ_BYTES];
    size_t n_read = 0;
    /* a FIFO that nobody writes is an error and not a wait */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return lf_fail(err, errno == ENOENT || errno == ENOTDIR ? LF_NOT_FOUND : LF_IO,
                       "cannot open the secret's file %s: %s", path, strerror(errno));
    enum lf_status status = check_file(fd, path, err);
    if (status == LF_OK) status = read_some(bytes, &n_read, fd, path, err);
    close(fd);
    if (n_read > 0 && bytes[n_read - 1] == '\n') n_read--;
    if (status == LF_OK && (n_read < LF_SECRET_MIN_BYTES || n_read > LF_SECRET_MAX_BYTES))
        status = lf_fail(err, LF_INVALID, "the secret's file %s: expected %d to %d bytes and a newline, got %s", path,
                         LF_SECRET_MIN_BYTES, LF_SECRET_MAX_BYTES, n_read < LF_SECRET_MIN_BYTES ? "fewer" : "more");
    if (status == LF_OK) memcpy(out, bytes, *n = n_read);
    explicit_bzero(bytes, sizeof(bytes));
    return status;
}
