/* The format of blocks on disk: everything that is needed to write it anew.
 *
 * A store is a directory that one process uses at a time (it holds a lock, flock, on the file `lock`). In it is a
 * directory for each identity, that is, for everything that the bytes of a block depend on: what blocks of one identity
 * hold never becomes part of another's answer, because it is never looked at.
 *
 *     DIR/lock
 *     DIR/<64 hexadecimal digits>/about     for people: a line that names the model
 *                                speed      what the last process measured (disk_speed.h); it may be missing
 *                                 NAME.index    n_slots records of 512 bytes
 *                                 NAME.data     n_slots slots of slot_bytes
 *
 * The digits are SHA-256 of: the 8 bytes "LFKVv001", then for each kind of block its name padded with zeros to 16 bytes
 * and the bytes of a block as a 64-bit integer, then the 32 bytes of the identity. So another version of this format,
 * or another shape, is another directory. There is a pair of files for each kind (NAME; "full": keys and values of all
 * layers); models whose layers store different things have several.
 *
 * Slot i is the block_bytes from i · slot_bytes on in NAME.data: a block as it lies in the cache, no byte changed; of
 * several ranks what each of them has of it, one behind the other (kv/kv_parts.h).
 * slot_bytes is block_bytes rounded up to 4,096, so that slots can be read past the page cache. Record i, 512 bytes
 * from i · 512 on in NAME.index, says what slot i holds. Integers are little-endian:
 *
 *       0  8 bytes   "LFKVrec1"
 *       8  u64       i: a record that lies at another place is broken
 *      16  u64       sequence: counts the writes of the store; of two records of one block the higher one holds
 *      24  32 bytes  the block's key (kv/key_index.h)
 *      56  32 bytes  the key of the block before it
 *      88  64 × i32  its token ids; of more than 64 the numbers of lf_prefix_tier_ids (kv/prefix_cache.h)
 *     344  32 bytes  SHA-256 of the slot's block_bytes
 *     376  u64       block_bytes, so that a store can be checked by who does not know the model
 *     384  u64       whose the block is, 0: nobody's in particular (eviction.h)
 *     392  u32       tokens before it in its prompt
 *     396  zeros
 *     480  32 bytes  SHA-256 of the 480 bytes before
 *
 * 512 zeros are a slot that holds nothing. Anything else that is not a record is a broken one: the slot holds nothing.
 *
 * A block is listed when its record is on disk, and a record is written when the bytes that it describes are:
 *
 *     zero the old record   sync index   write the slot   sync data   write the record   sync index
 *
 * so whenever the power goes, what is listed is whole. (The checksum is there for disks that lie, and for bits that
 * turn: such a block is dropped when it is read.) Many blocks are written with the same three syncs. No file grows with
 * use, nothing is appended, and there is no log to replay or to compact: to open a store is to read its index.
 *
 * SHA-256 because the project has it: 1.5 GB/s on a core whose instructions know it, beside several threads that read.
 */
#ifndef LF_KV_TIERS_DISK_RECORD_H
#define LF_KV_TIERS_DISK_RECORD_H

#include <stdint.h>

#include "core/hash.h"
#include "core/limits.h"
#include "kv/prefix_cache.h"

enum { LF_DISK_RECORD_BYTES = 512, LF_DISK_ALIGN_BYTES = 4096 };

struct lf_disk_record {
    uint64_t sequence; /* at least 1 */
    struct lf_prefix_key key, prev;
    int32_t ids[LF_KV_BLOCK_TOKENS];
    uint8_t data_sha[LF_SHA256_BYTES];
    uint64_t block_bytes;
    struct lf_prefix_origin origin;
};

enum lf_disk_record_state { LF_DISK_RECORD_EMPTY, LF_DISK_RECORD_WHOLE, LF_DISK_RECORD_BROKEN };

/* Pure functions, any thread. */
void lf_disk_record_encode(const struct lf_disk_record *record, uint64_t slot, uint8_t out[LF_DISK_RECORD_BYTES]);
/* Fills out where the record is whole. */
enum lf_disk_record_state lf_disk_record_decode(struct lf_disk_record *out, uint64_t slot,
                                                const uint8_t in[LF_DISK_RECORD_BYTES]);
/* The bytes of a slot for blocks of block_bytes. */
uint64_t lf_disk_slot_bytes(uint64_t block_bytes);

#endif
