/* Which tensors of a checkpoint a part of a slot is made of: found by name, checked by type and shape. */
#ifndef LF_MODEL_BIND_H
#define LF_MODEL_BIND_H

#include "model/hparams.h"
#include "model/slot.h"
#include "model/stage.h"

/* What the part is called where its values are made or hashed, into part->name: part_idx and expert are set. */
void lf_part_name(struct lf_part *part, const struct lf_slot *slot);
/* Finds the part's tensors in the set and how they hold it: sets all that stage.h needs. LF_CORRUPT for a tensor that
 * is missing or has another shape, LF_UNSUPPORTED for a type that is not implemented, LF_LIMIT. */
LF_MUST_CHECK enum lf_status lf_part_bind(struct lf_part *part, const struct lf_slot *slot, const struct lf_hparams *hp,
                                          const struct lf_tensor_set *set, struct lf_err *err);
/* The same of dummy weights: of what config.json says and nothing else, how the part would be quantized. */
LF_MUST_CHECK enum lf_status lf_part_bind_dummy(struct lf_part *part, const struct lf_slot *slot,
                                                const struct lf_hparams *hp, struct lf_err *err);
/* The format of a bound part's rows as the files have them, whichever way they are loaded: of canonical rows
 * (core/format.h) of a quantized matrix, else plain. Blocks of rows are told only where they are those of the slot. */
struct lf_format lf_part_format(const struct lf_part *part, const struct lf_slot *slot);

#endif
