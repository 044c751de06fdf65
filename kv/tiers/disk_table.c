/* See disk_table.h. In memory a slot is its key, its state and its place on a list; prev, ids and checksum are read
 * with the block, so that the index of a large disk costs some 70 bytes a block and not 400. */
#include "kv/tiers/disk_table.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/list.h"
#include "core/sort.h"
#include "kv/tiers/eviction.h"

enum slot_state { FREE, WRITING, LISTED, DROPPED /* broken, and still referred to */ };

struct slot {
    struct lf_prefix_key key;     /* of what is listed or being written */
    struct lf_eviction_item item; /* its node on `free`, or on the order while it is listed and not held */
    uint32_t n_refs;
    uint8_t state;
    bool pinned;     /* while it is listed */
    bool has_record; /* the index may hold something other than zeros */
};

struct lf_disk_table {
    struct lf_disk_file *index, *data;
    uint64_t block_bytes, slot_bytes;
    pthread_mutex_t lock; /* over all below */
    struct slot *slots;
    struct lf_key_index keys; /* of the listed ones */
    struct lf_list free;
    struct lf_eviction order;
    uint64_t sequence; /* of the last write */
    bool guarded;
    struct lf_disk_table_stats stats;
};

static void make_free(struct lf_disk_table *t, struct slot *s)
{
    s->state = FREE;
    lf_list_push_back(&t->free, &s->item.node);
}

/* What is referred to, or pinned, is not in the order, and cannot be evicted. */
static bool is_held(const struct slot *s)
{
    return s->n_refs > 0 || s->pinned;
}

static void set_pinned(struct lf_disk_table *t, struct slot *s, bool pinned)
{
    if (s->pinned == pinned) return;
    if (!is_held(s)) lf_eviction_remove(&t->order, &s->item);
    s->pinned = pinned;
    t->stats.n_pinned += pinned ? 1 : -1u;
    if (!is_held(s)) lf_eviction_add(&t->order, &s->item, t->sequence);
}

static void unlist(struct lf_disk_table *t, struct slot *s)
{
    lf_key_index_remove(&t->keys, (int32_t)(s - t->slots));
    if (!is_held(s)) lf_eviction_remove(&t->order, &s->item);
    if (s->pinned) t->stats.n_pinned--;
    s->pinned = false;
    t->stats.n_listed--;
}

/* False: another slot has the block. Its place in the order is the caller's affair. */
static bool list(struct lf_disk_table *t, struct slot *s)
{
    if (!lf_key_index_insert(&t->keys, (int32_t)(s - t->slots))) return false;
    s->state = LISTED;
    t->stats.n_listed++;
    return true;
}

/* It counts as used now. */
static void touch(struct lf_disk_table *t, struct slot *s, bool is_asked_for)
{
    if (!is_held(s)) lf_eviction_remove(&t->order, &s->item);
    if (is_asked_for) lf_eviction_count_use(&s->item);
    if (!is_held(s)) lf_eviction_add(&t->order, &s->item, t->sequence);
}

/* ---- opening ---- */

enum { READ_N = 2048 }; /* records at once: 1 MiB */

struct found { /* a record when the index is read */
    uint64_t sequence;
    uint32_t slot;
};

static bool newer(const void *a, const void *b)
{
    return ((const struct found *)a)->sequence > ((const struct found *)b)->sequence;
}

/* Decodes the records of slots first … first + n - 1 and adds those that are whole to found. A block of another size
 * ends it: the table would set the length of the data by a size that is not what made them. */
static enum lf_status scan(struct lf_disk_table *t, const uint8_t *bytes, uint32_t first, uint32_t n,
                           struct found *found, uint32_t *n_found, struct lf_err *err)
{
    for (uint32_t i = 0; i < n; i++) {
        struct slot *s = &t->slots[first + i];
        struct lf_disk_record r;
        enum lf_disk_record_state state =
            lf_disk_record_decode(&r, first + i, bytes + (size_t)i * LF_DISK_RECORD_BYTES);
        s->has_record = state != LF_DISK_RECORD_EMPTY;
        if (state == LF_DISK_RECORD_BROKEN) t->stats.n_broken++;
        if (state != LF_DISK_RECORD_WHOLE) continue;
        if (r.block_bytes != t->block_bytes)
            return lf_fail(err, LF_CORRUPT, "the blocks there have %llu bytes, not %llu",
                           (unsigned long long)r.block_bytes, (unsigned long long)t->block_bytes);
        s->key = r.key;
        s->item.tenant = r.origin.tenant;
        s->item.depth = r.origin.depth;
        found[(*n_found)++] = (struct found){r.sequence, first + i};
    }
    return LF_OK;
}

static enum lf_status read_index(struct lf_disk_table *t, uint8_t *buf, struct found *found, struct lf_err *err)
{
    uint32_t n_slots = t->stats.n_slots, n_found = 0;
    for (uint32_t at = 0; at < n_slots; at += READ_N) {
        uint32_t n = LF_MIN(n_slots - at, (uint32_t)READ_N);
        LF_TRY(t->index->ops->read(t->index, buf, (size_t)n * LF_DISK_RECORD_BYTES, (uint64_t)at * LF_DISK_RECORD_BYTES,
                                   err));
        LF_TRY(scan(t, buf, at, n, found, &n_found, err));
    }
    /* Newest first: of two records of one block the older one is not listed. The order begins with the oldest. */
    lf_sort(found, n_found, sizeof(*found), newer);
    for (uint32_t i = 0; i < n_found; i++) (void)list(t, &t->slots[found[i].slot]);
    for (uint32_t i = n_found; i-- > 0;) {
        struct slot *s = &t->slots[found[i].slot];
        if (s->state == LISTED) lf_eviction_add(&t->order, &s->item, found[i].sequence);
    }
    t->sequence = n_found ? found[0].sequence : 0;
    for (uint32_t i = 0; i < n_slots; i++)
        if (t->slots[i].state == FREE) make_free(t, &t->slots[i]);
    return LF_OK;
}

uint64_t lf_disk_table_host_bytes(uint32_t n_slots)
{
    return sizeof(struct lf_disk_table) + (uint64_t)n_slots * sizeof(struct slot) + lf_key_index_bytes(n_slots);
}

/* The table in memory, all slots on no list. */
static enum lf_status make(struct lf_disk_table *t, uint32_t n_slots)
{
    lf_list_init(&t->free);
    lf_eviction_init(&t->order, n_slots);
    t->stats.n_slots = n_slots;
    t->slots = calloc(n_slots, sizeof(*t->slots));
    if (!t->slots) return LF_NO_MEMORY;
    for (uint32_t i = 0; i < n_slots; i++) lf_list_init(&t->slots[i].item.node);
    return lf_key_index_init(&t->keys, n_slots, &t->slots->key, sizeof(*t->slots));
}

enum lf_status lf_disk_table_open(struct lf_disk_table **out, struct lf_disk_file *index, struct lf_disk_file *data,
                                  uint32_t n_slots, uint64_t block_bytes, struct lf_err *err)
{
    LF_ASSERT(n_slots >= 1 && n_slots <= 1u << 30 && block_bytes >= 1);
    enum lf_status status;
    struct lf_disk_table *t = calloc(1, sizeof(*t));
    uint8_t *buf = malloc((size_t)READ_N * LF_DISK_RECORD_BYTES);
    struct found *found = calloc(n_slots, sizeof(*found));
    if (t) {
        t->index = index;
        t->data = data;
        t->block_bytes = block_bytes;
        t->slot_bytes = lf_disk_slot_bytes(block_bytes);
        pthread_mutex_init(&t->lock, NULL);
    }
    status = t && buf && found ? make(t, n_slots) : LF_NO_MEMORY;
    if (status != LF_OK) {
        lf_fail(err, status, "no memory for a table of %u blocks on disk", n_slots);
        goto done;
    }
    LF_TRY_GOTO(index->ops->resize(index, (uint64_t)n_slots * LF_DISK_RECORD_BYTES, err), done);
    LF_TRY_GOTO(read_index(t, buf, found, err), done);
    LF_TRY_GOTO(data->ops->resize(data, (uint64_t)n_slots * t->slot_bytes, err), done);
    *out = t;
done:
    free(buf);
    free(found);
    if (status != LF_OK && t) lf_disk_table_close(t);
    if (!t) {
        index->ops->close(index);
        data->ops->close(data);
    }
    return status;
}

void lf_disk_table_close(struct lf_disk_table *t)
{
    if (!t) return;
    t->index->ops->close(t->index);
    t->data->ops->close(t->data);
    lf_key_index_deinit(&t->keys);
    pthread_mutex_destroy(&t->lock);
    free(t->slots);
    free(t);
}

/* ---- writing ---- */

struct batch {
    const struct lf_disk_block *blocks;
    int32_t slots[LF_DISK_BATCH_N]; /* where each goes, or -1: nowhere */
    uint64_t sequences[LF_DISK_BATCH_N];
    bool had_record[LF_DISK_BATCH_N];
    uint32_t n;
};

/* A slot to write to, on no list: a free one, or one whose block makes room. NULL: all are held. */
static struct slot *claim_one(struct lf_disk_table *t)
{
    struct lf_list *node = lf_list_first(&t->free);
    struct lf_eviction_item *item =
        node ? LF_LIST_ENTRY(node, struct lf_eviction_item, node) : lf_eviction_next(&t->order);
    if (!item || (!node && t->guarded)) return NULL;
    struct slot *s = LF_LIST_ENTRY(item, struct slot, item);
    if (node) {
        lf_list_remove(node);
    } else {
        unlist(t, s);
        t->stats.n_evicted++;
    }
    s->state = WRITING;
    return s;
}

static void claim(struct lf_disk_table *t, struct batch *b)
{
    pthread_mutex_lock(&t->lock);
    for (uint32_t i = 0; i < b->n; i++) {
        b->slots[i] = -1;
        int32_t listed = lf_key_index_find(&t->keys, &b->blocks[i].key);
        if (listed >= 0) {
            touch(t, &t->slots[listed], false); /* it must not make room for its neighbours */
            continue;
        }
        struct slot *s = claim_one(t);
        if (!s) continue;
        b->slots[i] = (int32_t)(s - t->slots);
        b->sequences[i] = ++t->sequence;
        b->had_record[i] = s->has_record;
        s->has_record = true;
    }
    pthread_mutex_unlock(&t->lock);
}

static enum lf_status write_record(struct lf_disk_table *t, uint64_t slot, const uint8_t *bytes, struct lf_err *err)
{
    return t->index->ops->write(t->index, bytes, LF_DISK_RECORD_BYTES, slot * LF_DISK_RECORD_BYTES, err);
}

static enum lf_status clear_records(struct lf_disk_table *t, const struct batch *b, struct lf_err *err)
{
    static const uint8_t zeros[LF_DISK_RECORD_BYTES];
    bool any = false;
    for (uint32_t i = 0; i < b->n; i++) {
        if (b->slots[i] < 0 || !b->had_record[i]) continue;
        any = true;
        LF_TRY(write_record(t, (uint64_t)b->slots[i], zeros, err));
    }
    return any ? t->index->ops->sync(t->index, err) : LF_OK;
}

static enum lf_status write_data(struct lf_disk_table *t, const struct batch *b, struct lf_err *err)
{
    for (uint32_t i = 0; i < b->n; i++)
        if (b->slots[i] >= 0)
            LF_TRY(t->data->ops->write(t->data, b->blocks[i].bytes, t->slot_bytes,
                                       (uint64_t)b->slots[i] * t->slot_bytes, err));
    return t->data->ops->sync(t->data, err);
}

static enum lf_status write_records(struct lf_disk_table *t, const struct batch *b, struct lf_err *err)
{
    for (uint32_t i = 0; i < b->n; i++) {
        if (b->slots[i] < 0) continue;
        const struct lf_disk_block *block = &b->blocks[i];
        struct lf_disk_record r = {
            .sequence = b->sequences[i], .key = block->key, .prev = block->prev, .block_bytes = t->block_bytes};
        uint8_t bytes[LF_DISK_RECORD_BYTES];
        memcpy(r.ids, block->ids, sizeof(r.ids));
        r.origin = block->origin;
        lf_sha256(block->bytes, t->block_bytes, r.data_sha);
        lf_disk_record_encode(&r, (uint64_t)b->slots[i], bytes);
        LF_TRY(write_record(t, (uint64_t)b->slots[i], bytes, err));
    }
    return t->index->ops->sync(t->index, err);
}

static enum lf_status write_batch(struct lf_disk_table *t, const struct batch *b, struct lf_err *err)
{
    bool any = false;
    for (uint32_t i = 0; i < b->n; i++) any |= b->slots[i] >= 0;
    if (!any) return LF_OK;
    LF_TRY(clear_records(t, b, err));
    LF_TRY(write_data(t, b, err));
    return write_records(t, b, err);
}

/* Lists what was written (unless another has listed the same block meanwhile), or gives the slots back. */
static uint32_t settle(struct lf_disk_table *t, const struct batch *b, bool written)
{
    uint32_t n_listed = 0;
    pthread_mutex_lock(&t->lock);
    for (uint32_t i = 0; i < b->n; i++) {
        if (b->slots[i] < 0) continue;
        struct slot *s = &t->slots[b->slots[i]];
        s->key = b->blocks[i].key;
        if (!written || !list(t, s)) {
            make_free(t, s);
            continue;
        }
        s->item.tenant = b->blocks[i].origin.tenant;
        s->item.depth = b->blocks[i].origin.depth;
        s->item.uses = 0;
        lf_eviction_add(&t->order, &s->item, t->sequence);
    }
    for (uint32_t i = 0; i < b->n; i++) {
        int32_t slot = lf_key_index_find(&t->keys, &b->blocks[i].key);
        n_listed += slot >= 0 ? 1 : 0;
        if (slot >= 0 && b->blocks[i].pinned) set_pinned(t, &t->slots[slot], true);
    }
    pthread_mutex_unlock(&t->lock);
    return n_listed;
}

enum lf_status lf_disk_table_put(struct lf_disk_table *t, const struct lf_disk_block *blocks, uint32_t n,
                                 uint32_t *n_listed, struct lf_err *err)
{
    LF_ASSERT(n <= LF_DISK_BATCH_N);
    struct batch b = {.blocks = blocks, .n = n};
    claim(t, &b);
    enum lf_status status = write_batch(t, &b, err);
    *n_listed = settle(t, &b, status == LF_OK);
    return status;
}

/* ---- reading ---- */

bool lf_disk_table_has(struct lf_disk_table *t, const struct lf_prefix_key *key)
{
    pthread_mutex_lock(&t->lock);
    bool is_listed = lf_key_index_find(&t->keys, key) >= 0;
    pthread_mutex_unlock(&t->lock);
    return is_listed;
}

void lf_disk_table_use(struct lf_disk_table *t, const struct lf_prefix_key *key)
{
    pthread_mutex_lock(&t->lock);
    int32_t slot = lf_key_index_find(&t->keys, key);
    if (slot >= 0) touch(t, &t->slots[slot], true);
    pthread_mutex_unlock(&t->lock);
}

void lf_disk_table_pin(struct lf_disk_table *t, const struct lf_prefix_key *key, bool pinned)
{
    pthread_mutex_lock(&t->lock);
    int32_t slot = lf_key_index_find(&t->keys, key);
    if (slot >= 0) set_pinned(t, &t->slots[slot], pinned);
    pthread_mutex_unlock(&t->lock);
}

void lf_disk_table_guard(struct lf_disk_table *t, bool guarded)
{
    pthread_mutex_lock(&t->lock);
    t->guarded = guarded;
    pthread_mutex_unlock(&t->lock);
}

int32_t lf_disk_table_get(struct lf_disk_table *t, const struct lf_prefix_key *key)
{
    pthread_mutex_lock(&t->lock);
    int32_t slot = lf_key_index_find(&t->keys, key);
    if (slot >= 0 && !is_held(&t->slots[slot])) lf_eviction_remove(&t->order, &t->slots[slot].item);
    if (slot >= 0) t->slots[slot].n_refs++;
    pthread_mutex_unlock(&t->lock);
    return slot;
}

void lf_disk_table_release(struct lf_disk_table *t, int32_t slot)
{
    pthread_mutex_lock(&t->lock);
    struct slot *s = &t->slots[slot];
    LF_ASSERT(s->n_refs > 0);
    s->n_refs--;
    if (s->n_refs == 0 && s->state == DROPPED) make_free(t, s);
    if (!is_held(s) && s->state == LISTED) lf_eviction_add(&t->order, &s->item, t->sequence);
    pthread_mutex_unlock(&t->lock);
}

static enum lf_status drop(struct lf_disk_table *t, int32_t slot, const char *why, struct lf_err *err)
{
    pthread_mutex_lock(&t->lock);
    struct slot *s = &t->slots[slot];
    if (s->state == LISTED) {
        unlist(t, s);
        s->state = DROPPED;
        t->stats.n_dropped++;
    }
    pthread_mutex_unlock(&t->lock);
    return lf_fail(err, LF_CORRUPT, "block on disk, slot %d: %s", slot, why);
}

/* A file that somebody has cut while it is open has lost this block; other failures may pass. */
static enum lf_status read_or_drop(struct lf_disk_table *t, int32_t slot, struct lf_disk_file *file, void *dst,
                                   uint64_t n, struct lf_err *err)
{
    enum lf_status status = file->ops->read(file, dst, n, (uint64_t)slot * n, err);
    return status == LF_CORRUPT ? drop(t, slot, "its file ends before it", err) : status;
}

/* Whether a slot's record is of the block that is wanted. */
static enum lf_status check_record(struct lf_disk_table *t, int32_t slot, const struct lf_disk_want *want,
                                   const uint8_t *bytes, struct lf_disk_record *r, struct lf_err *err)
{
    const struct slot *s = &t->slots[slot]; /* the reference keeps its key as it is */
    if (lf_disk_record_decode(r, (uint64_t)slot, bytes) != LF_DISK_RECORD_WHOLE ||
        memcmp(&r->key, &s->key, sizeof(r->key)) != 0)
        return drop(t, slot, "its record is not the one that was written", err);
    if (memcmp(&r->prev, want->prev, sizeof(r->prev)) != 0 || memcmp(r->ids, want->ids, sizeof(r->ids)) != 0)
        return drop(t, slot, "it holds other tokens", err);
    return LF_OK;
}

static enum lf_status check_bytes(struct lf_disk_table *t, int32_t slot, const struct lf_disk_record *r,
                                  const void *bytes, struct lf_err *err)
{
    uint8_t sha[LF_SHA256_BYTES];
    lf_sha256(bytes, t->block_bytes, sha);
    if (memcmp(sha, r->data_sha, sizeof(sha)) == 0) return LF_OK;
    return drop(t, slot, "its bytes are not those that were written", err);
}

static enum lf_status read_one(struct lf_disk_table *t, int32_t slot, const struct lf_disk_want *want, void *dst,
                               struct lf_err *err)
{
    uint8_t bytes[LF_DISK_RECORD_BYTES];
    struct lf_disk_record r;
    LF_TRY(read_or_drop(t, slot, t->index, bytes, sizeof(bytes), err));
    LF_TRY(check_record(t, slot, want, bytes, &r, err));
    LF_TRY(read_or_drop(t, slot, t->data, dst, t->slot_bytes, err));
    return check_bytes(t, slot, &r, dst, err);
}

enum lf_status lf_disk_table_read(struct lf_disk_table *t, int32_t slot, const struct lf_prefix_key *prev,
                                  const int32_t *ids, void *dst, struct lf_err *err)
{
    return read_one(t, slot, &(struct lf_disk_want){.prev = prev, .ids = ids}, dst, err);
}

void lf_disk_table_read_run(struct lf_disk_table *t, int32_t slot, struct lf_disk_want *wants, int n, void *dst,
                            struct lf_err *err)
{
    uint8_t bytes[LF_DISK_RUN_N * LF_DISK_RECORD_BYTES], *data = dst;
    uint64_t n_blocks = (uint64_t)n, first = (uint64_t)slot;
    LF_ASSERT(n >= 1 && n <= LF_DISK_RUN_N);
    bool are_read = n > 1 &&
                    t->index->ops->read(t->index, bytes, n_blocks * LF_DISK_RECORD_BYTES, first * LF_DISK_RECORD_BYTES,
                                        NULL) == LF_OK &&
                    t->data->ops->read(t->data, data, n_blocks * t->slot_bytes, first * t->slot_bytes, NULL) == LF_OK;
    for (int i = 0; i < n; i++, data += t->slot_bytes) {
        struct lf_disk_record r;
        if (!are_read) { /* which of them fails, and why; where the disk does, they all do */
            bool fails = i > 0 && wants[i - 1].status == LF_IO;
            wants[i].status = fails ? LF_IO : read_one(t, slot + i, &wants[i], data, err);
            continue;
        }
        wants[i].status = check_record(t, slot + i, &wants[i], bytes + i * LF_DISK_RECORD_BYTES, &r, err);
        if (wants[i].status == LF_OK) wants[i].status = check_bytes(t, slot + i, &r, data, err);
    }
}

/* ---- looking ---- */

void lf_disk_table_stats(struct lf_disk_table *t, struct lf_disk_table_stats *out)
{
    pthread_mutex_lock(&t->lock);
    *out = t->stats;
    pthread_mutex_unlock(&t->lock);
}

void lf_disk_table_check(struct lf_disk_table *t)
{
    uint32_t n[4] = {0}, n_free = 0, n_held = 0, n_pinned = 0;
    pthread_mutex_lock(&t->lock);
    for (uint32_t i = 0; i < t->stats.n_slots; i++) {
        const struct slot *s = &t->slots[i];
        n[s->state]++;
        n_held += s->state == LISTED && is_held(s) ? 1 : 0;
        n_pinned += s->pinned;
        LF_ASSERT(!s->pinned || s->state == LISTED);
        LF_ASSERT(s->n_refs == 0 || s->state == LISTED || s->state == DROPPED);
        LF_ASSERT(s->state != LISTED || lf_key_index_find(&t->keys, &s->key) == (int32_t)i);
    }
    LF_LIST_EACH(it, &t->free) n_free++;
    LF_ASSERT(n_free == n[FREE] && t->order.n + n_held == n[LISTED] && t->stats.n_listed == n[LISTED]);
    LF_ASSERT(n_pinned == t->stats.n_pinned);
    LF_ASSERT(lf_key_index_check(&t->keys) == n[LISTED]);
    pthread_mutex_unlock(&t->lock);
}
