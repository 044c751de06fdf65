/* A CPU device that has fused RMSNorms as a GPU has them (struct lf_fused_norm): plain loops around its GEMM. With it
 * what a GPU computes from a program is computed, and looked at, on any machine. One device at a time. */
#ifndef LF_TESTS_SUPPORT_FUSED_NORMS_H
#define LF_TESTS_SUPPORT_FUSED_NORMS_H

#include "device/device.h"

/* For model_rig_opts.adapt. */
void fused_norms_add(struct lf_device *dev);
/* GEMMs with an epilogue, and with a prologue, since then; and norms that were ops of their own. */
struct fused_norms_counts {
    int n_epilogues, n_prologues, n_plain;
};
struct fused_norms_counts fused_norms_counts(void);

#endif
