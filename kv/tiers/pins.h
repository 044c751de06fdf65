/* Which blocks are pinned, and how far down they may go (core/pin.h): by key, whether they are anywhere or not, so that
 * a block that is computed or written once more is pinned as it was.
 *
 * A node says it of one block for one owner, in the owner's memory. Several may say it of the same block: the highest
 * pin holds until the last of them is gone. The engine thread's. Nothing is allocated after init. */
#ifndef LF_KV_TIERS_PINS_H
#define LF_KV_TIERS_PINS_H

#include "core/list.h"
#include "core/pin.h"
#include "core/status.h"
#include "kv/prefix_cache.h"
#include "kv/windows.h"

struct lf_pin_node {
    struct lf_list node;             /* in its bucket */
    const struct lf_prefix_key *key; /* of the chain, borrowed for as long as it is in the table */
    int32_t idx, n;                  /* the block is the idx-th of n that are pinned together */
    enum lf_pin pin;
};

struct lf_pins {
    struct lf_list *buckets; /* [n_buckets] */
    size_t n_buckets;        /* a power of two */
};

/* For some n_blocks: of more the lists only grow longer. LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_pins_init(struct lf_pins *pins, int n_blocks);
void lf_pins_deinit(struct lf_pins *pins); /* accepts a zeroed one */
uint64_t lf_pins_host_bytes(int n_blocks);
void lf_pins_add(struct lf_pins *pins, struct lf_pin_node *node);
void lf_pins_remove(struct lf_pin_node *node);
/* Of the block of a group with this window (kv/windows.h): of one that slides what is seen from the end is pinned.
 * LF_PIN_NONE: nobody says anything. */
enum lf_pin lf_pins_find(const struct lf_pins *pins, const struct lf_prefix_key *key, int window);

#endif
