/* Several ranks of a model in one process: a thread with a rig of its own for each. */
#ifndef LF_TESTS_SUPPORT_RANK_RIGS_H
#define LF_TESTS_SUPPORT_RANK_RIGS_H

#include "device/comm.h"
#include "tests/support/model_rig.h"

/* What a rank does once its rig is open. All do the same steps. */
typedef void rank_fn(struct model_rig *rig, int rank, void *ctx);

/* Opens a rig for each of n_ranks, or of as many for each part of a context (opts->split.n_cp; the rest of the split,
 * and comm, are set here), runs fn on each and closes them. Fails the test where one does not open, or the ranks have
 * lost each other. */
void rank_rigs_run(const struct model_rig_opts *opts, int n_ranks, rank_fn *fn, void *ctx);
/* The same, but fn is rank 0's alone, which launches steps; the others follow until it returns or has ended
 * the model (lf_model_end). */
void rank_rigs_lead(const struct model_rig_opts *opts, int n_ranks, rank_fn *fn, void *ctx);

#endif
