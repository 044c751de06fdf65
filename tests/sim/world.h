/* A world for the scheduler: a machine whose steps take a modelled time on a virtual clock, and requests that arrive,
 * generate and leave. The pool and the prefix cache are the real ones; KV bytes are replaced by a shadow that remembers
 * for which token behind which others, and which group of layers, each slot was written. Everything follows from the
 * seed. */
#ifndef LF_TESTS_SIM_WORLD_H
#define LF_TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/limits.h"
#include "server/engine/scheduler.h"
#include "tests/sim/disk.h"
#include "tests/sim/slots.h"

enum { SIM_BLOCK = LF_KV_BLOCK_TOKENS, SIM_JOBS_N = 8 };

/* What a step really takes: the scheduler has to find this out. noise 0.1: each step is off by up to 10% both ways. */
struct sim_machine {
    double w[LF_COST_N]; /* ns */
    double chunk;        /* ns for each chunk of a prefill: the scheduler's model of a step has no such term */
    double noise;
    double hiccup; /* probability of a step that takes 50 times as long */
};

struct sim_request {
    struct lf_sched_seq seq;  /* first: a seq is its request */
    struct sim_request *next; /* of all in the world, or of the unused ones */
    int32_t *content;         /* [n_prompt + max_tokens] what each position's keys depend on: all tokens up to it */
    int n_answer;             /* tokens after which it stops by itself, <= max_tokens */
    int64_t submitted_ns, started_ns, first_token_ns, last_token_ns, ended_ns;
    int64_t max_gap_ns;
    int64_t head_steps;     /* steps it has been first in the queue with the bypass closed */
    int n_prefilled;        /* tokens of the prompt that were computed; the others come from the cache */
    int64_t n_steps_before; /* launched before it was admitted */
    int n_ended;
    int id;
    int doc, n_shared;                 /* that the prompt begins with */
    int n_hit;                         /* tokens from the prefix cache, at admission */
    int64_t n_lost;                    /* sim_n_lost when it was looked for */
    int32_t marks[1];                  /* of seq.marks, where the test sets them */
    struct lf_speculation speculation; /* where the world proposes */
    uint32_t *grams;
};

/* A step that has been launched. */
struct sim_flight {
    struct lf_sched_step step; /* items whose sequence has ended meanwhile have none */
    int64_t took_ns;
};

struct sim_world {
    struct lf_sched sched;
    struct lf_block_pool pool;
    struct lf_prefix_cache *prefix;
    void (*forget)(void *ctx, int32_t block); /* the prefix cache's on_evict */
    struct lf_sched_step step;                /* made last */
    struct sim_flight flights[2];             /* launched and not read, the older one first */
    int n_flights, ahead;
    struct sim_machine machine;
    uint64_t seed, n_draws;
    int64_t now_ns, n_steps, n_accepted;
    int32_t *shadow; /* [n_blocks, 64] what each slot was written for: sim_content_of */
    int32_t *refs;   /* scratch of lf_sched_check */
    int32_t *held;   /* [n_blocks, then slots] references of loads, scratch too */
    struct sim_disk disk;
    struct sim_slots slots;
    struct lf_sched_tenant *tenants;
    uint32_t *held_epochs;
    struct sim_request *requests; /* all that have not been collected */
    /* Called for each gap between two tokens and each end, where set. */
    void (*on_token)(struct sim_world *w, struct sim_request *r, int64_t gap_ns);
    void (*on_end)(struct sim_world *w, struct sim_request *r);
    void (*on_admit)(struct sim_world *w, struct sim_request *r);
    void *ctx;
    int64_t n_evicted;        /* of the prefix cache, and of snapshots */
    int32_t jobs[SIM_JOBS_N]; /* blocks that others than sequences have a reference on; behind all of them slots */
    int n_jobs;
    bool check; /* all invariants after every step */
    int block;  /* tokens that a block stands for */
};

struct sim_opts {
    int n_blocks, chunk, max_seqs, max_out;
    int token_tile;            /* 0: 1 */
    int64_t step_ns, alone_ns; /* alone_ns 0: step_ns */
    bool prefix;
    struct lf_kv_windows windows;
    int n_slots, slot_blocks; /* states: so many slots beyond those that may run; 0: there are none */
    bool whole_chunks;
    int ahead;     /* 1: a step is launched before the one before it has ended */
    bool proposes; /* texts repeat themselves, and steps carry what is likely to come */
    int n_tenants; /* entries of the table; 0: 16 */
    struct sim_machine machine;
    struct sim_disk_opts disk;
    uint64_t seed;
};

/* What is or will be token p: an answer follows from its prompt. */
int32_t sim_text_of(const struct sim_request *r, int p);
/* What the slot of a position holds in a group. */
int32_t sim_content_of(const struct sim_request *r, int group, int p);
void sim_open(struct sim_world *w, const struct sim_opts *o);
void sim_close(struct sim_world *w);

/* What a block stands for in the world of a seed: 64 tokens, or, of contexts that are divided, as many for each stripe.
 */
static inline int sim_block_of(uint64_t seed)
{
    int n = (int)(seed % 11) - 6; /* 2 to 4 in three of eleven */
    return SIM_BLOCK * (n < 2 ? 1 : n);
}

uint64_t sim_random(struct sim_world *w);
int sim_between(struct sim_world *w, int lo, int hi); /* both included */
bool sim_chance(struct sim_world *w, double p);

/* A request whose prompt is the first n_shared tokens of document doc, then tokens of its own. Submitted at once. The
 * world owns it. */
struct sim_request *sim_submit(struct sim_world *w, int doc, int n_shared, int n_prompt, int max_tokens, int n_answer);
/* The same in two parts, to set priority, leader or all_logits in between. */
struct sim_request *sim_make(struct sim_world *w, int doc, int n_shared, int n_prompt, int max_tokens, int n_answer);
/* One whose prompt is the first n_prompt tokens of another's text. */
struct sim_request *sim_make_behind(struct sim_world *w, const struct sim_request *before, int n_prompt,
                                    int max_tokens);
void sim_enter(struct sim_world *w, struct sim_request *r);
void sim_end(struct sim_world *w, struct sim_request *r);
/* Frees a request that has ended. */
void sim_collect(struct sim_world *w, struct sim_request *r);

/* Admits, plans and launches one step, and reads the oldest once more than `ahead` are under way: that moves the clock.
 * Where only loads are under way it moves to the next that arrives. false: nothing runs (the clock stands). */
bool sim_step(struct sim_world *w);
/* All invariants. */
void sim_check(struct sim_world *w);

#endif
