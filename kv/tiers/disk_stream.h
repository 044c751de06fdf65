/* The blocks of a store as one stream of bytes, for another machine or a backup; everything that is needed to write the
 * format anew. What disk_record.h says of a store is not repeated.
 *
 * A stream is one section after the other, one for each kind of each identity, and nothing behind the last. A section
 * is a head of 512 bytes, then for each of its blocks a record of 512 bytes, as in NAME.index, and the block's
 * block_bytes bytes, without any filling. The slot in a record is the block's place in its section, from 0. 512 zeros
 * in the place of a record, with no bytes behind, are a block that was broken in the store and has been left out. Those
 * written first come first. The head, integers little-endian:
 *
 *       0  8 bytes   "LFKVexp1"; another number at the end is another version
 *       8  u32       the section's number, from 0
 *      12  u32       how many sections there are
 *      16  u64       how many blocks are in this one
 *      24  u64       block_bytes
 *      32  32 bytes  the identity: those of which its directory's name has the digits
 *      64  16 bytes  the kind's name, padded with zeros
 *      80  400 bytes what the store says about the identity, for people; padded with zeros, at least one
 *     480  32 bytes  SHA-256 of the 480 bytes before
 *
 * So every byte is under a checksum, and what was cut or put together otherwise is noticed: sections and blocks are
 * numbered. A stream can be written to a pipe and read from one; both ends hold some blocks in memory and no more.
 *
 * The checksums find damage, not intent: who makes a stream decides what the model will have read. Take one only from
 * where you would take the model's weights from.
 *
 * Import puts blocks into tables in the order of writes that they have (disk_table.h), each after it was checked. Ended
 * at any moment it leaves a store that is whole and holds a part of the stream; repeated it writes what is missing. */
#ifndef LF_KV_TIERS_DISK_STREAM_H
#define LF_KV_TIERS_DISK_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"

struct lf_disk_moved {
    uint64_t n_blocks; /* of the stream: whole ones; import: that are on disk */
    uint64_t n_tokens; /* that these hold */
    uint64_t n_broken; /* left out */
    uint64_t n_there;  /* import: were in the store already */
    uint64_t n_gone;   /* import: made room for others */
    uint64_t bytes;    /* of the stream */
};

/* One end of a stream: an open file, pipe or terminal, and its name in messages. */
struct lf_disk_end {
    int fd;
    const char *name;
};

/* Whether this identity (64 digits) is to be exported. */
typedef bool lf_disk_wanted_fn(void *ctx, const char *identity);

/* The caller holds lf_disk_lock_to_read. LF_NOT_FOUND where there is no block to export; LF_FULL, LF_IO, LF_NO_MEMORY.
 */
LF_MUST_CHECK enum lf_status lf_disk_export(struct lf_disk_moved *out, const char *dir, const struct lf_disk_end *to,
                                            lf_disk_wanted_fn *wanted, void *ctx, struct lf_err *err);
/* The caller holds lf_disk_lock. makes: identities that the store does not have are made, with as many slots as the
 * stream has blocks of them; else they are refused by name, LF_INVALID, when their section begins. LF_CORRUPT: the
 * stream is not whole; LF_UNSUPPORTED: it is of another version, or none; LF_FULL, LF_IO, LF_LIMIT, LF_NO_MEMORY. What
 * came before the failure has been imported, and *out, which is written in any case, counts it. */
LF_MUST_CHECK enum lf_status lf_disk_import(struct lf_disk_moved *out, const char *dir, const struct lf_disk_end *from,
                                            bool makes, struct lf_err *err);

#endif
