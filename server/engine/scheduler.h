/* The scheduler: what runs in the next step. A pure policy over (state, limits, clock value): it holds no bytes, calls
 * no clock and no device, so tests/sim drives it through millions of steps.
 *
 * The cycle, all on one thread:
 *
 *     lf_sched_submit          a sequence joins the queue
 *     lf_sched_admit …         until NULL: those that may start get all the blocks they will ever need
 *     lf_proposals_wait           whether the step before it is to be read first
 *     lf_sched_plan_step       what the next step does; the caller starts it
 *     lf_sched_launched        the step has been started: its tokens count as computed, its samples are placeholders
 *     lf_sched_sampled …       the step has ended: each placeholder's id is known; of what was proposed
 *     lf_sched_accepted …      each id that came
 *     lf_sched_learn           how long it took
 *     lf_sched_end             a sequence leaves, from any phase; its blocks go back
 *
 * Promises (tests/sim and tests/sim/policy show each of them):
 *  1. Nothing is preempted and nothing runs out half way: blocks for prompt + max_tokens are reserved at admission;
 *     those shared with the prefix cache count once, and those below it are restored into them (restore.h). Where
 * layers have windows a sequence reserves as many blocks as its windows hold, and these slide (block_tables.h).
 *  2. Among tenants whoever was given least is next, in predicted device time (tenants.h), both out of the queue and in
 *     the prefills of a step. Priorities mean nothing between tenants. One that had no turn for LF_SCHED_TURN_NS is
 *     next, however many others come.
 *  3. A tenant reserves at most three quarters of the pool and of max_seqs while another waits, runs, or was here in
 *     the last LF_SCHED_ALONE_NS; alone it may have all. A request that is larger than a share by itself starts when
 *     its tenant runs nothing and is alone, or it has waited LF_SCHED_ALONE_NS, or nothing else can start or runs.
 *     Beyond max_seqs there are n_kept slots, for tenants that run nothing else (tenants.h).
 *  4. A tenant's queue is in order of arrival, LF_SCHED_PRIORITY_NS a priority step earlier or later, so a flood of
 *     urgent requests delays any other by a bounded time only. A request that does not fit yet may be passed by smaller
 *     ones of later turns, for at most LF_SCHED_BYPASS_NS and at most one pool's worth of blocks; then they wait too.
 *  5. Every decoding sequence gets its token in every step (while chunk, max_seqs and max_out last; else in turn).
 *  6. Prefills share what is left of step_ns (of alone_ns where nobody decodes) by predicted time, at least a quarter
 *     of it, and as much as makes the step's parts of the tenants equal where others decode; never less than
 *     LF_SCHED_MIN_TOKENS a step: both sides always progress. Where tokens come in tiles a step of more than one is
 *     filled up to whole ones, but for the last tokens of a prompt.
 *  7. Of a tenant the prefill with the least left to do goes first, but a quarter of its prefill time belongs to
 *     the one that was admitted first: a long document is never slower than a quarter of that, a short one never
 *     waits for it.
 *  8. Of requests that share a beginning one computes it and the others take it from the cache: followers wait for
 *     their leader; a request whose prompt is for the larger part being computed right now for the same tenant waits
 *     for that; and prefills that already run side by side, of whomever, take over each other's finished blocks.
 *
 *  9. What is pinned (holding.h) is no tenant's. A sequence that is to be pinned to the device starts only if all that
 *     waits will find room beside it, so that 1 holds.
 *
 * Placeholder tokens (asynchronous scheduling). A device may take a step before the one before it has ended: what it
 * samples goes straight into the next step. So seq->ids has room for ids that nobody knows yet, and until
 * lf_sched_sampled says which one it is, the placeholder is -1 - (the logits row of the step that samples it). A
 * sequence that turns out to have ended with a step has a token too many in the step behind it; nobody reads what comes
 * of it, and its blocks are free at once: what is written to them later is written later on the device too.
 *
 * Proposed tokens (proposals.h). A decode may carry tokens that are likely to come; such a step is read before the next
 * is planned. Where prompts wait nothing is proposed.
 *
 * What it deliberately does not do: preempt, guess how long an answer is, split a sequence's tokens. */
#ifndef LF_SERVER_ENGINE_SCHEDULER_H
#define LF_SERVER_ENGINE_SCHEDULER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/list.h"
#include "device/delta.h"
#include "kv/block_pool.h"
#include "kv/prefix_cache.h"
#include "kv/windows.h"
#include "server/engine/cost.h"
#include "server/engine/restore.h"
#include "server/engine/sched_seq.h"
#include "server/engine/tenants.h"

enum {
    LF_SCHED_PRIORITY_N = 8, /* priorities count from -8 to 8; what lies beyond counts as the end */
    LF_SCHED_MIN_TOKENS = 16 /* of a prefill chunk, where the budget does not give a whole block */
};
#define LF_SCHED_PRIORITY_NS INT64_C(5000000000)
#define LF_SCHED_BYPASS_NS   INT64_C(5000000000)
#define LF_SCHED_TURN_NS     INT64_C(60000000000)
#define LF_SCHED_ALONE_NS    INT64_C(60000000000)
#define LF_SCHED_DEBT_NS     INT64_C(1000000000)

struct lf_sched_opts {
    int chunk;      /* tokens of one step, >= 1 */
    int max_seqs;   /* of a step, and running at once but for n_kept, >= 1 */
    int n_kept;     /* slots beyond max_seqs, for tenants that run nothing */
    int max_out;    /* logits rows of one step, >= 1 */
    int token_tile; /* tokens cost as much as the next multiple of this, >= 1: prefills fill a step up to one */
    int64_t step_ns, alone_ns;    /* of a step, and of one in which nobody decodes, >= step_ns */
    struct lf_kv_windows windows; /* of the groups of layers; zeros: one that sees all */
    struct lf_block_pool *pool;   /* borrowed */
    /* States (device/delta.h): slots for all that run and for snapshots, more than max_seqs + n_kept. NULL: none. */
    struct lf_block_pool *slots;
    struct lf_prefix_cache *snapshots; /* over slots; NULL as prefix */
    int slot_blocks;                   /* kv_layout.h */
    bool whole_chunks;                 /* chunks of prompts end with a block, or with the prompt; chunk >= two blocks */
    struct lf_prefix_cache *prefix;    /* borrowed; NULL: off */
    struct lf_sched_tenant *tenants;   /* [n_tenants] borrowed: as many as can wait and run, at least 1 */
    int n_tenants;
    uint32_t *held_epochs; /* [pool->n_blocks] borrowed, zeros at first; see held_epoch below */
    struct lf_restore_source below;
    bool proposes;       /* seq->speculation may be asked: a step with proposals is read before the next is planned */
    int proposal_tokens; /* of a step with proposals, at most; 0: chunk */
    /* How many of n tokens that are likely to come may. NULL: all. */
    int (*n_allowed)(void *ctx, const struct lf_sched_seq *seq, const int32_t *ids, int n);
    void *n_allowed_ctx;
};

/* One sequence of a step: tokens [seq->n_done, seq->n_done + n_tokens), the last n_proposed of which may not be its
 * own, and of which [out_first, out_first + n_out), counted from the first, go on to logits. */
struct lf_sched_item {
    struct lf_sched_seq *seq;
    int n_tokens, n_proposed, out_first, n_out;
    int n_tried;               /* of n_proposed, those whose rows may be read: all, unless who samples says fewer */
    struct lf_state_seq state; /* where there are states */
    int first;                 /* seq->n_done when it was planned */
    bool complete; /* all that is known of seq is computed by it: its last logits row is the next id's, if one is due */
};

struct lf_sched_step {
    struct lf_sched_item *items; /* [max_seqs] the caller's */
    int n_items, n_tokens, n_out, n_prefill_tokens, n_proposed;
    struct lf_state_mark *marks; /* [lf_batch_n_marks(max_seqs)] the caller's, of all items; NULL: no states */
    int n_marks;
    struct lf_load load;
    double predicted_ns;
};

struct lf_sched {
    struct lf_sched_opts opts;
    struct lf_list waiting;          /* ascending order_ns */
    struct lf_list running, holding; /* waiting: ascending order_ns; holding: n_blocks may be 0 */
    int n_waiting, n_running;
    uint64_t n_admitted;
    int64_t waiting_tokens; /* prompt tokens of those waiting */
    int64_t n_reserved;     /* blocks, for windows of those that run: block_tables.h */
    /* Slots, see states.h: working ones, pins promised; marks for which there was none, and snapshots that made room
     * for others of the same sequence, or became working slots. */
    int n_working, n_due;
    uint64_t n_marks_skipped, n_snapshots_dropped;
    uint64_t n_snapshots_read; /* that a sequence has begun with, or gone on from */
    struct lf_cost cost;
    /* Tenants; see tenants.h. */
    struct lf_list queues;        /* those with something waiting, in the order of their turns as last looked at */
    struct lf_list prefilling;    /* those with prefills, least served first; see prefill_order.h */
    int n_tenants, n_here;        /* entries of the table in use; tenants that wait or run */
    struct lf_sched_left left[2]; /* the two that left last, the latest first */
    int64_t now_ns;               /* the latest time that was given */
    double admitted_level_ns, served_level_ns; /* of the accounts: what a tenant that comes is brought level with */
    uint64_t n_scans, step_no;                 /* step_no: of the step planned last */
    int n_tenants_in_step;                     /* that run in the step planned last */
    uint32_t held_epoch; /* rises with each count of a tenant's blocks; held_epochs[b] == held_epoch: b was counted */
    int64_t n_held;      /* how many were */
    int n_accepted;      /* of what the step planned last proposed */
    int n_declined;      /* of who ended last: places found at which nothing seemed to pay (speculation.h) */
    double wait_ns;      /* what a device idles where a step is read before the next is launched; 0: it does anyway */
    /* Measured, decaying: tokens and the ns they took. */
    double prefill_tokens, prefill_ns, decode_tokens, decode_ns;
};

void lf_sched_init(struct lf_sched *s, const struct lf_sched_opts *opts);
/* Blocks of a table for n_prompt + max_tokens. */
int64_t lf_sched_n_blocks(const struct lf_kv_windows *w, int n_prompt, int max_tokens);
/* seq must fit into the pool at all: what it needs in all groups and the slack (windows.h) are at most its blocks. */
void lf_sched_submit(struct lf_sched *s, struct lf_sched_seq *seq, int64_t now_ns);
/* Starts the next sequence that may; NULL when none may. */
struct lf_sched_seq *lf_sched_admit(struct lf_sched *s, int64_t now_ns);
/* Plans a step, which is launched then, or is the last one; step->n_items is 0 only if nothing runs, or what runs waits
 * for steps that have not ended or for blocks that are being restored. */
void lf_sched_plan_step(struct lf_sched *s, struct lf_sched_step *step);
/* The planned step has been started. Raises n_done, enters full blocks in the prefix cache and appends a placeholder to
 * every sequence that is complete and has room for one. */
void lf_sched_launched(struct lf_sched *s, const struct lf_sched_step *step);
/* The first of seq's placeholders is id; where it has none, id is its next. */
void lf_sched_sampled(struct lf_sched *s, struct lf_sched_seq *seq, int32_t id);
/* What was proposed for the place of the last id that was appended is that id: it is computed. */
void lf_sched_accepted(struct lf_sched *s, struct lf_sched_seq *seq);
/* How long all of it took, sampling too. Does not look at the step's sequences: they may have ended meanwhile. */
void lf_sched_learn(struct lf_sched *s, const struct lf_sched_step *step, int64_t took_ns);
void lf_sched_end(struct lf_sched *s, struct lf_sched_seq *seq);

/* Predicted ns until the prompt of a running sequence is computed: more than 0 before. Until a step has been measured
 * it follows from what the cost model assumes of a machine. */
int64_t lf_sched_eta_ns(const struct lf_sched *s, const struct lf_sched_seq *seq);
/* Tokens a second, as measured; 0 before the first. */
double lf_sched_prefill_speed(const struct lf_sched *s);
double lf_sched_decode_speed(const struct lf_sched *s);
/* Seconds until the queue is likely to have drained, 1 to 60. */
int lf_sched_retry_after_s(const struct lf_sched *s, int64_t waiting_tokens);
/* Walks everything; LF_ASSERTs that tables, references and lists agree. held: [pool->n_blocks, then slots] references
 * that others than sequences have, such as loads; NULL: none. refs: scratch, as many. */
void lf_sched_check(const struct lf_sched *s, const int32_t *held, int32_t *refs);

#endif
