/* What a request is made of, for the engine's own files. Fields are grouped by who may touch them. */
#ifndef LF_SERVER_ENGINE_REQUEST_INTERNAL_H
#define LF_SERVER_ENGINE_REQUEST_INTERNAL_H

#include <stdatomic.h>

#include "core/list.h"
#include "kv/tiers/pins.h"
#include "server/engine/request.h"
#include "server/engine/scheduler.h"

struct lf_engine_backend;
struct lf_mailbox;

struct lf_request {
    /* Immutable from submit on. The arrays are the request's own, in one allocation with it. */
    struct lf_mailbox *mailbox;  /* borrowed */
    struct lf_gen_params params; /* prompt, marks, stop_token_ids and bad_words point into the arrays below; salt
                                  * and leader are NULL */
    const int32_t *stop_ids;     /* [n_stop_ids] that end it: EOS, unless ignored, and its own */
    int n_stop_ids;
    struct lf_speculation speculation; /* the engine thread's; in use where seq points at it */
    const uint32_t *allowed;           /* a mask of params.allowed_ids, NULL: any */
    struct lf_matcher *matcher; /* of params.grammar, NULL: none; the engine thread's, or one of its mask threads' */
    size_t token_stride, prompt_stride; /* bytes from one entry to the next; see request.c */

    /* The engine thread's. */
    struct lf_sched_seq seq;
    struct lf_pin_node *pins;    /* [full blocks of the prompt] of params.pin; NULL: none */
    bool is_pinned;              /* they are in the engine's table */
    bool holds;                  /* it has ended, and holds what it pins: the engine's reference stays */
    int slot;                    /* its number among those that run */
    uint64_t n_steps_before;     /* launched before it was admitted */
    struct lf_request *leader;   /* a reference, until it leaves the queue; let go under the lock */
    char *tokens;                /* [max_tokens] entries; readers see those below the published count */
    char *prompt_logprobs;       /* [n_prompt] entries, or NULL; the same */
    struct lf_request_state now; /* what will be published */
    int64_t last_token_ns;
    bool touched;                    /* has something to publish */
    struct lf_request *next_touched; /* chain of those */
    bool notify_now;                 /* publish is calling its notify */

    /* Under the mailbox's lock. */
    struct lf_request_state state; /* what is published */
    struct lf_list inbox_node;
    struct lf_list flight_node; /* while not finished */
    struct lf_list pin_node;    /* of params.pin, while it may hold something */
    struct lf_request *next_dead;
    int n_refs;      /* the caller's, the engine's, its followers' */
    int n_notifying; /* threads that are calling notify */
    bool abandoned;  /* the caller has let go: no notify any more */
    bool waiting;    /* counts into the queue's limits */
    int n_coming;    /* of a group's first: those that have not followed it in yet, and their prompts' tokens */
    int64_t coming_tokens;
    int64_t charged; /* tokens, where its tenant has a quota */
    bool metered;    /* its prompt has been counted for its tenant */

    /* The janitor's. */
    struct lf_request *janitor_next;
    bool janitor_notifies;

    _Atomic bool cancelled; /* any thread sets it */
};

/* Copies everything; n_refs is 1, the caller's. The chain of keys is worked out here, where prefix is not NULL, and a
 * grammar's matcher begins. LF_NO_MEMORY; LF_LIMIT: a grammar too wide for its bounds; LF_UNSUPPORTED: below min_tokens
 * none of the allowed ids may come. Any thread. */
LF_MUST_CHECK enum lf_status lf_request_create(struct lf_request **out, const struct lf_gen_params *params,
                                               const struct lf_engine_backend *backend,
                                               const struct lf_prefix_cache *prefix, struct lf_mailbox *mailbox,
                                               struct lf_err *err);
void lf_request_free(struct lf_request *req);

/* Entries of the outputs; the engine thread writes, with as much of *value as the entry has room for. */
void lf_request_set_token(struct lf_request *req, int i, const struct lf_sampled *value);
void lf_request_set_prompt_logprob(struct lf_request *req, int i, const struct lf_sampled *value);

#endif
