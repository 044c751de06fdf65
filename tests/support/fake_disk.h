/* A disk in memory that forgets what was not synced when its power goes, is full, or fails.
 *
 * Of each sector (512 bytes) that was written since the last sync of its file, a loss of power leaves the new content
 * or the content at that sync, sector by sector, as a seed decides: the order in which a disk writes is its own. A
 * change of a file's length is on disk at once. Operations that can fail are counted; from the one that is named on
 * they do. */
#ifndef LF_TESTS_SUPPORT_FAKE_DISK_H
#define LF_TESTS_SUPPORT_FAKE_DISK_H

#include <stdbool.h>

#include "kv/tiers/disk_file.h"

enum { FAKE_DISK_FILES_N = 2, FAKE_DISK_SECTOR = 512 };

struct fake_disk_bytes {
    uint8_t *now, *synced;
    size_t n;
};

struct fake_disk {
    struct fake_disk_bytes files[FAKE_DISK_FILES_N];
    long n_ops;             /* writes, syncs and resizes that succeeded */
    long fails_at;          /* n_ops at which they begin to fail; -1: never */
    long fails_n;           /* how many fail; -1: all from there on */
    enum lf_status failure; /* what they answer */
    int n_open;
};

void fake_disk_init(struct fake_disk *disk);
void fake_disk_deinit(struct fake_disk *disk);
/* File i, to be closed as any other. */
struct lf_disk_file *fake_disk_file(struct fake_disk *disk, int i);

enum fake_disk_loss { FAKE_DISK_KEEPS_ALL, FAKE_DISK_LOSES_ALL, FAKE_DISK_LOSES_SOME };
/* The power goes and comes back: what of the unsynced is left is decided, and operations succeed again. */
void fake_disk_power_loss(struct fake_disk *disk, enum fake_disk_loss loss, uint64_t seed);

#endif
