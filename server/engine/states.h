/* The states of sequences (device/delta.h) and who has which slot when.
 *
 * A slot is a state in all layers that have one. Slots are a pool of their own (opts.slots), with a prefix cache of
 * their own (opts.snapshots). A slot is one of
 *
 *     working     the state of a sequence that runs, at n_done: its own from admission to the end, updated in place by
 *                 each of its steps. Never cached
 *     snapshot    cached: a state behind n whole blocks, under the key of the chain there. Later sequences begin with
 *                 it; nobody writes to it
 *     mark        on its way to be a snapshot: a step copies a working state to it. The step's from its plan to its
 *                 launch; then it is entered, or the sequence's until the ids before it are known (decodes)
 *     coming      on its way to be a snapshot: it is brought back from below (restore.h)
 *
 * Marks. A state cannot be cut at any token, so it is kept where others are likely to go on, behind n blocks, of B
 * tokens, where
 *
 *     n = (n_prompt - 1) / B        the same prompt once more, and answers of several choices
 *     n = mark / B                  where a part of the prompt ends that others may have too (seq->marks)
 *     n = n_prompt / B              of one that is to be pinned
 *     multiples of LF_MARK_EVERY    prompts that part in the middle, and what goes on from a long answer. Such a mark
 *                                   takes the place of the one before it rather than one of somebody else's
 *
 * A step makes a mark where it passes one: no chunk ends for it. A mark that is in the cache already is not made, nor
 * one for which there is no slot.
 *
 * A hit (shared_blocks.h) is the longest n of which all groups have what is seen from there, and there is a snapshot.
 * The sequence's next step then reads state_in, which has a reference until that step has been launched, and writes
 * state. At position 0 there is nothing to read.
 *
 * That taking never fails is arithmetic. A sequence that runs has one working slot, so
 *
 *     slots that are free, or cached and not used ≥ (max_seqs + n_kept - working) + due          (n_spare ≥ 0)
 *
 * holds at all times, because whatever else takes a reference that no other has asks first: marks, what comes back,
 * saves (tiers.c), pins, state_in. due: pins that running sequences have been promised and do not have yet. Where there
 * is none to spare a mark is skipped, nothing is brought back, and a hit takes the snapshot itself for its working
 * slot.
 *
 * Early reuse is safe because a device takes steps in order: a slot that is let go while steps are on their way can be
 * given out at once, since what is launched later writes later. So a snapshot is entered when the step that makes it
 * has been launched, and state_in is put then. The surplus step of a sequence that has ended (asynchronous scheduling)
 * updates a slot that is free, or another's since, whose first step is behind it and does not read it. What is copied
 * beside the queue waits as for blocks: saves for the step that made the snapshot, loads for all steps launched before
 * the admission at which their slot was taken. What comes back never goes to a working slot, which has to be there for
 * another once its sequence ends, however long a load is still under way.
 *
 * A decode's mark is behind a token that may be a placeholder: nobody knows its block's key yet, and the sequence may
 * turn out to have ended before it. So its slot is entered once all ids before it are known, or put with the sequence.
 *
 * Recency. What a sequence used or made becomes as recent as its blocks when it ends: first what lies at multiples,
 * then the other marks, each from the end to the beginning. So the parts of a document age together, and of its
 * snapshots those go first that are least likely to be asked for.
 *
 * Pure bookkeeping; the engine thread's. All functions do nothing where there are no states, but as said. */
#ifndef LF_SERVER_ENGINE_STATES_H
#define LF_SERVER_ENGINE_STATES_H

#include "server/engine/scheduler.h"

/* Parts of a snapshot are kept in tiers as blocks of these groups: lf_prefix_group_key. */
enum { LF_STATES_PART_GROUP = LF_KV_WINDOWS_N, LF_STATES_PINNED_N = 2 };
_Static_assert((int)LF_STATES_PART_GROUP + (int)LF_SLOT_BLOCKS_N <= (int)LF_PREFIX_GROUPS_N, "each part has a key");

static inline bool lf_states_on(const struct lf_sched *s)
{
    return s->opts.slots != NULL;
}
/* Slots that may be taken, or kept, beside what running sequences need. */
int lf_states_n_spare(const struct lf_sched *s);
/* Whether a reference may be taken on a snapshot: one that is used anyway, or that can be spared. */
bool lf_states_may_hold(const struct lf_sched *s, int32_t slot);
/* The snapshot of a sequence behind n blocks, n >= 1, whose keys are known; -1: none. */
int32_t lf_states_find(const struct lf_sched *s, const struct lf_sched_seq *seq, int n);
/* The first mark of its prompt, in blocks, that is more than n and at most `most`, or the last one; 0: none. */
int lf_states_next_mark(const struct lf_sched_seq *seq, int n, int most);
int lf_states_last_mark(const struct lf_sched_seq *seq, int n, int most);
/* Snapshots that are kept for a pinned prompt of so many tokens: what goes on from its end, and itself. At most
 * LF_STATES_PINNED_N. */
int lf_states_n_pinned(const struct lf_sched_seq *seq);

/* Behind how many blocks the k-th of these stands; the second is the first but for a prompt that ends with a block. */
int lf_states_pinned_end(const struct lf_sched_seq *seq, int k);
/* Of these the ones that are not pinned already, whoever did it. */
int lf_states_n_to_pin(const struct lf_sched *s, const struct lf_sched_seq *seq);

/* seq has come: it has none. Also where there are no states. */
void lf_states_init(struct lf_sched_seq *seq);
/* seq gets a working slot; n > 0: it begins behind n blocks, where there is a snapshot. */
void lf_states_begin(struct lf_sched *s, struct lf_sched_seq *seq, int n);
/* What it does next begins behind n blocks, where there is a snapshot that another has made. */
void lf_states_take_over(struct lf_sched *s, struct lf_sched_seq *seq, int n);
/* For a restore: a slot for what comes. false: there is none to spare. */
bool lf_states_take_coming(struct lf_sched *s, struct lf_sched_seq *seq);
/* All of it is there, behind n blocks: seq goes on from it, and others may. */
void lf_states_leap(struct lf_sched *s, struct lf_sched_seq *seq, int n);
void lf_states_drop_coming(struct lf_sched *s, struct lf_sched_seq *seq);

/* What the step's last item does with the state, and the marks that it passes; first_token: among the step's. */
void lf_states_plan(struct lf_sched *s, struct lf_sched_step *step, int first_token);
/* The item has been launched, and its full blocks have been entered. */
void lf_states_launched(struct lf_sched *s, const struct lf_sched_step *step, const struct lf_sched_item *item);
/* More of its ids are known. */
void lf_states_known(struct lf_sched *s, struct lf_sched_seq *seq);

/* It ends: all goes back. */
void lf_states_release(struct lf_sched *s, struct lf_sched_seq *seq);
/* It ends, and what it pins stays: as pins, of what there is. */
void lf_states_pin(struct lf_sched *s, struct lf_sched_seq *seq);
void lf_states_unpin(struct lf_sched *s, struct lf_sched_seq *seq);

/* Asserts that slots and references agree. held, refs: of slots (lf_sched_check). */
void lf_states_check(const struct lf_sched *s, const int32_t *held, int32_t *refs);

#endif
