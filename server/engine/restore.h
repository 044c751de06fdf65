/* Bringing blocks of a prompt back from below the cache (kv/tiers) instead of computing them.
 *
 * When a sequence is admitted, each block of its prompt that the cache does not have is looked for below. From then on
 * every block is in one of four states:
 *
 *     to compute ◄──── claimed by a chunk ──── below ──── next ────► coming ──── back, whole ────► there
 *          ▲                                                            │
 *          └──────────────────────────── back, broken or gone ──────────┘
 *
 * The sequence computes from where it is, and steps over what is there. Its key proves what a block holds, whatever
 * lies before it, so there may be holes: they are computed. There are two ways:
 *
 *     wait   blocks come from the front on, and nothing is computed that is below. Where the disk is much faster than
 *            the device, computing would only take the device from others.
 *     meet   blocks come from the end of the prompt backwards, while the device computes from the front, where tokens
 *            are cheap because they look at few keys. Both work until they meet: with the times c and l that either
 *            would take alone, that is after at most c · l / (c + l). A block is sent for only if it will be back
 *            before the device could have computed up to it, so that neither waits for the other in the end.
 *
 * There may be several tiers below (kv/tiers/tier.h). A block comes from the fastest that has it, and all of them bring
 * blocks at once: what is below takes as long as the tier that needs longest for its part. Where that is too long, the
 * blocks of that tier are computed, and the others looked at again.
 *
 * Which way is taken follows from predicted times (lf_restore_choose), so a restore is never slower than the better of
 * computing and loading, as far as the predictions hold. Where two ways of computing may differ in their bits (a GPU)
 * only waiting is allowed. Who waits chooses again as the disk turns out to be slower than was predicted. Of
 * computing the engine knows what the process before has measured (engine.h). Where there was none nothing is known
 * before the first step: both begin, where that is allowed and loading is longer than a step.
 *
 * Where layers form several groups, or have windows (block_tables.h), nothing is stepped over block by block: behind a
 * window's blocks that were never there nothing can be computed. The sequence leaps: the longest prefix is looked for
 * that is below as far as it is seen from behind it (all blocks of the groups that see all, of the others those of the
 * window before its end), it waits for all of that, and computes on from there. Should one block not come, it computes
 * from where it was. While they come, blocks of windows have firm references beside what is reserved: where there is no
 * room for that it computes, too.
 *
 * With states (states.h) it leaps as well, to a place of which a snapshot is below: that comes in parts, each as long
 * as a block, into a slot of its own. Where no slot can be spared it computes.
 *
 * Pure bookkeeping; the engine thread's. Bytes are moved by tiers.c. */
#ifndef LF_SERVER_ENGINE_RESTORE_H
#define LF_SERVER_ENGINE_RESTORE_H

#include <stdbool.h>
#include <stdint.h>

struct lf_prefix_key;
struct lf_sched;
struct lf_sched_seq;

enum lf_restore_state { LF_RESTORE_NONE, LF_RESTORE_BELOW, LF_RESTORE_COMING, LF_RESTORE_THERE };
enum lf_restore_way { LF_RESTORE_NOT, LF_RESTORE_WAIT, LF_RESTORE_MEET };

enum { LF_RESTORE_TIERS_N = 2, LF_RESTORE_TOLD_N = 8 };

/* What restores one sequence; all zeros: nothing. Block indices are those of its tables: of block i in group g that is
 * g · table_stride + i, where it leaps; behind those of all groups are the parts of a snapshot. */
struct lf_restore {
    uint8_t *states; /* [groups, blocks of the prompt] of lf_restore_state_at, then [slot_blocks], borrowed; zeros at
                        first */
    bool leaps;      /* to end, once all is there */
    int first_part;  /* where it leaps, and there are parts: the index of the first; else 0 */
    bool failed;     /* something is not to be had */
    int next;        /* where it leaps: nothing before it is to be sent for */
    enum lf_restore_way way;
    int first, end;                  /* outside of [first, end) all states are NONE */
    int n_below[LF_RESTORE_TIERS_N]; /* of each tier */
    int n_coming;                    /* from all of them */
};

/* How to look below; of the scheduler's options. */
struct lf_restore_source {
    /* A prompt asks for a block: the fastest tier that has it, counted from 0; -1: none has. NULL: there is nothing
     * below. */
    int (*find)(void *ctx, const struct lf_prefix_key *key);
    void *ctx;
    bool may_meet; /* what is computed has the same bits as what was kept */
    /* Of each tier, predicted for a block of many. It is learnt from loads. Where none is made because it is too long
     * it shrinks with each refusal, so that a tier that was slow for a while is tried again. */
    double block_ns[LF_RESTORE_TIERS_N];
    /* It is a guess until n_told blocks have come, here or in the process before (0: LF_RESTORE_TOLD_N): what has come,
     * and in which time. Meanwhile no more are sent for than tell the rate: what is sent for is waited for. */
    struct lf_restore_guess {
        bool is_guess;
        int n_told;
        double n, ns;
    } guesses[LF_RESTORE_TIERS_N];
};

/* What is on its way, of all sequences, and may be: of each tier. */
struct lf_restore_traffic {
    int n_ahead[LF_RESTORE_TIERS_N], n_most[LF_RESTORE_TIERS_N];
};

struct lf_restore_sender {
    bool (*may)(void *ctx, const struct lf_sched_seq *seq); /* whether what seq reserved may be written to already */
    void (*send)(void *ctx, struct lf_sched_seq *seq, int i, int tier);
    void *ctx;
};

/* Of computing alone, loading alone and both at once the one that is done first; of two that are nearly as good the one
 * that leaves the device to others. */
enum lf_restore_way lf_restore_choose(double compute_ns, double load_ns, bool may_meet);

/* seq has just got its blocks: looks for [first, end) below and chooses the way. */
void lf_restore_plan(struct lf_sched *s, struct lf_sched_seq *seq, int first, int end);
/* Of block i of its table, and which tier it comes from. */
enum lf_restore_state lf_restore_state_at(const struct lf_sched_seq *seq, int i);
int lf_restore_tier_at(const struct lf_sched_seq *seq, int i);
/* The block to load next, from a tier of which more may be on its way; it is coming from here on. -1: none, or not yet.
 */
int lf_restore_next(const struct lf_sched *s, struct lf_sched_seq *seq, const struct lf_restore_traffic *traffic);
/* Sends for blocks of what runs, as many as keep each tier busy until the next step has ended, n_most of a tier at once
 * at most, of which n_ahead[tier] are on their way already. Whoever has the fewest coming is next, so that a short
 * prompt does not wait for a long one. Takes rounds over what runs only for those that are sent for. */
void lf_restore_send(struct lf_sched *s, const struct lf_restore_sender *sender, const int n_ahead[LF_RESTORE_TIERS_N],
                     int n_most);
/* n blocks have come from a tier while its loads were under way for ns. A mean that forgets: the last 32 count for half
 * of it; the first ones replace a guess. */
void lf_restore_learn(struct lf_restore_source *below, int tier, double n, double ns);
/* A block that was coming is here, or is not to be had. */
void lf_restore_back(struct lf_sched_seq *seq, int i, bool whole);
/* Block i is the sequence's by other means: whatever is coming for it is not needed. */
void lf_restore_forget(struct lf_sched_seq *seq, int i);
/* Steps over what is there; returns how many tokens that were. */
int lf_restore_step_over(struct lf_sched_seq *seq);
/* Where it leaps and all is there, or is not to be had: leaps, or goes on computing where it is. Returns how many
 * tokens it leapt over. */
int lf_restore_leap(struct lf_sched *s, struct lf_sched_seq *seq);
/* The group of a block index, and its place in that group's table; of a part neither means anything. */
int lf_restore_group(const struct lf_sched_seq *seq, int i);
int lf_restore_idx(const struct lf_sched_seq *seq, int i);
/* Which part of the snapshot behind restore.end blocks it is; -1: it is a block. */
int lf_restore_part(const struct lf_sched_seq *seq, int i);
/* Tokens from n_done on that may be computed now: 0 while it waits. */
int lf_restore_room(const struct lf_sched_seq *seq);
/* The next n tokens are computed: their blocks need not come any more. */
void lf_restore_claim(struct lf_sched_seq *seq, int n);
/* Where it will compute next if all comes that is waited for: n_done, or the end of the blocks it waits for. */
int lf_restore_next_computed(const struct lf_sched_seq *seq);

#endif
