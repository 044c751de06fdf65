/* The weights of a llama-family model on a device: bound by name, checked by shape, packed for the GEMM.
 *
 * All of them live in one buffer whose size is a closed formula over hyperparameters and element types. Q, K and V of a
 * layer are one matrix (their rows stacked), so are gate and up: one GEMM each. */
#ifndef LF_MODEL_WEIGHTS_H
#define LF_MODEL_WEIGHTS_H

#include <stdint.h>

#include "device/device.h"
#include "device/ops.h"
#include "model/hparams.h"
#include "model/model.h"
#include "model/safetensors.h"

struct lf_layer_weights {
    struct lf_weight qkv;     /* [(n_heads + 2·n_kv_heads)·head_dim, hidden] */
    struct lf_weight out;     /* [hidden, n_heads·head_dim] */
    struct lf_weight gate_up; /* [2·intermediate, hidden] */
    struct lf_weight down;    /* [hidden, intermediate] */
    /* Device vectors; NULL where the architecture has none. */
    const float *attn_norm, *mlp_norm; /* [hidden] */
    const float *q_norm, *k_norm;      /* [head_dim] */
    const float *qkv_bias, *out_bias, *gate_up_bias, *down_bias;
};

struct lf_weights {
    struct lf_weight embed;          /* [n_vocab, hidden] */
    struct lf_weight head;           /* [n_vocab, hidden]; the same bytes as embed where tied */
    const float *final_norm;         /* [hidden] */
    struct lf_layer_weights *layers; /* [n_layers], owned */
    struct lf_buffer buffer;         /* owned: everything above */
    uint8_t sha[LF_SHA256_BYTES];    /* of all bytes read (model/identity.h), where the options ask for it */
};

/* Which element type each matrix has and where it lies; made from headers or, for dummy weights, from hp alone. */
struct lf_weight_layout;

/* set: NULL for dummy weights, else borrowed by the layout. LF_NOT_FOUND for a tensor the architecture needs and the
 * set lacks, LF_CORRUPT for a shape that is another, LF_UNSUPPORTED for an element type or a tensor that would take
 * part and is not implemented. Tensors that take no part are named in the log. */
LF_MUST_CHECK enum lf_status lf_weight_layout_make(struct lf_weight_layout **out, const struct lf_hparams *hp,
                                                   const struct lf_tensor_set *set, const struct lf_ops *ops,
                                                   struct lf_err *err);
void lf_weight_layout_free(struct lf_weight_layout *layout); /* accepts NULL */
uint64_t lf_weight_layout_bytes(const struct lf_weight_layout *layout);
/* Whether the head is the embedding: as the configuration says, unless the files hold a head that differs from it. */
bool lf_weight_layout_tied(const struct lf_weight_layout *layout);

/* Allocates the buffer and fills it from the layout's files, or with seeded random numbers. */
LF_MUST_CHECK enum lf_status lf_weights_load(struct lf_weights *out, struct lf_device *dev, const struct lf_hparams *hp,
                                             const struct lf_weight_layout *layout, const struct lf_model_opts *opts,
                                             struct lf_err *err);
void lf_weights_unload(struct lf_weights *w, struct lf_device *dev); /* accepts a zeroed one */

#endif
