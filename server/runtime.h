/* What serve, run and plan share: a model directory on its way from files to a running engine.
 *
 * open reads the small files (config.json, tokenizer, template) and opens the device; plan adds up the memory; load
 * reads the weights and allocates what the plan said; start makes the engine. Each step needs the one before. All calls
 * from one thread; after start the engine thread drives device, model and cache until close. */
#ifndef LF_SERVER_RUNTIME_H
#define LF_SERVER_RUNTIME_H

#include "kv/kv_cache.h"
#include "kv/tiers/disk_store.h"
#include "model/hparams.h"
#include "model/model.h"
#include "model/plan.h"
#include "model/split_choice.h"
#include "server/config.h"
#include "server/model_dir.h"
#include "template/answer_vocabulary.h"

struct lf_chat_template;
struct lf_engine;
struct lf_ranks;
struct lf_tokenizer;

struct lf_runtime {
    const struct lf_config *config; /* borrowed */
    bool is_auto_split;             /* --parallel auto (auto_split.h) */
    struct lf_splits splits;        /* what it was chosen from; n 0: nothing was */
    struct lf_model_dir dir;
    struct lf_device_opts dev_opts; /* of each rank's */
    struct lf_device *dev;
    struct lf_hparams hp;
    struct lf_tokenizer *tok;               /* NULL: the directory has none */
    bool id_text;                           /* --load dummy without a tokenizer: texts are ids */
    struct lf_chat_template *chat;          /* NULL: the model has no template */
    uint64_t process_bytes;                 /* resident, measured at the end of open */
    struct lf_answer_vocabulary vocabulary; /* for grammars; zeroed: not asked for, or texts are ids */
    uint64_t kv_block_bytes;                /* of the cache that the model needs */
    int slot_blocks;                        /* of its states; 0: none */
    struct lf_weights_size weights;         /* measured for the plan */
    struct lf_plan plan;
    int rank;               /* of --rank, a process for each; LF_RANK_THREADS: this is rank 0, the others are threads */
    struct lf_ranks *ranks; /* the others, of several; NULL: there is one */
    struct lf_model *model;
    struct lf_disk_store disk; /* --cache-dir, else zeroed */
    struct lf_kv_cache kv;
    struct lf_engine *engine;
    uint64_t n_steps_kept; /* when what was measured was kept last */
};

/* need_tokenizer: a directory without one is LF_NOT_FOUND, unless its weights are dummies as well. On failure nothing
 * is left to close. */
LF_MUST_CHECK enum lf_status lf_runtime_open(struct lf_runtime *rt, const struct lf_config *config, bool need_tokenizer,
                                             struct lf_err *err);
/* From now on the model is divided over so many ranks, and contexts over n_cp times as many: before plan.
 * LF_UNSUPPORTED beside what they do not have yet. */
LF_MUST_CHECK enum lf_status lf_runtime_split(struct lf_runtime *rt, int n_ranks, int n_cp, struct lf_err *err);
/* The device anew, for its ranks share the host's threads: before load. */
LF_MUST_CHECK enum lf_status lf_runtime_reopen(struct lf_runtime *rt, struct lf_err *err);
/* Fills rt->plan, and makes the vocabulary that it counts where answers may be constrained: by a server, or by
 * --json-schema and the like. serves: with what an HTTP server takes. A plan that does not fit is LF_OK: look at
 * rt->plan.fits. */
LF_MUST_CHECK enum lf_status lf_runtime_plan(struct lf_runtime *rt, bool serves, struct lf_err *err);
/* What the configuration says of the model, but for what only loading needs. Borrows from rt. */
struct lf_model_opts lf_runtime_model_opts(const struct lf_runtime *rt);
/* --rank: waits for the processes of the other ranks, and is in a group with them (rt->ranks). Rank 0 does so in load;
 * the others before they plan. What lf_rank_join returns. */
LF_MUST_CHECK enum lf_status lf_runtime_join(struct lf_runtime *rt, struct lf_err *err);
/* The plan of a rank that has joined, and is not rank 0: by the sizes that rank 0 tells, which come from its memory and
 * options. LF_NO_MEMORY where that does not fit here; what has ended the group. */
LF_MUST_CHECK enum lf_status lf_runtime_plan_told(struct lf_runtime *rt, struct lf_err *err);
/* The memory for texts that the plan counts. */
uint64_t lf_runtime_text_bytes(const struct lf_runtime *rt);
/* Weights and cache; before that the lock of --cache-dir. progress (may be NULL) is called with bytes done of total. */
LF_MUST_CHECK enum lf_status lf_runtime_load(struct lf_runtime *rt,
                                             void (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx,
                                             struct lf_err *err);
/* The engine and its thread, which inherits the caller's signal mask. */
LF_MUST_CHECK enum lf_status lf_runtime_start(struct lf_runtime *rt, struct lf_err *err);
/* Beside the blocks on disk, for the next process: what the engine has measured, if there is more than the last time.
 */
void lf_runtime_keep_speed(struct lf_runtime *rt);
void lf_runtime_close(struct lf_runtime *rt); /* accepts a zeroed one, and any stage */

/* Makes the process's memory predictable: one heap, returned to the system when freed. Before any thread is made. */
void lf_runtime_tame_heap(void);
/* The highest resident size of this process so far, bytes; 0 where the system does not say. */
uint64_t lf_runtime_peak_bytes(void);

#endif
