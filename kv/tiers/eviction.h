/* Which block below the cache makes room for another.
 *
 *     tenant a ─┬─ cheap, used once    ▢ ▢ ▢ ▢   least recently used first
 *               ├─ cheap, used twice   ▢ ▢
 *               ├─ ...                                 next: of the tenant with the most blocks,
 *     tenant b ─┬─ cheap, used once    ▢ ▢ ▢           of its queues' first ones the least score
 *               └─ ...
 *
 * Tenants. Whoever has the most blocks gives one: so each has an equal part of the place as far as it uses it, and a
 * flood of one tenant's takes nothing from another that has no more than its part (the longest queue drops, as routers
 * share their buffers: Suter, Lakshman, Stiliadis, Choudhury 1999).
 *
 * Within a tenant that block is next whose loss costs least: one that is seldom asked for and quickly computed again.
 * All are of one size; the time to compute one grows with its depth, for its tokens look at all before them:
 *
 *     score = used + n_places · value / mean value         value = cost(depth) · uses
 *
 * where `used` counts writes up to the last use. So a block of twice the mean value stays a turn of the whole place
 * longer than one of none. That is what GreedyDual-Size-Frequency (Young 1994; Cao and Irani 1997; Cherkasova 1998)
 * comes to in the long run, without a credit that would have to be kept on disk: a write's number is there already.
 * Where all have the same value this is least recently used. A text that is read once pushes out what was asked for
 * again only after some turns. docs/notebook/eviction.md has the figures.
 *
 * A block is worth having without those before it, since there may be holes (server/engine/restore.h): they are the
 * cheap ones.
 *
 * cost is 1 at the front and 2 at LF_EVICTION_TWICE_TOKENS: where attention has as many operations as the rest of a
 * model, parameters / (2 · layers · heads · head_dim), is 18K to 53K tokens for models of 1B to 70B, and what a wrong
 * guess costs is a little of the gain. Depths are kept in classes, each twice as wide as the one before, and uses are
 * counted up to four; so `next` compares some forty blocks, and nothing is sorted.
 *
 * Pure bookkeeping over the caller's items; what is held is on no queue and does not count. One thread at a time. */
#ifndef LF_KV_TIERS_EVICTION_H
#define LF_KV_TIERS_EVICTION_H

#include <stdint.h>

#include "core/list.h"

enum {
    LF_EVICTION_TWICE_TOKENS = 32768,
    LF_EVICTION_CLASS_TOKENS = 4096, /* of the first class */
    LF_EVICTION_CLASSES_N = 10,      /* 4M tokens; the last has all beyond */
    LF_EVICTION_USES_N = 4,          /* that are counted */
    LF_EVICTION_TENANTS_N = 64       /* counted apart; of more some are counted together */
};

/* What is known of a block. Zeros, with tenant and depth, before it is added for the first time. */
struct lf_eviction_item {
    struct lf_list node;
    uint64_t tenant; /* 0: nobody's in particular */
    uint64_t used;   /* the number of the last write when it was used */
    uint32_t depth;  /* tokens before it in its prompt */
    uint8_t uses;    /* 1 to LF_EVICTION_USES_N once it has been used */
    uint8_t at;      /* of tenants[], while it is on a queue */
};

struct lf_eviction_tenant {
    uint64_t id;
    uint32_t n; /* on its queues; 0: the entry is nobody's */
    struct lf_list queues[LF_EVICTION_CLASSES_N][LF_EVICTION_USES_N];
};

struct lf_eviction {
    uint32_t n_places;
    uint64_t n, value_sum; /* of all on queues */
    struct lf_eviction_tenant tenants[LF_EVICTION_TENANTS_N];
};

void lf_eviction_init(struct lf_eviction *e, uint32_t n_places);
/* It is the last one used, after so many writes. */
void lf_eviction_add(struct lf_eviction *e, struct lf_eviction_item *item, uint64_t used);
void lf_eviction_remove(struct lf_eviction *e, struct lf_eviction_item *item);
/* Of an item on no queue: once more. */
void lf_eviction_count_use(struct lf_eviction_item *item);
/* Which one makes room; it stays on its queue. NULL: there is none. */
struct lf_eviction_item *lf_eviction_next(struct lf_eviction *e);

/* cost times 16 of a block that so many tokens lie before, as its class has it. */
uint32_t lf_eviction_cost(uint32_t depth);

#endif
