/* See disk.h. */
#include "tests/sim/disk.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/mix.h"
#include "server/engine/block_tables.h"
#include "server/engine/states.h"
#include "tests/sim/world.h"

enum { GARBAGE = -7 };

/* ---- what is listed ---- */

static int *bucket_of(const struct sim_disk *d, const struct lf_prefix_key *key)
{
    uint64_t hash;
    memcpy(&hash, key->bytes, sizeof(hash));
    return &d->buckets[hash % (uint64_t)d->n_buckets];
}

static struct sim_record *find(struct sim_disk *d, const struct lf_prefix_key *key)
{
    for (int i = *bucket_of(d, key); i >= 0; i = d->records[i].next) {
        struct sim_record *record = &d->records[i];
        if (memcmp(record->key.bytes, key->bytes, sizeof(key->bytes)) == 0) return record;
    }
    return NULL;
}

static void unlink_record(struct sim_disk *d, int i)
{
    int *at = bucket_of(d, &d->records[i].key);
    while (*at != i) at = &d->records[*at].next;
    *at = d->records[i].next;
}

/* A record that holds nothing any more. */
static int make_room(struct sim_disk *d)
{
    if (d->n_records < d->opts.n_blocks) return d->n_records++;
    int oldest = 0;
    for (int i = 1; i < d->n_records; i++)
        if (d->records[i].used_no < d->records[oldest].used_no) oldest = i;
    unlink_record(d, oldest);
    d->n_evicted++;
    return oldest;
}

/* NULL: it is there already. */
static struct sim_record *add_record(struct sim_world *w, const struct lf_prefix_key *key)
{
    struct sim_disk *d = &w->disk;
    if (find(d, key)) return NULL;
    int i = make_room(d);
    struct sim_record *record = &d->records[i];
    record->key = *key;
    record->listed_ns = w->now_ns + (int64_t)d->opts.save_ns;
    record->used_no = ++d->n_uses;
    int *bucket = bucket_of(d, &record->key);
    record->next = *bucket;
    *bucket = i;
    return record;
}

static void on_enter(void *ctx, int32_t block)
{
    struct sim_world *w = ctx;
    struct sim_record *record = add_record(w, lf_prefix_cache_entry(w->prefix, block).key);
    if (record)
        memcpy(record->text, w->shadow + (ptrdiff_t)block * w->block, (size_t)w->block * sizeof(record->text[0]));
}

static void on_enter_snapshot(void *ctx, int32_t slot)
{
    struct sim_world *w = ctx;
    const struct sim_slot *shadow = &w->slots.shadow[slot];
    for (int i = 0; i < w->slots.n_parts; i++) {
        struct lf_prefix_entry entry = lf_prefix_cache_entry(w->slots.snapshots, slot);
        struct lf_prefix_key key = lf_prefix_group_key(entry.key, LF_STATES_PART_GROUP + i);
        struct sim_record *record = add_record(w, &key);
        if (!record) continue;
        record->state = shadow->parts[i];
        record->chain = shadow->key;
    }
}

static int find_below(void *ctx, const struct lf_prefix_key *key)
{
    struct sim_world *w = ctx;
    struct sim_record *record = find(&w->disk, key);
    if (!record || record->listed_ns > w->now_ns) return -1;
    record->used_no = ++w->disk.n_uses;
    return 0;
}

/* ---- loads ---- */

static double draw(struct sim_disk *d)
{
    return (double)(lf_random64(d->seed, d->n_draws++) >> 11) * 0x1p-53;
}

void sim_disk_open(struct sim_world *w, const struct sim_disk_opts *o)
{
    struct sim_disk *d = &w->disk;
    if (o->n_blocks == 0) return;
    LF_ASSERT(w->prefix && o->block_ns > 0 && o->n_loads <= SIM_LOADS_N);
    d->opts = *o;
    if (d->opts.n_loads == 0) d->opts.n_loads = SIM_LOADS_N;
    d->seed = w->seed ^ 0xd15c;
    d->n_buckets = 2 * o->n_blocks;
    d->records = calloc((size_t)o->n_blocks, sizeof(*d->records));
    d->buckets = malloc((size_t)d->n_buckets * sizeof(*d->buckets));
    LF_ASSERT(d->records && d->buckets);
    for (int i = 0; i < d->n_buckets; i++) d->buckets[i] = -1;
    w->sched.opts.below = (struct lf_restore_source){.find = find_below,
                                                     .ctx = w,
                                                     .may_meet = o->may_meet,
                                                     .block_ns = {o->guess_ns > 0 ? o->guess_ns : o->block_ns, 1},
                                                     .guesses = {{.is_guess = o->is_guess}}};
    lf_prefix_cache_on_enter(w->prefix, on_enter, w);
    if (w->slots.snapshots) lf_prefix_cache_on_enter(w->slots.snapshots, on_enter_snapshot, w);
}

/* Which slot a part is of; -1: it is a block. */
static int32_t slot_of(const struct sim_world *w, int32_t block)
{
    return block < w->pool.n_blocks ? -1 : (block - w->pool.n_blocks) / w->slots.n_parts;
}

static void get(struct sim_world *w, int32_t block)
{
    int32_t slot = slot_of(w, block);
    if (slot < 0)
        lf_block_pool_get(&w->pool, block);
    else
        lf_block_pool_get(&w->slots.pool, slot);
}

static void put(struct sim_world *w, int32_t block)
{
    int32_t slot = slot_of(w, block);
    if (slot < 0)
        lf_block_pool_put(&w->pool, block);
    else
        lf_block_pool_put(&w->slots.pool, slot);
}

/* record NULL: garbage. */
static void write(struct sim_world *w, int32_t block, const struct sim_record *record)
{
    int32_t slot = slot_of(w, block);
    if (slot < 0) {
        for (int p = 0; p < w->block; p++)
            w->shadow[(ptrdiff_t)block * w->block + p] = record ? record->text[p] : GARBAGE;
        return;
    }
    struct sim_slot *shadow = &w->slots.shadow[slot];
    shadow->parts[(block - w->pool.n_blocks) % w->slots.n_parts] = record ? record->state : GARBAGE;
    if (record) shadow->key = record->chain;
}

void sim_disk_close(struct sim_world *w)
{
    struct sim_disk *d = &w->disk;
    while (d->n_loads > 0) put(w, d->loads[--d->n_loads].block);
    free(d->buckets);
    free(d->records);
}

static struct lf_sched_seq *owner_of(struct sim_world *w, const struct sim_load *load)
{
    LF_LIST_EACH(it, &w->sched.running)
    {
        struct lf_sched_seq *seq = LF_LIST_ENTRY(it, struct lf_sched_seq, node);
        if (seq->admitted_no == load->owner) return seq;
    }
    return NULL;
}

static int next_due(const struct sim_disk *d)
{
    int first = 0;
    for (int i = 1; i < d->n_loads; i++)
        if (d->loads[i].due_ns < d->loads[first].due_ns) first = i;
    return first;
}

static void arrive(struct sim_world *w, const struct sim_load *load)
{
    struct sim_disk *d = &w->disk;
    const struct sim_record *record = find(d, &load->key);
    bool whole = record && !(d->opts.p_fail > 0 && draw(d) < d->opts.p_fail);
    if (whole) write(w, load->block, record);
    d->load_ns += (double)(load->due_ns - d->busy_since_ns);
    d->busy_since_ns = load->due_ns;
    d->n_loaded += whole;
    d->n_failed += !whole;
    put(w, load->block);
    struct lf_sched_seq *seq = owner_of(w, load);
    if (seq) lf_restore_back(seq, load->idx, whole);
}

void sim_disk_take_back(struct sim_world *w)
{
    struct sim_disk *d = &w->disk;
    double load_ns = d->load_ns;
    long n_loaded = d->n_loaded;
    while (d->n_loads > 0) {
        int i = next_due(d);
        if (d->loads[i].due_ns > w->now_ns) break;
        struct sim_load load = d->loads[i];
        d->loads[i] = d->loads[--d->n_loads];
        arrive(w, &load);
    }
    if (d->n_loaded > n_loaded)
        lf_restore_learn(&w->sched.opts.below, 0, (double)(d->n_loaded - n_loaded), d->load_ns - load_ns);
}

/* On a device that is ahead a step launched before may still write to the blocks. */
static bool may_load(void *ctx, const struct lf_sched_seq *seq)
{
    const struct sim_world *w = ctx;
    return w->n_steps - w->n_flights >= ((const struct sim_request *)seq)->n_steps_before;
}

static void submit(void *ctx, struct lf_sched_seq *seq, int i, int tier)
{
    LF_ASSERT(tier == 0);
    struct sim_world *w = ctx;
    struct sim_disk *d = &w->disk;
    LF_ASSERT(d->n_loads < d->opts.n_loads);
    if (d->n_loads == 0) d->busy_since_ns = w->now_ns;
    d->free_ns = LF_MAX(d->free_ns, w->now_ns) + (int64_t)d->opts.block_ns;
    double latency_ns = d->opts.latency_ns * (d->opts.jitter > 0 ? 1 + d->opts.jitter * draw(d) : 1);
    struct sim_load *load = &d->loads[d->n_loads++];
    *load = (struct sim_load){.owner = seq->admitted_no, .idx = i, .due_ns = d->free_ns + (int64_t)latency_ns};
    int g = lf_restore_group(seq, i), at = lf_restore_idx(seq, i), part = lf_restore_part(seq, i);
    if (part < 0) {
        load->key = lf_prefix_group_key(&seq->keys[at + 1], g);
        load->block = lf_sched_table(seq, g)[at];
    } else {
        load->key = lf_prefix_group_key(&seq->keys[seq->restore.end], LF_STATES_PART_GROUP + part);
        load->block = w->pool.n_blocks + seq->state_coming * w->slots.n_parts + part;
    }
    get(w, load->block);
    write(w, load->block, NULL);
}

void sim_disk_load(struct sim_world *w)
{
    const struct lf_restore_sender sender = {.may = may_load, .send = submit, .ctx = w};
    const int n_ahead[LF_RESTORE_TIERS_N] = {w->disk.n_loads};
    if (w->disk.opts.n_blocks > 0) lf_restore_send(&w->sched, &sender, n_ahead, w->disk.opts.n_loads);
}

void sim_disk_wait(struct sim_world *w)
{
    LF_ASSERT(w->disk.n_loads > 0);
    w->now_ns = LF_MAX(w->now_ns, w->disk.loads[next_due(&w->disk)].due_ns);
}

/* That a sequence which has a block in a table is the one that it is loaded for, at that place. */
static void check_owner(const struct lf_sched_seq *seq, const struct sim_load *load, int g)
{
    const struct lf_sched_table *t = &seq->tables[g];
    int first = LF_MIN(t->first, t->coming_end > t->coming ? t->coming : t->first), end = LF_MAX(t->end, t->coming_end);
    for (int k = first; k < end; k++) {
        if (lf_sched_table(seq, g)[k] != load->block) continue;
        bool is_held = (k >= t->first && k < t->end) || (k >= t->coming && k < t->coming_end);
        if (!is_held) continue;
        LF_ASSERT(seq->admitted_no == load->owner && (k + 1) * seq->block_tokens > seq->n_done);
        LF_ASSERT(lf_restore_group(seq, load->idx) == g && lf_restore_idx(seq, load->idx) == k);
        LF_ASSERT(lf_restore_state_at(seq, load->idx) == LF_RESTORE_COMING);
    }
}

void sim_disk_check(const struct sim_world *w, int32_t *held)
{
    for (int i = 0; i < w->disk.n_loads; i++) {
        const struct sim_load *load = &w->disk.loads[i];
        int32_t slot = slot_of(w, load->block);
        if (slot >= 0) {
            LF_ASSERT(!w->slots.pool.blocks[slot].cached);
            held[w->pool.n_blocks + slot]++;
            continue;
        }
        LF_ASSERT(held[load->block]++ == 0 && !w->pool.blocks[load->block].cached);
        LF_LIST_EACH(it, &w->sched.running)
        {
            for (int g = 0; g < lf_kv_windows_n(&w->sched.opts.windows); g++)
                check_owner(LF_LIST_ENTRY(it, struct lf_sched_seq, node), load, g);
        }
    }
}
