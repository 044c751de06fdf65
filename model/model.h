/* A transformer on a device: opened from a directory, run a step at a time. It does not know that tokens are text.
 *
 * One thread at a time. A step allocates nothing, and fails only where the device does. */
#ifndef LF_MODEL_MODEL_H
#define LF_MODEL_MODEL_H

#include "device/cpu/threads.h"
#include "device/comm.h"
#include "device/device.h"
#include "kv/kv_cache.h"
#include "model/batch.h"
#include "model/hparams.h"
#include "model/op_table.h"
#include "model/plan.h"

struct lf_model;

enum lf_load { LF_LOAD_FILES, LF_LOAD_DUMMY };

struct lf_model_opts {
    const char *dir;
    enum lf_load load;
    enum lf_code quantize; /* what plain matrices become (quantize.h); LF_CODE_NONE: they stay */
    uint64_t dummy_seed;
    const struct lf_plan *plan; /* sizes of the workspace; copied */
    struct lf_comm *comm;       /* of several ranks, of which hp->split says which this is; borrowed. NULL: one */
    const char *program;        /* what computes: version, commit and so on; for the identity. NULL: "" */
    bool hash_weights;          /* the identity holds the bytes of the weights, not only their shapes; of several ranks
                                   those of this one's part */
    bool ends_together;         /* of several ranks: of a step that rank 0 has read all ranks have ended their part, so
                                   their caches may be copied beside the queues; costs a barrier where no other
                                   collective is a step's last */
    /* Loading progress, bytes done of total; may be NULL. */
    void (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *progress_ctx;
};

struct lf_weights_size {
    uint64_t bytes;          /* of all weights, packed */
    struct lf_format format; /* of the layers' matrices, of most of them */
    bool quantized;          /* from plain ones, where they are loaded */
};
/* From config.json and the safetensors headers alone; checks that every tensor the architecture needs is there with its
 * shape, and that the device has kernels for what it becomes. opts' dir, load and quantize count; load DUMMY: from hp
 * alone. */
LF_MUST_CHECK enum lf_status lf_weights_measure(struct lf_weights_size *out, const struct lf_hparams *hp,
                                                const struct lf_model_opts *opts, struct lf_device *dev,
                                                struct lf_err *err);

/* hp is copied (its layers too). */
LF_MUST_CHECK enum lf_status lf_model_open(struct lf_model **out, struct lf_device *dev, const struct lf_hparams *hp,
                                           const struct lf_model_opts *opts, struct lf_err *err);
void lf_model_close(struct lf_model *model); /* accepts NULL */
/* How its KV cache must be laid out; borrowed. */
const struct lf_kv_layout *lf_model_kv_layout(const struct lf_model *model);
/* The identity under which blocks of its KV cache are kept (model/identity.h). */
void lf_model_identity(const struct lf_model *model, uint8_t out[32]);

/* Last preparations once the cache is there, so that no step needs any: kernels are chosen, graphs are recorded. Writes
 * to no block. */
LF_MUST_CHECK enum lf_status lf_model_prepare(struct lf_model *model, struct lf_kv_cache *kv, struct lf_err *err);

/* Appends the batch's tokens to the cache and makes of each logits row what batch->outs says; lf_model_wait hands the
 * results over, in the order of the launches. At most lf_model_n_async_steps + 1 launches may be without their wait.
 * kv: blocks of every sequence are reserved and writable. LF_DEVICE: the device has failed, for good.
 *
 * Of several ranks, rank 0 launches; the others follow (lf_model_follow). LF_DEVICE: one of them is gone, for good.
 *
 * Where batch->samples_later says so, the logits are all that is made: lf_model_sample makes the rest, from the same
 * batch, before the next launch. In between the results of the launch before may be waited for, and what outs[i].mask
 * points at be written. */
LF_MUST_CHECK enum lf_status lf_model_launch(struct lf_model *model, struct lf_kv_cache *kv,
                                             const struct lf_batch *batch, struct lf_err *err);
LF_MUST_CHECK enum lf_status lf_model_sample(struct lf_model *model, const struct lf_batch *batch, struct lf_err *err);
/* Rank 0, between steps: tells the others that it is there, if it has told them nothing for LF_MODEL_BEAT_MS. To be
 * called at least as often: they wait for it no longer than in a step. LF_DEVICE: one of them is gone, for good. */
enum { LF_MODEL_BEAT_MS = 1000 };
LF_MUST_CHECK enum lf_status lf_model_beat(struct lf_model *model, struct lf_err *err);
/* Rank 0: the last of its calls before the model is closed. The others do not wait for it any more. */
void lf_model_end(struct lf_model *model);
/* What the other ranks do all the time: hears of each step that rank 0 launches, and runs it on a cache like rank 0's.
 * Returns when the group has ended, with the status and the reason of that: LF_SHUTDOWN behind lf_model_end,
 * LF_DEVICE where a rank is gone. */
LF_MUST_CHECK enum lf_status lf_model_follow(struct lf_model *model, struct lf_kv_cache *kv, struct lf_err *err);
/* out: [n_out of the launch]. */
LF_MUST_CHECK enum lf_status lf_model_wait(struct lf_model *model, struct lf_sampled *out, struct lf_err *err);
/* Asynchronous scheduling: how many steps may be launched before the result of the one before them is known. 1 on a
 * GPU, which feeds what it samples into the next step by itself, 0 on a CPU. */
int lf_model_n_async_steps(const struct lf_model *model);
/* Whether a CPU's pool of threads lies idle between launch and sample, and a loop of it then (lf_threads_run). */
bool lf_model_has_workers(const struct lf_model *model);
void lf_model_run_tasks(struct lf_model *model, int n_tasks, lf_task_fn *fn, void *tasks);
/* As launch and sample without sampling, for tests and benchmarks: logits[i, :] of token logits_idx[i], host, [n_out,
 * n_vocab] float. Nothing may be on its way. Of several ranks each calls it, and has the same logits. */
LF_MUST_CHECK enum lf_status lf_model_step(struct lf_model *model, struct lf_kv_cache *kv, const struct lf_batch *batch,
                                           float *logits, struct lf_err *err);

/* What the ops of a step take, before a weight is read: opts' dir, load, quantize and plan count. As
 * lf_weights_measure, and
 * LF_LIMIT. */
LF_MUST_CHECK enum lf_status lf_model_plan_ops(struct lf_op_table *out, const struct lf_hparams *hp,
                                               const struct lf_model_opts *opts, struct lf_device *dev,
                                               const struct lf_op_step *step, struct lf_err *err);
/* The same, with the time that each op took: the step is run n_runs times on what is in the cache's first blocks, whose
 * last tokens it overwrites. LF_INVALID where the cache or a step has no room for it. Nothing may be on its way. */
LF_MUST_CHECK enum lf_status lf_model_profile(struct lf_op_table *out, struct lf_model *model, struct lf_kv_cache *kv,
                                              const struct lf_op_step *step, int n_runs, struct lf_err *err);

#endif
