/* A disk below the cache of a simulated world: what server/engine/tiers.c and kv/tiers do with threads and files, done
 * on the virtual clock.
 *
 * Every full block that is entered in the prefix cache is listed on the disk some time later, with what the shadow held
 * then, and so is every part of a snapshot. Loads are served in the order in which they were submitted, one block after
 * the other at the disk's rate, and each needs its latency besides, which overlaps with the others'. What loads under
 * way are writing to is garbage until they are back, and stays garbage if they fail. */
#ifndef LF_TESTS_SIM_DISK_H
#define LF_TESTS_SIM_DISK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/limits.h"
#include "kv/prefix_cache.h"

struct sim_request;
struct sim_world;

enum { SIM_LOADS_N = 1024, SIM_BLOCK_MOST = 4 * LF_KV_BLOCK_TOKENS /* tokens of a block */ };

struct sim_disk_opts {
    int n_blocks; /* it holds, 0: there is no disk; the one used least recently makes room for another */
    int n_loads;  /* at once, 0: SIM_LOADS_N */
    double block_ns, latency_ns, save_ns;
    double jitter;   /* of the latency: up to so much of it more, so that loads come back in any order */
    double p_fail;   /* probability that a load brings nothing */
    double guess_ns; /* what the scheduler takes block_ns for at first, 0: block_ns */
    bool is_guess;   /* and it knows that */
    bool may_meet;
};

struct sim_record {
    struct lf_prefix_key key;
    int32_t text[SIM_BLOCK_MOST];
    int64_t state; /* of a part of a snapshot, and the key of all of it */
    struct lf_prefix_key chain;
    int64_t listed_ns; /* there from then on */
    int64_t used_no;
    int next; /* in its bucket, -1: the last */
};

struct sim_load {
    uint64_t owner; /* admitted_no */
    struct lf_prefix_key key;
    int32_t block; /* behind all blocks are the parts of slots */
    int idx;
    int64_t due_ns;
};

struct sim_disk {
    struct sim_disk_opts opts;
    struct sim_record *records; /* [opts.n_blocks] */
    int *buckets, n_buckets, n_records;
    int64_t n_uses;
    struct sim_load loads[SIM_LOADS_N]; /* under way, in any order */
    int n_loads;
    int64_t free_ns;       /* when the disk has read what was submitted */
    int64_t busy_since_ns; /* what load_ns has not counted yet begins there */
    double load_ns;        /* in which a load was under way */
    long n_loaded, n_failed, n_evicted;
    uint64_t seed, n_draws;
};

void sim_disk_open(struct sim_world *w, const struct sim_disk_opts *o);
void sim_disk_close(struct sim_world *w); /* references of what is under way are put */
/* What has arrived by now is back: tiers.h. */
void sim_disk_take_back(struct sim_world *w);
void sim_disk_load(struct sim_world *w);
/* Moves the clock to the next arrival. */
void sim_disk_wait(struct sim_world *w);
/* Adds the references of loads to held, and checks that nobody but their owners has the blocks. */
void sim_disk_check(const struct sim_world *w, int32_t *held);

#endif
