/* What the drivers share: the entry that libFuzzer and replay.c call, inputs cut into parts, and files for openers that
 * take a path.
 *
 * An input of several parts has a NUL between them: a NUL cannot stand in JSON, in a pattern or in an argument, so the
 * fuzzer can lengthen one part without moving the others. */
#ifndef LF_TESTS_FUZZ_FUZZ_H
#define LF_TESTS_FUZZ_FUZZ_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/check.h"
#include "core/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The bytes up to the next NUL, which is taken too; all that is left where there is none. */
static inline struct lf_str fuzz_part(const uint8_t **data, size_t *size)
{
    const uint8_t *first = *data;
    const uint8_t *end = *size ? memchr(first, 0, *size) : NULL;
    size_t len = end ? (size_t)(end - first) : *size;
    *data += end ? len + 1 : len;
    *size -= end ? len + 1 : len;
    return lf_str_from((const char *)first, len);
}

/* A terminated copy, for what takes C strings; freed by the caller. */
static inline char *fuzz_c_string(struct lf_str s)
{
    char *copy = malloc(s.len + 1);
    LF_ASSERT(copy != NULL);
    if (s.len) memcpy(copy, s.ptr, s.len);
    copy[s.len] = 0;
    return copy;
}

static inline void fuzz_write_all(int fd, const void *bytes, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = pwrite(fd, (const char *)bytes + done, n - done, (off_t)done);
        LF_ASSERT(got > 0);
        done += (size_t)got;
    }
}

/* A file in memory with a path. One a process, filled anew for each input. */
struct fuzz_file {
    int fd;
    char path[64];
};

/* The bytes, and behind them zeros up to n_bytes if that is more. */
static inline void fuzz_file_fill(struct fuzz_file *f, struct lf_str bytes, size_t n_bytes)
{
    if (f->path[0] == 0) {
        f->fd = memfd_create("fuzz", MFD_CLOEXEC);
        LF_ASSERT(f->fd >= 0);
        snprintf(f->path, sizeof f->path, "/proc/self/fd/%d", f->fd);
    }
    LF_ASSERT(ftruncate(f->fd, 0) == 0);
    fuzz_write_all(f->fd, bytes.ptr, bytes.len);
    LF_ASSERT(ftruncate(f->fd, (off_t)LF_MAX(n_bytes, bytes.len)) == 0);
}

/* The process's directory for inputs that are several files. */
struct fuzz_dir {
    char path[64];
    const char *const *names;
    size_t n_names;
};

static inline struct fuzz_dir *fuzz_the_dir(void)
{
    static struct fuzz_dir dir;
    return &dir;
}

static inline void fuzz_dir_drop(void)
{
    struct fuzz_dir *dir = fuzz_the_dir();
    char path[128];
    for (size_t i = 0; i < dir->n_names; i++) {
        snprintf(path, sizeof path, "%s/%s", dir->path, dir->names[i]);
        unlink(path);
    }
    LF_ASSERT(rmdir(dir->path) == 0);
}

/* Its path. The first call makes it; with the process it goes, and so do files of these names. */
static inline const char *fuzz_dir(const char *const *names, size_t n_names)
{
    struct fuzz_dir *dir = fuzz_the_dir();
    if (dir->path[0] != 0) return dir->path;
    dir->names = names;
    dir->n_names = n_names;
    const char *parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(dir->path, sizeof dir->path, "%s/longflash-fuzz-XXXXXX", parent);
    LF_ASSERT(mkdtemp(dir->path) != NULL);
    LF_ASSERT(atexit(fuzz_dir_drop) == 0);
    return dir->path;
}

static inline void fuzz_dir_write(const char *dir, const char *name, struct lf_str bytes)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    LF_ASSERT(fd >= 0);
    fuzz_write_all(fd, bytes.ptr, bytes.len);
    close(fd);
}

#endif
