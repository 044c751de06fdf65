/* The weights of a model on a device: bound by name, checked by shape, packed for the GEMM.
 *
 * Which there are is what the model's program has slots for (program.h). All of them live in one buffer, whose size is
 * a closed formula over slots and formats. */
#ifndef LF_MODEL_WEIGHTS_H
#define LF_MODEL_WEIGHTS_H

#include <stdint.h>

#include "device/device.h"
#include "device/ops.h"
#include "model/hparams.h"
#include "model/model.h"
#include "model/program.h"
#include "model/safetensors.h"

struct lf_weights {
    struct lf_weight *of;         /* [n_slots], owned: a vector is [n_out, 1] of float, only its data counts */
    struct lf_buffer buffer;      /* owned: the bytes of all of them */
    uint8_t sha[LF_SHA256_BYTES]; /* of all bytes read (model/identity.h), where the options ask for it */
};

/* Which format each matrix has and where it lies; made from headers or, for dummy weights, from slots alone. */
struct lf_weight_layout;

/* program: the recorded one; borrowed, as the set is, which is NULL for dummy weights. quantize: what plain matrices
 * become (quantize.h), LF_CODE_NONE: they stay. LF_CORRUPT for a tensor that a slot needs and the set lacks, and for a
 * shape that is another, LF_UNSUPPORTED for an element type or a tensor that would take part and is not implemented,
 * and for what the device has no kernels for. Tensors that take no part are named in the log. */
LF_MUST_CHECK enum lf_status lf_weight_layout_make(struct lf_weight_layout **out, const struct lf_hparams *hp,
                                                   const struct lf_program *program, const struct lf_tensor_set *set,
                                                   enum lf_code quantize, struct lf_device *dev, struct lf_err *err);
void lf_weight_layout_free(struct lf_weight_layout *layout); /* accepts NULL */
uint64_t lf_weight_layout_bytes(const struct lf_weight_layout *layout);
/* The format of the layers' matrices; where they have several, that of most elements. Those that differ in the type of
 * their scales alone count as one, which is the first of them. */
struct lf_format lf_weight_layout_format(const struct lf_weight_layout *layout);
/* out [n_tensors of the set]: of which tensors every part is quantized where it is loaded. */
void lf_weight_layout_quantized(const struct lf_weight_layout *layout, bool *out);
/* Whether every matrix that shares another one's bytes does: as the configuration says, unless the files hold one that
 * differs (lm_head). */
bool lf_weight_layout_tied(const struct lf_weight_layout *layout);
/* Formats and shapes by slot, out [n_slots]; data stays NULL. */
void lf_weight_layout_describe(const struct lf_weight_layout *layout, struct lf_weight *out);

/* Allocates the buffer and fills it from the layout's files, or with seeded random numbers; of several ranks as long as
 * their group has not ended, else what lf_comm_check says. */
LF_MUST_CHECK enum lf_status lf_weights_load(struct lf_weights *out, struct lf_device *dev,
                                             const struct lf_weight_layout *layout, const struct lf_model_opts *opts,
                                             struct lf_err *err);
void lf_weights_unload(struct lf_weights *w, struct lf_device *dev); /* accepts a zeroed one */

#endif
