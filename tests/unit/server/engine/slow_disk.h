/* Files of a fake disk for several threads, that can be slow. */
#ifndef LF_TESTS_UNIT_SERVER_ENGINE_SLOW_DISK_H
#define LF_TESTS_UNIT_SERVER_ENGINE_SLOW_DISK_H

#include "tests/support/test.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/clock.h"
#include "tests/support/fake_disk.h"

struct slow_file {
    struct lf_disk_file base;
    struct lf_disk_file *under;
};

static pthread_mutex_t disk_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int read_ms, write_ms;
static _Atomic bool holds_writes; /* none ends meanwhile */

static inline struct lf_disk_file *under(struct lf_disk_file *file)
{
    return ((struct slow_file *)(void *)file)->under;
}

static inline enum lf_status slow_read(struct lf_disk_file *file, void *dst, size_t n, uint64_t offset,
                                       struct lf_err *err)
{
    if (read_ms > 0) lf_clock_sleep_ms(read_ms);
    pthread_mutex_lock(&disk_lock);
    enum lf_status status = under(file)->ops->read(under(file), dst, n, offset, err);
    pthread_mutex_unlock(&disk_lock);
    return status;
}

static inline enum lf_status slow_write(struct lf_disk_file *file, const void *src, size_t n, uint64_t offset,
                                        struct lf_err *err)
{
    while (holds_writes) lf_clock_sleep_ms(1);
    if (write_ms > 0) lf_clock_sleep_ms(write_ms);
    pthread_mutex_lock(&disk_lock);
    enum lf_status status = under(file)->ops->write(under(file), src, n, offset, err);
    pthread_mutex_unlock(&disk_lock);
    return status;
}

static inline enum lf_status slow_sync(struct lf_disk_file *file, struct lf_err *err)
{
    pthread_mutex_lock(&disk_lock);
    enum lf_status status = under(file)->ops->sync(under(file), err);
    pthread_mutex_unlock(&disk_lock);
    return status;
}

static inline enum lf_status slow_resize(struct lf_disk_file *file, uint64_t bytes, struct lf_err *err)
{
    return under(file)->ops->resize(under(file), bytes, err);
}

static inline void slow_close(struct lf_disk_file *file)
{
    under(file)->ops->close(under(file));
    free(file);
}

static inline struct lf_disk_file *slow_file(struct fake_disk *disk, int i)
{
    static const struct lf_disk_file_ops ops = {slow_read, slow_write, slow_sync, slow_resize, slow_close};
    struct slow_file *file = calloc(1, sizeof(*file));
    assert_non_null(file);
    file->base.ops = &ops;
    file->under = fake_disk_file(disk, i);
    return &file->base;
}

#endif
