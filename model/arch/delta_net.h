/* Models most of whose layers are gated delta nets (device/delta.h) and the others attention whose output has a gate:
 * what Qwen3-Next and Qwen3.5 have in common. */
#ifndef LF_MODEL_ARCH_DELTA_NET_H
#define LF_MODEL_ARCH_DELTA_NET_H

#include "core/json.h"
#include "model/arch/arch.h"
#include "model/recorder.h"

/* What multiplies the hidden state of a gated delta net: rows of q, k, v and z; and of b and a, a number of each value
 * head. Heads lie side by side. Families differ in which tensors these rows are of. */
struct lf_delta_inputs {
    struct lf_linear qkvz, ba;
};
typedef struct lf_delta_inputs lf_delta_inputs_of(struct lf_recorder *r, int layer);

/* The forward pass: an MLP in each layer, or experts. */
void lf_delta_net_record(struct lf_recorder *r, lf_delta_inputs_of *inputs_of);

/* layer_types or full_attention_interval: which layers are gated delta nets; linear_*: their shape (hp->delta).
 * LF_UNSUPPORTED for shapes that are not implemented, LF_CORRUPT. */
LF_MUST_CHECK enum lf_status lf_delta_net_read(struct lf_hparams *hp, struct lf_json_value config, struct lf_err *err);

/* Experts of every layer, and the one beside them; their numbers where the keys are missing. LF_CORRUPT. */
LF_MUST_CHECK enum lf_status lf_delta_net_read_experts(struct lf_hparams *hp, struct lf_json_value config,
                                                       int n_experts, int per_token, struct lf_err *err);

/* Columns of an architecture's row that all have. */
#define LF_DELTA_NET_ROW                                                                                               \
    .only_silu = true, .attention_bias = true, .qk_norm = true, .norm_plus_1 = true, .own_layer_types = true,          \
    .partial_rotary_factor = 0.25, .head_dim = 256, .read_layers = lf_delta_net_read

#endif
