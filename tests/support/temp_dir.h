/* Directories that live as long as a test, and files in them. */
#ifndef LF_TESTS_SUPPORT_TEMP_DIR_H
#define LF_TESTS_SUPPORT_TEMP_DIR_H

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <unistd.h>

#include "tests/support/test.h"

struct temp_dir {
    char path[64];
};

static inline struct temp_dir temp_dir_make(void)
{
    struct temp_dir d;
    snprintf(d.path, sizeof(d.path), "/tmp/longflash-test-XXXXXX");
    assert_non_null(mkdtemp(d.path));
    return d;
}

static inline void temp_dir_path(const struct temp_dir *d, const char *name, char out[512])
{
    int n = snprintf(out, 512, "%s/%s", d->path, name);
    assert_true(n > 0 && n < 512);
}

/* Creates or replaces a file. */
static inline void temp_dir_write(const struct temp_dir *d, const char *name, const void *bytes, size_t n)
{
    char path[512];
    temp_dir_path(d, name, path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    for (size_t done = 0; done < n;) {
        ssize_t got = write(fd, (const char *)bytes + done, n - done);
        assert_true(got > 0);
        done += (size_t)got;
    }
    close(fd);
}

static inline void temp_dir_write_text(const struct temp_dir *d, const char *name, const char *text)
{
    temp_dir_write(d, name, text, strlen(text));
}

static inline void temp_dir_delete(const struct temp_dir *d, const char *name)
{
    char path[512];
    temp_dir_path(d, name, path);
    assert_int_equal(unlink(path), 0);
}

/* With all files in it. */
static inline void temp_dir_remove(const struct temp_dir *d)
{
    DIR *dir = opendir(d->path);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) temp_dir_delete(d, e->d_name);
    }
    closedir(dir);
    assert_int_equal(rmdir(d->path), 0);
}

static inline int temp_dir_remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

/* With all directories in it. */
static inline void temp_dir_remove_tree(const struct temp_dir *d)
{
    assert_int_equal(nftw(d->path, temp_dir_remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

#endif
