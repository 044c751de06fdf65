/* See block_tables.h. */
#include "server/engine/block_tables.h"

#include <string.h>

#include "core/check.h"
#include "core/limits.h"
#include "server/engine/marks.h"
#include "server/engine/shared_blocks.h"

int64_t lf_sched_n_blocks(const struct lf_kv_windows *w, int n_prompt, int max_tokens)
{
    int block = lf_kv_windows_block_tokens(w);
    return ((int64_t)n_prompt + max_tokens + block - 1) / block;
}

int64_t lf_sched_n_spare(const struct lf_sched *s)
{
    return lf_block_pool_n_promisable(s->opts.pool) - s->n_reserved -
           lf_kv_windows_slack(&s->opts.windows, s->opts.chunk);
}

int64_t lf_sched_need(const struct lf_sched *s, int n_prompt, int max_tokens)
{
    return lf_kv_windows_need(&s->opts.windows, lf_sched_n_blocks(&s->opts.windows, n_prompt, max_tokens));
}

static int64_t n_reserved_for(const struct lf_sched *s, const struct lf_sched_seq *seq)
{
    int64_t n = 0;
    for (int g = 0; g < s->opts.windows.n; g++)
        if (lf_kv_windows_slides(&s->opts.windows, g)) n += lf_kv_windows_held(&s->opts.windows, g, seq->table_stride);
    return n;
}

static bool is_held(const struct lf_sched_seq *seq, int g, int i)
{
    return i >= seq->tables[g].first && i < seq->tables[g].end;
}

/* A block that was found. Another sequence may have no mark where this one has. */
static void get(struct lf_sched *s, struct lf_sched_seq *seq, int g, int i, int32_t block)
{
    int window = s->opts.windows.tokens[g];
    lf_sched_table(seq, g)[i] = block;
    if (window == 0) {
        lf_block_pool_get(s->opts.pool, block);
        return;
    }
    lf_block_pool_get_loose(s->opts.pool, block);
    if (lf_marks_keep(seq, window, i)) lf_prefix_cache_keep(s->opts.prefix, block);
}

/* What passes is forgotten with its last reference. */
static void put(struct lf_sched *s, struct lf_sched_seq *seq, int g, int i)
{
    int32_t block = lf_sched_table(seq, g)[i];
    if (!lf_kv_windows_slides(&s->opts.windows, g)) {
        lf_block_pool_put(s->opts.pool, block);
        return;
    }
    if (s->opts.prefix && s->opts.pool->blocks[block].n_refs == 1 && lf_prefix_cache_passes(s->opts.prefix, block))
        lf_prefix_cache_forget(s->opts.prefix, block);
    lf_block_pool_put_loose(s->opts.pool, block);
}

void lf_tables_get_hit(struct lf_sched *s, struct lf_sched_seq *seq, int n)
{
    for (int g = 0; g < lf_kv_windows_n(&s->opts.windows); g++) {
        int first = lf_kv_windows_first(&s->opts.windows, g, n);
        for (int i = first; i < n; i++) get(s, seq, g, i, lf_sched_find_in(s, seq, g, i));
        seq->tables[g] = (struct lf_sched_table){.first = first, .end = n};
    }
    seq->n_blocks = n;
    seq->n_entered = n;
    seq->n_cached = seq->n_done = n * seq->block_tokens;
}

void lf_tables_reserve(struct lf_sched *s, struct lf_sched_seq *seq)
{
    for (int g = 0; g < lf_kv_windows_n(&s->opts.windows); g++) {
        struct lf_sched_table *t = &seq->tables[g];
        int32_t *table = lf_sched_table(seq, g);
        if (lf_kv_windows_slides(&s->opts.windows, g)) {
            memset(table, 0, (size_t)t->first * sizeof(*table));
            memset(table + t->end, 0, (size_t)(seq->table_stride - t->end) * sizeof(*table));
            continue;
        }
        for (; t->end < seq->table_stride; t->end++) LF_ASSERT(lf_block_pool_take(s->opts.pool, &table[t->end]));
    }
    seq->n_blocks = seq->table_stride;
    s->n_reserved += n_reserved_for(s, seq);
}

void lf_tables_cover(struct lf_sched *s, struct lf_sched_seq *seq, int n_tokens)
{
    int n = (n_tokens + seq->block_tokens - 1) / seq->block_tokens;
    for (int g = 0; g < s->opts.windows.n; g++) {
        struct lf_sched_table *t = &seq->tables[g];
        if (!lf_kv_windows_slides(&s->opts.windows, g)) continue;
        for (; t->end < n; t->end++) LF_ASSERT(lf_block_pool_take_loose(s->opts.pool, &lf_sched_table(seq, g)[t->end]));
    }
}

/* Leading full blocks of which the ids are known, but for one: what is seen from there is held. */
static int n_passed(const struct lf_sched_seq *seq)
{
    int n = LF_MIN(seq->n_done, seq->n_ids - seq->n_placeholders);
    return n > 0 ? (n - 1) / seq->block_tokens : 0;
}

void lf_tables_slide(struct lf_sched *s, struct lf_sched_seq *seq)
{
    for (int g = 0; g < s->opts.windows.n; g++) {
        if (!lf_kv_windows_slides(&s->opts.windows, g)) continue;
        struct lf_sched_table *t = &seq->tables[g];
        int first = lf_kv_windows_first(&s->opts.windows, g, n_passed(seq));
        for (; t->first < LF_MIN(first, t->end); t->first++) put(s, seq, g, t->first);
    }
}

static void take_over_sliding(struct lf_sched *s, struct lf_sched_seq *seq, int g, int n)
{
    struct lf_sched_table *t = &seq->tables[g];
    int own = seq->n_done / seq->block_tokens, first = lf_kv_windows_first(&s->opts.windows, g, n);
    while (t->end > LF_MAX(own, t->first)) put(s, seq, g, --t->end);
    for (; t->first < LF_MIN(first, t->end); t->first++) put(s, seq, g, t->first);
    if (t->first == t->end) t->first = t->end = LF_MAX(first, own);
    for (; t->end < n; t->end++) get(s, seq, g, t->end, lf_sched_find_in(s, seq, g, t->end));
}

void lf_tables_take_over(struct lf_sched *s, struct lf_sched_seq *seq, int n)
{
    for (int g = 0; g < lf_kv_windows_n(&s->opts.windows); g++) {
        if (lf_kv_windows_slides(&s->opts.windows, g)) {
            take_over_sliding(s, seq, g, n);
            continue;
        }
        for (int i = seq->n_done / seq->block_tokens; i < n; i++) {
            int32_t found = lf_sched_find_in(s, seq, g, i);
            put(s, seq, g, i);
            get(s, seq, g, i, found);
        }
    }
    seq->n_cached += n * seq->block_tokens - seq->n_done;
    seq->n_done = n * seq->block_tokens;
    seq->n_entered = n;
}

void lf_tables_take_coming(struct lf_sched *s, struct lf_sched_seq *seq, int n)
{
    for (int g = 0; g < s->opts.windows.n; g++) {
        struct lf_sched_table *t = &seq->tables[g];
        if (!lf_kv_windows_slides(&s->opts.windows, g)) continue;
        t->coming = LF_MAX(seq->n_done / seq->block_tokens, lf_kv_windows_first(&s->opts.windows, g, n));
        t->coming_end = n;
        for (int i = t->coming; i < n; i++) LF_ASSERT(lf_block_pool_take(s->opts.pool, &lf_sched_table(seq, g)[i]));
    }
}

void lf_tables_leap(struct lf_sched *s, struct lf_sched_seq *seq, int n)
{
    for (int g = 0; g < s->opts.windows.n; g++) {
        struct lf_sched_table *t = &seq->tables[g];
        int first = lf_kv_windows_first(&s->opts.windows, g, n);
        if (!lf_kv_windows_slides(&s->opts.windows, g)) continue;
        for (; t->first < LF_MIN(first, t->end); t->first++) put(s, seq, g, t->first);
        if (t->first == t->end) t->first = t->end = t->coming;
        LF_ASSERT(t->end == t->coming);
        for (; t->end < n; t->end++) {
            int32_t block = lf_sched_table(seq, g)[t->end];
            lf_block_pool_get_loose(s->opts.pool, block);
            lf_block_pool_put(s->opts.pool, block);
        }
        t->coming = t->coming_end = 0;
    }
    seq->n_done = n * seq->block_tokens;
}

void lf_tables_drop_coming(struct lf_sched *s, struct lf_sched_seq *seq)
{
    for (int g = 0; g < s->opts.windows.n; g++) {
        struct lf_sched_table *t = &seq->tables[g];
        while (t->coming_end > t->coming) lf_block_pool_put(s->opts.pool, lf_sched_table(seq, g)[--t->coming_end]);
    }
}

/* Offers block i, which is full and held, to the prefix cache. */
static void enter_in(struct lf_sched *s, struct lf_sched_seq *seq, int g, int i, bool passes)
{
    struct lf_prefix_key key = lf_prefix_group_key(&seq->keys[i + 1], g);
    const struct lf_prefix_origin origin = {
        .tenant = seq->tenant_id, .depth = (uint32_t)(i * seq->block_tokens), .group = (uint8_t)g, .passes = passes};
    lf_prefix_cache_insert_key(s->opts.prefix, &seq->keys[i], &key, seq->ids + (int64_t)i * seq->block_tokens,
                               lf_sched_table(seq, g)[i], origin);
}

/* In all groups that hold it. What would be let go and forgotten at once is not entered. */
static void enter_block(struct lf_sched *s, struct lf_sched_seq *seq, int i)
{
    for (int g = 0; g < lf_kv_windows_n(&s->opts.windows); g++) {
        int window = s->opts.windows.tokens[g];
        if (!is_held(seq, g, i)) continue;
        bool passes = window > 0 && !lf_marks_keep(seq, window, i);
        if (passes && i < lf_kv_windows_first(&s->opts.windows, g, n_passed(seq))) continue;
        enter_in(s, seq, g, i, passes);
    }
}

void lf_tables_enter(struct lf_sched *s, struct lf_sched_seq *seq)
{
    if (!seq->keys) return;
    int n_full = LF_MIN(seq->n_done, seq->n_ids - seq->n_placeholders) / seq->block_tokens;
    for (; seq->n_entered < n_full; seq->n_entered++) {
        int i = seq->n_entered;
        if (seq->n_keys <= i + 1) {
            lf_prefix_key_next(&seq->keys[i], seq->ids + (int64_t)i * seq->block_tokens, seq->block_tokens,
                               &seq->keys[i + 1]);
            seq->n_keys = i + 2;
        }
        enter_block(s, seq, i);
    }
}

/* What is seen from where it ends. */
static void keep_the_end(struct lf_sched *s, const struct lf_sched_seq *seq)
{
    for (int g = 0; seq->keys && g < s->opts.windows.n; g++) {
        const struct lf_sched_table *t = &seq->tables[g];
        for (int i = t->first; i < LF_MIN(t->end, seq->n_entered); i++) {
            int32_t block = lf_sched_find_in(s, seq, g, i);
            if (block >= 0) lf_prefix_cache_keep(s->opts.prefix, block);
        }
    }
}

/* What it left at a mark becomes as recently used as what it held to its end: they are of use together only. */
static void touch(struct lf_sched *s, const struct lf_sched_seq *seq, int g, int i)
{
    if (!seq->keys || i >= seq->n_entered || !lf_marks_keep(seq, s->opts.windows.tokens[g], i)) return;
    int32_t block = lf_sched_find_in(s, seq, g, i);
    if (block < 0 || s->opts.pool->blocks[block].n_refs > 0) return;
    lf_block_pool_get_loose(s->opts.pool, block);
    lf_block_pool_put_loose(s->opts.pool, block);
}

static void put_all(struct lf_sched *s, struct lf_sched_seq *seq)
{
    for (int i = seq->n_blocks - 1; i >= 0; i--)
        for (int g = lf_kv_windows_n(&s->opts.windows) - 1; g >= 0; g--) {
            if (is_held(seq, g, i))
                put(s, seq, g, i);
            else if (lf_kv_windows_slides(&s->opts.windows, g))
                touch(s, seq, g, i);
        }
    seq->n_blocks = 0;
    memset(seq->tables, 0, sizeof(seq->tables));
}

void lf_tables_drop_hit(struct lf_sched *s, struct lf_sched_seq *seq)
{
    seq->n_entered = seq->n_cached = seq->n_done = 0;
    put_all(s, seq);
}

void lf_tables_release(struct lf_sched *s, struct lf_sched_seq *seq)
{
    keep_the_end(s, seq);
    lf_tables_drop_coming(s, seq);
    put_all(s, seq);
    s->n_reserved -= n_reserved_for(s, seq);
}

/* The block that block i of its prompt is found in, from now on: its own, but for one that lies in the cache already.
 * (One that lay there when it was full, and does not any more, has kept its own out.) */
static int32_t found_in(struct lf_sched *s, struct lf_sched_seq *seq, int g, int i)
{
    enter_in(s, seq, g, i, false);
    int32_t found = lf_sched_find_in(s, seq, g, i);
    return found >= 0 ? found : lf_sched_table(seq, g)[i];
}

/* A pin takes the place of the table's reference. */
void lf_tables_pin(struct lf_sched *s, struct lf_sched_seq *seq)
{
    int n_full = seq->n_keys - 1;
    lf_tables_slide(s, seq);
    s->n_reserved -= n_reserved_for(s, seq);
    for (int g = 0; g < lf_kv_windows_n(&s->opts.windows); g++) {
        struct lf_sched_table *t = &seq->tables[g];
        int32_t *table = lf_sched_table(seq, g);
        while (t->end > n_full) put(s, seq, g, --t->end);
        for (int i = t->first; i < t->end; i++) {
            int32_t pinned = found_in(s, seq, g, i);
            lf_block_pool_pin(s->opts.pool, pinned);
            put(s, seq, g, i);
            table[i] = pinned;
        }
    }
    seq->n_blocks = n_full;
}

void lf_tables_unpin(struct lf_sched *s, struct lf_sched_seq *seq)
{
    for (int i = seq->n_blocks - 1; i >= 0; i--)
        for (int g = lf_kv_windows_n(&s->opts.windows) - 1; g >= 0; g--)
            if (is_held(seq, g, i)) lf_block_pool_unpin(s->opts.pool, lf_sched_table(seq, g)[i]);
    seq->n_blocks = 0;
    memset(seq->tables, 0, sizeof(seq->tables));
}

int64_t lf_tables_check(const struct lf_sched *s, const struct lf_sched_seq *seq, int32_t *refs, int64_t *n_loose)
{
    const struct lf_kv_windows *w = &s->opts.windows;
    bool pinned = seq->phase == LF_SCHED_HOLDING;
    for (int g = 0; g < lf_kv_windows_n(w); g++) {
        const struct lf_sched_table *t = &seq->tables[g];
        for (int i = t->first; i < t->end; i++) {
            int32_t block = lf_sched_table(seq, g)[i];
            LF_ASSERT(!pinned || s->opts.pool->blocks[block].n_pins > 0);
            refs[block]++;
        }
        for (int i = t->coming; i < t->coming_end; i++) refs[lf_sched_table(seq, g)[i]]++;
        if (pinned || !lf_kv_windows_slides(w, g)) {
            LF_ASSERT(t->end == seq->n_blocks && (t->first == 0 || lf_kv_windows_slides(w, g)));
            continue;
        }
        LF_ASSERT(t->first <= t->end && t->first <= lf_kv_windows_first(w, g, seq->n_done / seq->block_tokens));
        LF_ASSERT(t->end * seq->block_tokens >= seq->n_done && t->end <= seq->table_stride);
        LF_ASSERT(t->end - t->first <= lf_kv_windows_held(w, g, seq->table_stride));
        *n_loose += t->end - t->first;
    }
    return pinned ? 0 : n_reserved_for(s, seq);
}

void lf_tables_check_writable(const struct lf_sched *s, const struct lf_sched_seq *seq, const int32_t *refs)
{
    for (int g = 0; g < lf_kv_windows_n(&s->opts.windows); g++)
        for (int i = seq->n_done / seq->block_tokens; i < seq->tables[g].end; i++) {
            int32_t block = lf_sched_table(seq, g)[i];
            LF_ASSERT(refs[block] == 1 && !s->opts.pool->blocks[block].cached);
        }
}
