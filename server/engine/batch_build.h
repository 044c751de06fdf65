/* From a scheduler's step to a model's batch. */
#ifndef LF_SERVER_ENGINE_BATCH_BUILD_H
#define LF_SERVER_ENGINE_BATCH_BUILD_H

#include "model/batch.h"
#include "server/engine/scheduler.h"

/* Memory a batch is built in; owned by the engine. */
struct lf_batch_arrays {
    int32_t *ids;                /* [chunk] */
    struct lf_kv_seq *seqs;      /* [max_seqs] */
    int32_t *logits_idx;         /* [max_out] */
    struct lf_batch_out *outs;   /* [max_out] filled by output.c */
    struct lf_state_seq *states; /* [max_seqs]; NULL where there are none */
};

/* Points into arrays, the step's marks and the sequences' block tables: valid until the next build or the end of a
 * sequence.
 * Item i of the step is sequence i; its logits are the next n_out of the batch, in order. */
void lf_batch_build(struct lf_batch *out, const struct lf_batch_arrays *arrays, const struct lf_sched_step *step);

#endif
