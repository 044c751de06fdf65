/* RoPE of config.json (hparams.h). */
#ifndef LF_MODEL_ROPE_CONFIG_H
#define LF_MODEL_ROPE_CONFIG_H

#include "core/json.h"
#include "core/status.h"
#include "model/hparams.h"

enum { LF_STRETCH_TEXT_BYTES = 96 };

/* ropes, n_ropes, made_positions and max_positions of hp, and the rope of each layer. hp has its sizes and its layers'
 * windows. root: the object in which the model of text is described. LF_CORRUPT, LF_UNSUPPORTED; LF_INVALID for a
 * stretch that the model cannot have. */
LF_MUST_CHECK enum lf_status lf_rope_config_read(struct lf_hparams *hp, const struct lf_arch *fam,
                                                 struct lf_json_value root, struct lf_err *err);
/* What becomes of positions behind those that the model was made for, in a few words. */
void lf_rope_stretch_text(const struct lf_hparams *hp, char out[LF_STRETCH_TEXT_BYTES]);

#endif
