/* The activation of a model's MLPs, by the names that transformers has for it. */
#ifndef LF_MODEL_ACTIVATION_H
#define LF_MODEL_ACTIVATION_H

#include "core/json.h"
#include "core/status.h"
#include "device/gate.h"

struct lf_arch; /* model/arch/arch.h */

/* What the architecture's key says, or, where it is absent, its default. LF_UNSUPPORTED, with the name, for one that is
 * not implemented, and where the file has the key of other architectures (hidden_act, hidden_activation) and that says
 * something else. */
LF_MUST_CHECK enum lf_status lf_activation_read(enum lf_act *out, const struct lf_arch *arch,
                                                struct lf_json_value config, struct lf_err *err);

#endif
