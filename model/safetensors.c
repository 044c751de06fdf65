/* The safetensors format: 8 bytes of header length, a JSON object, then the bytes of all tensors without a hole.
 *
 * Every number of a header comes from outside. The order of checks is: the header lies inside the file; it is one JSON
 * object without a name twice (core/json); each entry has a known element type, a shape whose product and byte count do
 * not overflow, and offsets whose difference is that byte count; sorted by offset the entries cover the data section
 * exactly, first byte to last. After that a tensor's bytes are known to be inside the file as it was; a file that
 * shrinks later is found by lf_file_pread.
 *
 * Names are copied into the set's arena, so the header text and its parse are gone when open returns. */
#include "model/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/check.h"
#include "core/file.h"
#include "core/json.h"

enum { HEADER_LENGTH_BYTES = 8, ARENA_CHUNK_BYTES = 64 * 1024, FILE_NAME_BYTES = 255 };

#define ARENA_CEILING ((size_t)1 << 30)

static const struct {
    const char *name;
    unsigned bits;
    bool usable;
    enum lf_dtype dtype;
} dtype_rows[] = {
    {"F32", 32, true, LF_F32},     {"F16", 16, true, LF_F16},     {"BF16", 16, true, LF_BF16},
    {"F64", 64, false, LF_F32},    {"I64", 64, false, LF_F32},    {"I32", 32, false, LF_F32},
    {"I16", 16, false, LF_F32},    {"I8", 8, false, LF_F32},      {"U64", 64, false, LF_F32},
    {"U32", 32, false, LF_F32},    {"U16", 16, false, LF_F32},    {"U8", 8, false, LF_F32},
    {"BOOL", 8, false, LF_F32},    {"C64", 64, false, LF_F32},    {"F8_E4M3", 8, false, LF_F32},
    {"F8_E5M2", 8, false, LF_F32}, {"F8_E8M0", 8, false, LF_F32}, {"F6_E2M3", 6, false, LF_F32},
    {"F6_E3M2", 6, false, LF_F32}, {"F4", 4, false, LF_F32},
};

bool lf_tensor_dtype(const struct lf_tensor *tensor, enum lf_dtype *out)
{
    for (size_t i = 0; i < LF_N_ELEMS(dtype_rows); i++) {
        if (dtype_rows[i].usable && tensor->dtype_name == dtype_rows[i].name) {
            *out = dtype_rows[i].dtype;
            return true;
        }
    }
    return false;
}

void lf_tensor_shape_text(const struct lf_tensor *tensor, char *out, size_t out_bytes)
{
    char text[LF_TENSOR_RANK * 22 + 3]; /* 20 digits and a comma each */
    size_t n = 0;
    text[n++] = '[';
    for (int i = 0; i < tensor->rank; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%" PRIu64, i ? ", " : "", tensor->shape[i]);
    snprintf(text + n, sizeof text - n, "]");
    snprintf(out, out_bytes, "%s", text);
}

/* What is under construction: tensors in one growing array, header by header. */
struct builder {
    struct lf_tensor_set *set;
    int cap;
};

/* The name for messages: at most 80 bytes of it. */
#define NAME_ARG(s) (int)LF_MIN((s).len, (size_t)80), (s).ptr

/* A string value as a view into the arena. */
static enum lf_status arena_string(struct lf_arena *arena, struct lf_json_value v, struct lf_str *out)
{
    struct lf_str raw;
    struct lf_buf buf;
    lf_buf_init(&buf, LF_SAFETENSORS_HEADER_BYTES);
    if (!lf_json_borrow(v, &raw)) {
        if (!lf_json_string(v, &buf)) {
            lf_buf_deinit(&buf);
            return LF_NO_MEMORY;
        }
        raw = lf_buf_view(&buf);
    }
    char *copy = lf_arena_strdup(arena, raw);
    if (copy) *out = lf_str_from(copy, raw.len);
    lf_buf_deinit(&buf);
    return copy ? LF_OK : LF_NO_MEMORY;
}

static enum lf_status read_u64(struct lf_json_value v, const struct lf_tensor *t, const char *what, uint64_t *out,
                               struct lf_err *err)
{
    int64_t x;
    if (!lf_json_int64(v, &x) || x < 0) {
        return lf_fail(err, LF_CORRUPT, "tensor %.*s: %s holds %s where a whole number from 0 was expected",
                       NAME_ARG(t->name), what, lf_json_type_name(v));
    }
    *out = (uint64_t)x;
    return LF_OK;
}

/* shape and, from it and the element type, the byte count. */
static enum lf_status read_shape(struct lf_json_value v, unsigned bits, struct lf_tensor *t, uint64_t *n_bytes,
                                 struct lf_err *err)
{
    if (lf_json_type(v) != LF_JSON_ARRAY) {
        return lf_fail(err, LF_CORRUPT, "tensor %.*s: shape is %s, expected an array", NAME_ARG(t->name),
                       lf_json_type_name(v));
    }
    if (lf_json_len(v) > LF_TENSOR_RANK) {
        return lf_fail(err, LF_LIMIT, "tensor %.*s has %u dimensions, at most %d are read", NAME_ARG(t->name),
                       lf_json_len(v), LF_TENSOR_RANK);
    }
    uint64_t n = 1;
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it)) {
        uint64_t *dim = &t->shape[t->rank];
        LF_TRY(read_u64(it, t, "shape", dim, err));
        if (__builtin_mul_overflow(n, *dim, &n)) {
            return lf_fail(err, LF_CORRUPT, "tensor %.*s: the product of its shape overflows", NAME_ARG(t->name));
        }
        t->rank++;
    }
    if (__builtin_mul_overflow(n, (uint64_t)bits, &n)) {
        return lf_fail(err, LF_CORRUPT, "tensor %.*s: its size in bytes overflows", NAME_ARG(t->name));
    }
    if (n % 8 != 0) {
        return lf_fail(err, LF_CORRUPT, "tensor %.*s: %s elements do not end on a byte", NAME_ARG(t->name),
                       t->dtype_name);
    }
    *n_bytes = n / 8;
    return LF_OK;
}

static enum lf_status read_offsets(struct lf_json_value v, struct lf_tensor *t, struct lf_err *err)
{
    if (lf_json_type(v) != LF_JSON_ARRAY || lf_json_len(v) != 2) {
        return lf_fail(err, LF_CORRUPT, "tensor %.*s: data_offsets is not an array of two numbers", NAME_ARG(t->name));
    }
    uint64_t begin = 0, end = 0;
    struct lf_json_value first = lf_json_first(v);
    LF_TRY(read_u64(first, t, "data_offsets", &begin, err));
    LF_TRY(read_u64(lf_json_next(v, first), t, "data_offsets", &end, err));
    if (end < begin) {
        return lf_fail(err, LF_CORRUPT, "tensor %.*s ends at byte %" PRIu64 ", before it begins at %" PRIu64,
                       NAME_ARG(t->name), end, begin);
    }
    t->offset = begin; /* of the data section until the whole header is checked */
    t->n_bytes = end - begin;
    return LF_OK;
}

static enum lf_status read_entry(struct lf_json_value entry, struct lf_tensor *t, struct lf_err *err)
{
    if (lf_json_type(entry) != LF_JSON_OBJECT) {
        return lf_fail(err, LF_CORRUPT, "tensor %.*s is %s, expected an object", NAME_ARG(t->name),
                       lf_json_type_name(entry));
    }
    struct lf_json_value dtype = {0}, shape = {0}, offsets = {0};
    for (struct lf_json_value it = lf_json_first(entry); lf_json_more(entry, it); it = lf_json_next(entry, it)) {
        if (lf_json_string_is(it, "dtype")) {
            dtype = lf_json_member(it);
        } else if (lf_json_string_is(it, "shape")) {
            shape = lf_json_member(it);
        } else if (lf_json_string_is(it, "data_offsets")) {
            offsets = lf_json_member(it);
        } else {
            struct lf_str raw = lf_json_raw(it);
            return lf_fail(err, LF_UNSUPPORTED, "tensor %.*s: the format has no member \"%.*s\"", NAME_ARG(t->name),
                           NAME_ARG(raw));
        }
    }
    if (!dtype.json || !shape.json || !offsets.json) {
        return lf_fail(err, LF_CORRUPT, "tensor %.*s: \"%s\" is missing", NAME_ARG(t->name),
                       !dtype.json ? "dtype" : (!shape.json ? "shape" : "data_offsets"));
    }
    unsigned bits = 0;
    for (size_t i = 0; i < LF_N_ELEMS(dtype_rows) && !bits; i++) {
        if (!lf_json_string_is(dtype, dtype_rows[i].name)) continue;
        t->dtype_name = dtype_rows[i].name;
        bits = dtype_rows[i].bits;
    }
    if (!bits) {
        struct lf_str raw = lf_json_raw(dtype);
        return lf_fail(err, LF_UNSUPPORTED, "tensor %.*s: dtype \"%.*s\" is not an element type of the format",
                       NAME_ARG(t->name), NAME_ARG(raw));
    }
    uint64_t expected = 0;
    LF_TRY(read_shape(shape, bits, t, &expected, err));
    LF_TRY(read_offsets(offsets, t, err));
    if (t->n_bytes != expected) {
        return lf_fail(err, LF_CORRUPT,
                       "tensor %.*s: its shape and type take %" PRIu64 " bytes, its offsets hold %" PRIu64,
                       NAME_ARG(t->name), expected, t->n_bytes);
    }
    return LF_OK;
}

static enum lf_status check_metadata(struct lf_json_value meta, struct lf_err *err)
{
    if (lf_json_type(meta) != LF_JSON_OBJECT) {
        return lf_fail(err, LF_CORRUPT, "__metadata__ is %s, expected an object", lf_json_type_name(meta));
    }
    for (struct lf_json_value it = lf_json_first(meta); lf_json_more(meta, it); it = lf_json_next(meta, it)) {
        struct lf_json_value v = lf_json_member(it);
        if (lf_json_type(v) != LF_JSON_STRING) {
            struct lf_str raw = lf_json_raw(it);
            return lf_fail(err, LF_CORRUPT, "__metadata__: \"%.*s\" is %s, expected a string", NAME_ARG(raw),
                           lf_json_type_name(v));
        }
    }
    return LF_OK;
}

static int compare_offsets(const void *a, const void *b)
{
    const struct lf_tensor *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x->n_bytes > y->n_bytes) - (x->n_bytes < y->n_bytes);
}

static int compare_names(const void *a, const void *b)
{
    const struct lf_tensor *x = a, *y = b;
    int order = memcmp(x->name.ptr, y->name.ptr, LF_MIN(x->name.len, y->name.len));
    if (order != 0) return order;
    return (x->name.len > y->name.len) - (x->name.len < y->name.len);
}

/* Sorted by offset the tensors must cover [0, data_bytes) exactly; then offsets are made relative to the file. */
static enum lf_status check_cover(struct lf_tensor *tensors, int n, uint64_t data_bytes, uint64_t data_start,
                                  struct lf_err *err)
{
    uint64_t at = 0;
    if (n > 0) qsort(tensors, (size_t)n, sizeof(*tensors), compare_offsets);
    for (int i = 0; i < n; i++) {
        struct lf_tensor *t = &tensors[i];
        if (t->offset != at) {
            return lf_fail(err, LF_CORRUPT, "tensor %.*s begins at byte %" PRIu64 " of the data, %s ends at %" PRIu64,
                           NAME_ARG(t->name), t->offset,
                           t->offset < at ? "but the one before overlaps it and" : "leaving a hole: the one before",
                           at);
        }
        at += t->n_bytes; /* no overflow: each end was read as an int64 */
        t->offset += data_start;
    }
    if (at != data_bytes) {
        return lf_fail(err, LF_CORRUPT,
                       "the tensors take %" PRIu64 " bytes, the file holds %" PRIu64 ": it was cut or changed", at,
                       data_bytes);
    }
    return LF_OK;
}

static enum lf_status grow(struct builder *b, uint32_t n_more, struct lf_err *err)
{
    struct lf_tensor_set *set = b->set;
    uint64_t want = (uint64_t)set->n_tensors + n_more;
    if (want > LF_SAFETENSORS_TENSORS_N) {
        return lf_fail(err, LF_LIMIT, "more than %d tensors", LF_SAFETENSORS_TENSORS_N);
    }
    if (want <= (uint64_t)b->cap) return LF_OK;
    int cap = (int)LF_MIN(LF_MAX(want, (uint64_t)b->cap * 2), (uint64_t)LF_SAFETENSORS_TENSORS_N);
    struct lf_tensor *tensors = lf_arena_array(&set->arena, (size_t)cap, sizeof(*tensors));
    if (!tensors) return lf_fail(err, LF_NO_MEMORY, "no memory for a list of %d tensors", cap);
    if (set->n_tensors > 0) memcpy(tensors, set->tensors, (size_t)set->n_tensors * sizeof(*tensors));
    set->tensors = tensors;
    b->cap = cap;
    return LF_OK;
}

static enum lf_status read_entries(struct builder *b, struct lf_json_value root, int file_idx, struct lf_err *err)
{
    struct lf_tensor_set *set = b->set;
    if (lf_json_type(root) != LF_JSON_OBJECT) {
        return lf_fail(err, LF_CORRUPT, "the header is %s, expected an object", lf_json_type_name(root));
    }
    LF_TRY(grow(b, lf_json_len(root), err));
    for (struct lf_json_value it = lf_json_first(root); lf_json_more(root, it); it = lf_json_next(root, it)) {
        if (lf_json_string_is(it, "__metadata__")) {
            LF_TRY(check_metadata(lf_json_member(it), err));
            continue;
        }
        struct lf_tensor *t = &set->tensors[set->n_tensors];
        *t = (struct lf_tensor){.file_idx = file_idx};
        if (arena_string(&set->arena, it, &t->name) != LF_OK) {
            return lf_fail(err, LF_NO_MEMORY, "no memory for the names of the tensors");
        }
        LF_TRY(read_entry(lf_json_member(it), t, err));
        set->n_tensors++;
    }
    return LF_OK;
}

/* Reads the header text of an open file into buf. Messages name the file. */
static enum lf_status read_header(int fd, struct lf_tensor_file *file, struct lf_buf *buf, struct lf_err *err)
{
    uint8_t raw[HEADER_LENGTH_BYTES];
    if (file->size < sizeof(raw)) {
        return lf_fail(err, LF_CORRUPT, "%s: %" PRIu64 " bytes are too few for a safetensors file", file->path,
                       file->size);
    }
    LF_TRY(lf_file_pread(fd, raw, sizeof(raw), 0, file->path, err));
    if (memcmp(raw, "version ", sizeof(raw)) == 0) {
        return lf_fail(err, LF_CORRUPT, "%s is a Git LFS pointer, not the file: \"git lfs pull\" fetches it",
                       file->path);
    }
    uint64_t n = 0;
    for (int i = HEADER_LENGTH_BYTES - 1; i >= 0; i--) n = n << 8 | raw[i];
    if (n > LF_SAFETENSORS_HEADER_BYTES) {
        return lf_fail(err, LF_LIMIT, "%s: a header of %" PRIu64 " bytes, at most %d are read", file->path, n,
                       LF_SAFETENSORS_HEADER_BYTES);
    }
    if (n > file->size - sizeof(raw)) {
        return lf_fail(err, LF_CORRUPT, "%s: a header of %" PRIu64 " bytes in a file of %" PRIu64, file->path, n,
                       file->size);
    }
    if (lf_buf_reserve(buf, (size_t)n) != LF_OK) {
        return lf_fail(err, LF_NO_MEMORY, "%s: no memory for a header of %" PRIu64 " bytes", file->path, n);
    }
    LF_TRY(lf_file_pread(fd, buf->ptr, (size_t)n, sizeof(raw), file->path, err));
    buf->len = (size_t)n;
    return LF_OK;
}

/* Adds the tensors of the file at path to the set. */
static enum lf_status add_file(struct builder *b, int file_idx, struct lf_err *err)
{
    struct lf_tensor_file *file = &b->set->files[file_idx];
    int first = b->set->n_tensors, fd = -1;
    enum lf_status status;
    struct lf_json json = {0};
    struct lf_buf buf;
    lf_buf_init(&buf, LF_SAFETENSORS_HEADER_BYTES + 1);
    LF_TRY_GOTO(lf_file_open(&fd, &file->size, file->path, err), done);
    LF_TRY_GOTO(read_header(fd, file, &buf, err), done);
    status = lf_json_parse(&json, lf_buf_view(&buf), &lf_json_limits_file, err);
    if (status == LF_INVALID) status = LF_CORRUPT;
    if (status != LF_OK) goto named;
    LF_TRY_GOTO(read_entries(b, lf_json_root(&json), file_idx, err), named);
    uint64_t data_start = HEADER_LENGTH_BYTES + buf.len;
    struct lf_tensor *added = b->set->tensors ? b->set->tensors + first : NULL; /* NULL: a header without entries */
    LF_TRY_GOTO(check_cover(added, b->set->n_tensors - first, file->size - data_start, data_start, err), named);
    lf_sha256(buf.ptr, buf.len, file->header_sha);
named:
    if (status != LF_OK) lf_fail_within(err, status, "%s", file->path);
done:
    lf_json_deinit(&json);
    lf_buf_deinit(&buf);
    if (fd >= 0) close(fd);
    return status;
}

static void sort_by_name(struct lf_tensor_set *set)
{
    if (set->n_tensors > 0) qsort(set->tensors, (size_t)set->n_tensors, sizeof(*set->tensors), compare_names);
}

/* No name is in two files; twice in one is refused by core/json. */
static enum lf_status check_unique(const struct lf_tensor_set *set, struct lf_err *err)
{
    for (int i = 1; i < set->n_tensors; i++) {
        const struct lf_tensor *a = &set->tensors[i - 1], *b = &set->tensors[i];
        if (!lf_str_eq(a->name, b->name)) continue;
        return lf_fail(err, LF_CORRUPT, "tensor %.*s is in %s and again in %s", NAME_ARG(a->name),
                       set->files[a->file_idx].path, set->files[b->file_idx].path);
    }
    return LF_OK;
}

static enum lf_status set_init(struct builder *b, struct lf_tensor_set *set, int n_files, struct lf_err *err)
{
    *set = (struct lf_tensor_set){0};
    lf_arena_init(&set->arena, ARENA_CHUNK_BYTES, ARENA_CEILING);
    *b = (struct builder){.set = set};
    set->files = lf_arena_array(&set->arena, (size_t)n_files, sizeof(*set->files));
    if (!set->files) return lf_fail(err, LF_NO_MEMORY, "no memory for a list of %d files", n_files);
    return LF_OK;
}

static enum lf_status set_path(struct lf_tensor_set *set, const char *path, struct lf_err *err)
{
    char *copy = lf_arena_strdup(&set->arena, lf_str_c(path));
    if (!copy) return lf_fail(err, LF_NO_MEMORY, "no memory for the name of a file");
    set->files[set->n_files++].path = copy;
    return LF_OK;
}

enum lf_status lf_tensor_set_open_file(struct lf_tensor_set *out, const char *path, struct lf_err *err)
{
    struct lf_tensor_set set;
    struct builder b;
    enum lf_status status;
    LF_TRY_GOTO(set_init(&b, &set, 1, err), fail);
    LF_TRY_GOTO(set_path(&set, path, err), fail);
    LF_TRY_GOTO(add_file(&b, 0, err), fail);
    sort_by_name(&set);
    *out = set;
    return LF_OK;
fail:
    lf_tensor_set_close(&set);
    return status;
}

/* A file name that stays inside the directory: its parts, of the directory and of folders below it, begin with no dot.
 */
static bool plain_name(struct lf_str s)
{
    if (s.len == 0 || s.len > FILE_NAME_BYTES || s.ptr[s.len - 1] == '/') return false;
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        bool begins = i == 0 || s.ptr[i - 1] == '/';
        if (c == '\\' || c < 0x20 || c == 0x7f || (begins && (c == '.' || c == '/'))) return false;
    }
    return true;
}

/* One row of weight_map. */
struct mapped {
    struct lf_str name, file;
};

static int compare_mapped_files(const void *a, const void *b)
{
    const struct mapped *x = a, *y = b;
    int order = memcmp(x->file.ptr, y->file.ptr, LF_MIN(x->file.len, y->file.len));
    if (order != 0) return order;
    return (x->file.len > y->file.len) - (x->file.len < y->file.len);
}

/* weight_map as rows in the arena, sorted by file. */
static enum lf_status read_map(struct lf_arena *arena, struct lf_json_value root, struct mapped **out, int *n_out,
                               struct lf_err *err)
{
    struct lf_json_value map = lf_json_get(root, "weight_map");
    if (lf_json_type(map) != LF_JSON_OBJECT) {
        return lf_fail(err, LF_CORRUPT, "weight_map is %s, expected an object", lf_json_type_name(map));
    }
    uint32_t n = lf_json_len(map);
    if (n == 0) return lf_fail(err, LF_CORRUPT, "weight_map names no tensor");
    if (n > LF_SAFETENSORS_TENSORS_N) return lf_fail(err, LF_LIMIT, "more than %d tensors", LF_SAFETENSORS_TENSORS_N);
    struct mapped *rows = lf_arena_array(arena, n, sizeof(*rows));
    if (!rows) return lf_fail(err, LF_NO_MEMORY, "no memory for %u entries of weight_map", n);
    int i = 0;
    for (struct lf_json_value it = lf_json_first(map); lf_json_more(map, it); it = lf_json_next(map, it), i++) {
        struct lf_json_value file = lf_json_member(it);
        struct lf_str raw = lf_json_raw(it);
        if (lf_json_type(file) != LF_JSON_STRING) {
            return lf_fail(err, LF_CORRUPT, "weight_map: the file of %.*s is %s, expected a string", NAME_ARG(raw),
                           lf_json_type_name(file));
        }
        if (arena_string(arena, it, &rows[i].name) != LF_OK || arena_string(arena, file, &rows[i].file) != LF_OK) {
            return lf_fail(err, LF_NO_MEMORY, "no memory for the names of weight_map");
        }
        if (!plain_name(rows[i].file)) {
            return lf_fail(err, LF_CORRUPT, "weight_map: \"%.*s\" of %.*s is not a plain file name",
                           NAME_ARG(rows[i].file), NAME_ARG(raw));
        }
    }
    qsort(rows, n, sizeof(*rows), compare_mapped_files);
    *out = rows;
    *n_out = (int)n;
    return LF_OK;
}

/* Index and shards must agree on every tensor, in both directions. */
static enum lf_status check_map(struct lf_tensor_set *set, const struct mapped *rows, int n_rows, struct lf_err *err)
{
    int file_idx = 0;
    for (int i = 0; i < n_rows; i++) {
        if (i > 0 && !lf_str_eq(rows[i].file, rows[i - 1].file)) file_idx++;
        const struct lf_tensor *t = lf_tensor_find(set, rows[i].name);
        if (!t || t->file_idx != file_idx) {
            return lf_fail(err, LF_CORRUPT, "tensor %.*s is not in %.*s, where the index says it is",
                           NAME_ARG(rows[i].name), NAME_ARG(rows[i].file));
        }
    }
    if (n_rows != set->n_tensors) { /* names are unique on both sides */
        return lf_fail(err, LF_CORRUPT, "the index names %d tensors, the shards hold %d", n_rows, set->n_tensors);
    }
    return LF_OK;
}

/* A download that broke off lacks whole shards: said before any is read. */
static enum lf_status check_shards(const char *dir, const struct mapped *rows, int n_rows, int n_files,
                                   struct lf_err *err)
{
    char path[4096];
    const char *first = NULL;
    int n_missing = 0;
    for (int i = 0; i < n_rows; i++) {
        if (i > 0 && lf_str_eq(rows[i].file, rows[i - 1].file)) continue;
        if (lf_path_join(path, sizeof(path), dir, rows[i].file.ptr) != LF_OK)
            return lf_fail(err, LF_LIMIT, "the path of %s is too long", rows[i].file.ptr);
        if (access(path, F_OK) == 0) continue;
        if (!first) first = rows[i].file.ptr;
        n_missing++;
    }
    if (n_missing == 0) return LF_OK;
    return lf_fail(err, LF_NOT_FOUND, "%d of the %d files that it names %s missing, first %.120s", n_missing, n_files,
                   n_missing == 1 ? "is" : "are", first);
}

static enum lf_status open_index(struct lf_tensor_set *out, const char *dir, const char *path, struct lf_err *err)
{
    struct lf_tensor_set set = {0};
    struct builder b;
    struct lf_json json = {0};
    struct lf_buf text;
    struct lf_arena scratch;
    struct mapped *rows = NULL;
    int n_rows = 0, n_files = 1;
    char shard[4096];
    enum lf_status status;
    lf_buf_init(&text, LF_SAFETENSORS_HEADER_BYTES + 1);
    lf_arena_init(&scratch, ARENA_CHUNK_BYTES, ARENA_CEILING);
    LF_TRY_GOTO(lf_file_read(&text, path, LF_SAFETENSORS_HEADER_BYTES, err), done);
    status = lf_json_parse(&json, lf_str_without_bom(lf_buf_view(&text)), &lf_json_limits_file, err);
    if (status == LF_INVALID) status = LF_CORRUPT;
    if (status != LF_OK) goto named;
    LF_TRY_GOTO(read_map(&scratch, lf_json_root(&json), &rows, &n_rows, err), named);
    for (int i = 1; i < n_rows; i++) n_files += !lf_str_eq(rows[i].file, rows[i - 1].file);
    if (n_files > LF_SHARDS_N) {
        status = lf_fail(err, LF_LIMIT, "%d shards, at most %d are read", n_files, LF_SHARDS_N);
        goto named;
    }
    LF_TRY_GOTO(check_shards(dir, rows, n_rows, n_files, err), named);
    LF_TRY_GOTO(set_init(&b, &set, n_files, err), done);
    for (int i = 0; i < n_rows; i++) {
        if (i > 0 && lf_str_eq(rows[i].file, rows[i - 1].file)) continue;
        status = lf_path_join(shard, sizeof(shard), dir, rows[i].file.ptr);
        if (status != LF_OK) {
            lf_fail(err, status, "the path of %s is too long", rows[i].file.ptr);
            goto named;
        }
        LF_TRY_GOTO(set_path(&set, shard, err), done);
        LF_TRY_GOTO(add_file(&b, set.n_files - 1, err), done);
    }
    sort_by_name(&set);
    LF_TRY_GOTO(check_unique(&set, err), done);
    status = check_map(&set, rows, n_rows, err);
named:
    if (status != LF_OK) lf_fail_within(err, status, "%s", path);
done:
    lf_arena_deinit(&scratch);
    lf_json_deinit(&json);
    lf_buf_deinit(&text);
    if (status == LF_OK) {
        *out = set;
    } else {
        lf_tensor_set_close(&set);
    }
    return status;
}

enum lf_status lf_tensor_set_open(struct lf_tensor_set *out, const char *dir, struct lf_err *err)
{
    char single[4096], index[4096];
    if (lf_path_join(single, sizeof(single), dir, "model.safetensors") != LF_OK ||
        lf_path_join(index, sizeof(index), dir, "model.safetensors.index.json") != LF_OK) {
        return lf_fail(err, LF_LIMIT, "the path %.200s… is too long", dir);
    }
    if (access(single, F_OK) == 0) return lf_tensor_set_open_file(out, single, err);
    if (access(index, F_OK) == 0) return open_index(out, dir, index, err);
    return lf_fail(err, LF_NOT_FOUND,
                   "%s holds neither model.safetensors nor model.safetensors.index.json (.bin, .pth and .gguf are not "
                   "read; --load dummy needs no weights)",
                   dir);
}

void lf_tensor_set_close(struct lf_tensor_set *set)
{
    lf_arena_deinit(&set->arena);
    *set = (struct lf_tensor_set){0};
}

const struct lf_tensor *lf_tensor_find(const struct lf_tensor_set *set, struct lf_str name)
{
    struct lf_tensor key = {.name = name};
    if (set->n_tensors == 0) return NULL;
    return bsearch(&key, set->tensors, (size_t)set->n_tensors, sizeof(key), compare_names);
}
