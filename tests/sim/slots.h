/* The states of a simulated world (server/engine/states.h): slots with the real pool and prefix cache, and in place of
 * bytes a shadow that remembers of which text each part of a slot holds the state, and how far in it. Each step is
 * played as a device plays it, when it is launched, in order. */
#ifndef LF_TESTS_SIM_SLOTS_H
#define LF_TESTS_SIM_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#include "server/engine/scheduler.h"

struct sim_request;
struct sim_world;

enum { SIM_PARTS_N = 4 };

struct sim_slot {
    int64_t parts[SIM_PARTS_N]; /* sim_state_of; negative: garbage */
    struct lf_prefix_key key;   /* of the text, where its length is whole blocks */
};

struct sim_slots {
    struct lf_block_pool pool; /* none: there are no states */
    struct lf_prefix_cache *snapshots;
    void (*forget)(void *ctx, int32_t slot); /* its on_evict */
    struct sim_slot *shadow;                 /* [pool.n_blocks] */
    struct lf_state_mark *marks;             /* of the step planned last */
    int n_parts;
    long n_from_snapshots, n_marks; /* steps that read one; marks that were made */
};

/* The state behind the first p tokens of a request. */
int64_t sim_state_of(const struct sim_request *r, int p);
/* Of sim_open, before the scheduler is made: n_spare slots beyond those that may run, of n_parts blocks each. */
void sim_slots_open(struct sim_world *w, int n_spare, int n_parts, int n_running);
void sim_slots_close(struct sim_world *w);
/* The planned step is about to be launched: what it is to do with states is checked, and done. */
void sim_slots_step(struct sim_world *w);
/* Every snapshot holds what its key says. */
void sim_slots_check(const struct sim_world *w);
/* What has been lost of what might be found: blocks and snapshots taken for others, and marks not made. */
int64_t sim_n_lost(const struct sim_world *w);

#endif
