#include "model/layer_kinds.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"

/* What a layer keeps: keys and values, or a state, whose convolution holds activations. */
static struct lf_kv_layer_spec spec_of(const struct lf_hparams *hp, int i, enum lf_dtype act_dtype, bool cache_groups)
{
    const struct lf_layer_hparams *layer = &hp->layers[i];
    struct lf_delta_shape delta = lf_split_delta(&hp->delta, &hp->split);
    if (layer->is_delta)
        return (struct lf_kv_layer_spec){.state_bytes = lf_delta_layer_bytes(&delta, lf_dtype_bytes(act_dtype)),
                                         .alias_of = -1};
    return (struct lf_kv_layer_spec){.window = cache_groups ? layer->window : 0,
                                     .n_kv_heads = lf_split_n_heads(lf_layer_n_kv_heads(hp, i), &hp->split),
                                     .head_dim = lf_layer_head_dim(hp, i),
                                     .alias_of = layer->alias_back ? i - layer->alias_back : -1};
}

enum lf_status lf_hparams_kv_layout(struct lf_kv_layout *out, const struct lf_hparams *hp, enum lf_dtype dtype,
                                    enum lf_dtype act_dtype, bool cache_groups, struct lf_err *err)
{
    struct lf_kv_layer_spec *specs = calloc((size_t)hp->n_layers, sizeof(*specs));
    if (!specs) return lf_fail(err, LF_NO_MEMORY, "no memory for what %d layers keep", hp->n_layers);
    for (int i = 0; i < hp->n_layers; i++) specs[i] = spec_of(hp, i, act_dtype, cache_groups);
    enum lf_status status = lf_kv_layout_make(out, specs, hp->n_layers, dtype, err);
    free(specs);
    return status;
}

static bool has_group(const struct lf_layer_kind *kind, int group)
{
    return group >= kind->attn.first_group && group < kind->attn.first_group + kind->attn.n_groups;
}

static bool are_alike(const struct lf_kv_group *a, const struct lf_kv_group *b)
{
    return a->window == b->window && a->n_kv_heads == b->n_kv_heads && a->head_dim == b->head_dim;
}

/* Those of a class lie side by side. */
static struct lf_attn_kind groups_like(const struct lf_kv_layout *layout, int group)
{
    struct lf_attn_kind kind = {.first_group = group, .n_groups = 1};
    const struct lf_kv_group *of = &layout->groups[group];
    while (kind.first_group > 0 && are_alike(of, &layout->groups[kind.first_group - 1])) kind.first_group--;
    for (int end = kind.first_group; end < layout->n_groups && are_alike(of, &layout->groups[end]); end++)
        kind.n_groups = end - kind.first_group + 1;
    return kind;
}

static enum lf_status add_shape(struct lf_layer_kinds *kinds, const struct lf_kv_group *group, int *out,
                                struct lf_err *err)
{
    int i = 0;
    while (i < kinds->n_shapes &&
           (kinds->shapes[i].n_kv_heads != group->n_kv_heads || kinds->shapes[i].head_dim != group->head_dim))
        i++;
    if (i == LF_ATTN_SHAPES_N)
        return lf_fail(err, LF_UNSUPPORTED,
                       "layers with more than %d different numbers and sizes of KV heads are not "
                       "implemented",
                       (int)LF_ATTN_SHAPES_N);
    if (i == kinds->n_shapes)
        kinds->shapes[kinds->n_shapes++] =
            (struct lf_attn_shape_of_kinds){.n_kv_heads = group->n_kv_heads, .head_dim = group->head_dim};
    *out = i;
    return LF_OK;
}

static enum lf_status add_kind(struct lf_layer_kinds *kinds, int layer, int window, struct lf_err *err)
{
    int group = kinds->layout.places[layer].group;
    struct lf_layer_kind kind = {.attn = groups_like(&kinds->layout, group), .tail_idx = LF_NONE};
    if (kinds->n == LF_LAYER_KINDS_N)
        return lf_fail(err, LF_UNSUPPORTED, "layers with more than %d different windows are not implemented",
                       (int)LF_LAYER_KINDS_N);
    kind.attn.window = window;
    LF_TRY(add_shape(kinds, &kinds->layout.groups[group], &kind.shape_idx, err));
    struct lf_attn_shape_of_kinds *shape = &kinds->shapes[kind.shape_idx];
    bool has_windows = window > 0 && (shape->n_schedules == 0 || shape->max_window > 0);
    shape->max_window = has_windows ? LF_MAX(shape->max_window, window) : 0;
    kind.schedule_idx = shape->n_schedules++;
    shape->n_groups = LF_MAX(shape->n_groups, kind.attn.n_groups);
    kinds->of[kinds->n++] = kind;
    return LF_OK;
}

static int find(const struct lf_layer_kinds *kinds, int layer, int window)
{
    int i = 0, group = kinds->layout.places[layer].group;
    while (i < kinds->n && (kinds->of[i].attn.window != window || !has_group(&kinds->of[i], group))) i++;
    return i;
}

/* The kinds of the ops, and which of them a program computes for picked tokens alone. */
static enum lf_status find_kinds(struct lf_layer_kinds *kinds, const struct lf_programs *programs, struct lf_err *err)
{
    const struct lf_program *all = &programs->recorded, *some = &programs->of[LF_WANTED_SOME];
    for (int i = 0; i < all->n_ops; i++) {
        const struct lf_op *op = &all->ops[i];
        if (op->kind != LF_OP_ATTENTION || find(kinds, op->layer, op->window) < kinds->n) continue;
        LF_TRY(add_kind(kinds, op->layer, op->window, err));
    }
    for (int i = 0; i < some->n_ops; i++) {
        const struct lf_op *op = &some->ops[i];
        if (op->kind != LF_OP_ATTENTION || some->values[op->out[LF_OP_Y]].rows != LF_ROWS_OUT) continue;
        struct lf_layer_kind *kind = &kinds->of[find(kinds, op->layer, op->window)];
        if (kind->tail_idx == LF_NONE) kind->tail_idx = kinds->shapes[kind->shape_idx].n_schedules++;
    }
    return LF_OK;
}

enum lf_status lf_layer_kinds_make(struct lf_layer_kinds *out, const struct lf_hparams *hp,
                                   const struct lf_programs *programs, enum lf_dtype kv_dtype, enum lf_dtype act_dtype,
                                   bool cache_groups, struct lf_err *err)
{
    struct lf_layer_kinds kinds = {.n = 0};
    LF_TRY(lf_hparams_kv_layout(&kinds.layout, hp, kv_dtype, act_dtype, cache_groups, err));
    enum lf_status status = find_kinds(&kinds, programs, err);
    if (status == LF_OK)
        *out = kinds;
    else
        lf_layer_kinds_deinit(&kinds);
    return status;
}

void lf_layer_kinds_deinit(struct lf_layer_kinds *kinds)
{
    lf_kv_layout_deinit(&kinds->layout);
    memset(kinds, 0, sizeof(*kinds));
}

const struct lf_layer_kind *lf_layer_kind_of(const struct lf_layer_kinds *kinds, int layer, int window)
{
    int i = find(kinds, layer, window);
    LF_ASSERT(i < kinds->n);
    return &kinds->of[i];
}

const struct lf_layer_kind *lf_layer_kind_of_append(const struct lf_layer_kinds *kinds, int layer)
{
    int i = 0, group = kinds->layout.places[layer].group;
    while (!has_group(&kinds->of[i], group)) i++;
    return &kinds->of[i];
}
