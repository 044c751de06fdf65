/* The block tables of a sequence: one for each group of layers (kv/windows.h), table g at blocks + g · table_stride. Of
 * each it holds the entries [first, end), with a reference each; the others name some block, whose content means
 * nothing.
 *
 *     a group that sees all    all entries, from admission to the end; firm references
 *     a group with a window    what is seen from the last full block, and what the step being planned writes; loose
 *                              ones. It slides: cover takes blocks for a step, slide lets go of those behind once the
 *                              step has been launched
 *
 * That taking never fails is arithmetic: at admission lf_kv_windows_held blocks are reserved for each window, and
 *
 *     firm blocks + Σ reserved + slack ≤ blocks of the pool           (lf_sched_n_spare ≥ 0)
 *
 * holds at all times, because whatever makes a block firm asks first. Blocks with loose references alone are at most
 * those that tables hold, which are at most those reserved between steps, and at most slack more within one. So while a
 * table has fewer than it may have, a block is free or cached. Who shares a block with whom makes no difference: one
 * that is let go and stays another's was in both reservations. */
#ifndef LF_SERVER_ENGINE_BLOCK_TABLES_H
#define LF_SERVER_ENGINE_BLOCK_TABLES_H

#include "server/engine/scheduler.h"

static inline int32_t *lf_sched_table(const struct lf_sched_seq *seq, int group)
{
    return seq->blocks + (ptrdiff_t)group * seq->table_stride;
}
/* Blocks of the pool that may become firm, or be reserved. */
int64_t lf_sched_n_spare(const struct lf_sched *s);
/* Blocks of the pool that a sequence of such a length takes: reserved for windows, firm for the rest. */
int64_t lf_sched_need(const struct lf_sched *s, int n_prompt, int max_tokens);

/* seq gets references on what the first n blocks are found in, and their tokens are done. */
void lf_tables_get_hit(struct lf_sched *s, struct lf_sched_seq *seq, int n);
/* Puts that again. */
void lf_tables_drop_hit(struct lf_sched *s, struct lf_sched_seq *seq);
/* seq, which has its hit, gets the rest of what it will ever need. There is spare for it. */
void lf_tables_reserve(struct lf_sched *s, struct lf_sched_seq *seq);
/* All entries up to the block of position n_tokens - 1. */
void lf_tables_cover(struct lf_sched *s, struct lf_sched_seq *seq, int n_tokens);
/* Lets go of what nothing looks at any more. */
void lf_tables_slide(struct lf_sched *s, struct lf_sched_seq *seq);
/* Blocks from n_done on, up to n, have been found to be in the cache, in each group as far as they are seen from n on:
 * they take the place of the sequence's own. */
void lf_tables_take_over(struct lf_sched *s, struct lf_sched_seq *seq, int n);
/* For a leap (restore.h) to the end of n blocks: the blocks of windows that come from below, with firm references, for
 * which there is spare; then it leaps, or not. */
void lf_tables_take_coming(struct lf_sched *s, struct lf_sched_seq *seq, int n);
void lf_tables_leap(struct lf_sched *s, struct lf_sched_seq *seq, int n);
void lf_tables_drop_coming(struct lf_sched *s, struct lf_sched_seq *seq);
/* Offers what has become full to the prefix cache, those of the answer too once their ids are known. */
void lf_tables_enter(struct lf_sched *s, struct lf_sched_seq *seq);
/* Puts everything, from the last block to the first. What is seen from where it ends stays cached. */
void lf_tables_release(struct lf_sched *s, struct lf_sched_seq *seq);
/* What its prompt's full blocks are found in stays, as pins: all of it, and of windows what is seen from its end. The
 * rest is put. */
void lf_tables_pin(struct lf_sched *s, struct lf_sched_seq *seq);
void lf_tables_unpin(struct lf_sched *s, struct lf_sched_seq *seq);
/* Adds the references of what runs or holds to refs, [pool->n_blocks], and its loose ones to *n_loose; asserts that it
 * holds what it is to hold. Returns what is reserved for it. */
int64_t lf_tables_check(const struct lf_sched *s, const struct lf_sched_seq *seq, int32_t *refs, int64_t *n_loose);
/* Asserts that what it may write is its own; refs: of all sequences. */
void lf_tables_check_writable(const struct lf_sched *s, const struct lf_sched_seq *seq, const int32_t *refs);

#endif
