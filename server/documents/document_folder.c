#include "server/documents/document_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/check.h"
#include "core/file.h"
#include "core/sort.h"
#include "core/text_memory.h"

static const char folder_name[] = "documents", doc[] = ".doc", tmp[] = ".tmp";
enum { DIGITS = 16, NAME_BYTES = DIGITS + 5 };

static enum lf_status failed(const char *what, const char *path, struct lf_err *err)
{
    int e = errno;
    enum lf_status status = e == ENOSPC || e == EDQUOT || e == EFBIG ? LF_FULL : e == ENOMEM ? LF_NO_MEMORY : LF_IO;
    return lf_fail(err, status, "cannot %s %s: %s", what, path, strerror(e));
}

static enum lf_status join(char out[PATH_MAX], const char *dir, const char *name, struct lf_err *err)
{
    if (lf_path_join(out, PATH_MAX, dir, name) == LF_OK) return LF_OK;
    return lf_fail(err, LF_LIMIT, "%s/%s: the path is too long", dir, name);
}

static enum lf_status path_of(char out[PATH_MAX], const char *folder, uint64_t number, const char *end,
                              struct lf_err *err)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%0*" PRIx64 "%s", DIGITS, number, end);
    return join(out, folder, name, err);
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

/* ---- writing ---- */

static enum lf_status write_all(int fd, const void *bytes, size_t n, const char *path, struct lf_err *err)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = write(fd, (const char *)bytes + done, n - done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return failed("write", path, err);
        done += (size_t)got;
    }
    return LF_OK;
}

static enum lf_status write_file(int fd, const struct lf_document_file *f, const char *path, struct lf_err *err)
{
    uint8_t head[LF_DOCUMENT_HEAD_BYTES];
    lf_document_file_head(f, head);
    LF_TRY(write_all(fd, head, sizeof head, path, err));
    LF_TRY(write_all(fd, f->content.text.ptr, f->content.text.len, path, err));
    LF_TRY(write_all(fd, f->content.system.ptr, f->content.system.len, path, err));
    LF_TRY(write_all(fd, f->content.tools.ptr, f->content.tools.len, path, err));
    return fsync(fd) == 0 ? LF_OK : failed("sync", path, err);
}

/* The first document makes the folder. */
static enum lf_status open_new(int *fd, const char *path, const char *dir, const char *folder, struct lf_err *err)
{
    const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW;
    *fd = open(path, flags, 0600);
    if (*fd < 0 && errno == ENOENT) {
        if (mkdir(folder, 0700) != 0 && errno != EEXIST) return failed("make the directory", folder, err);
        LF_TRY(sync_dir(dir, err));
        *fd = open(path, flags, 0600);
    }
    return *fd >= 0 ? LF_OK : failed("write", path, err);
}

enum lf_status lf_document_folder_write(const char *dir, uint64_t number, const struct lf_document_file *file,
                                        struct lf_err *err)
{
    char folder[PATH_MAX], path[PATH_MAX], new_path[PATH_MAX];
    int fd;
    LF_TRY(join(folder, dir, folder_name, err));
    LF_TRY(path_of(path, folder, number, doc, err));
    LF_TRY(path_of(new_path, folder, number, tmp, err));
    LF_TRY(open_new(&fd, new_path, dir, folder, err));
    enum lf_status status = write_file(fd, file, new_path, err);
    if (close(fd) != 0 && status == LF_OK) status = failed("close", new_path, err);
    if (status == LF_OK && rename(new_path, path) != 0) status = failed("rename", new_path, err);
    if (status != LF_OK) {
        (void)unlink(new_path);
        return status;
    }
    return sync_dir(folder, err);
}

enum lf_status lf_document_folder_remove(const char *dir, uint64_t number, struct lf_err *err)
{
    char folder[PATH_MAX], path[PATH_MAX];
    LF_TRY(join(folder, dir, folder_name, err));
    LF_TRY(path_of(path, folder, number, doc, err));
    if (unlink(path) != 0) return errno == ENOENT ? LF_OK : failed("remove", path, err);
    return sync_dir(folder, err);
}

/* ---- reading ---- */

struct walk {
    const char *folder;
    struct lf_text_memory *memory;
    lf_document_folder_fn *fn;
    void *ctx;
};

static enum lf_status read_file(int fd, uint64_t size, struct lf_text_memory *memory, const char *path, uint8_t **bytes)
{
    uint8_t head[LF_DOCUMENT_HEAD_BYTES];
    uint64_t n_bytes;
    LF_TRY(lf_file_pread(fd, head, sizeof head, 0, path, NULL));
    LF_TRY(lf_document_file_bytes(head, &n_bytes));
    if (n_bytes != size) return LF_CORRUPT;
    *bytes = lf_text_alloc(memory, (size_t)size);
    return *bytes ? lf_file_pread(fd, *bytes, (size_t)size, 0, path, NULL) : LF_NO_MEMORY;
}

/* What fn says. */
static bool show(const struct walk *w, uint64_t number)
{
    struct lf_document_file file = {0};
    char path[PATH_MAX];
    uint8_t *bytes = NULL;
    uint64_t size;
    int fd;
    enum lf_status status = path_of(path, w->folder, number, doc, NULL);
    if (status == LF_OK) status = lf_file_open(&fd, &size, path, NULL);
    if (status == LF_OK) {
        status = read_file(fd, size, w->memory, path, &bytes);
        close(fd);
    }
    if (status == LF_OK) status = lf_document_file_read(&file, bytes, (size_t)size);
    bool goes_on = w->fn(w->ctx, number, status, &file);
    lf_text_free(w->memory, bytes);
    return goes_on;
}

/* Whether a name is that of a document, or of one that was being written. */
static bool is_file(const char *name, const char *end, uint64_t *number)
{
    if (strlen(name) != NAME_BYTES - 1 || strcmp(name + DIGITS, end) != 0) return false;
    if (strspn(name, "0123456789abcdef") != DIGITS) return false;
    *number = strtoull(name, NULL, 16);
    return *number > 0 && *number < UINT64_MAX; /* the numbers that documents get */
}

static bool is_less(const void *a, const void *b)
{
    return *(const uint64_t *)a < *(const uint64_t *)b;
}

/* The numbers of all documents, in order. */
static enum lf_status list(DIR *d, bool clears, uint64_t **numbers, size_t *n, struct lf_err *err)
{
    uint64_t number;
    size_t room = 0;
    errno = 0;
    for (struct dirent *e = readdir(d); e; errno = 0, e = readdir(d)) {
        if (clears && is_file(e->d_name, tmp, &number)) (void)unlinkat(dirfd(d), e->d_name, 0);
        if (!is_file(e->d_name, doc, &number)) continue;
        if (*n == room) {
            uint64_t *grown = realloc(*numbers, (room = room ? 2 * room : 1024) * sizeof *grown);
            if (!grown) return lf_fail(err, LF_NO_MEMORY, "no memory for a list of %zu documents", room);
            *numbers = grown;
        }
        (*numbers)[(*n)++] = number;
    }
    if (errno != 0) return failed("list", folder_name, err);
    lf_sort(*numbers, *n, sizeof **numbers, is_less);
    return LF_OK;
}

enum lf_status lf_document_folder_walk(const char *dir, bool clears, struct lf_text_memory *memory,
                                       lf_document_folder_fn *fn, void *ctx, struct lf_err *err)
{
    char folder[PATH_MAX];
    LF_TRY(join(folder, dir, folder_name, err));
    const struct walk w = {folder, memory, fn, ctx};
    uint64_t *numbers = NULL;
    size_t n = 0;
    DIR *d = opendir(folder);
    if (!d) return errno == ENOENT ? LF_OK : failed("list", folder, err);
    enum lf_status status = list(d, clears, &numbers, &n, err);
    closedir(d);
    for (size_t i = 0; status == LF_OK && i < n && show(&w, numbers[i]);) i++;
    free(numbers);
    return status;
}
