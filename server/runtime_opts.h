/* Options of a runtime before anything is opened: what several of them say together, and what cannot be. */
#ifndef LF_SERVER_RUNTIME_OPTS_H
#define LF_SERVER_RUNTIME_OPTS_H

#include "model/hparams.h"
#include "server/config.h"

/* --max-position, --rope-scaling. LF_INVALID. */
LF_MUST_CHECK enum lf_status lf_opts_stretch(struct lf_stretch *out, const struct lf_config *config,
                                             struct lf_err *err);
/* LF_UNSUPPORTED: what several ranks do not have yet; is_apart: they are processes. */
LF_MUST_CHECK enum lf_status lf_opts_check_ranks(const struct lf_config *config, int n_ranks, bool is_apart,
                                                 struct lf_err *err);

#endif
