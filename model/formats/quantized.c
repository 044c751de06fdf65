/* Codes that lie row by row are read some rows at a time; everything else of a matrix (scales, zero points, and codes
 * that lie the other way) at once, with its first rows: it is small, or one matrix of one expert. */
#include "model/formats/quantized.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/check.h"
#include "model/identity.h"
#include "model/names.h"

enum { TASKS_PER_THREAD = 4 };

/* ---- binding ---- */

/* The tensor of a source: under the first of its names that is there. */
static const struct lf_tensor *find_source(const struct lf_tensor_set *set, const struct lf_source_row *row,
                                           const struct lf_quantized_place *at, char name[LF_NAME_BYTES])
{
    const struct lf_tensor *t = NULL;
    if (at->n_experts > 0) {
        if (!row->stacked) return NULL;
        snprintf(name, LF_NAME_BYTES, "%s%s", at->module, row->stacked);
        return lf_name_find(set, name);
    }
    for (int i = LF_SOURCE_NAMES_N - 1; i >= 0; i--) {
        char other[LF_NAME_BYTES];
        if (!row->suffixes[i]) continue;
        snprintf(other, sizeof(other), "%s%s", at->module, row->suffixes[i]);
        const struct lf_tensor *found = lf_name_find(set, other);
        if (found) t = found;
        if (found || i == 0) memcpy(name, other, sizeof(other));
    }
    return t;
}

/* The name that the file has for the module, as far as its tensors tell; "" where there is none of them. */
static struct lf_str name_in_file(const struct lf_tensor_set *set, const struct lf_quantization *q,
                                  const struct lf_quantized_place *at)
{
    char name[LF_NAME_BYTES];
    for (int i = 0; i < q->n_groups; i++) {
        const struct lf_packing *packing = q->groups[i].scheme.packing;
        const struct lf_source_row *row = packing ? &packing->rows[LF_SOURCE_CODES] : NULL;
        const struct lf_tensor *t = row ? find_source(set, row, at, name) : NULL;
        if (!t) continue;
        size_t n = strlen(at->n_experts > 0 ? row->stacked : row->suffixes[0]);
        return lf_str_from(t->name.ptr, t->name.len - n);
    }
    return lf_str_from("", 0);
}

static enum lf_status find_scheme(const struct lf_scheme **out, const struct lf_tensor_set *set,
                                  const struct lf_quantization *q, const struct lf_quantized_place *at,
                                  struct lf_err *err)
{
    struct lf_str in_file = name_in_file(set, q, at), own = lf_str_c(at->module);
    bool ignored = false, own_ignored = false;
    const struct lf_scheme *of_own = NULL;
    if (in_file.len == 0)
        return lf_fail(err, LF_CORRUPT, "tensor %s%s is missing, and so is what it is quantized to (%s)", at->module,
                       at->plain_suffix, q->method);
    LF_TRY(lf_quantization_find(q, in_file, out, &ignored, err));
    if (!lf_str_eq(in_file, own)) LF_TRY(lf_quantization_find(q, own, &of_own, &own_ignored, err));
    if (!*out) *out = of_own;
    if (ignored || own_ignored)
        return lf_fail(err, LF_CORRUPT, "%s is quantized, but %s leaves it out", at->module, q->ignore_key);
    if (!*out) return lf_fail(err, LF_CORRUPT, "%s is quantized, but no group of targets names it", at->module);
    return LF_OK;
}

static enum lf_status check_type(const struct lf_source_row *row, const struct lf_tensor *t, const char *name,
                                 struct lf_err *err)
{
    enum lf_source_type type;
    char expected[64] = "";
    if (lf_source_type_of(t->dtype_name, &type) && (row->types >> type & 1)) return LF_OK;
    for (int i = 0, at = 0; i < 16 && at < (int)sizeof(expected); i++)
        if (row->types >> i & 1)
            at += snprintf(expected + at, sizeof(expected) - (size_t)at, "%s%s", at ? ", " : "",
                           lf_source_type_name((enum lf_source_type)i));
    return lf_fail(err, LF_CORRUPT, "tensor %s is of type %s, expected %s", name, t->dtype_name, expected);
}

/* The shape that a source should have, but for dimensions of 1; all experts' tensors have one more before it. */
static enum lf_status check_shape(const struct lf_quantized *m, enum lf_source source, int n_experts, const char *name,
                                  struct lf_err *err)
{
    const struct lf_tensor *t = m->sources[source];
    int dims[2], first = n_experts > 0 ? 1 : 0, n = 0;
    int rank = lf_source_shape(&m->scheme, source, m->n_out, m->n_in, dims);
    bool is_same = first == 0 || (t->rank > 0 && t->shape[0] == (uint64_t)n_experts);
    char have[64], expected[64] = "";
    for (int i = first; i < t->rank; i++) {
        if (t->shape[i] == 1) continue;
        is_same &= n < rank && t->shape[i] == (uint64_t)dims[n];
        n++;
    }
    if (is_same && n == rank) return LF_OK;
    lf_tensor_shape_text(t, have, sizeof(have));
    int at = first ? snprintf(expected, sizeof(expected), "%d", n_experts) : 0;
    for (int i = 0; i < rank; i++)
        at += snprintf(expected + at, sizeof(expected) - (size_t)at, "%s%d", at ? ", " : "", dims[i]);
    return lf_fail(err, LF_CORRUPT, "tensor %s has shape %s, its configuration asks for [%s]", name, have, expected);
}

/* Codes of a word are of as many rows, or columns, as there are, unless its format fills up. */
static enum lf_status check_words(const struct lf_quantized *m, const char *module, struct lf_err *err)
{
    const struct lf_packing *packing = m->scheme.packing;
    int of_word = (packing->rows[LF_SOURCE_CODES].types >> LF_SOURCE_U8 & 1 ? 8 : LF_WORD_BITS) / m->scheme.bits;
    int n = packing->fills_rows && m->n_out % of_word ? m->n_out : packing->fills_in && m->n_in % of_word ? m->n_in : 0;
    if (n == 0) return LF_OK;
    return lf_fail(err, LF_CORRUPT, "%s: %d rows or columns are no multiple of the %d codes in a word of %s", module, n,
                   of_word, packing->name);
}

static enum lf_status bind_source(struct lf_quantized *m, enum lf_source source, const struct lf_tensor_set *set,
                                  const struct lf_quantized_place *at, struct lf_err *err)
{
    const struct lf_scheme *s = &m->scheme;
    const struct lf_source_row *row = &s->packing->rows[source];
    char name[LF_NAME_BYTES] = "";
    bool is_needed =
        !row->optional || (source == LF_SOURCE_ZEROS && s->zeros) || (source == LF_SOURCE_ORDER && s->act_order);
    if (!row->suffixes[0]) return LF_OK;
    m->sources[source] = find_source(set, row, at, name);
    if (!m->sources[source] && !is_needed) return LF_OK;
    if (!m->sources[source] && !name[0])
        return lf_fail(err, LF_UNSUPPORTED, "%s: experts in one tensor are not implemented for %s", at->module,
                       s->packing->name);
    if (!m->sources[source])
        return lf_fail(err, LF_CORRUPT, "tensor %s is missing, which goes with quantized %s", name, at->module);
    LF_TRY(check_type(row, m->sources[source], name, err));
    LF_TRY(check_shape(m, source, at->n_experts, name, err));
    bool is_by_rows = source == LF_SOURCE_CODES && s->packing->by_rows; /* some at a time */
    if (is_by_rows || m->sources[source]->n_bytes / (uint64_t)m->n_shares <= INT32_MAX) return LF_OK;
    return lf_fail(err, LF_LIMIT, "tensor %s has %" PRIu64 " bytes a matrix, at most %d are read", name,
                   m->sources[source]->n_bytes / (uint64_t)m->n_shares, INT32_MAX);
}

enum lf_status lf_quantized_check_columns(const struct lf_quantized *m, const char *module, struct lf_err *err)
{
    struct lf_format format = lf_scheme_format(&m->scheme, LF_F32);
    int group = LF_MAX(format.group, 1), end = m->column + m->n_columns;
    if (m->column % group == 0 && (end % group == 0 || end == m->n_in)) return LF_OK;
    return lf_fail(
        err, LF_INVALID,
        "%s is quantized in groups of %d columns, of which %d are not divided over %d ranks; expected as many "
        "that each has whole groups",
        module, group, m->n_in, m->n_in / m->n_columns);
}

enum lf_status lf_quantized_bind(struct lf_quantized *out, const struct lf_tensor_set *set,
                                 const struct lf_quantization *q, const struct lf_quantized_place *at,
                                 struct lf_err *err)
{
    const struct lf_scheme *scheme;
    LF_TRY(find_scheme(&scheme, set, q, at, err));
    struct lf_quantized m = {.scheme = *scheme,
                             .n_shares = LF_MAX(at->n_experts, 1),
                             .share = at->n_experts > 0 ? at->expert : 0,
                             .n_out = at->n_out,
                             .n_in = at->n_in,
                             .first = at->first,
                             .column = at->column,
                             .n_columns = at->n_columns};
    if (m.scheme.group >= at->n_in) m.scheme.group = 0;
    LF_TRY(check_words(&m, at->module, err));
    LF_TRY(lf_quantized_check_columns(&m, at->module, err));
    for (int i = 0; i < LF_SOURCES_N; i++) LF_TRY(bind_source(&m, (enum lf_source)i, set, at, err));
    *out = m;
    return LF_OK;
}

/* ---- sizes ---- */

static size_t share_bytes(const struct lf_quantized *m, int source)
{
    return m->sources[source] ? (size_t)(m->sources[source]->n_bytes / (uint64_t)m->n_shares) : 0;
}

uint64_t lf_quantized_bytes(const struct lf_quantized *m, int n)
{
    uint64_t all = 0;
    for (int i = 0; i < LF_SOURCES_N; i++) all += share_bytes(m, i);
    return all * (uint64_t)n / (uint64_t)m->n_out;
}

size_t lf_quantized_piece_bytes(const struct lf_quantized *m)
{
    return share_bytes(m, LF_SOURCE_CODES) / (m->scheme.packing->by_rows ? (size_t)m->n_out : 1);
}

/* ---- reading ---- */

void lf_quantized_reader_deinit(struct lf_quantized_reader *r)
{
    free(r->bytes);
    free(r->room.codes);
    free(r->room.scales);
    free(r->room.zeros);
    free(r->wide);
    *r = (struct lf_quantized_reader){0};
}

static enum lf_status need_bytes(struct lf_quantized_reader *r, size_t n, struct lf_err *err)
{
    if (n <= r->n_bytes) return LF_OK;
    free(r->bytes);
    r->bytes = malloc(n);
    r->n_bytes = r->bytes ? n : 0;
    return r->bytes ? LF_OK : lf_fail(err, LF_NO_MEMORY, "no memory for reading quantized weights");
}

static enum lf_status need_room(struct lf_quantized_reader *r, size_t n_codes, size_t n_groups, struct lf_err *err)
{
    if (n_codes > r->n_codes) {
        free(r->room.codes);
        r->room.codes = malloc(n_codes);
        r->n_codes = r->room.codes ? n_codes : 0;
    }
    if (n_groups > r->n_groups) {
        free(r->room.scales);
        free(r->room.zeros);
        r->room.scales = malloc(n_groups * sizeof(*r->room.scales));
        r->room.zeros = malloc(n_groups);
        r->n_groups = r->room.scales && r->room.zeros ? n_groups : 0;
    }
    return r->n_codes && r->n_groups ? LF_OK : lf_fail(err, LF_NO_MEMORY, "no memory for reading quantized weights");
}

/* Sources that are read at once, one behind the other, and behind them room for n rows of codes. */
static enum lf_status read_whole(struct lf_quantized_reader *r, const struct lf_quantized *m, int n, const char *name,
                                 struct lf_err *err)
{
    bool by_rows = m->scheme.packing->by_rows;
    size_t at = 0, all = 0;
    for (int i = 0; i < LF_SOURCES_N; i++)
        all += i == LF_SOURCE_CODES && by_rows ? (size_t)n * lf_quantized_piece_bytes(m) : share_bytes(m, i);
    LF_TRY(need_bytes(r, all, err));
    r->packed = (struct lf_packed){.scheme = &m->scheme, .n_out = m->n_out, .n_in = m->n_in};
    for (int i = LF_SOURCES_N - 1; i >= 0; i--) {
        size_t size = share_bytes(m, i);
        if (!m->sources[i]) continue;
        r->packed.sources[i] = (const uint8_t *)r->bytes + at;
        lf_source_type_of(m->sources[i]->dtype_name, &r->packed.types[i]);
        if (i == LF_SOURCE_CODES) r->codes_at = at;
        if (i == LF_SOURCE_CODES && by_rows) continue;
        LF_TRY(lf_tensor_read(r->files, m->sources[i], (uint64_t)m->share * size, size, r->bytes + at, err));
        struct lf_sha256 *sha = i == LF_SOURCE_CODES ? r->codes_sha : r->rest_sha;
        if (sha) lf_hash_rows(sha, r->threads, r->bytes + at, (int)size, 1);
        at += size;
    }
    return lf_packed_check(&r->packed, name, err);
}

static enum lf_status read_codes(struct lf_quantized_reader *r, const struct lf_quantized *m, int row, int n,
                                 struct lf_err *err)
{
    size_t row_bytes = lf_quantized_piece_bytes(m);
    uint64_t from = (uint64_t)m->share * share_bytes(m, LF_SOURCE_CODES) + (uint64_t)row * row_bytes;
    char *to = r->bytes + r->codes_at;
    LF_TRY(lf_tensor_read(r->files, m->sources[LF_SOURCE_CODES], from, (size_t)n * row_bytes, to, err));
    if (r->codes_sha) lf_hash_rows(r->codes_sha, r->threads, to, n, row_bytes);
    r->packed.codes_from = row;
    return LF_OK;
}

enum { TASKS_N = 256 };

/* Rows of a matrix in tasks. */
struct job {
    struct lf_quantized_reader *r;
    const struct lf_quant_rows *rows;
    struct lf_format format;
    int row, n, n_tasks;
    int n_columns; /* of rows */
    void *out;
    const char *wrong[TASKS_N]; /* of each task; NULL: nothing */
    int bad[TASKS_N];           /* the row in which it is */
};

static int task_first(const struct job *job, int task_idx)
{
    return (int)((int64_t)job->n * task_idx / job->n_tasks);
}

static int count_tasks(const struct lf_quantized_reader *r, int n)
{
    return LF_MIN(LF_MIN(n, TASKS_PER_THREAD * lf_threads_n(r->threads)), (int)TASKS_N);
}

static void unpack(void *ctx, int task_idx, int worker_idx)
{
    (void)worker_idx;
    struct job *job = ctx;
    const struct lf_packed *p = &job->r->packed;
    size_t first = (size_t)task_first(job, task_idx), n_groups = (size_t)lf_format_n_groups(&job->format, p->n_in);
    struct lf_quant_room *room = &job->r->room;
    struct lf_quant_room own = {room->codes + first * (size_t)p->n_in, room->scales + first * n_groups,
                                room->zeros + first * n_groups};
    job->wrong[task_idx] =
        lf_packed_rows(p, job->row + (int)first, task_first(job, task_idx + 1) - (int)first, &own, &job->bad[task_idx]);
}

/* Of n canonical rows, each [n_in], the columns that are asked for, one row behind the other. */
static void crop(struct lf_quant_room *room, const struct lf_quantized *m, const struct lf_format *format, int n)
{
    size_t n_in = (size_t)m->n_in, n_columns = (size_t)m->n_columns, at = (size_t)m->column;
    size_t n_groups = (size_t)lf_format_n_groups(format, m->n_in),
           n_left = (size_t)lf_format_n_groups(format, m->n_columns);
    size_t group_at = format->group > 0 ? at / (size_t)format->group : 0;
    if (n_columns == n_in) return;
    for (size_t i = 0; i < (size_t)n; i++) {
        memmove(room->codes + i * n_columns, room->codes + i * n_in + at, n_columns);
        memmove(room->scales + i * n_left, room->scales + i * n_groups + group_at, n_left * sizeof(*room->scales));
        if (m->scheme.zeros) memmove(room->zeros + i * n_left, room->zeros + i * n_groups + group_at, n_left);
    }
}

enum lf_status lf_quantized_read(struct lf_quantized_reader *r, struct lf_quant_rows *out, const struct lf_quantized *m,
                                 int row, int n, const char *name, struct lf_err *err)
{
    struct job job = {.r = r, .format = lf_scheme_format(&m->scheme, LF_F32), .row = m->first + row, .n = n};
    size_t n_groups = (size_t)n * (size_t)lf_format_n_groups(&job.format, m->n_in);
    if (row == 0) LF_TRY(read_whole(r, m, n, name, err));
    if (m->scheme.packing->by_rows) LF_TRY(read_codes(r, m, m->first + row, n, err));
    LF_TRY(need_room(r, (size_t)n * (size_t)m->n_in, n_groups, err));
    job.n_tasks = count_tasks(r, n);
    lf_threads_run(r->threads, job.n_tasks, unpack, &job);
    for (int i = 0; i < job.n_tasks; i++)
        if (job.wrong[i])
            return lf_fail(err, LF_CORRUPT, "%s: row %d of quantized weights: %s", name, job.bad[i], job.wrong[i]);
    crop(&r->room, m, &job.format, n);
    *out = (struct lf_quant_rows){r->room.codes, r->room.scales, m->scheme.zeros ? r->room.zeros : NULL};
    return LF_OK;
}

static void expand(void *ctx, int task_idx, int worker_idx)
{
    (void)worker_idx;
    struct job *job = ctx;
    size_t first = (size_t)task_first(job, task_idx), n_in = (size_t)job->n_columns;
    size_t n_groups = (size_t)lf_format_n_groups(&job->format, (int)n_in);
    struct lf_quant_rows own = {job->rows->codes + first * n_in, job->rows->scales + first * n_groups,
                                job->rows->zeros ? job->rows->zeros + first * n_groups : NULL};
    lf_expand_rows(&job->format, task_first(job, task_idx + 1) - (int)first, (int)n_in, &own,
                   (char *)job->out + first * n_in * lf_dtype_bytes(job->format.dtype),
                   job->r->wide + (size_t)task_idx * n_in);
}

enum lf_status lf_quantized_expand(struct lf_quantized_reader *r, const struct lf_quantized *m,
                                   const struct lf_quant_rows *rows, enum lf_dtype dtype, int n, void *out,
                                   struct lf_err *err)
{
    struct job job = {.r = r,
                      .rows = rows,
                      .format = lf_scheme_format(&m->scheme, dtype),
                      .n = n,
                      .n_columns = m->n_columns,
                      .out = out};
    job.n_tasks = count_tasks(r, n);
    size_t n_wide = (size_t)job.n_tasks * (size_t)m->n_columns;
    if (n_wide > r->n_wide) {
        free(r->wide);
        r->wide = malloc(n_wide * sizeof(*r->wide));
        r->n_wide = r->wide ? n_wide : 0;
    }
    if (!r->wide) return lf_fail(err, LF_NO_MEMORY, "no memory for reading quantized weights");
    lf_threads_run(r->threads, job.n_tasks, expand, &job);
    return LF_OK;
}
