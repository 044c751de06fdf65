/* What layers of a model differ in for cache and attention: where each one's keys and values lie (kv/kv_layout.h), and
 * which attention object and which of its schedules computes it. Layers that share both are a kind:
 *
 *     kind      the layers of a window, KV heads and head_dim: some groups of the cache, one schedule
 *     shape     the kinds of a number of KV heads and a head_dim: an attention object (attention.h)
 *
 * Where the cache has no groups for windows they are masks only: kinds of all windows then read the same group. Layers
 * with states (device/delta.h) have no attention: they are of no kind. */
#ifndef LF_MODEL_LAYER_KINDS_H
#define LF_MODEL_LAYER_KINDS_H

#include "attention/attention.h"
#include "kv/kv_layout.h"
#include "model/hparams.h"
#include "model/programs.h"

enum { LF_LAYER_KINDS_N = LF_ATTN_SCHEDULES_N / 2, LF_ATTN_SHAPES_N = 4 };

struct lf_layer_kind {
    struct lf_attn_kind attn;
    int shape_idx;
    int schedule_idx; /* of the shape's attention object: the step's tokens */
    int tail_idx;     /* tokens whose logits are wanted, alone; LF_NONE: no program computes such in these layers */
};

struct lf_attn_shape_of_kinds {
    int n_kv_heads, head_dim;
    int n_schedules, n_groups, max_window; /* as in lf_attn_shape */
};

struct lf_layer_kinds {
    struct lf_kv_layout layout; /* owned */
    struct lf_layer_kind of[LF_LAYER_KINDS_N];
    struct lf_attn_shape_of_kinds shapes[LF_ATTN_SHAPES_N];
    int n, n_shapes;
};

/* The layout of the model's cache. act_dtype: of the device's activations, some of which states hold. cache_groups:
 * windows are groups of their own, not only masks. */
LF_MUST_CHECK enum lf_status lf_hparams_kv_layout(struct lf_kv_layout *out, const struct lf_hparams *hp,
                                                  enum lf_dtype dtype, enum lf_dtype act_dtype, bool cache_groups,
                                                  struct lf_err *err);
/* LF_UNSUPPORTED where layers differ in more than there is room for; LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_layer_kinds_make(struct lf_layer_kinds *out, const struct lf_hparams *hp,
                                                 const struct lf_programs *programs, enum lf_dtype kv_dtype,
                                                 enum lf_dtype act_dtype, bool cache_groups, struct lf_err *err);
void lf_layer_kinds_deinit(struct lf_layer_kinds *kinds); /* accepts a zeroed one */
/* That of an attention op. */
const struct lf_layer_kind *lf_layer_kind_of(const struct lf_layer_kinds *kinds, int layer, int window);
/* One with the layer's group in it, whatever its window: whose tokens are appended. */
const struct lf_layer_kind *lf_layer_kind_of_append(const struct lf_layer_kinds *kinds, int layer);

#endif
