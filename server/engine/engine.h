/* The engine: one thread that owns the device, the model and all KV state, and turns submitted requests into tokens.
 *
 * Continuous batching: each step decodes every running sequence and gives the rest of the step's time to prefills. A
 * device that samples by itself is given the next step before the one in hand has ended (asynchronous scheduling), so
 * it never waits. HTTP threads talk to it only through submit, look, cancel and the snapshots below. After
 * lf_engine_create returned, the engine thread allocates nothing.
 *
 * The model runs behind a small interface (struct lf_engine_backend), so that the engine's tests and the simulator need
 * no weights. */
#ifndef LF_SERVER_ENGINE_ENGINE_H
#define LF_SERVER_ENGINE_ENGINE_H

#include <stdint.h>

#include "core/metrics.h"
#include "core/status.h"
#include "server/engine/backend.h"
#include "server/engine/request.h"
#include "server/engine/room.h"

struct lf_engine;
struct lf_disk_table;
struct lf_kv_cache;
struct lf_kv_parts;

/* What an engine has learnt of times, in ns: the terms of its cost model (cost.h), then a block from each tier, memory
 * and disk. All zeros: nothing. */
enum { LF_ENGINE_SPEED_N = 7 + 2 };
struct lf_engine_speed {
    double ns[LF_ENGINE_SPEED_N];
};

struct lf_engine_opts {
    int ctx;                         /* tokens of prompt + answer, at most */
    int chunk;                       /* tokens of one step, at most */
    int max_seqs;                    /* of a step, and running at once but for those of tenants that run nothing else */
    int max_out;                     /* logits rows of one step */
    int queue_n;                     /* waiting requests, at most; of one tenant three quarters */
    int64_t queue_tokens;            /* waiting prompt tokens, at most; of one tenant three quarters. 0: 4 × ctx */
    int step_ms;                     /* time budget of a step (--step-ms) */
    int alone_ms;                    /* of a step in which nobody decodes; 0: step_ms */
    int token_tile;                  /* of lf_device_info; 0: 1 */
    int per_tenant_n;                /* in flight per tenant, where tenants are keys; 0: no limit */
    struct lf_disk_table *disk;      /* blocks that outlive the cache (tiers.h), borrowed; NULL: none */
    bool has_disk;                   /* there will be such: for the plan, which knows no table */
    uint64_t memory_bytes;           /* of the host, for blocks below the cache; 0: none */
    bool may_meet;                   /* computing and loading may where bits may differ, too: restore.h */
    uint64_t block_bytes;            /* of the cache's blocks, of all ranks, for the plan; 0 where nothing is below */
    const struct lf_kv_parts *parts; /* what is kept below: kv, then the caches of other ranks; copied. NULL: kv */
    int n_slots, slot_blocks;        /* of states (kv/kv_layout.h), for the plan; 0 where there are none */
    int n_mask_threads;              /* 1 to LF_MASK_THREADS_N, 0: that; see masks.h */
    struct lf_engine_speed speed;    /* to begin with: another one's, on the same machine with the same model */
    int watchdog_s;                  /* no step for so long with work queued: the engine is declared dead. 0: off */
};

/* kv is borrowed and belongs to the engine thread from now on. Starts the thread. */
LF_MUST_CHECK enum lf_status lf_engine_create(struct lf_engine **out, const struct lf_engine_backend *backend,
                                              struct lf_kv_cache *kv, const struct lf_engine_opts *opts,
                                              struct lf_err *err);
/* Bytes the engine allocates at create for these options: part of the memory plan's host_bytes. */
uint64_t lf_engine_host_bytes(const struct lf_engine_opts *opts, int n_vocab, int n_blocks, int block_tokens);
/* What the answers of all that runs at once may take at most: an entry a token of the cache. */
uint64_t lf_engine_answer_bytes(uint64_t n_tokens);
/* No new requests (LF_SHUTDOWN); those in flight go on. */
void lf_engine_drain(struct lf_engine *engine);
/* As drain, and what is in flight is cancelled at the end of the running step. Returns at once. */
void lf_engine_stop(struct lf_engine *engine);
/* What is in flight ends with LF_DEVICE, nothing new is taken, even if the engine's thread stands still. message is
 * static text. Any thread. */
void lf_engine_declare_dead(struct lf_engine *engine, const char *message);
/* Cancels what is left, ends the thread, frees. Every request must have been put. */
void lf_engine_destroy(struct lf_engine *engine); /* accepts NULL */

/* Checks and queues a request; *out has one reference, the caller's. Errors, before anything is kept:
 * LF_LIMIT  n_prompt + max_tokens passes ctx, or needs more blocks than the pool has, or than pins leave; or more
 *           would be pinned than may be
 * LF_FULL   the queue (requests or tokens) or the tenant's share of it is full; retry_after_s is set
 * LF_QUOTA  what one tenant may have in flight, or in a minute, is reached; retry_after_s is set
 * LF_UNSUPPORTED no token could be drawn: each of the allowed ids ends the answer, and min_tokens forbids that
 * LF_SHUTDOWN draining; LF_DEVICE the engine is dead; LF_NO_MEMORY; LF_INVALID an id out of range.
 * Any thread. */
LF_MUST_CHECK enum lf_status lf_engine_submit(struct lf_engine *engine, const struct lf_gen_params *params,
                                              struct lf_request **out, int *retry_after_s, struct lf_err *err);

/* The keys of a prompt's full blocks, by which they are found, into keys [n_prompt / block_tokens, LF_SHA256_BYTES];
 * false: there is no prefix cache. Any thread. */
bool lf_engine_keys(struct lf_engine *engine, const struct lf_gen_params *params, uint8_t *keys);
/* Where blocks with these keys are at the moment: how many of them on the device, in memory, on disk. Any thread. */
void lf_engine_places(struct lf_engine *engine, const uint8_t *keys, int n, int n_there[LF_PIN_N]);
/* Whether no block on disk makes room for another: from before the first request until all that is pinned there has
 * been submitted. Any thread. */
void lf_engine_guard(struct lf_engine *engine, bool guarded);
/* Tokens of prompt and answer that a request with this prompt may have at most, beside what is pinned. Any thread. */
int64_t lf_engine_most(struct lf_engine *engine, const struct lf_gen_params *params);
/* Tokens of the longest beginning of the prompt's full blocks of which all that is seen from its end is on disk: of
 * windows their part. Any thread. */
int lf_engine_n_kept(struct lf_engine *engine, const struct lf_gen_params *params);

/* Blocks of a tier that are pinned with n full ones of a prompt, of all groups and of states. Any thread. */
int64_t lf_engine_pin_blocks(const struct lf_engine *engine, enum lf_pin pin, int64_t n);

/* Blocks that may be pinned to a tier, and that are or will be; what several share counts several times. most 0: there
 * is no such tier. */
struct lf_engine_pins {
    int64_t n_most, n;
};

/* Blocks that are kept below the cache. All zeros: none are. */
struct lf_engine_tier {
    bool on;
    bool works;                /* false: it has failed a moment ago and is left alone */
    uint32_t n_blocks, n_kept; /* there is room for, and are there */
    uint32_t n_pinned;         /* of these: they make no room for others */
    uint64_t n_saved, n_loaded, n_save_failed, n_load_failed;
    uint64_t n_evicted, n_broken; /* made room for others; not what was written */
    double load_blocks_per_s;     /* as measured lately, or taken for granted before */
};

/* How things stand, for /v1/capacity, /readyz and /metrics. Any thread. */
enum { LF_ENGINE_GROUPS_N = 16 };

/* Layers that share blocks. */
struct lf_engine_group {
    int window; /* tokens that they keep; 0: all */
    int n_layers;
    int n_request_blocks; /* that a request of ctx tokens takes */
};

/* Slots of states (kv/kv_layout.h). All zeros: no layer has one. */
struct lf_engine_states {
    int n_layers, n_slots, n_for_running; /* the last: of these slots, one for each sequence that may run */
    uint64_t slot_bytes;
    int n_used, n_pinned, n_kept; /* by sequences and pins; pinned; snapshots that only the prefix cache holds */
    uint64_t n_read, n_evicted, n_skipped; /* snapshots: begun with; that made room; for which there was none */
};

struct lf_engine_state {
    bool alive; /* false: it was declared dead; message says why */
    bool draining;
    const char *message; /* static text, "" while alive */
    int ctx, max_seqs;
    int64_t
        most_tokens; /* of prompt and answer of a request, where nothing is pinned: <= ctx, and what the cache holds */
    int n_running, n_waiting;
    int64_t waiting_tokens;
    int block_tokens; /* of a sequence, that a block stands for */
    int n_blocks, n_blocks_used, n_blocks_cached, n_blocks_free;
    int n_blocks_pinned; /* of those used */
    int n_groups;        /* of layers (kv/kv_layout.h), of the first LF_ENGINE_GROUPS_N the numbers */
    struct lf_engine_group groups[LF_ENGINE_GROUPS_N];
    struct lf_engine_states states;
    struct lf_engine_pins pins[LF_PIN_N];
    bool is_host;      /* the cache lies in memory of the host */
    bool prefix_cache; /* there is one */
    struct lf_engine_tier memory, disk;
    const char *kv_dtype;                             /* static text */
    struct lf_sched_room room;                        /* see lf_engine_largest */
    double prefill_tokens_per_s, decode_tokens_per_s; /* measured, 0 before the first */
    int retry_after_s;
    uint64_t n_steps;
    struct lf_engine_speed speed; /* zeros before the first step */
};
void lf_engine_snapshot(struct lf_engine *engine, struct lf_engine_state *out);
/* Tokens of prompt and answer of the largest request that would start at once, were it the tenant's next; 0: none
 * would. What the prefix cache may save is not counted. Any thread. */
int64_t lf_engine_largest(struct lf_engine *engine, uint64_t tenant);

/* Updated by the engine thread, rendered by the HTTP thread. */
struct lf_engine_metrics {
    struct lf_counter prompt_tokens, prompt_tokens_computed, prompt_tokens_cached, generation_tokens;
    struct lf_counter prompt_tokens_restored; /* from below the cache; cached ones were in it */
    struct lf_counter cache_queries;          /* prompt tokens that the prefix cache was asked for, at admission */
    struct lf_counter finished_stop, finished_length, finished_cancelled, finished_error;
    struct lf_counter broken_logits, broken_grammars; /* requests among those of finished_error */
    struct lf_counter constrained;                    /* requests with a grammar that were started */
    struct lf_counter proposed, accepted;             /* tokens that steps were given beside the next, and that came */
    struct lf_counter waits, waits_ns;                /* steps read before the next was launched, and what that took */
    struct lf_counter masks, masks_ns;                /* made for their tokens, and what the engine waited for them */
    struct lf_counter rejected_queue, rejected_tokens, rejected_tenant, rejected_quota, rejected_too_long,
        rejected_draining;
    struct lf_histogram ttft_s, itl_s, e2e_s, queue_s, prefill_s, decode_s, inference_s;
    struct lf_histogram prompt_tokens_per_request, generation_tokens_per_request, tokens_per_step, max_tokens;
};
void lf_engine_metrics_init(struct lf_engine_metrics *metrics); /* a zeroed one; for lf_engine_create and its doubles */
const struct lf_engine_metrics *lf_engine_metrics(const struct lf_engine *engine);

#endif
