#include "model/reader.h"

#include <inttypes.h>
#include <unistd.h>

#include "core/check.h"
#include "core/file.h"

void lf_tensor_reader_init(struct lf_tensor_reader *r, const struct lf_tensor_set *set)
{
    *r = (struct lf_tensor_reader){.set = set, .fd = -1};
}

void lf_tensor_reader_deinit(struct lf_tensor_reader *r)
{
    if (r->set && r->fd >= 0) close(r->fd);
    *r = (struct lf_tensor_reader){.fd = -1};
}

static enum lf_status turn_to_file(struct lf_tensor_reader *r, int file_idx, struct lf_err *err)
{
    const struct lf_tensor_file *file = &r->set->files[file_idx];
    uint64_t size;
    if (r->fd >= 0 && r->file_idx == file_idx) return LF_OK;
    if (r->fd >= 0) close(r->fd);
    r->fd = -1;
    LF_TRY(lf_file_open(&r->fd, &size, file->path, err));
    r->file_idx = file_idx;
    if (size != file->size) {
        return lf_fail(err, LF_CORRUPT, "%s had %" PRIu64 " bytes a moment ago and has %" PRIu64 ": it was changed",
                       file->path, file->size, size);
    }
    return LF_OK;
}

enum lf_status lf_tensor_read(struct lf_tensor_reader *r, const struct lf_tensor *t, uint64_t at, size_t n, void *to,
                              struct lf_err *err)
{
    LF_TRY(turn_to_file(r, t->file_idx, err));
    return lf_file_pread(r->fd, to, n, t->offset + at, r->set->files[t->file_idx].path, err);
}
