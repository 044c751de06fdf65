/* A sequence, as the scheduler sees it: what is asked, what it holds, and how far it has come. */
#ifndef LF_SERVER_ENGINE_SCHED_SEQ_H
#define LF_SERVER_ENGINE_SCHED_SEQ_H

#include <stdbool.h>
#include <stdint.h>

#include "core/list.h"
#include "core/pin.h"
#include "kv/prefix_cache.h"
#include "kv/windows.h"
#include "server/engine/restore.h"
#include "server/engine/speculation.h"

struct lf_sched_tenant;

enum lf_sched_phase { LF_SCHED_NEW, LF_SCHED_WAITING, LF_SCHED_RUNNING, LF_SCHED_HOLDING, LF_SCHED_ENDED };

/* The entries that a block table holds, and those beside them that come from below. */
struct lf_sched_table {
    int first, end;
    int coming, coming_end;
};

/* Lives inside the request. The first group is set before submit. */
struct lf_sched_seq {
    int32_t *ids;               /* [n_prompt + max_tokens] borrowed; the prompt, then what was sampled */
    int32_t *blocks;            /* [groups, lf_sched_n_blocks] borrowed; the block tables, valid while
                                 * running: block_tables.h */
    struct lf_prefix_key *keys; /* [that + 1] borrowed; key of the chain before block i. NULL without prefix cache */
    int n_keys;                 /* of keys that are worked out: those of the prompt's full blocks, and the root */
    int block_tokens;           /* that a block of its tables, and a key, stands for: the scheduler's */
    int n_prompt, max_tokens;
    int priority;
    uint64_t tenant_id;
    enum lf_pin pin;      /* not NONE: max_tokens is 0, and there is a prefix cache */
    bool all_logits;      /* echo: logits of every prompt token, so nothing comes from the cache */
    const int32_t *marks; /* [n_marks] borrowed: where a part of the prompt ends that others may have too (marks.h) */
    int n_marks;
    const struct lf_sched_seq *leader;  /* waits until its prompt is computed or it ended; valid till then */
    struct lf_speculation *speculation; /* borrowed; NULL: nothing is proposed */
    struct lf_restore restore;          /* its states are set before submit where there is something below the cache */

    /* Kept by the scheduler; n_ids is raised by who appends. */
    struct lf_list node, tenant_node, prefill_node; /* of its tenant: in the queue, while waiting; among the prefills */
    struct lf_sched_tenant *tenant;                 /* from submit on */
    enum lf_sched_phase phase;
    int n_ids;          /* prompt and sampled, placeholders included */
    int n_placeholders; /* the last of these: sampled by steps that have not ended */
    int n_done;         /* in the KV cache, or will be when the steps that were launched have ended */
    int n_cached;       /* of the prompt, taken from the prefix cache, or restored */
    int n_restored;     /* of these: from below the cache */
    int table_stride;   /* entries of a table, from one to the next */
    int n_blocks;       /* of these in use, while running: all */
    struct lf_sched_table tables[LF_KV_WINDOWS_N]; /* of each group */
    /* Slots (states.h), with a reference each; -1: none. */
    int32_t state;               /* its own, while running */
    int32_t state_in;            /* what its next step begins with; -1: its own, or zeros at 0 */
    int32_t state_coming;        /* what is brought back */
    int32_t state_mark;          /* behind n_mark blocks, of which not all ids are known */
    int32_t states_pinned[2];    /* behind the blocks of n_prompt - 1 and of n_prompt tokens, as pins */
    int n_mark, n_multiple, due; /* n_multiple: blocks before its last mark at a multiple; due: pins promised to it */
    int n_entered;               /* leading blocks that were offered to the prefix cache, or came from it */
    int n_hint;                  /* leading blocks that it could have had from the cache when last looked */
    int n_leading;               /* lf_sched_leading_blocks, when last looked */
    int64_t submitted_ns;        /* when it came */
    int64_t order_ns;            /* what the queue is sorted by */
    int64_t admitted_ns;         /* 0: not yet */
    uint64_t admitted_no;
    double left_ns;         /* lf_prefill_left_ns, as of the step being planned */
    int n_planned;          /* tokens in that; -1: looked at, none */
    int n_settled, n_asked; /* while holding: tiers.c's */
    bool waits; /* nothing of its prompt can be computed before something comes back from below (restore.h) */
};

static inline bool lf_sched_in_prefill(const struct lf_sched_seq *seq)
{
    return seq->n_done < seq->n_prompt;
}

/* All of its ids are there; the last one may be a placeholder. */
static inline bool lf_sched_has_all(const struct lf_sched_seq *seq)
{
    return seq->n_ids == seq->n_prompt + seq->max_tokens;
}

#endif
