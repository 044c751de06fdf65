#include "kv/tiers/disk_walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/check.h"
#include "core/file.h"
#include "core/sort.h"
#include "kv/tiers/disk_record.h"

static enum lf_status failed(const char *what, const char *path, struct lf_err *err)
{
    enum lf_status status = errno == ENOMEM ? LF_NO_MEMORY : LF_IO;
    return lf_fail(err, status, "cannot %s %s: %s", what, path, strerror(errno));
}

static enum lf_status join(char out[PATH_MAX], const char *dir, const char *name, struct lf_err *err)
{
    if (lf_path_join(out, PATH_MAX, dir, name) == LF_OK) return LF_OK;
    return lf_fail(err, LF_LIMIT, "%s/%s: the path is too long", dir, name);
}

/* ---- the index of one kind ---- */

enum { READ_N = 2048 }; /* records at once: 1 MiB */

struct listed { /* a whole record; of several of one key the one with the highest sequence is listed */
    struct lf_prefix_key key;
    uint64_t sequence;
    uint32_t slot;
    int n_tokens;
};

struct list {
    struct listed *blocks;
    size_t n, n_max;
};

static bool append(struct list *l, const struct lf_disk_record *r, uint32_t slot)
{
    if (l->n == l->n_max) {
        size_t n_max = l->n_max ? 2 * l->n_max : 1024;
        struct listed *blocks = realloc(l->blocks, n_max * sizeof(*blocks));
        if (!blocks) return false;
        l->blocks = blocks;
        l->n_max = n_max;
    }
    l->blocks[l->n++] = (struct listed){
        .key = r->key, .sequence = r->sequence, .slot = slot, .n_tokens = lf_prefix_tier_tokens(r->ids)};
    return true;
}

static bool by_key(const void *a, const void *b)
{
    const struct listed *x = a, *y = b;
    int order = memcmp(&x->key, &y->key, sizeof(x->key));
    return order != 0 ? order < 0 : x->sequence > y->sequence;
}

static bool by_sequence(const void *a, const void *b)
{
    return ((const struct listed *)a)->sequence < ((const struct listed *)b)->sequence;
}

/* Leaves the newest record of each block, in the order in which they were written. */
static void keep_newest(struct list *l)
{
    size_t n = 0;
    lf_sort(l->blocks, l->n, sizeof(*l->blocks), by_key);
    for (size_t i = 0; i < l->n; i++)
        if (n == 0 || memcmp(&l->blocks[n - 1].key, &l->blocks[i].key, sizeof(l->blocks[i].key)) != 0)
            l->blocks[n++] = l->blocks[i];
    l->n = n;
    lf_sort(l->blocks, n, sizeof(*l->blocks), by_sequence);
}

/* n records from slot `first` on. */
static enum lf_status scan(struct list *l, struct lf_disk_found *f, const uint8_t *bytes, uint32_t first, uint32_t n,
                           struct lf_err *err)
{
    for (uint32_t i = 0; i < n; i++) {
        struct lf_disk_record r;
        enum lf_disk_record_state state =
            lf_disk_record_decode(&r, first + i, bytes + (size_t)i * LF_DISK_RECORD_BYTES);
        if (state == LF_DISK_RECORD_BROKEN) f->n_bad_records++;
        if (state == LF_DISK_RECORD_WHOLE && !append(l, &r, first + i))
            return lf_fail(err, LF_NO_MEMORY, "no memory for a list of %zu blocks", l->n);
    }
    return LF_OK;
}

static enum lf_status read_index(struct list *l, struct lf_disk_found *f, int fd, const char *path, struct lf_err *err)
{
    enum lf_status status = LF_OK;
    uint8_t *bytes = malloc((size_t)READ_N * LF_DISK_RECORD_BYTES);
    if (!bytes) return lf_fail(err, LF_NO_MEMORY, "no memory to read %s", path);
    for (uint32_t at = 0; at < f->n_slots && status == LF_OK; at += READ_N) {
        uint32_t n = LF_MIN(f->n_slots - at, (uint32_t)READ_N);
        status =
            lf_file_pread(fd, bytes, (size_t)n * LF_DISK_RECORD_BYTES, (uint64_t)at * LF_DISK_RECORD_BYTES, path, err);
        if (status == LF_OK) status = scan(l, f, bytes, at, n, err);
    }
    free(bytes);
    keep_newest(l);
    f->n_listed = (uint32_t)l->n;
    for (size_t i = 0; i < l->n; i++) f->n_tokens += (uint64_t)l->blocks[i].n_tokens;
    return status;
}

/* ---- its blocks ---- */

struct files {
    int index, data; /* data: -1 where there is none */
    char index_path[PATH_MAX], data_path[PATH_MAX];
};

static bool read_record(const struct files *files, uint32_t slot, struct lf_disk_record *out)
{
    uint8_t bytes[LF_DISK_RECORD_BYTES];
    return lf_file_pread(files->index, bytes, sizeof(bytes), (uint64_t)slot * sizeof(bytes), files->index_path, NULL) ==
               LF_OK &&
           lf_disk_record_decode(out, slot, bytes) == LF_DISK_RECORD_WHOLE;
}

/* Whether the slot holds what its record says. What cannot be read does not. */
static bool is_whole(const struct files *files, uint32_t slot, struct lf_disk_record *record, uint8_t *block,
                     uint64_t block_bytes)
{
    uint8_t sha[LF_SHA256_BYTES];
    if (!read_record(files, slot, record) || record->block_bytes != block_bytes || files->data < 0 ||
        lf_file_pread(files->data, block, block_bytes, slot * lf_disk_slot_bytes(block_bytes), files->data_path,
                      NULL) != LF_OK)
        return false;
    lf_sha256(block, block_bytes, sha);
    return memcmp(sha, record->data_sha, sizeof(sha)) == 0;
}

/* Of the first listed block: all of a kind have as many. 0: the index cannot be read. */
static uint64_t block_bytes_of(const struct files *files, const struct list *l)
{
    struct lf_disk_record r;
    return l->n > 0 && read_record(files, l->blocks[0].slot, &r) ? r.block_bytes : 0;
}

/* Each listed block to fn, in the list's order. */
static enum lf_status read_blocks(const struct list *l, const struct files *files, uint64_t block_bytes,
                                  lf_disk_block_fn *fn, void *ctx, struct lf_err *err)
{
    enum lf_status status = LF_OK;
    uint8_t *block = malloc(LF_MAX(block_bytes, 1u));
    if (!block)
        return lf_fail(err, LF_NO_MEMORY, "no memory for a block of %llu bytes", (unsigned long long)block_bytes);
    for (size_t i = 0; i < l->n && status == LF_OK; i++) {
        struct lf_disk_record record = {0};
        bool whole = is_whole(files, l->blocks[i].slot, &record, block, block_bytes);
        status = fn(ctx, &record, whole ? block : NULL, err);
    }
    free(block);
    return status;
}

static enum lf_status count_broken(void *ctx, const struct lf_disk_record *record, const uint8_t *bytes,
                                   struct lf_err *err)
{
    struct lf_disk_found *f = ctx;
    (void)record;
    (void)err;
    f->n_broken += bytes ? 0 : 1;
    return LF_OK;
}

/* ---- one kind ---- */

static void add_file(struct lf_disk_found *f, int fd)
{
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) return;
    f->disk_bytes += (uint64_t)st.st_blocks * 512;
    f->written_s = LF_MAX(f->written_s, (int64_t)st.st_mtime);
}

static enum lf_status open_files(struct files *files, struct lf_disk_found *f, const char *dir, struct lf_err *err)
{
    char name[LF_DISK_KIND_NAME_BYTES + 8];
    uint64_t size;
    files->index = files->data = -1;
    snprintf(name, sizeof(name), "%s.index", f->kind);
    LF_TRY(join(files->index_path, dir, name, err));
    snprintf(name, sizeof(name), "%s.data", f->kind);
    LF_TRY(join(files->data_path, dir, name, err));
    LF_TRY(lf_file_open(&files->index, &size, files->index_path, err));
    f->n_slots = (uint32_t)LF_MIN(size / LF_DISK_RECORD_BYTES, (uint64_t)1 << 30);
    if (lf_file_open(&files->data, &size, files->data_path, NULL) != LF_OK) files->data = -1;
    add_file(f, files->index);
    add_file(f, files->data);
    return LF_OK;
}

/* Fills f, which names identity and kind, and calls fn, unless it is NULL, for each listed block. */
static enum lf_status look_at(struct lf_disk_found *f, const char *dir, lf_disk_block_fn *fn, void *ctx,
                              struct lf_err *err)
{
    struct files files;
    struct list list = {0};
    LF_TRY(open_files(&files, f, dir, err));
    enum lf_status status = read_index(&list, f, files.index, files.index_path, err);
    f->block_bytes = block_bytes_of(&files, &list);
    if (status == LF_OK && fn) status = read_blocks(&list, &files, f->block_bytes, fn, ctx, err);
    free(list.blocks);
    close(files.index);
    if (files.data >= 0) close(files.data);
    return status;
}

/* ---- directories ---- */

/* 64 digits: the name of an identity's directory. */
static int is_identity(const struct dirent *e)
{
    return strlen(e->d_name) == LF_DISK_NAME_BYTES - 1 &&
           strspn(e->d_name, "0123456789abcdef") == LF_DISK_NAME_BYTES - 1;
}

static int is_index(const struct dirent *e)
{
    const char *dot = strrchr(e->d_name, '.');
    return dot && dot > e->d_name && dot - e->d_name <= LF_DISK_KIND_NAME_BYTES && strcmp(dot, ".index") == 0;
}

static int is_file(const struct dirent *e)
{
    return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
}

static void free_names(struct dirent **names, int n)
{
    for (int i = 0; i < n; i++) free(names[i]);
    free(names);
}

static enum lf_status list_dir(struct dirent ***names, int *n, const char *dir, int (*wanted)(const struct dirent *),
                               struct lf_err *err)
{
    *n = scandir(dir, names, wanted, alphasort);
    if (*n >= 0) return LF_OK;
    if (errno == ENOENT) return lf_fail(err, LF_NOT_FOUND, "%s: there is no such directory", dir);
    if (errno == ENOTDIR) return lf_fail(err, LF_INVALID, "%s is not a directory", dir);
    return failed("list", dir, err);
}

/* Links are not followed: what they lead to is no part of the store. */
static bool is_dir(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

void lf_disk_clean_about(char *text)
{
    bool is_text = lf_utf8_valid(lf_str_c(text));
    for (unsigned char *p = (unsigned char *)text; *p; p++) {
        bool is_c1 = p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0;
        if (is_c1) *p++ = '?';
        if (*p < ' ' || *p == 0x7f || is_c1 || (*p >= 0x80 && !is_text)) *p = '?';
    }
}

/* dir: the identity's. */
static void read_about(char out[LF_DISK_ABOUT_BYTES], const char *dir)
{
    char path[PATH_MAX];
    struct lf_err err;
    struct lf_buf text;
    lf_buf_init(&text, LF_DISK_ABOUT_BYTES - 1);
    if (lf_path_join(path, sizeof(path), dir, "about") == LF_OK &&
        lf_file_read(&text, path, LF_DISK_ABOUT_BYTES - 1, &err) == LF_OK) {
        struct lf_str s = lf_buf_view(&text);
        size_t n = 0;
        for (; n < s.len && s.ptr[n] != '\n'; n++) out[n] = s.ptr[n] ? s.ptr[n] : '?';
        out[n] = '\0';
        lf_disk_clean_about(out);
    }
    lf_buf_deinit(&text);
}

void lf_disk_about(char out[LF_DISK_ABOUT_BYTES], const char *dir, const char *identity)
{
    char path[PATH_MAX];
    out[0] = '\0';
    if (lf_path_join(path, sizeof(path), dir, identity) == LF_OK) read_about(out, path);
}

struct walk {
    const char *dir;
    bool reads, goes_on;
    lf_disk_walk_fn *fn;
    void *ctx;
};

static enum lf_status walk_identity(struct walk *w, const char *identity, struct lf_err *err)
{
    char path[PATH_MAX];
    struct lf_disk_found none = {0};
    struct dirent **names;
    int n;
    LF_TRY(join(path, w->dir, identity, err));
    if (!is_dir(path)) return LF_OK;
    LF_TRY(list_dir(&names, &n, path, is_index, err));
    snprintf(none.identity, sizeof(none.identity), "%s", identity);
    read_about(none.about, path);
    if (n == 0) w->goes_on = w->fn(w->ctx, &none);
    enum lf_status status = LF_OK;
    for (int i = 0; i < n && w->goes_on && status == LF_OK; i++) {
        struct lf_disk_found found = none;
        const char *name = names[i]->d_name;
        memcpy(found.kind, name, (size_t)(strrchr(name, '.') - name));
        status = look_at(&found, path, w->reads ? count_broken : NULL, &found, err);
        if (status == LF_OK) w->goes_on = w->fn(w->ctx, &found);
    }
    free_names(names, n);
    return status;
}

enum lf_status lf_disk_walk(const char *dir, bool reads, lf_disk_walk_fn *fn, void *ctx, struct lf_err *err)
{
    struct walk w = {.dir = dir, .reads = reads, .goes_on = true, .fn = fn, .ctx = ctx};
    struct dirent **names;
    int n;
    LF_TRY(list_dir(&names, &n, dir, is_identity, err));
    enum lf_status status = LF_OK;
    for (int i = 0; i < n && w.goes_on && status == LF_OK; i++) status = walk_identity(&w, names[i]->d_name, err);
    free_names(names, n);
    return status;
}

enum lf_status lf_disk_walk_blocks(const char *dir, const char *identity, const char *kind, lf_disk_block_fn *fn,
                                   void *ctx, struct lf_err *err)
{
    char path[PATH_MAX];
    struct lf_disk_found found = {0};
    LF_TRY(join(path, dir, identity, err));
    snprintf(found.kind, sizeof(found.kind), "%s", kind);
    return look_at(&found, path, fn, ctx, err);
}

enum lf_status lf_disk_remove(const char *dir, const char *identity, struct lf_err *err)
{
    char path[PATH_MAX], file[PATH_MAX];
    struct dirent **names;
    int n;
    LF_TRY(join(path, dir, identity, err));
    if (!is_dir(path)) return lf_fail(err, LF_NOT_FOUND, "%s: there is no such directory", path);
    LF_TRY(list_dir(&names, &n, path, is_file, err));
    enum lf_status status = LF_OK;
    for (int i = 0; i < n && status == LF_OK; i++) {
        status = join(file, path, names[i]->d_name, err);
        if (status == LF_OK && unlink(file) != 0) status = failed("remove", file, err);
    }
    free_names(names, n);
    if (status == LF_OK && rmdir(path) != 0) status = failed("remove", path, err);
    return status;
}
