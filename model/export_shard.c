#include "model/export_shard.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/check.h"
#include "core/file.h"
#include "core/json.h"
#include "core/limits.h"

enum { CHUNK_BYTES = 4 * 1024 * 1024, WORD_BITS = 32, HEADER_ALIGN = 8 };

static int bits_of(const struct lf_format *f)
{
    return f->code == LF_CODE_I4 ? 4 : 8;
}

static bool is_packed(const struct lf_format *f)
{
    return f->code != LF_CODE_E4M3;
}

/* ---- the layout ---- */

/* Bytes of a type as safetensors spells it: its number of bits stands in it. */
static int elem_bytes_of(const struct lf_tensor *t)
{
    uint64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->shape[i];
    return n ? (int)(t->n_bytes / n) : 1;
}

static void add_copy(struct lf_export_shard *s, const struct lf_tensor *t)
{
    struct lf_export_entry *e = &s->entries[s->n_entries++];
    *e = (struct lf_export_entry){.source = t,
                                  .kind = LF_EXPORT_COPY,
                                  .dtype_name = t->dtype_name,
                                  .rank = t->rank,
                                  .elem_bytes = elem_bytes_of(t)};
    memcpy(e->shape, t->shape, sizeof(e->shape));
}

static void add_coded(struct lf_export_shard *s, const struct lf_tensor *t)
{
    uint64_t n_out = t->shape[0], n_in = t->shape[1];
    uint64_t n_groups = (uint64_t)lf_format_n_groups(&s->format, (int)n_in);
    bool packed = is_packed(&s->format);
    uint64_t width = packed ? n_in * (uint64_t)bits_of(&s->format) / WORD_BITS : n_in;
    s->entries[s->n_entries++] = (struct lf_export_entry){.source = t,
                                                          .kind = LF_EXPORT_CODES,
                                                          .suffix = packed ? ".weight_packed" : ".weight",
                                                          .dtype_name = packed ? "I32" : "F8_E4M3",
                                                          .elem_bytes = packed ? 4 : 1,
                                                          .rank = 2,
                                                          .shape = {n_out, width}};
    s->entries[s->n_entries++] = (struct lf_export_entry){.source = t,
                                                          .kind = LF_EXPORT_SCALES,
                                                          .suffix = ".weight_scale",
                                                          .dtype_name = "BF16",
                                                          .elem_bytes = 2,
                                                          .rank = 2,
                                                          .shape = {n_out, n_groups}};
    if (packed)
        s->entries[s->n_entries++] = (struct lf_export_entry){.source = t,
                                                              .kind = LF_EXPORT_SHAPE,
                                                              .suffix = ".weight_shape",
                                                              .dtype_name = "I64",
                                                              .elem_bytes = 8,
                                                              .rank = 1,
                                                              .shape = {2}};
}

static int compare_entries(const void *a, const void *b)
{
    const struct lf_export_entry *x = a, *y = b;
    if (x->elem_bytes != y->elem_bytes) return y->elem_bytes - x->elem_bytes;
    if (x->source != y->source) return x->source < y->source ? -1 : 1; /* the set has them by name */
    return (int)x->kind - (int)y->kind;
}

static uint64_t bytes_of(const struct lf_export_entry *e)
{
    uint64_t n = (uint64_t)e->elem_bytes;
    if (e->kind == LF_EXPORT_COPY) return e->source->n_bytes; /* elements may be less than a byte */
    for (int i = 0; i < e->rank; i++) n *= e->shape[i];
    return n;
}

void lf_export_entry_name(const struct lf_export_entry *e, struct lf_buf *out)
{
    struct lf_str name = e->source->name;
    if (e->suffix) name.len -= sizeof(".weight") - 1;
    lf_buf_append(out, name.ptr, name.len);
    if (e->suffix) lf_buf_cstr(out, e->suffix);
}

static void write_name(const struct lf_export_entry *e, struct lf_buf *out)
{
    struct lf_buf name;
    lf_buf_init(&name, LF_SAFETENSORS_HEADER_BYTES);
    lf_export_entry_name(e, &name);
    lf_json_write_string(out, lf_buf_view(&name));
    if (name.status != LF_OK) out->status = name.status;
    lf_buf_deinit(&name);
}

/* The header behind its length, filled up with spaces. */
static enum lf_status make_header(struct lf_export_shard *s, struct lf_err *err)
{
    uint64_t at = 0, n;
    struct lf_buf *out = &s->header;
    lf_buf_init(out, LF_SAFETENSORS_HEADER_BYTES);
    lf_buf_append(out, "\0\0\0\0\0\0\0", sizeof(n));
    lf_buf_cstr(out, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (int i = 0; i < s->n_entries; i++) {
        const struct lf_export_entry *e = &s->entries[i];
        lf_buf_char(out, ',');
        write_name(e, out);
        lf_buf_printf(out, ":{\"dtype\":\"%s\",\"shape\":[", e->dtype_name);
        for (int k = 0; k < e->rank; k++) lf_buf_printf(out, "%s%" PRIu64, k ? "," : "", e->shape[k]);
        lf_buf_printf(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, at + bytes_of(e));
        at += bytes_of(e);
    }
    lf_buf_char(out, '}');
    while (out->status == LF_OK && out->len % HEADER_ALIGN != 0) lf_buf_char(out, ' ');
    if (out->status != LF_OK) return lf_fail(err, out->status, "no room for the header of a safetensors file");
    n = out->len - sizeof(n);
    for (size_t i = 0; i < sizeof(n); i++) out->ptr[i] = (char)(n >> 8 * i);
    s->data_bytes = at;
    at = out->len;
    for (int i = 0; i < s->n_entries; at += bytes_of(&s->entries[i++])) s->entries[i].offset = at;
    return LF_OK;
}

enum lf_status lf_export_shard_make(struct lf_export_shard *out, const struct lf_format *format,
                                    const struct lf_tensor_set *set, int file_idx, const bool *quantized,
                                    struct lf_err *err)
{
    *out = (struct lf_export_shard){.format = *format};
    out->entries = calloc(3 * (size_t)set->n_tensors + 1, sizeof(*out->entries));
    if (!out->entries) return lf_fail(err, LF_NO_MEMORY, "no memory for a list of %d tensors", set->n_tensors);
    for (int i = 0; i < set->n_tensors; i++) {
        const struct lf_tensor *t = &set->tensors[i];
        if (t->file_idx != file_idx) continue;
        if (quantized[i])
            add_coded(out, t);
        else
            add_copy(out, t);
    }
    qsort(out->entries, (size_t)out->n_entries, sizeof(*out->entries), compare_entries);
    return make_header(out, err);
}

void lf_export_shard_deinit(struct lf_export_shard *s)
{
    free(s->entries);
    lf_buf_deinit(&s->header);
    *s = (struct lf_export_shard){0};
}

/* ---- bytes ---- */

struct writer {
    const struct lf_export_shard *shard;
    struct lf_threads *threads;
    struct lf_quantizer *quantizer;
    struct lf_export_progress *progress;
    const char *from_path, *path;
    int from, fd;
    char *rows;  /* [CHUNK_BYTES] as they stand in the source */
    char *coded; /* [CHUNK_BYTES] as they go out */
};

static enum lf_status put(struct writer *w, const void *bytes, size_t n, uint64_t offset, struct lf_err *err)
{
    const char *at = bytes;
    while (n > 0) {
        ssize_t done = pwrite(w->fd, at, n, (off_t)offset);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return lf_fail(err, LF_IO, "cannot write %s: %s", w->path, strerror(errno));
        at += done;
        n -= (size_t)done;
        offset += (uint64_t)done;
    }
    return LF_OK;
}

static void progressed(struct writer *w, uint64_t bytes)
{
    w->progress->done += bytes;
    if (w->progress->call) w->progress->call(w->progress->ctx, w->progress->done, w->progress->total);
}

static enum lf_status copy(struct writer *w, const struct lf_export_entry *e, struct lf_err *err)
{
    uint64_t n = e->source->n_bytes;
    for (uint64_t at = 0; at < n; at += CHUNK_BYTES) {
        size_t part = (size_t)LF_MIN(n - at, (uint64_t)CHUNK_BYTES);
        LF_TRY(lf_file_pread(w->from, w->rows, part, e->source->offset + at, w->from_path, err));
        LF_TRY(put(w, w->rows, part, e->offset + at, err));
        progressed(w, part);
    }
    return LF_OK;
}

/* n codes as they lie in the file; bytes that they take. */
static size_t pack(const struct lf_format *f, const uint8_t *codes, size_t n, char *out)
{
    if (f->code == LF_CODE_I4) {
        for (size_t i = 0; i < n / 2; i++) out[i] = (char)(codes[2 * i] | codes[2 * i + 1] << 4);
        return n / 2;
    }
    uint8_t flip = f->code == LF_CODE_I8 ? 0x80 : 0;
    for (size_t i = 0; i < n; i++) out[i] = (char)(codes[i] ^ flip);
    return n;
}

static size_t round_scales(const float *scales, size_t n, char *out)
{
    lf_from_f32(out, LF_BF16, scales, n);
    return n * sizeof(uint16_t);
}

/* The codes' entry of a matrix, and the scales' of the same. */
static enum lf_status write_coded(struct writer *w, const struct lf_export_entry *codes,
                                  const struct lf_export_entry *scales, struct lf_err *err)
{
    const struct lf_tensor *t = codes->source;
    const struct lf_format *f = &w->shard->format;
    enum lf_dtype dtype = LF_F32;
    LF_ASSERT(lf_tensor_dtype(t, &dtype));
    int n_out = (int)t->shape[0], n_in = (int)t->shape[1];
    size_t row_bytes = (size_t)n_in * lf_dtype_bytes(dtype), n_groups = (size_t)lf_format_n_groups(f, n_in);
    int n_most = (int)(CHUNK_BYTES / row_bytes);
    uint64_t codes_at = codes->offset, scales_at = scales->offset;
    char name[128];
    snprintf(name, sizeof(name), "%.*s", (int)t->name.len, t->name.ptr);
    if (n_most == 0) return lf_fail(err, LF_LIMIT, "tensor %s has rows of %zu bytes", name, row_bytes);
    for (int row = 0; row < n_out; row += n_most) {
        struct lf_quant_rows q;
        int n = LF_MIN(n_most, n_out - row);
        LF_TRY(lf_file_pread(w->from, w->rows, (size_t)n * row_bytes, t->offset + (uint64_t)row * row_bytes,
                             w->from_path, err));
        LF_TRY(lf_quantizer_run(w->quantizer, w->threads, f, dtype, n, n_in, w->rows, name, &q, err));
        size_t n_bytes = pack(f, q.codes, (size_t)n * (size_t)n_in, w->coded);
        LF_TRY(put(w, w->coded, n_bytes, codes_at, err));
        codes_at += n_bytes;
        n_bytes = round_scales(q.scales, (size_t)n * n_groups, w->coded);
        LF_TRY(put(w, w->coded, n_bytes, scales_at, err));
        scales_at += n_bytes;
        progressed(w, (uint64_t)n * row_bytes);
    }
    return LF_OK;
}

static enum lf_status write_shape(struct writer *w, const struct lf_export_entry *e, struct lf_err *err)
{
    char bytes[2 * sizeof(uint64_t)];
    for (size_t i = 0; i < sizeof(bytes); i++) bytes[i] = (char)(e->source->shape[i / 8] >> 8 * (i % 8));
    return put(w, bytes, sizeof(bytes), e->offset, err);
}

static const struct lf_export_entry *scales_of(const struct lf_export_shard *s, const struct lf_tensor *t)
{
    int i = 0;
    while (s->entries[i].source != t || s->entries[i].kind != LF_EXPORT_SCALES) i++;
    return &s->entries[i];
}

static enum lf_status write_entries(struct writer *w, struct lf_err *err)
{
    const struct lf_export_shard *s = w->shard;
    LF_TRY(put(w, s->header.ptr, s->header.len, 0, err));
    for (int i = 0; i < s->n_entries; i++) {
        const struct lf_export_entry *e = &s->entries[i];
        if (e->kind == LF_EXPORT_COPY) LF_TRY(copy(w, e, err));
        if (e->kind == LF_EXPORT_CODES) LF_TRY(write_coded(w, e, scales_of(s, e->source), err));
        if (e->kind == LF_EXPORT_SHAPE) LF_TRY(write_shape(w, e, err));
    }
    if (fsync(w->fd) != 0) return lf_fail(err, LF_IO, "cannot write %s: %s", w->path, strerror(errno));
    return LF_OK;
}

enum lf_status lf_export_shard_write(const struct lf_export_shard *shard, const struct lf_tensor_set *set, int file_idx,
                                     const char *path, struct lf_threads *threads, struct lf_quantizer *quantizer,
                                     struct lf_export_progress *progress, struct lf_err *err)
{
    uint64_t size;
    enum lf_status status;
    struct writer w = {.shard = shard,
                       .threads = threads,
                       .quantizer = quantizer,
                       .progress = progress,
                       .from_path = set->files[file_idx].path,
                       .path = path,
                       .from = -1,
                       .fd = -1,
                       .rows = malloc(CHUNK_BYTES),
                       .coded = malloc(CHUNK_BYTES)};
    status = w.rows && w.coded ? LF_OK : lf_fail(err, LF_NO_MEMORY, "no memory for reading weights");
    if (status == LF_OK) status = lf_file_open(&w.from, &size, w.from_path, err);
    if (status == LF_OK) {
        w.fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        status = w.fd >= 0 ? write_entries(&w, err) : lf_fail(err, LF_IO, "cannot make %s: %s", path, strerror(errno));
    }
    if (w.fd >= 0 && close(w.fd) != 0 && status == LF_OK)
        status = lf_fail(err, LF_IO, "cannot write %s: %s", path, strerror(errno));
    if (w.from >= 0) close(w.from);
    free(w.rows);
    free(w.coded);
    return status;
}
