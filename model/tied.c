#include "model/tied.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/check.h"
#include "core/file.h"

enum { WINDOW_BYTES = 1024 * 1024 };

/* A tensor being read. */
struct reading {
    const struct lf_tensor *tensor;
    const char *path;
    int fd;
    char *window; /* [WINDOW_BYTES] */
};

static enum lf_status start(struct reading *r, const struct lf_tensor_set *set, const struct lf_tensor *t,
                            struct lf_err *err)
{
    uint64_t size;
    *r = (struct reading){.tensor = t, .path = set->files[t->file_idx].path, .fd = -1};
    r->window = malloc(WINDOW_BYTES);
    if (!r->window) return lf_fail(err, LF_NO_MEMORY, "no memory to compare tensors");
    return lf_file_open(&r->fd, &size, r->path, err);
}

static void stop(struct reading *r)
{
    if (r->fd >= 0) close(r->fd);
    free(r->window);
}

static bool same_shape(const struct lf_tensor *a, const struct lf_tensor *b)
{
    return a->dtype_name == b->dtype_name && a->rank == b->rank && a->n_bytes == b->n_bytes &&
           memcmp(a->shape, b->shape, (size_t)a->rank * sizeof(*a->shape)) == 0;
}

enum lf_status lf_tied_differs(bool *out, const struct lf_tensor_set *set, const struct lf_tensor *a,
                               const struct lf_tensor *b, struct lf_err *err)
{
    struct reading x = {.fd = -1}, y = {.fd = -1};
    bool differs = !same_shape(a, b);
    enum lf_status status = LF_OK;
    LF_TRY_GOTO(start(&x, set, a, err), done);
    LF_TRY_GOTO(start(&y, set, b, err), done);
    for (uint64_t at = 0; at < a->n_bytes && !differs; at += WINDOW_BYTES) {
        size_t n = (size_t)LF_MIN(a->n_bytes - at, (uint64_t)WINDOW_BYTES);
        LF_TRY_GOTO(lf_file_pread(x.fd, x.window, n, a->offset + at, x.path, err), done);
        LF_TRY_GOTO(lf_file_pread(y.fd, y.window, n, b->offset + at, y.path, err), done);
        differs = memcmp(x.window, y.window, n) != 0;
    }
    *out = differs;
done:
    stop(&x);
    stop(&y);
    return status;
}
