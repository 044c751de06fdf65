/* A file as the store on disk sees it: read, write, sync, resize. Behind a table, so that tests can put a disk there
 * that loses its power, is full, or fails. Any thread; calls on one file may run at once. */
#ifndef LF_KV_TIERS_DISK_FILE_H
#define LF_KV_TIERS_DISK_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

struct lf_disk_file;

struct lf_disk_file_ops {
    /* All n bytes, or a failure: LF_IO, LF_FULL where the disk is, LF_CORRUPT where the file ends before. */
    enum lf_status (*read)(struct lf_disk_file *file, void *dst, size_t n, uint64_t offset, struct lf_err *err);
    enum lf_status (*write)(struct lf_disk_file *file, const void *src, size_t n, uint64_t offset, struct lf_err *err);
    /* What was written before is on disk when this returns LF_OK. */
    enum lf_status (*sync)(struct lf_disk_file *file, struct lf_err *err);
    /* Cuts the file, or makes it longer with zeros that take no room. On disk when this returns. */
    enum lf_status (*resize)(struct lf_disk_file *file, uint64_t bytes, struct lf_err *err);
    void (*close)(struct lf_disk_file *file); /* frees file */
};

struct lf_disk_file {
    const struct lf_disk_file_ops *ops;
};

/* Opens or makes path, which only this user may read. With direct, reads and writes go past the page cache where the
 * file system can do that: then offset, size and address of each must be multiples of LF_DISK_ALIGN_BYTES. */
LF_MUST_CHECK enum lf_status lf_disk_file_open(struct lf_disk_file **out, const char *path, bool direct,
                                               struct lf_err *err);

#endif
