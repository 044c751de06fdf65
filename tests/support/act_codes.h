/* A CPU device whose GEMMs take activations as FP8 codes, as some of a GPU's do (quantizes_x of device/ops.h): plain
 * loops around its own ops. What its norms and gated activations do not write as codes its GEMMs quantize themselves,
 * so that a fused program and one that is not have the same bits. One device at a time. */
#ifndef LF_TESTS_SUPPORT_ACT_CODES_H
#define LF_TESTS_SUPPORT_ACT_CODES_H

#include "device/device.h"

/* For model_rig_opts.adapt. */
void act_codes_add(struct lf_device *dev);
/* Ops that wrote codes, and GEMMs that were given some, since then, those of experts also for themselves; and GEMMs
 * that quantized x themselves. */
struct act_codes_counts {
    int n_norms, n_gates, n_given, n_experts, n_own;
};
struct act_codes_counts act_codes_counts(void);

#endif
