/* Blocks whose ids and bytes follow from a number, and a table on a fake disk to put them in. */
#ifndef LF_TESTS_SUPPORT_DISK_BLOCKS_H
#define LF_TESTS_SUPPORT_DISK_BLOCKS_H

#include "core/mix.h"
#include "kv/prefix_cache.h"
#include "kv/tiers/disk_table.h"
#include "tests/support/fake_disk.h"
#include "tests/support/test.h"

enum { BLOCK_BYTES = 4096 + 512 }; /* a slot is 8,192 */
enum { SLOT_BYTES = 8192 };

struct test_block {
    struct lf_prefix_key key, prev;
    int32_t ids[LF_KV_BLOCK_TOKENS];
    uint8_t bytes[SLOT_BYTES];
};

static inline void test_block_make(struct test_block *b, uint64_t number)
{
    for (size_t i = 0; i < LF_KV_BLOCK_TOKENS; i++) b->ids[i] = (int32_t)lf_random64(number, i);
    for (size_t i = 0; i < BLOCK_BYTES; i++) b->bytes[i] = (uint8_t)lf_random64(number, i / 8) ^ (uint8_t)i;
    memset(b->bytes + BLOCK_BYTES, 0, SLOT_BYTES - BLOCK_BYTES);
    lf_sha256(&number, sizeof(number), b->prev.bytes);
    lf_prefix_key_next(&b->prev, b->ids, LF_KV_BLOCK_TOKENS, &b->key);
}

static inline struct lf_disk_block test_block_of(const struct test_block *b)
{
    return (struct lf_disk_block){b->key, b->prev, b->ids, b->bytes, {0}, false};
}

static inline struct lf_disk_table *test_table_open(struct fake_disk *disk, uint32_t n_slots)
{
    struct lf_disk_table *t = NULL;
    struct lf_err err = {0};
    enum lf_status status =
        lf_disk_table_open(&t, fake_disk_file(disk, 0), fake_disk_file(disk, 1), n_slots, BLOCK_BYTES, &err);
    if (status != LF_OK) fail_msg("%s", err.message);
    lf_disk_table_check(t);
    return t;
}

/* Puts one block, which must be listed then. */
static inline void test_table_put(struct lf_disk_table *t, const struct test_block *b)
{
    struct lf_disk_block block = test_block_of(b);
    uint32_t n_listed;
    assert_int_equal(lf_disk_table_put(t, &block, 1, &n_listed, NULL), LF_OK);
    assert_int_equal(n_listed, 1);
}

static inline bool test_table_has(struct lf_disk_table *t, const struct test_block *b)
{
    int32_t slot = lf_disk_table_get(t, &b->key);
    if (slot >= 0) lf_disk_table_release(t, slot);
    return slot >= 0;
}

/* LF_NOT_FOUND, or what reading it says; bytes that were read are those of the block. */
static inline enum lf_status test_table_read(struct lf_disk_table *t, const struct test_block *b)
{
    uint8_t bytes[SLOT_BYTES];
    int32_t slot = lf_disk_table_get(t, &b->key);
    if (slot < 0) return LF_NOT_FOUND;
    enum lf_status status = lf_disk_table_read(t, slot, &b->prev, b->ids, bytes, NULL);
    if (status == LF_OK) assert_memory_equal(bytes, b->bytes, BLOCK_BYTES);
    lf_disk_table_release(t, slot);
    return status;
}

#endif
