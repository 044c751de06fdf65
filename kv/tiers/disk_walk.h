/* A store's directory seen from outside, where no server runs: what lies in it, whether it is whole, and its end.
 *
 * It knows no model and no identity but by the name of its directory: records say by themselves what their slots should
 * hold (disk_record.h). One thread. */
#ifndef LF_KV_TIERS_DISK_WALK_H
#define LF_KV_TIERS_DISK_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/hash.h"
#include "core/status.h"
#include "kv/tiers/disk_store.h"

enum { LF_DISK_NAME_BYTES = 2 * LF_SHA256_BYTES + 1, LF_DISK_ABOUT_BYTES = 1024 };

/* The blocks of one kind and one identity. */
struct lf_disk_found {
    char identity[LF_DISK_NAME_BYTES];      /* the name of its directory */
    char about[LF_DISK_ABOUT_BYTES];        /* the first line, cleaned; "": it has none */
    char kind[LF_DISK_KIND_NAME_BYTES + 1]; /* "": the directory is there and holds no blocks */
    uint32_t n_slots, n_listed;
    uint64_t n_tokens;      /* that the listed blocks hold */
    uint64_t block_bytes;   /* 0: no block is listed */
    uint32_t n_bad_records; /* that are neither empty nor a record */
    uint64_t disk_bytes;    /* that index and data take */
    int64_t written_s;      /* Unix time at which one of them was written last */
    uint32_t n_broken;      /* of the listed blocks, where they were read: bytes that are not what was written */
};

/* The first line of what an identity's directory says of itself, cleaned; "": nothing. */
void lf_disk_about(char out[LF_DISK_ABOUT_BYTES], const char *dir, const char *identity);
/* Makes question marks of what a terminal would obey, and of bytes of no UTF-8. */
void lf_disk_clean_about(char *text);
/* false ends the walk. */
typedef bool lf_disk_walk_fn(void *ctx, const struct lf_disk_found *found);

/* Calls fn for each kind of each identity, in the order of their names. read_blocks: every listed block is read and its
 * checksum compared. Writes nothing. Beside a server that is writing, counts are of a moment and a record may be seen
 * half written, so whoever reads blocks should hold lf_disk_lock_to_read. LF_NOT_FOUND where the directory is not
 * there, LF_INVALID where it is none, LF_IO, LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_disk_walk(const char *dir, bool read_blocks, lf_disk_walk_fn *fn, void *ctx,
                                          struct lf_err *err);
/* One listed block: its record, and its bytes, NULL where they are not what was written. A failure ends the walk. */
typedef enum lf_status lf_disk_block_fn(void *ctx, const struct lf_disk_record *record, const uint8_t *bytes,
                                        struct lf_err *err);
/* Calls fn for each listed block of an identity's kind, those written first first. LF_NOT_FOUND, LF_IO, LF_NO_MEMORY,
 * and what fn says. */
LF_MUST_CHECK enum lf_status lf_disk_walk_blocks(const char *dir, const char *identity, const char *kind,
                                                 lf_disk_block_fn *fn, void *ctx, struct lf_err *err);
/* Removes an identity's directory with the files in it. The caller holds lf_disk_lock. LF_NOT_FOUND, LF_IO. */
LF_MUST_CHECK enum lf_status lf_disk_remove(const char *dir, const char *identity, struct lf_err *err);

#endif
