#include "model/stage.h"

#include <stdlib.h>

#include "core/check.h"
#include "device/cpu/threads.h"
#include "model/dummy.h"
#include "model/identity.h"
#include "model/unpack.h"

static size_t row_bytes_of(const struct lf_part *p)
{
    return (size_t)p->n_in * lf_dtype_bytes(p->dtype);
}

/* What is hashed of a row as it is read. */
static size_t hashed_bytes_of(const struct lf_part *p)
{
    if (p->stored == LF_STORED_PACKED && p->tensor) return lf_quantized_piece_bytes(&p->quantized);
    return p->coded ? (size_t)p->n_in : row_bytes_of(p);
}

uint64_t lf_part_file_bytes(const struct lf_part *p, int n)
{
    if (p->stored == LF_STORED_PACKED && p->tensor) return lf_quantized_bytes(&p->quantized, n);
    return (uint64_t)n * row_bytes_of(p);
}

enum lf_status lf_stage_init(struct lf_stage *out, struct lf_device *dev, const struct lf_tensor_set *set,
                             uint64_t dummy_seed, bool hashes, struct lf_err *err)
{
    *out = (struct lf_stage){.dev = dev, .dummy_seed = dummy_seed, .hashes = hashes};
    lf_tensor_reader_init(&out->files, set);
    out->rows = malloc(LF_STAGE_BYTES);
    return out->rows ? LF_OK : lf_fail(err, LF_NO_MEMORY, "no memory for reading weights");
}

void lf_stage_deinit(struct lf_stage *stage)
{
    lf_tensor_reader_deinit(&stage->files);
    lf_quantized_reader_deinit(&stage->quantized);
    free(stage->rows);
    free(stage->packed);
    *stage = (struct lf_stage){0};
}

/* At most n rows: whole pieces of a part's hash; coded ones also whole runs of every second one, if there is room for
 * that: a GPU packs parts of runs block by block (device/cuda/weights_cuda.c). */
static int whole_rows(int n, int piece, bool coded)
{
    enum { RUNS = 16 };
    int unit = piece;
    while (unit % RUNS != 0) unit += piece;
    return coded && n >= unit ? n / unit * unit : n / piece * piece;
}

int lf_stage_begin(struct lf_stage *stage, const struct lf_part *p)
{
    /* Coded rows are smaller than expanded ones, but where a row is a few columns and its scale. */
    size_t row_bytes = p->coded ? LF_MAX(row_bytes_of(p), (size_t)p->n_in + 8) : row_bytes_of(p);
    int n = (int)LF_MIN((size_t)LF_STAGE_BYTES / row_bytes, (size_t)p->n_rows);
    int piece = lf_hash_piece_rows(hashed_bytes_of(p));
    lf_sha256_init(&stage->sha);
    lf_sha256_init(&stage->scales_sha);
    if (n < p->n_rows) n = whole_rows(n, piece, p->coded);
    LF_ASSERT(n > 0);
    return n;
}

/* n rows of row_bytes each, from the tensor's row `row` on, read to `to` and hashed. */
static enum lf_status read_rows(struct lf_stage *s, const struct lf_tensor *t, uint64_t row, int n, size_t row_bytes,
                                struct lf_sha256 *sha, void *to, struct lf_err *err)
{
    LF_TRY(lf_tensor_read(&s->files, t, row * row_bytes, (size_t)n * row_bytes, to, err));
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

/* The part's matrix as it stands, [n_in, n_rows]: at once, or of each column what the part has of it. */
static enum lf_status read_sheet(struct lf_stage *s, const struct lf_part *p, size_t elem_bytes, struct lf_err *err)
{
    uint64_t all_rows = (uint64_t)p->all_rows, row = p->tensor_row % all_rows;
    int n_columns = p->tensor_columns > 0 ? p->tensor_columns : p->n_in,
        n_reads = p->n_rows < p->all_rows ? p->n_in : 1;
    uint64_t first = p->tensor_row / all_rows * (uint64_t)n_columns + (uint64_t)p->column;
    size_t read_bytes = (size_t)(p->n_in / n_reads) * (size_t)p->n_rows * elem_bytes;
    for (int i = 0; i < n_reads; i++)
        LF_TRY(lf_tensor_read(&s->files, p->tensor, ((first + (uint64_t)i) * all_rows + row) * elem_bytes, read_bytes,
                              s->packed + (size_t)i * read_bytes, err));
    return LF_OK;
}

/* A row is in all of the matrix, so that is read first: of one expert, and no more. */
static enum lf_status stage_columns(struct lf_stage *s, const struct lf_part *p, int row, int n, struct lf_err *err)
{
    size_t elem_bytes = lf_dtype_bytes(p->dtype), column_bytes = (size_t)p->n_rows * elem_bytes;
    if (row == 0) {
        LF_TRY(need_packed(s, (size_t)p->n_in * column_bytes, err));
        LF_TRY(read_sheet(s, p, elem_bytes, err));
        if (s->hashes) lf_hash_rows(&s->sha, lf_device_threads(s->dev), s->packed, p->n_in, column_bytes);
    }
    lf_unpack_columns(lf_device_threads(s->dev), s->rows, s->packed, elem_bytes, p->n_rows, p->n_in, row, n);
    return LF_OK;
}

static enum lf_status stage_packed(struct lf_stage *s, const struct lf_part *p, int row, int n, struct lf_err *err)
{
    s->quantized.files = &s->files;
    s->quantized.threads = lf_device_threads(s->dev);
    s->quantized.codes_sha = s->hashes ? &s->sha : NULL;
    s->quantized.rest_sha = s->hashes ? &s->scales_sha : NULL;
    LF_TRY(lf_quantized_read(&s->quantized, &s->coded, &p->quantized, row, n, p->name, err));
    if (p->coded) return LF_OK;
    return lf_quantized_expand(&s->quantized, &p->quantized, &s->coded, p->dtype, n, s->rows, err);
}

/* The same of a part by columns: nothing beside them is read. */
static enum lf_status read_columns(struct lf_stage *s, const struct lf_part *p, int row, int n, struct lf_err *err)
{
    size_t elem_bytes = lf_dtype_bytes(p->dtype), row_bytes = row_bytes_of(p);
    for (int i = 0; i < n; i++) {
        uint64_t elem = (p->tensor_row + (uint64_t)(row + i)) * (uint64_t)p->tensor_columns + (uint64_t)p->column;
        LF_TRY(
            lf_tensor_read(&s->files, p->tensor, elem * elem_bytes, row_bytes, s->rows + (size_t)i * row_bytes, err));
    }
    if (s->hashes) lf_hash_rows(&s->sha, lf_device_threads(s->dev), s->rows, n, row_bytes);
    return LF_OK;
}

/* Random rows of a part, by the device's threads: an 8B model has 16 GB of them. Of a part by columns they are those of
 * the whole matrix, which is made row by row beside it. */
struct dummy_job {
    const struct lf_stage *stage;
    const struct lf_part *part;
    struct lf_format format;    /* where they stay coded, */
    struct lf_quant_room coded; /* and then where they go */
    int row, n_rows, n_tasks;
};

/* Codes, scales and zero points of n rows that stay coded, in the room that expanded rows have. */
static struct lf_quant_room cut_rows(char *rows, const struct lf_format *format, int n, int n_in)
{
    size_t n_codes = LF_ROUND_UP((size_t)n * (size_t)n_in, sizeof(float));
    size_t n_scales = (size_t)n * (size_t)lf_format_n_groups(format, n_in);
    LF_ASSERT(n_codes + n_scales * (sizeof(float) + 1) <= LF_STAGE_BYTES);
    struct lf_quant_room out = {.codes = (uint8_t *)rows, .scales = (float *)(void *)(rows + n_codes)};
    if (format->zeros) out.zeros = (uint8_t *)(out.scales + n_scales);
    return out;
}

static void dummy_task(void *ctx, int task_idx, int worker_idx)
{
    (void)worker_idx;
    const struct dummy_job *job = ctx;
    const struct lf_part *p = job->part;
    int first = (int)((int64_t)job->n_rows * task_idx / job->n_tasks);
    int end = (int)((int64_t)job->n_rows * (task_idx + 1) / job->n_tasks);
    if (p->coded) {
        lf_dummy_codes(&job->coded, &job->format, p->name, job->stage->dummy_seed, p->n_in,
                       (int)p->tensor_row + job->row, first, end - first);
        return;
    }
    char *rows = job->stage->rows + (size_t)first * row_bytes_of(p);
    int row = (int)p->tensor_row + job->row + first;
    if (p->tensor_columns == 0) {
        lf_dummy_fill(rows, p->dtype, p->name, job->stage->dummy_seed, p->n_in, row, end - first);
        return;
    }
    size_t elem_bytes = lf_dtype_bytes(p->dtype), whole_bytes = (size_t)p->tensor_columns * elem_bytes;
    char *whole = job->stage->packed + (size_t)task_idx * whole_bytes;
    for (int i = 0; i < end - first; i++) {
        lf_dummy_fill(whole, p->dtype, p->name, job->stage->dummy_seed, p->tensor_columns, row + i, 1);
        memcpy(rows + (size_t)i * row_bytes_of(p), whole + (size_t)p->column * elem_bytes, row_bytes_of(p));
    }
}

static enum lf_status stage_dummy(struct lf_stage *s, const struct lf_part *p, int row, int n, struct lf_err *err)
{
    struct lf_threads *threads = lf_device_threads(s->dev);
    struct dummy_job job = {.stage = s, .part = p, .row = row, .n_rows = n};
    job.n_tasks = LF_MIN(n, lf_threads_n(threads));
    LF_TRY(need_packed(s, (size_t)job.n_tasks * (size_t)p->tensor_columns * lf_dtype_bytes(p->dtype), err));
    if (p->coded) {
        job.format = lf_scheme_format(&p->quantized.scheme, p->dtype);
        job.coded = cut_rows(s->rows, &job.format, n, p->n_in);
        s->coded = (struct lf_quant_rows){job.coded.codes, job.coded.scales, job.coded.zeros};
    }
    lf_threads_run(threads, job.n_tasks, dummy_task, &job);
    if (s->hashes) lf_hash_rows(&s->sha, threads, s->rows, n, hashed_bytes_of(p));
    return LF_OK;
}

enum lf_status lf_stage_rows(struct lf_stage *s, const struct lf_part *p, int row, int n, struct lf_err *err)
{
    if (!p->tensor) return stage_dummy(s, p, row, n, err);
    switch (p->stored) {
    case LF_STORED_COLUMNS:
        return stage_columns(s, p, row, n, err);
    case LF_STORED_PACKED:
        return stage_packed(s, p, row, n, err);
    case LF_STORED_ROWS:
        if (p->tensor_columns > 0) return read_columns(s, p, row, n, err);
        break;
    }
    return read_rows(s, p->tensor, p->tensor_row + (uint64_t)row, n, row_bytes_of(p), &s->sha, s->rows, err);
}

void lf_stage_end(struct lf_stage *s, const struct lf_part *p, uint8_t sha[LF_SHA256_BYTES])
{
    uint8_t both[2][LF_SHA256_BYTES];
    lf_sha256_final(&s->sha, both[0]);
    lf_sha256_final(&s->scales_sha, both[1]);
    memcpy(sha, both[0], sizeof(both[0]));
    if (p->stored != LF_STORED_PACKED) return;
    lf_sha256_init(&s->sha);
    lf_sha256_update(&s->sha, both, sizeof(both));
    for (int i = 0; i < LF_SOURCES_N; i++) { /* the same bytes of another type are other values */
        const struct lf_tensor *t = p->quantized.sources[i];
        const char *type = t ? t->dtype_name : "";
        lf_sha256_update(&s->sha, type, strlen(type) + 1);
    }
    lf_sha256_final(&s->sha, sha);
}
