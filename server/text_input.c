#include "server/text_input.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/check.h"
#include "core/file.h"

static enum lf_status read_stdin(struct lf_buf *out, size_t max_bytes, struct lf_err *err)
{
    char piece[16 * 1024];
    for (;;) {
        ssize_t n = read(STDIN_FILENO, piece, sizeof(piece));
        if (n == 0) return out->status == LF_OK ? LF_OK : lf_fail(err, out->status, "standard input: out of memory");
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return lf_fail(err, LF_IO, "standard input: %s", strerror(errno));
        if ((size_t)n > max_bytes - LF_MIN(out->len, max_bytes))
            return lf_fail(err, LF_LIMIT, "standard input: more than %zu bytes", max_bytes);
        lf_buf_append(out, piece, (size_t)n);
    }
}

enum lf_status lf_text_read(struct lf_buf *out, const char *path, size_t max_bytes, struct lf_err *err)
{
    if (strcmp(path, "-") == 0) return read_stdin(out, max_bytes, err);
    return lf_file_read(out, path, max_bytes, err);
}
