#include "model/stage.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/check.h"
#include "core/file.h"
#include "device/cpu/threads.h"
#include "model/dummy.h"
#include "model/identity.h"
#include "model/mxfp4.h"
#include "model/unpack.h"

static size_t row_bytes_of(const struct lf_part *p)
{
    return (size_t)p->n_in * lf_dtype_bytes(p->dtype);
}

/* Of a row in MXFP4: its groups, which are as many as its scales' bytes. */
static size_t n_groups_of(const struct lf_part *p)
{
    return (size_t)p->n_in / LF_MXFP4_GROUP;
}

static size_t blocks_bytes_of(const struct lf_part *p)
{
    return n_groups_of(p) * LF_MXFP4_GROUP_BYTES;
}

uint64_t lf_part_file_bytes(const struct lf_part *p, int n)
{
    size_t of_row = p->stored == LF_STORED_MXFP4 ? n_groups_of(p) * (LF_MXFP4_GROUP_BYTES + 1) : row_bytes_of(p);
    return (uint64_t)n * of_row;
}

enum lf_status lf_stage_init(struct lf_stage *out, struct lf_device *dev, const struct lf_tensor_set *set,
                             uint64_t dummy_seed, bool hashes, struct lf_err *err)
{
    *out = (struct lf_stage){.dev = dev, .set = set, .dummy_seed = dummy_seed, .hashes = hashes, .fd = -1};
    out->rows = malloc(LF_STAGE_BYTES);
    return out->rows ? LF_OK : lf_fail(err, LF_NO_MEMORY, "no memory for reading weights");
}

void lf_stage_deinit(struct lf_stage *stage)
{
    if (stage->rows && stage->fd >= 0) close(stage->fd);
    free(stage->rows);
    free(stage->packed);
    *stage = (struct lf_stage){.fd = -1};
}

int lf_stage_begin(struct lf_stage *stage, const struct lf_part *p)
{
    int n = (int)LF_MIN((size_t)LF_STAGE_BYTES / row_bytes_of(p), (size_t)p->n_rows);
    int piece = lf_hash_piece_rows(p->stored == LF_STORED_MXFP4 ? blocks_bytes_of(p) : row_bytes_of(p));
    lf_sha256_init(&stage->sha);
    lf_sha256_init(&stage->scales_sha);
    if (n < p->n_rows) n = n / piece * piece; /* whole pieces of its hash */
    LF_ASSERT(n > 0);
    return n;
}

static enum lf_status turn_to_file(struct lf_stage *s, int file_idx, struct lf_err *err)
{
    const struct lf_tensor_file *file = &s->set->files[file_idx];
    uint64_t size;
    if (s->fd >= 0 && s->file_idx == file_idx) return LF_OK;
    if (s->fd >= 0) close(s->fd);
    s->fd = -1;
    LF_TRY(lf_file_open(&s->fd, &size, file->path, err));
    s->file_idx = file_idx;
    if (size != file->size) {
        return lf_fail(err, LF_CORRUPT, "%s had %" PRIu64 " bytes a moment ago and has %" PRIu64 ": it was changed",
                       file->path, file->size, size);
    }
    return LF_OK;
}

/* n rows of row_bytes each, from the tensor's row `row` on, read to `to` and hashed. */
static enum lf_status read_rows(struct lf_stage *s, const struct lf_tensor *t, uint64_t row, int n, size_t row_bytes,
                                struct lf_sha256 *sha, void *to, struct lf_err *err)
{
    LF_TRY(turn_to_file(s, t->file_idx, err));
    LF_TRY(lf_file_pread(s->fd, to, (size_t)n * row_bytes, t->offset + row * row_bytes, s->set->files[t->file_idx].path,
                         err));
    if (s->hashes) lf_hash_rows(sha, lf_device_threads(s->dev), to, n, row_bytes);
    return LF_OK;
}

static enum lf_status need_packed(struct lf_stage *s, size_t bytes, struct lf_err *err)
{
    if (bytes <= s->packed_bytes) return LF_OK;
    free(s->packed);
    s->packed = malloc(bytes);
    s->packed_bytes = s->packed ? bytes : 0;
    return s->packed ? LF_OK : lf_fail(err, LF_NO_MEMORY, "no memory for reading weights");
}

/* A row is in all of the matrix, so that is read first: of one expert, and no more. */
static enum lf_status stage_columns(struct lf_stage *s, const struct lf_part *p, int row, int n, struct lf_err *err)
{
    size_t elem_bytes = lf_dtype_bytes(p->dtype), column_bytes = (size_t)p->n_rows * elem_bytes;
    if (row == 0) {
        uint64_t columns_before = p->tensor_row / (uint64_t)p->n_rows * (uint64_t)p->n_in;
        LF_TRY(need_packed(s, (size_t)p->n_in * column_bytes, err));
        LF_TRY(read_rows(s, p->tensor, columns_before, p->n_in, column_bytes, &s->sha, s->packed, err));
    }
    lf_unpack_columns(lf_device_threads(s->dev), s->rows, s->packed, elem_bytes, p->n_rows, p->n_in, row, n);
    return LF_OK;
}

/* The scales of the whole matrix come first: a byte for 32 values is little. */
static enum lf_status stage_mxfp4(struct lf_stage *s, const struct lf_part *p, int row, int n, struct lf_err *err)
{
    size_t of_scales = n_groups_of(p), n_scales = (size_t)p->n_rows * of_scales;
    if (row == 0) {
        LF_TRY(need_packed(s, n_scales + (size_t)n * blocks_bytes_of(p), err));
        LF_TRY(read_rows(s, p->scales, p->tensor_row, p->n_rows, of_scales, &s->scales_sha, s->packed, err));
    }
    const uint8_t *scales = (const uint8_t *)s->packed + (size_t)row * of_scales;
    char *blocks = s->packed + n_scales;
    LF_TRY(read_rows(s, p->tensor, p->tensor_row + (uint64_t)row, n, blocks_bytes_of(p), &s->sha, blocks, err));
    lf_unpack_mxfp4(lf_device_threads(s->dev), s->rows, (const uint8_t *)blocks, scales, n, p->n_in);
    return LF_OK;
}

/* Random rows of a part, by the device's threads: an 8B model has 16 GB of them. */
struct dummy_job {
    const struct lf_stage *stage;
    const struct lf_part *part;
    int row, n_rows, n_tasks;
};

static void dummy_task(void *ctx, int task_idx, int worker_idx)
{
    (void)worker_idx;
    const struct dummy_job *job = ctx;
    const struct lf_part *p = job->part;
    int first = (int)((int64_t)job->n_rows * task_idx / job->n_tasks);
    int end = (int)((int64_t)job->n_rows * (task_idx + 1) / job->n_tasks);
    lf_dummy_fill(job->stage->rows + (size_t)first * row_bytes_of(p), p->dtype, p->name, job->stage->dummy_seed,
                  p->n_in, job->row + first, end - first);
}

enum lf_status lf_stage_rows(struct lf_stage *s, const struct lf_part *p, int row, int n, struct lf_err *err)
{
    if (!p->tensor) {
        struct lf_threads *threads = lf_device_threads(s->dev);
        struct dummy_job job = {.stage = s, .part = p, .row = row, .n_rows = n};
        job.n_tasks = LF_MIN(n, lf_threads_n(threads));
        lf_threads_run(threads, job.n_tasks, dummy_task, &job);
        if (s->hashes) lf_hash_rows(&s->sha, threads, s->rows, n, row_bytes_of(p));
        return LF_OK;
    }
    switch (p->stored) {
    case LF_STORED_COLUMNS:
        return stage_columns(s, p, row, n, err);
    case LF_STORED_MXFP4:
        return stage_mxfp4(s, p, row, n, err);
    case LF_STORED_ROWS:
        break;
    }
    return read_rows(s, p->tensor, p->tensor_row + (uint64_t)row, n, row_bytes_of(p), &s->sha, s->rows, err);
}

void lf_stage_end(struct lf_stage *s, const struct lf_part *p, uint8_t sha[LF_SHA256_BYTES])
{
    uint8_t both[2][LF_SHA256_BYTES];
    lf_sha256_final(&s->sha, both[0]);
    lf_sha256_final(&s->scales_sha, both[1]);
    if (p->stored == LF_STORED_MXFP4)
        lf_sha256(both, sizeof(both), sha);
    else
        memcpy(sha, both[0], sizeof(both[0]));
}
