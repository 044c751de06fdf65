/* Cache groups: which layers of a model share a block, and how large a block is. Layers may differ in what they keep of
 * a sequence: all of it, or the last tokens of a window; many heads or few; or nothing, where a layer reads the keys
 * and values of an earlier one (an alias).
 *
 * All blocks of a cache are equally large and come from one pool. A block holds 64 tokens of the layers of one group,
 * and a sequence has a block table for each group, so what is behind a window is let go without touching the rest:
 *
 *     8 layers of full attention, 40 with a window     block   ┌─ group 0: the 8 full layers ─────────────────┐
 *                                                      block   ├─ group 1: the first 8 layers with a window ──┤
 *                                                      …       └─ group 5: the last 8 ────────────────────────┘
 *
 * Layers with the same window, heads and head_dim are a class. A class is cut into groups so that all groups are about
 * equally large; what a group does not use of its blocks is waste. The cut is the one with which a long sequence takes
 * the fewest bytes; of those within 1% the one of fewest groups. A model whose layers are all alike has one group and
 * no waste.
 *
 * A layer that is no attention may have a state instead, of a fixed size whatever the sequence's length. What all such
 * layers keep of one sequence is a slot:
 *
 *     block 0 │ block 1 │ … │ block n-1 │ slot 0: state of layer 0, of layer 1, …, not used │ slot 1 │ …
 *
 * Pure: nothing here knows a device. */
#ifndef LF_KV_KV_LAYOUT_H
#define LF_KV_KV_LAYOUT_H

#include <stdint.h>

#include "core/dtype.h"
#include "core/status.h"
#include "kv/kv_view.h"
#include "kv/windows.h"

enum { LF_KV_GROUPS_N = LF_KV_WINDOWS_N };

/* What a layer keeps. */
struct lf_kv_layer_spec {
    int window; /* the last so many tokens; 0: all */
    int n_kv_heads, head_dim;
    int alias_of; /* the earlier layer whose keys and values it reads, of the same window and shape; -1: its own */
    uint64_t state_bytes; /* > 0: a state, and nothing else; window, heads and head_dim do not count. As large in all
                             layers that have one, and a multiple of 256 */
};

struct lf_kv_group {
    int window;   /* 0: full */
    int n_layers; /* aliases do not count */
    int n_kv_heads, head_dim;
};

/* What layers keep that are no attention: a state of fixed size, of all of them together a slot. Slots lie behind the
 * blocks of the cache and are a whole number of blocks long, so that whoever moves blocks can move a slot as
 * slot_blocks of them: block n_blocks + slot · slot_blocks + i is part i of a slot. */
struct lf_kv_states {
    int n_layers;         /* 0: none */
    uint64_t layer_bytes; /* of each layer, in order; a multiple of 256 */
    int slot_blocks;      /* 0 where there are no states */
};

/* Tokens from one place in a sequence to the next behind which another may go on, whatever it holds
 * (server/engine/marks.h): there is a snapshot of states for so many. */
enum { LF_KV_MARK_TOKENS = 8192 };

/* Where a layer's keys and values lie: layers of a group are numbered from 0. An alias has the place of its source. A
 * layer with a state has group -1, and the number of its state. */
struct lf_kv_place {
    int16_t group, layer;
};

struct lf_kv_layout {
    int n_groups, n_layers;
    uint64_t block_bytes;                      /* a multiple of the page of every group (kv_view.h) */
    struct lf_kv_group groups[LF_KV_GROUPS_N]; /* full ones first */
    struct lf_kv_states states;
    struct lf_kv_place *places; /* [n_layers] owned */
};

/* specs: [n_layers]. LF_INVALID for what no layer can be, LF_UNSUPPORTED where there are more classes than groups,
 * states of different sizes or nothing but states, LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_kv_layout_make(struct lf_kv_layout *out, const struct lf_kv_layer_spec *specs,
                                               int n_layers, enum lf_dtype dtype, struct lf_err *err);
void lf_kv_layout_deinit(struct lf_kv_layout *layout); /* accepts a zeroed one */
/* Whether blocks of the two hold the same in the same places. */
bool lf_kv_layout_same(const struct lf_kv_layout *a, const struct lf_kv_layout *b);

/* Blocks that a slot is long, of blocks of another size than the layout's too (slot_blocks is of its own). */
int lf_kv_states_slot_blocks(const struct lf_kv_states *states, uint64_t block_bytes);
/* Bytes of a slot that no layer uses. */
uint64_t lf_kv_states_waste(const struct lf_kv_layout *layout);
/* Bytes of a block that its group does not use. */
uint64_t lf_kv_layout_waste(const struct lf_kv_layout *layout, int group, enum lf_dtype dtype);
/* How many blocks sequences take: what the scheduler knows of groups. */
struct lf_kv_windows lf_kv_layout_windows(const struct lf_kv_layout *layout);

#endif
