/* Layers of experts, as several families have them: their keys in config.json, and their part of the forward pass. */
#ifndef LF_MODEL_ARCH_EXPERTS_H
#define LF_MODEL_ARCH_EXPERTS_H

#include "core/json.h"
#include "model/hparams.h"
#include "model/recorder.h"

/* num_experts, which some files call num_local_experts, and num_experts_per_tok; every layer has_experts. LF_CORRUPT
 * for one that is missing, or out of range. */
LF_MUST_CHECK enum lf_status lf_experts_read(struct lf_hparams *hp, struct lf_json_value config, struct lf_err *err);
/* The same, with values for keys that are missing. */
LF_MUST_CHECK enum lf_status lf_experts_read_or(struct lf_hparams *hp, struct lf_json_value config, int n_experts,
                                                int per_token, struct lf_err *err);
/* decoder_sparse_step and mlp_only_layers: which layers have an MLP all the same. LF_CORRUPT. */
LF_MUST_CHECK enum lf_status lf_experts_read_dense(struct lf_hparams *hp, struct lf_json_value config,
                                                   struct lf_err *err);

/* What the tensors of a layer are called (struct lf_slot): the router, an expert's matrices, and what files have
 * instead that hold all experts in one tensor. */
struct lf_expert_names {
    const char *router, *router_instead; /* router_instead: a whole name, or NULL */
    const char *gate, *up, *gate_up_whole;
    const char *down, *down_whole;
    /* Of the expert that computes every token, and of the one row whose sigmoid it is multiplied by; or NULL. */
    const char *shared_gate, *shared_up, *shared_down, *shared_weight;
};

/* x + Σ weight · down(act(gate(h)) · up(h)) over the experts that the router chooses by h = rmsnorm(x), and, where
 * there is a shared one, σ(h · shared weight) times what that makes of h. */
int lf_rec_expert_mlp(struct lf_recorder *r, int layer, int x, const struct lf_expert_names *names,
                      enum lf_route route);

#endif
