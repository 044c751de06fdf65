#include "tests/support/fake_disk.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/mix.h"

struct fake_file {
    struct lf_disk_file base;
    struct fake_disk *disk;
    struct fake_disk_bytes *bytes;
};

static bool refused(struct fake_disk *disk)
{
    if (disk->fails_at < 0 || disk->n_ops < disk->fails_at || disk->fails_n == 0) {
        disk->n_ops++;
        return false;
    }
    if (disk->fails_n > 0) disk->fails_n--;
    return true;
}

static enum lf_status read_bytes(struct lf_disk_file *file, void *dst, size_t n, uint64_t offset, struct lf_err *err)
{
    const struct fake_disk_bytes *b = ((struct fake_file *)file)->bytes;
    if (offset > b->n || n > b->n - offset) return lf_fail(err, LF_CORRUPT, "the file ends before");
    memcpy(dst, b->now + offset, n);
    return LF_OK;
}

/* A write that fails has written some of its sectors. */
static enum lf_status write_bytes(struct lf_disk_file *file, const void *src, size_t n, uint64_t offset,
                                  struct lf_err *err)
{
    struct fake_file *f = (struct fake_file *)file;
    LF_ASSERT(offset + n <= f->bytes->n);
    bool fails = refused(f->disk);
    size_t done = fails ? (size_t)lf_random64(5, offset + n) % (n + 1) / FAKE_DISK_SECTOR * FAKE_DISK_SECTOR : n;
    memcpy(f->bytes->now + offset, src, done);
    return fails ? lf_fail(err, f->disk->failure, "the disk fails") : LF_OK;
}

static enum lf_status sync_bytes(struct lf_disk_file *file, struct lf_err *err)
{
    struct fake_file *f = (struct fake_file *)file;
    if (refused(f->disk)) return lf_fail(err, f->disk->failure, "the disk fails");
    if (f->bytes->n > 0) memcpy(f->bytes->synced, f->bytes->now, f->bytes->n);
    return LF_OK;
}

static uint8_t *resized(uint8_t *old, size_t n_old, size_t n)
{
    uint8_t *bytes = calloc(1, n + 1);
    LF_ASSERT(bytes);
    if (old) memcpy(bytes, old, LF_MIN(n_old, n));
    free(old);
    return bytes;
}

static enum lf_status resize(struct lf_disk_file *file, uint64_t n, struct lf_err *err)
{
    struct fake_file *f = (struct fake_file *)file;
    if (refused(f->disk)) return lf_fail(err, f->disk->failure, "the disk fails");
    f->bytes->now = resized(f->bytes->now, f->bytes->n, n);
    f->bytes->synced = resized(f->bytes->synced, f->bytes->n, n);
    f->bytes->n = n;
    return LF_OK;
}

static void close_file(struct lf_disk_file *file)
{
    ((struct fake_file *)file)->disk->n_open--;
    free(file);
}

static const struct lf_disk_file_ops ops = {
    .read = read_bytes, .write = write_bytes, .sync = sync_bytes, .resize = resize, .close = close_file};

void fake_disk_init(struct fake_disk *disk)
{
    memset(disk, 0, sizeof(*disk));
    disk->fails_at = -1;
    disk->fails_n = -1;
    disk->failure = LF_IO;
}

void fake_disk_deinit(struct fake_disk *disk)
{
    LF_ASSERT(disk->n_open == 0);
    for (int i = 0; i < FAKE_DISK_FILES_N; i++) {
        free(disk->files[i].now);
        free(disk->files[i].synced);
    }
}

struct lf_disk_file *fake_disk_file(struct fake_disk *disk, int i)
{
    struct fake_file *f = calloc(1, sizeof(*f));
    LF_ASSERT(f);
    f->base.ops = &ops;
    f->disk = disk;
    f->bytes = &disk->files[i];
    disk->n_open++;
    return &f->base;
}

void fake_disk_power_loss(struct fake_disk *disk, enum fake_disk_loss loss, uint64_t seed)
{
    for (int i = 0; i < FAKE_DISK_FILES_N; i++) {
        struct fake_disk_bytes *b = &disk->files[i];
        for (size_t at = 0; at < b->n; at += FAKE_DISK_SECTOR) {
            size_t n = LF_MIN(b->n - at, (size_t)FAKE_DISK_SECTOR);
            bool kept = loss == FAKE_DISK_KEEPS_ALL || (loss == FAKE_DISK_LOSES_SOME &&
                                                        lf_random64(seed, at * FAKE_DISK_FILES_N + (size_t)i) % 2 == 0);
            memcpy(kept ? b->synced + at : b->now + at, kept ? b->now + at : b->synced + at, n);
        }
    }
    disk->fails_at = -1;
}
