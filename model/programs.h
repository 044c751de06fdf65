/* The programs of a model: the recorded one, and what the passes make of it for each kind of step. Made once for a plan
 * and once more when the model is opened; recording is deterministic, so both are the same. */
#ifndef LF_MODEL_PROGRAMS_H
#define LF_MODEL_PROGRAMS_H

#include "device/ops.h"
#include "model/hparams.h"
#include "model/passes/passes.h"
#include "model/program.h"

struct lf_programs {
    struct lf_program recorded; /* has the slots */
    struct lf_program of[LF_WANTED_N];
    /* For which their values have their places, as long as nobody asks for others. */
    struct lf_place_limits placed_for;
    uint64_t placed_begin, placed_end;
};

/* The recorded one alone: all that says which tensors there must be. Of several ranks that of hp->split. LF_NO_MEMORY,
 * LF_UNSUPPORTED and LF_INVALID as lf_pass_shard. */
LF_MUST_CHECK enum lf_status lf_program_record(struct lf_program *out, const struct lf_hparams *hp, struct lf_err *err);
/* For a device with these ops. no_fusion: the plain ops alone. LF_NO_MEMORY, LF_UNSUPPORTED where the device lacks
 * an op. */
LF_MUST_CHECK enum lf_status lf_programs_make(struct lf_programs *out, const struct lf_hparams *hp,
                                              const struct lf_ops *ops, bool no_fusion, struct lf_err *err);
void lf_programs_deinit(struct lf_programs *programs); /* accepts a zeroed one */

#endif
