/* What the engine has below the cache: tiers (kv/tiers/tier.h) in which blocks are kept, and from which they are
 * brought back.
 *
 *     entered in the prefix cache ──► to save, in order ──► a job, with a reference on the block ──► listed in the tier
 *     admitted, not in the cache ──► coming (restore.h) ──► a job, with a reference on the block ──► there
 *
 * The tiers are in order, the fastest first. A block that is entered goes to each of them, at each one's pace; one that
 * is found comes from the first that has it, and is entered then, so it goes up into those above as well.
 *
 * Everything is saved when it has been computed, not when its place is needed: then taking a block for something else
 * costs nothing, and what is on disk is there whenever the process ends. A block whose place is needed before its turn
 * has come is not saved. When the engine ends in order it first saves what is left to what outlives it, for
 * LF_TIERS_END_S at most.
 *
 * The engine thread copies, reads and writes nothing: it fills jobs, and takes them back in the next round. A round in
 * which all that runs waits for blocks sleeps in the mailbox until one is back.
 *
 * On a device that is given steps ahead, what a step computes is there when it has been read, and a block that the
 * sequence before had may still be written by a step that was launched before: so a save waits for the step that the
 * block was entered in, and a load for those launched before its sequence was admitted. Waiting is reading their
 * results, so on a GPU copies need no event between their streams and the queue. With other ranks' caches in parts
 * (kv_parts.h) it is enough to read those of rank 0, because a step of several ranks ends together then (model.h).
 *
 * Slots. A snapshot (states.h) goes down and comes back in parts, each as long as a block: they have numbers behind
 * those of all blocks (kv/kv_layout.h), keys of groups behind those of layers, and jobs, rings and rates as blocks
 * have. A job for a part holds its slot. A snapshot is of use when all its parts are there: restore.h asks for all of
 * them.
 *
 * Pins. What is pinned to a tier stays in it and in those below it, until who pinned it lets go. A block that is on its
 * way down keeps its place in the cache until it has arrived (settle), or the tier has failed or has no place for it:
 * then the promise is broken, and whoever asks for it next computes it, and it is saved as one that is pinned.
 *
 * All calls from the engine thread, but create, destroy and host_bytes. */
#ifndef LF_SERVER_ENGINE_TIERS_H
#define LF_SERVER_ENGINE_TIERS_H

#include "kv/kv_parts.h"
#include "kv/tiers/pins.h"
#include "kv/tiers/tier.h"
#include "server/engine/restore.h"

enum {
    LF_TIERS_LOADS_N = 1024, /* of each tier: blocks on their way up at once, at most: lf_restore_send */
    LF_TIERS_SAVES_N = 64,   /* and down: at most an eighth of the cache's */
    LF_TIERS_LOADERS_N = 4,  /* of each tier */
    LF_TIERS_END_S = 30
};
#define LF_TIERS_BATCH_BYTES (UINT64_C(64) << 20)

struct lf_engine;
struct lf_request;
struct lf_engine_opts;
struct lf_engine_tier;

/* Whether a block is on its way to a tier: not, waiting for its turn in the ring, with a job. */
enum lf_tiers_save { LF_TIERS_NO_SAVE, LF_TIERS_TO_SAVE, LF_TIERS_SAVING };

/* A tier, and what the engine has to do with it. */
struct lf_tiers_below {
    struct lf_tier *tier;
    int32_t *to_save; /* [n_all] a ring of blocks */
    uint8_t *saves;   /* [n_all] of enum lf_tiers_save */
    int first_save, n_to_save, n_saving, n_loading;
    uint64_t n_learnt; /* loads that the rate has been learnt from, and their time */
    double learnt_ns;
};

struct lf_tiers {
    struct lf_tiers_below below[LF_RESTORE_TIERS_N]; /* the fastest first */
    int n;                                           /* 0: there is nothing below, and all functions do nothing */
    int memory, disk;                                /* which of them is; -1: none */
    struct lf_buffer slots;                          /* of the memory tier */
    struct lf_kv_parts parts;                        /* of the cache's blocks */
    struct lf_pins pins;
    int n_all;            /* blocks, and parts of slots */
    uint64_t *entered_at; /* [n_all] the step that computed it, as it was entered last */
};

/* Bytes that create allocates for a cache of so many blocks, but for memory_bytes itself. */
uint64_t lf_tiers_host_bytes(const struct lf_engine_opts *opts, int n_blocks);
/* What the engine's options say is below. Its cache, scheduler and mailbox are there already. */
LF_MUST_CHECK enum lf_status lf_tiers_create(struct lf_engine *e, struct lf_err *err);
void lf_tiers_destroy(struct lf_engine *e); /* accepts one that was not created */

/* What has come back: references are put, sequences learn of their blocks. */
void lf_tiers_take_back(struct lf_engine *e);
/* Blocks that running sequences want go on their way; whose is next: lf_restore_send. */
void lf_tiers_load(struct lf_engine *e);
/* Blocks that have been computed go on their way down. */
void lf_tiers_save(struct lf_engine *e);
/* A request with a pin has come: its blocks stay where they are. */
void lf_tiers_pin(struct lf_engine *e, struct lf_request *req);
void lf_tiers_unpin(struct lf_engine *e, struct lf_request *req); /* accepts one that pins nothing */
/* Whether all that it pins is in the tiers that it is to stay in, none of them the device. */
bool lf_tiers_have(struct lf_engine *e, const struct lf_request *req);
/* What those that hold blocks want below goes on its way; those that hold them for that alone let go when it is there.
 */
void lf_tiers_settle(struct lf_engine *e);
/* Whether one of them still waits. */
bool lf_tiers_settling(const struct lf_engine *e);
/* Half of each tier; 0 where there is no such tier, or no prefix cache. */
void lf_tiers_pins_most(const struct lf_engine *e, int64_t most[LF_PIN_N]);
/* The engine ends: saves what is left, then takes everything back. */
void lf_tiers_finish(struct lf_engine *e);
void lf_tiers_figures(struct lf_engine *e, struct lf_engine_tier *memory, struct lf_engine_tier *disk);
/* Whether blocks are on their way; what waits for them, or for their references, goes on when they are back. */
bool lf_tiers_under_way(const struct lf_engine *e);

#endif
