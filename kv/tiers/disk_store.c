#include "kv/tiers/disk_store.h"

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
#include "kv/tiers/disk_lock.h"

static const char format[] = "LFKVv001";
enum { NAME_BYTES = 2 * LF_SHA256_BYTES + 1 }; /* of an identity's directory, with its end */

static enum lf_status failed(const char *what, const char *path, struct lf_err *err)
{
    enum lf_status status = errno == ENOMEM ? LF_NO_MEMORY : LF_IO;
    return lf_fail(err, status, "cannot %s %s: %s", what, path, strerror(errno));
}

/* The name of the directory for these kinds and this identity (disk_record.h). */
static void name_of(const struct lf_disk_store_opts *o, char out[NAME_BYTES])
{
    uint8_t sha[LF_SHA256_BYTES];
    struct lf_sha256 s;
    lf_sha256_init(&s);
    lf_sha256_update(&s, format, strlen(format));
    for (int i = 0; i < o->n_kinds; i++) {
        uint8_t kind[LF_DISK_KIND_NAME_BYTES + 8] = {0};
        memcpy(kind, o->kinds[i].name, strnlen(o->kinds[i].name, LF_DISK_KIND_NAME_BYTES));
        for (int b = 0; b < 8; b++) kind[LF_DISK_KIND_NAME_BYTES + b] = (uint8_t)(o->kinds[i].block_bytes >> (8 * b));
        lf_sha256_update(&s, kind, sizeof(kind));
    }
    lf_sha256_update(&s, o->identity, LF_SHA256_BYTES);
    lf_sha256_final(&s, sha);
    for (size_t i = 0; i < sizeof(sha); i++) snprintf(out + 2 * i, 3, "%02x", sha[i]);
}

static enum lf_status join(char out[PATH_MAX], const char *dir, const char *name, struct lf_err *err)
{
    if (lf_path_join(out, PATH_MAX, dir, name) == LF_OK) return LF_OK;
    return lf_fail(err, LF_LIMIT, "%s/%s: the path is too long", dir, name);
}

/* What is in a directory is found after a loss of power only if the directory itself has been written. */
static enum lf_status sync_dir(const char *path, struct lf_err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return failed("open", path, err);
    enum lf_status status = fsync(fd) == 0 ? LF_OK : failed("sync", path, err);
    close(fd);
    return status;
}

static enum lf_status make_dir(const char *path, struct lf_err *err)
{
    struct stat st;
    if (mkdir(path, 0700) == 0) return LF_OK;
    if (errno != EEXIST) return failed("make the directory", path, err);
    if (stat(path, &st) != 0) return failed("stat", path, err);
    return S_ISDIR(st.st_mode) ? LF_OK : lf_fail(err, LF_INVALID, "%s is not a directory", path);
}

/* Adds the bytes on disk of the files in dir; what is no directory has none. */
static enum lf_status add_taken(const char *dir, uint64_t *bytes, struct lf_err *err)
{
    struct stat st;
    DIR *d = opendir(dir);
    if (!d) return errno == ENOTDIR || errno == ENOENT ? LF_OK : failed("list", dir, err);
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            *bytes += (uint64_t)st.st_blocks * 512;
    closedir(d);
    return LF_OK;
}

/* Bytes on disk of what lies in the store's directory beside its identity's; notes which other one takes most. */
static enum lf_status taken_by_others(struct lf_disk_store *store, const char *dir, uint64_t *bytes, struct lf_err *err)
{
    enum lf_status status = LF_OK;
    uint64_t most = 0;
    DIR *d = opendir(dir);
    if (!d) return failed("list", dir, err);
    *bytes = 0;
    for (struct dirent *e = readdir(d); e && status == LF_OK; e = readdir(d)) {
        char path[PATH_MAX];
        uint64_t its = 0;
        if (e->d_name[0] == '.' || strcmp(e->d_name, store->identity) == 0) continue;
        status = join(path, dir, e->d_name, err);
        if (status == LF_OK) status = add_taken(path, &its, err);
        *bytes += its;
        if (its <= most || strlen(e->d_name) != NAME_BYTES - 1) continue;
        most = its;
        memcpy(store->other, e->d_name, NAME_BYTES);
    }
    closedir(d);
    return status;
}

static enum lf_status write_about(const char *dir, const char *about, struct lf_err *err)
{
    char path[PATH_MAX];
    struct lf_disk_file *file;
    LF_TRY(join(path, dir, "about", err));
    LF_TRY(lf_disk_file_open(&file, path, false, err));
    enum lf_status status = file->ops->resize(file, strlen(about) + 1, err);
    if (status == LF_OK) status = file->ops->write(file, about, strlen(about), 0, err);
    if (status == LF_OK) status = file->ops->write(file, "\n", 1, strlen(about), err);
    file->ops->close(file);
    return status;
}

static uint64_t share_of(uint64_t budget_bytes, const struct lf_disk_kind *kinds, int n_kinds, int i)
{
    uint64_t shares = 0;
    for (int k = 0; k < n_kinds; k++) shares += kinds[k].share;
    return budget_bytes / shares * kinds[i].share;
}

/* Each slot takes its bytes and its record. */
uint32_t lf_disk_store_n_slots(uint64_t budget_bytes, const struct lf_disk_kind *kinds, int n_kinds, int i)
{
    uint64_t n =
        share_of(budget_bytes, kinds, n_kinds, i) / (lf_disk_slot_bytes(kinds[i].block_bytes) + LF_DISK_RECORD_BYTES);
    return (uint32_t)LF_MIN(n, (uint64_t)1 << 30);
}

/* NAME.index or NAME.data of a kind. */
static enum lf_status file_path(char out[PATH_MAX], const char *dir, const char *kind, const char *suffix,
                                struct lf_err *err)
{
    char name[LF_DISK_KIND_NAME_BYTES + 8];
    snprintf(name, sizeof(name), "%.*s.%s", LF_DISK_KIND_NAME_BYTES, kind, suffix);
    return join(out, dir, name, err);
}

/* The two files of a kind in an identity's directory. */
static enum lf_status open_files(struct lf_disk_table **out, const char *dir, const char *kind, uint32_t n_slots,
                                 uint64_t block_bytes, struct lf_err *err)
{
    char index_path[PATH_MAX], data_path[PATH_MAX];
    struct lf_disk_file *index, *data;
    LF_TRY(file_path(index_path, dir, kind, "index", err));
    LF_TRY(file_path(data_path, dir, kind, "data", err));
    LF_TRY(lf_disk_file_open(&index, index_path, false, err));
    enum lf_status status = lf_disk_file_open(&data, data_path, true, err);
    if (status != LF_OK) {
        index->ops->close(index);
        return status;
    }
    return lf_disk_table_open(out, index, data, n_slots, block_bytes, err);
}

/* Of kind i, in the part of the budget that other identities leave. */
static enum lf_status open_table(struct lf_disk_store *store, const struct lf_disk_store_opts *o, uint64_t bytes,
                                 const char *dir, struct lf_err *err)
{
    const struct lf_disk_kind *kind = &o->kinds[store->n_kinds];
    uint32_t n_slots = lf_disk_store_n_slots(bytes, o->kinds, o->n_kinds, store->n_kinds);
    if (n_slots == 0)
        return lf_fail(err, LF_LIMIT, "%llu bytes on disk hold no block of %llu bytes", (unsigned long long)bytes,
                       (unsigned long long)kind->block_bytes);
    LF_TRY(open_files(&store->tables[store->n_kinds], dir, kind->name, n_slots, kind->block_bytes, err));
    store->n_kinds++;
    store->bytes += (uint64_t)n_slots * (lf_disk_slot_bytes(kind->block_bytes) + LF_DISK_RECORD_BYTES);
    return LF_OK;
}

static enum lf_status open_in(struct lf_disk_store *store, const struct lf_disk_store_opts *o, struct lf_err *err)
{
    char name[NAME_BYTES], dir[PATH_MAX];
    uint64_t others = 0;
    name_of(o, name);
    snprintf(store->identity, sizeof store->identity, "%s", name);
    LF_TRY(taken_by_others(store, o->dir, &others, err));
    if (others >= o->budget_bytes)
        return lf_fail(
            err, LF_LIMIT,
            "blocks of other models, splits or programs take %llu bytes of %s, and the budget is %llu: remove "
            "them with `longflash documents rm`, or raise --cache-disk",
            (unsigned long long)others, o->dir, (unsigned long long)o->budget_bytes);
    LF_TRY(join(dir, o->dir, name, err));
    LF_TRY(make_dir(dir, err));
    LF_TRY(write_about(dir, o->about, err));
    for (int i = 0; i < o->n_kinds; i++) LF_TRY(open_table(store, o, o->budget_bytes - others, dir, err));
    LF_TRY(sync_dir(dir, err));
    return sync_dir(o->dir, err);
}

enum lf_status lf_disk_store_lock(struct lf_disk_store *store, const char *dir, struct lf_err *err)
{
    LF_ASSERT(store->lock_fd == 0);
    LF_TRY(make_dir(dir, err));
    return lf_disk_lock(&store->lock_fd, dir, err);
}

enum lf_status lf_disk_store_open(struct lf_disk_store *store, const struct lf_disk_store_opts *o, struct lf_err *err)
{
    LF_ASSERT(o->n_kinds >= 1 && o->n_kinds <= LF_DISK_KINDS_N && store->n_kinds == 0);
    enum lf_status status = store->lock_fd > 0 ? LF_OK : lf_disk_store_lock(store, o->dir, err);
    if (status == LF_OK) status = open_in(store, o, err);
    if (status != LF_OK) lf_disk_store_close(store);
    return status;
}

/* Those of the index that is there; 0: there is none, or it is empty. */
static enum lf_status slots_there(uint32_t *n_slots, const char *dir, const char *kind, struct lf_err *err)
{
    char path[PATH_MAX];
    struct stat st;
    *n_slots = 0;
    LF_TRY(file_path(path, dir, kind, "index", err));
    if (lstat(path, &st) != 0) return errno == ENOENT ? LF_OK : failed("stat", path, err);
    *n_slots = (uint32_t)LF_MIN((uint64_t)st.st_size / LF_DISK_RECORD_BYTES, (uint64_t)1 << 30);
    return LF_OK;
}

enum lf_status lf_disk_store_open_named(struct lf_disk_table **out, const struct lf_disk_named *n, struct lf_err *err)
{
    char dir[PATH_MAX];
    uint32_t n_slots;
    LF_TRY(join(dir, n->dir, n->identity, err));
    LF_TRY(slots_there(&n_slots, dir, n->kind, err));
    if (n_slots > 0) return open_files(out, dir, n->kind, n_slots, n->block_bytes, err);
    if (!n->makes) return lf_fail(err, LF_NOT_FOUND, "%s has nothing of %s", n->dir, n->identity);
    LF_TRY(make_dir(dir, err));
    LF_TRY(write_about(dir, n->about, err));
    LF_TRY(open_files(out, dir, n->kind, n->n_slots, n->block_bytes, err));
    enum lf_status status = sync_dir(dir, err);
    if (status == LF_OK) status = sync_dir(n->dir, err);
    if (status != LF_OK) lf_disk_table_close(*out);
    return status;
}

void lf_disk_store_close(struct lf_disk_store *store)
{
    for (int i = 0; i < store->n_kinds; i++) lf_disk_table_close(store->tables[i]);
    if (store->lock_fd > 0) close(store->lock_fd); /* and with it the lock */
    memset(store, 0, sizeof(*store));
}
