/* The blocks of one kind on disk: which slot holds what (disk_record.h has the format and the order of writes).
 *
 *     free ── claim ──► being written ── record on disk ──► listed ── claimed for another block: eviction.h says
 *       ▲                    │ failed                          │      which, unless somebody holds a reference
 *       └────────────────────┴── dropped: broken when read ────┘
 *
 * A slot with references is not given out, and neither is one whose block is pinned. Any thread: a lock covers what is
 * known about the slots, and is not held while the disk reads or writes. Nothing is allocated after open. */
#ifndef LF_KV_TIERS_DISK_TABLE_H
#define LF_KV_TIERS_DISK_TABLE_H

#include "kv/tiers/disk_file.h"
#include "kv/tiers/disk_record.h"

struct lf_disk_table;

/* A block to write: 64 ids, and lf_disk_slot_bytes of which the first block_bytes count (aligned, for direct files). */
struct lf_disk_block {
    struct lf_prefix_key key, prev;
    const int32_t *ids;
    const void *bytes;
    struct lf_prefix_origin origin;
    bool pinned; /* as lf_disk_table_pin, from its first moment there */
};

struct lf_disk_table_stats {
    uint32_t n_slots, n_listed;
    uint32_t n_pinned;  /* of those listed */
    uint64_t n_broken;  /* records that were no record, when it was opened */
    uint64_t n_dropped; /* blocks whose bytes were not what was written, when they were read */
    uint64_t n_evicted; /* blocks that made room for others */
};

enum { LF_DISK_BATCH_N = 64, LF_DISK_RUN_N = 16 }; /* blocks written at once, and read */

/* Reads the index. The files are the table's from here on, where it fails too. n_slots: 1 to 2³⁰; what lies in slots
 * beyond is forgotten, and both files have the length that this number says. LF_CORRUPT, and data as it was, where the
 * index has a block of another size; LF_IO, LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_disk_table_open(struct lf_disk_table **out, struct lf_disk_file *index,
                                                struct lf_disk_file *data, uint32_t n_slots, uint64_t block_bytes,
                                                struct lf_err *err);
void lf_disk_table_close(struct lf_disk_table *table); /* accepts NULL; no call may be under way */
/* Memory that a table has; while it opens it takes 16 bytes a slot and 1 MiB more. */
uint64_t lf_disk_table_host_bytes(uint32_t n_slots);

/* Writes up to LF_DISK_BATCH_N blocks; when it returns LF_OK those that are listed are on disk, and *n_listed of them
 * are (fewer than n where every slot is held). What was listed already counts and is not written again. Where the disk
 * fails none of them is listed, blocks that made room for them are gone, and the table goes on. */
LF_MUST_CHECK enum lf_status lf_disk_table_put(struct lf_disk_table *table, const struct lf_disk_block *blocks,
                                               uint32_t n, uint32_t *n_listed, struct lf_err *err);
/* Whether a block is listed. */
bool lf_disk_table_has(struct lf_disk_table *table, const struct lf_prefix_key *key);
/* A prompt has asked for it. Nothing, where it is not listed. */
void lf_disk_table_use(struct lf_disk_table *table, const struct lf_prefix_key *key);
/* Whether it may make room for others. Pins are not on disk: who opens a table says them again. Nothing, where it is
 * not listed; a block that is dropped is not pinned any more. */
void lf_disk_table_pin(struct lf_disk_table *table, const struct lf_prefix_key *key, bool pinned);
/* Whether no listed block makes room for another: while it is not known yet which ones are pinned. */
void lf_disk_table_guard(struct lf_disk_table *table, bool guarded);
/* The slot of a listed block, with a reference that the caller gives back; -1: not there. */
int32_t lf_disk_table_get(struct lf_disk_table *table, const struct lf_prefix_key *key);
void lf_disk_table_release(struct lf_disk_table *table, int32_t slot);
/* The bytes of a block that the caller has a reference on, to dst (lf_disk_slot_bytes, aligned as above): exactly those
 * that were put. LF_CORRUPT where the disk has others, or other ids: then the block is dropped. LF_IO. */
LF_MUST_CHECK enum lf_status lf_disk_table_read(struct lf_disk_table *table, int32_t slot,
                                                const struct lf_prefix_key *prev, const int32_t *ids, void *dst,
                                                struct lf_err *err);
/* What a block that is read should be, and what came of it. */
struct lf_disk_want {
    const struct lf_prefix_key *prev;
    const int32_t *ids;
    enum lf_status status; /* as lf_disk_table_read's */
};
/* The same of n neighbours, slot and those behind it, one after the other to dst: small blocks cost the disk less so.
 * err: of one that failed. */
void lf_disk_table_read_run(struct lf_disk_table *table, int32_t slot, struct lf_disk_want *wants, int n, void *dst,
                            struct lf_err *err);

void lf_disk_table_stats(struct lf_disk_table *table, struct lf_disk_table_stats *out);
/* Walks everything; LF_ASSERTs that slots, lists and index agree. */
void lf_disk_table_check(struct lf_disk_table *table);

#endif
