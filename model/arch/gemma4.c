/* Gemma 4, its text part (transformers' modeling_gemma4.py): Gemma 3 (gemma3.c) but for
 *
 *   - norms that multiply by w, scores that are not scaled;
 *   - a norm of each head of V, without a weight;
 *   - layers without a window have heads of another size and RoPE that turns some of the pairs of all channels
 *     (LF_ROPE_PROPORTIONAL); where attention_k_eq_v is set they have another number of KV heads, too, and no v_proj:
 *     their V is K as it is before its norm;
 *   - the last layer never has a window;
 *   - a number for each layer, by which the residual stream is multiplied behind it;
 *   - where enable_moe_block is set, experts beside the MLP, whose router and experts are fed from the residual stream;
 *   - last layers (num_kv_shared_layers) that read the keys and values of the last one before them of their type, and
 *     have none of their own; their MLP may be twice as wide;
 *   - where hidden_size_per_layer_input is set (E2B, E4B), an input of each layer, of n channels, that a token brings
 *     along beside the residual stream, and what it adds to that behind the MLP:
 *
 *       each layer l: p = (rmsnorm(x₀·Wlᵀ / √hidden) + √n · Tl[id]) / √2        x₀: the residual stream as it begins
 *                     x += rmsnorm((gelu(x·Wgateᵀ) · p)·Wprojᵀ)                 before the layer's number
 *
 *     Tl and Wl are columns of one table [vocab, layers · n] and rows of one matrix [layers · n, hidden]. transformers
 *     computes p for all layers at once, before the first: layers · n floats a token, which would be the widest value
 *     there is, by far, and needed until the last layer. Here a layer computes its own, of x₀ in the activations' type,
 *     which is what waits: hidden elements a token. And where rows are picked (passes/rows.c) layers behind that
 * compute p of those tokens alone. What it costs: a GEMM of n rows of W a layer in place of one of all. The 1/√2 is
 * taken behind Wproj, which is linear. */
#include "model/arch/arch.h"

#include <math.h>
#include <stdio.h>

#include "core/check.h"
#include "core/limits.h"
#include "model/arch/decoder.h"
#include "model/arch/gemma.h"
#include "model/config.h"

enum {
    GLOBAL_HEAD_DIM = 512,
    LAYER_INPUT = 256,
    N_LAYER_INPUTS = 262144,
    WINDOW = 512
}; /* where the keys are missing */

/* A layer that reads another one's keys and values has q alone. */
static struct lf_linear qkv_of(struct lf_recorder *r, int layer)
{
    const struct lf_hparams *hp = r->hp;
    int n_kv = lf_decoder_n_kv(hp, layer);
    struct lf_linear_opts opts = {
        .parts = {{.pattern = "model.layers.#.self_attn.q_proj", .n_rows = lf_decoder_n_q(hp, layer)},
                  {.pattern = "model.layers.#.self_attn.k_proj", .n_rows = n_kv},
                  {.pattern = "model.layers.#.self_attn.v_proj", .n_rows = n_kv}},
        .n_in = hp->hidden,
        .bias = hp->qkv_bias,
        .shard = LF_SHARD_HEADS};
    if (hp->layers[layer].v_of_k) opts.parts[2].pattern = NULL;
    if (hp->layers[layer].alias_back > 0) opts.parts[1].pattern = NULL;
    return lf_rec_linear(r, layer, &opts);
}

/* q of what qkv_of has made; K and V, where it has them, go into the cache. */
static int rotate(struct lf_recorder *r, int layer, int qkv)
{
    const struct lf_layer_hparams *l = &r->hp->layers[layer];
    int head_dim = lf_layer_head_dim(r->hp, layer);
    int q_norm = lf_rec_vector(r, layer, "model.layers.#.self_attn.q_norm", head_dim);
    if (l->alias_back > 0) return lf_rec_rope(r, layer, qkv, q_norm);
    int k_norm = lf_rec_vector(r, layer, "model.layers.#.self_attn.k_norm", head_dim);
    return lf_rec_rope_append_v_norm(r, layer, qkv, q_norm, k_norm, l->v_of_k);
}

static int attention(struct lf_recorder *r, int layer, int x)
{
    const struct lf_hparams *hp = r->hp;
    int before = lf_rec_vector(r, layer, "model.layers.#.input_layernorm", hp->hidden);
    struct lf_linear qkv = qkv_of(r, layer), out = lf_decoder_out(r, layer);
    int after = lf_rec_vector(r, layer, "model.layers.#.post_attention_layernorm", hp->hidden);
    int h = lf_rec_gemm(r, lf_rec_rmsnorm(r, x, before), qkv);
    int q = rotate(r, layer, h);
    int y = lf_rec_gemm_float(r, lf_rec_attention(r, layer, q, hp->layers[layer].window), out);
    return lf_rec_norm_add(r, y, after, x);
}

static struct lf_routing route(struct lf_recorder *r, int layer, int x)
{
    const struct lf_hparams *hp = r->hp;
    struct lf_linear_opts opts = {.parts = {{.pattern = "model.layers.#.router.proj", .n_rows = hp->n_experts}},
                                  .n_in = hp->hidden};
    int scale = lf_rec_bare_vector(r, layer, "model.layers.#.router.scale", hp->hidden);
    int each = lf_rec_bare_vector(r, layer, "model.layers.#.router.per_expert_scale", hp->n_experts);
    struct lf_linear router = lf_rec_linear(r, layer, &opts);
    float root = 1 / sqrtf((float)hp->hidden);
    int logits = lf_rec_gemm_float_scaled(r, lf_rec_rmsnorm(r, x, scale), router, root);
    return lf_rec_route_scaled(r, logits, hp->experts_per_token, LF_ROUTE_SOFTMAX_RENORM, each);
}

/* What experts make of the residual stream x, beside what the MLP makes of it: mlp. Each has a norm of its own. */
static int add_experts(struct lf_recorder *r, int layer, int x, int mlp)
{
    const struct lf_hparams *hp = r->hp;
    struct lf_slot_run half = {.n_rows = hp->expert_intermediate};
    struct lf_slot_part both = {
        .pattern = "model.layers.#.experts.gate_up_proj", .n_rows = 2 * half.n_rows, .runs = {half, half}};
    struct lf_linear_opts gate_up = {
        .parts = {both}, .n_in = hp->hidden, .n_experts = hp->n_experts, .shard = LF_SHARD_ROWS};
    struct lf_linear_opts down = {.parts = {{.pattern = "model.layers.#.experts.down_proj", .n_rows = hp->hidden}},
                                  .n_in = hp->expert_intermediate,
                                  .n_experts = hp->n_experts,
                                  .shard = LF_SHARD_COLUMNS};
    int before = lf_rec_vector(r, layer, "model.layers.#.pre_feedforward_layernorm_2", hp->hidden);
    int of_mlp = lf_rec_vector(r, layer, "model.layers.#.post_feedforward_layernorm_1", hp->hidden);
    int of_experts = lf_rec_vector(r, layer, "model.layers.#.post_feedforward_layernorm_2", hp->hidden);
    struct lf_routing routing = route(r, layer, x);
    int h = lf_rec_expert_gemm(r, lf_rec_rmsnorm(r, x, before), lf_rec_linear(r, layer, &gate_up), &routing);
    int act = lf_rec_gate_mul(r, h, hp->act, 0);
    int y = lf_rec_expert_gemm_float(r, act, lf_rec_linear(r, layer, &down), &routing);
    y = lf_rec_expert_sum(r, y, &routing, LF_NONE);
    return lf_rec_norm_add(r, y, of_experts, lf_rec_norm_add(r, mlp, of_mlp, LF_NONE));
}

/* The slot of the number that the residual stream is multiplied by behind a layer. */
static int layer_scalar(struct lf_recorder *r, int layer)
{
    return lf_rec_bare_vector(r, layer, "model.layers.#.layer_scalar", 1);
}

static int mlp(struct lf_recorder *r, int layer, int x)
{
    int hidden = r->hp->hidden, before = lf_rec_vector(r, layer, "model.layers.#.pre_feedforward_layernorm", hidden);
    struct lf_linear gate_up = lf_decoder_gate_up(r, layer), down = lf_decoder_down(r, layer);
    int after = lf_rec_vector(r, layer, "model.layers.#.post_feedforward_layernorm", hidden);
    int h = lf_rec_rmsnorm(r, x, before);
    int act = lf_rec_gate_mul(r, lf_rec_gemm(r, h, gate_up), r->hp->act, 0);
    int y = lf_rec_gemm_float(r, act, down);
    if (r->hp->layers[layer].has_experts) y = add_experts(r, layer, x, y);
    if (r->hp->layer_input > 0) return lf_rec_norm_add(r, y, after, x); /* the number comes behind what they add */
    return lf_rec_norm_add_scaled(r, y, after, x, layer_scalar(r, layer));
}

/* What the inputs of all layers are made of: a table and a norm, slots, and x₀. */
struct layer_inputs {
    struct lf_linear table;
    int norm, x;
};

static struct layer_inputs begin_inputs(struct lf_recorder *r, int x)
{
    const struct lf_hparams *hp = r->hp;
    struct lf_linear_opts table = {.parts = {{.pattern = "model.embed_tokens_per_layer", .n_rows = hp->n_layer_inputs}},
                                   .n_in = hp->n_layers * hp->layer_input};
    return (struct layer_inputs){.table = lf_rec_linear(r, -1, &table),
                                 .norm = lf_rec_vector(r, -1, "model.per_layer_projection_norm", hp->layer_input),
                                 .x = lf_rec_round(r, x)};
}

/* √2 · p of a layer, float. */
static int input_of(struct lf_recorder *r, int layer, const struct layer_inputs *in)
{
    const struct lf_hparams *hp = r->hp;
    int n = hp->layer_input;
    struct lf_linear_opts opts = {.parts = {{.pattern = "model.per_layer_model_projection",
                                             .n_rows = n,
                                             .tensor_row = layer * n,
                                             .tensor_rows = hp->n_layers * n}},
                                  .n_in = hp->hidden};
    struct lf_linear projection = lf_rec_linear(r, layer, &opts);
    int of_id = lf_rec_embed_columns(r, layer, in->table, layer * n, n, lf_gemma_root(hp, n));
    int of_x = lf_rec_gemm_float_scaled(r, in->x, projection, 1 / sqrtf((float)hp->hidden));
    return lf_rec_norm_add(r, of_x, in->norm, of_id);
}

/* What the layer's input adds to the residual stream. */
static int add_input(struct lf_recorder *r, int layer, int x, const struct layer_inputs *in)
{
    const struct lf_hparams *hp = r->hp;
    struct lf_linear_opts gate_opts = {
        .parts = {{.pattern = "model.layers.#.per_layer_input_gate", .n_rows = hp->layer_input}}, .n_in = hp->hidden};
    struct lf_linear_opts out_opts = {
        .parts = {{.pattern = "model.layers.#.per_layer_projection", .n_rows = hp->hidden}}, .n_in = hp->layer_input};
    struct lf_linear gate = lf_rec_linear(r, layer, &gate_opts), out = lf_rec_linear(r, layer, &out_opts);
    int after = lf_rec_vector(r, layer, "model.layers.#.post_per_layer_input_norm", hp->hidden);
    int p = input_of(r, layer, in);
    int act = lf_rec_gate_mul_by(r, lf_rec_gemm(r, lf_rec_round(r, x), gate), p, hp->act);
    int y = lf_rec_gemm_float_scaled(r, act, out, sqrtf(0.5f));
    return lf_rec_norm_add_scaled(r, y, after, x, layer_scalar(r, layer));
}

static void record(struct lf_recorder *r)
{
    const struct lf_hparams *hp = r->hp;
    struct lf_decoder_ends ends = lf_decoder_ends(r);
    struct layer_inputs in = {.norm = LF_NONE};
    int x = lf_gemma_embed(r, &ends);
    if (hp->layer_input > 0) in = begin_inputs(r, x);
    for (int layer = 0; layer < hp->n_layers; layer++) {
        x = mlp(r, layer, attention(r, layer, x));
        if (hp->layer_input > 0) x = add_input(r, layer, x, &in);
    }
    lf_gemma_logits(r, &ends, x);
}

static enum lf_status not_yet(const char *what, struct lf_err *err)
{
    return lf_fail(err, LF_UNSUPPORTED, "%s: not implemented for Gemma 4 yet", what);
}

/* Shape of a layer: keys of `of`, which may be absent. */
static enum lf_status read_shape(struct lf_hparams *hp, int layer, struct lf_json_value of, const char *head_dim,
                                 const char *n_kv_heads, struct lf_err *err)
{
    struct lf_layer_hparams *l = &hp->layers[layer];
    if (!lf_json_is_absent(lf_json_get(of, head_dim)))
        LF_TRY(lf_config_int(of, head_dim, 1, INT32_MAX, &l->head_dim, err));
    if (n_kv_heads && !lf_json_is_absent(lf_json_get(of, n_kv_heads)))
        LF_TRY(lf_config_int(of, n_kv_heads, 1, LF_HEADS_N, &l->n_kv_heads, err));
    int dim = lf_layer_head_dim(hp, layer), n_kv = lf_layer_n_kv_heads(hp, layer);
    if (dim % LF_HEAD_DIM_STEP != 0 || dim > LF_HEAD_DIM)
        return lf_fail(err, LF_UNSUPPORTED, "%s %d of layer %d is not implemented (multiples of %d up to %d are)",
                       head_dim, dim, layer, LF_HEAD_DIM_STEP, LF_HEAD_DIM);
    if (hp->n_heads % n_kv != 0)
        return lf_fail(err, LF_CORRUPT, "num_attention_heads %d is no multiple of the %d KV heads of layer %d",
                       hp->n_heads, n_kv, layer);
    return LF_OK;
}

/* A layer's object in per_layer_config, which has nothing but its shape. */
static enum lf_status read_layer_config(struct lf_hparams *hp, int layer, struct lf_json_value of, struct lf_err *err)
{
    if (lf_json_type(of) != LF_JSON_OBJECT)
        return lf_config_wrong_type(of, "per_layer_config of a layer", "an object", err);
    for (struct lf_json_value it = lf_json_first(of); lf_json_more(of, it); it = lf_json_next(of, it)) {
        struct lf_str raw = lf_json_raw(it);
        if (lf_json_string_is(it, "head_dim") || lf_json_string_is(it, "num_key_value_heads")) continue;
        return lf_fail(err, LF_UNSUPPORTED, "per_layer_config: \"%.*s\" of layer %d is not implemented",
                       (int)LF_MIN(raw.len, (size_t)64), raw.ptr, layer);
    }
    return read_shape(hp, layer, of, "head_dim", "num_key_value_heads", err);
}

/* The layer that a key of per_layer_config names, -1: none. transformers writes all numbers as long as the last one:
 * "05". */
static int layer_of_key(const struct lf_hparams *hp, struct lf_json_value key)
{
    struct lf_str raw = lf_json_raw(key);
    int layer = raw.len > 0 && raw.len <= 4 ? 0 : -1;
    for (size_t i = 0; i < raw.len && layer >= 0; i++)
        layer = lf_digit(raw.ptr[i]) < 10 ? 10 * layer + lf_digit(raw.ptr[i]) : -1;
    return layer < hp->n_layers ? layer : -1;
}

/* per_layer_config: an object for each layer that is not like the others, by its number. */
static enum lf_status read_per_layer(struct lf_hparams *hp, struct lf_json_value per_layer, struct lf_err *err)
{
    bool is_read[LF_LAYERS_N] = {false};
    if (lf_json_type(per_layer) != LF_JSON_OBJECT)
        return lf_config_wrong_type(per_layer, "per_layer_config", "an object", err);
    for (struct lf_json_value it = lf_json_first(per_layer); lf_json_more(per_layer, it);
         it = lf_json_next(per_layer, it)) {
        int i = layer_of_key(hp, it);
        if (i < 0 || is_read[i])
            return lf_fail(err, LF_CORRUPT, "per_layer_config has keys other than the numbers of %d layers",
                           hp->n_layers);
        is_read[i] = true;
        LF_TRY(read_layer_config(hp, i, lf_json_member(it), err));
    }
    return LF_OK;
}

/* Shapes of layers. Files of transformers 5 have per_layer_config; those of the hub say what all layers without a
 * window have. Layers of a type share their RoPE, and so have one head_dim. */
static enum lf_status read_shapes(struct lf_hparams *hp, struct lf_json_value config, bool k_is_v, struct lf_err *err)
{
    struct lf_json_value per_layer = lf_json_get(config, "per_layer_config");
    if (!lf_json_is_absent(per_layer)) LF_TRY(read_per_layer(hp, per_layer, err));
    const char *n_kv_heads = k_is_v ? "num_global_key_value_heads" : NULL;
    for (int i = 0; i < hp->n_layers && lf_json_is_absent(per_layer); i++) {
        if (hp->layers[i].window > 0) continue;
        hp->layers[i].head_dim = GLOBAL_HEAD_DIM;
        LF_TRY(read_shape(hp, i, config, "global_head_dim", n_kv_heads, err));
    }
    int of_type[2] = {0, 0};
    for (int i = 0; i < hp->n_layers; i++) {
        int *dim = &of_type[hp->layers[i].window > 0], own = lf_layer_head_dim(hp, i);
        if (*dim > 0 && own != *dim)
            return lf_fail(err, LF_UNSUPPORTED, "per_layer_config: head_dim %d and %d of layers of one type", *dim,
                           own);
        *dim = own;
    }
    return LF_OK;
}

/* The last layer of the same type before `end`, -1: none. */
static int last_alike(const struct lf_hparams *hp, int layer, int end)
{
    int i = end - 1;
    while (i >= 0 && (hp->layers[i].window > 0) != (hp->layers[layer].window > 0)) i--;
    return i;
}

/* Layers without keys and values of their own, and how wide their MLP is. */
static enum lf_status read_shared(struct lf_hparams *hp, struct lf_json_value config, struct lf_err *err)
{
    int n = 0;
    bool is_wide = false;
    if (!lf_json_is_absent(lf_json_get(config, "num_kv_shared_layers")))
        LF_TRY(lf_config_int(config, "num_kv_shared_layers", 0, hp->n_layers - 1, &n, err));
    LF_TRY(lf_config_bool_or(config, "use_double_wide_mlp", &is_wide, err));
    if (n > 0 && is_wide && 2 * hp->intermediate > LF_HIDDEN_N)
        return lf_fail(err, LF_UNSUPPORTED, "use_double_wide_mlp: twice intermediate_size %d is more than %d",
                       hp->intermediate, (int)LF_HIDDEN_N);
    for (int first = hp->n_layers - n, i = first; i < hp->n_layers; i++) {
        int of = last_alike(hp, i, first);
        if (of < 0)
            return lf_fail(err, LF_CORRUPT,
                           "num_kv_shared_layers is %d, but no layer before them is of layer %d's type", n, i);
        if (lf_layer_n_kv_heads(hp, of) != lf_layer_n_kv_heads(hp, i))
            return lf_fail(err, LF_CORRUPT, "layer %d shares the keys of layer %d, which has other heads", i, of);
        hp->layers[i].alias_back = i - of;
        if (is_wide) hp->layers[i].intermediate = 2 * hp->intermediate;
    }
    return LF_OK;
}

static enum lf_status read_layers(struct lf_hparams *hp, struct lf_json_value config, struct lf_err *err)
{
    bool k_is_v = false;
    LF_TRY(lf_config_bool_or(config, "attention_k_eq_v", &k_is_v, err));
    hp->layers[hp->n_layers - 1].window = 0;
    for (int i = 0; i < hp->n_layers; i++) hp->layers[i].v_of_k = k_is_v && hp->layers[i].window == 0;
    LF_TRY(read_shapes(hp, config, k_is_v, err));
    return read_shared(hp, config, err);
}

static enum lf_status check_switches(struct lf_json_value config, struct lf_err *err)
{
    struct lf_json_value both = lf_json_get(config, "use_bidirectional_attention");
    if (!lf_json_is_absent(both) && !lf_json_string_is(both, "vision"))
        return lf_fail(err, LF_UNSUPPORTED, "use_bidirectional_attention: only tokens before a token are seen here");
    if (!lf_json_is_absent(lf_json_get(config, "rope_scaling"))) return not_yet("rope_scaling", err);
    return LF_OK;
}

/* Inputs of each layer, of which a row of one table has those of all layers. */
static enum lf_status read_layer_inputs(struct lf_hparams *hp, struct lf_json_value config, struct lf_err *err)
{
    int n = LAYER_INPUT, n_rows = N_LAYER_INPUTS;
    if (!lf_json_is_absent(lf_json_get(config, "hidden_size_per_layer_input")))
        LF_TRY(lf_config_int(config, "hidden_size_per_layer_input", 0, LF_HIDDEN_N, &n, err));
    if (!lf_json_is_absent(lf_json_get(config, "vocab_size_per_layer_input")))
        LF_TRY(lf_config_int(config, "vocab_size_per_layer_input", 0, LF_VOCAB_N, &n_rows, err));
    if (n == 0) return LF_OK;
    if (n > LF_HIDDEN_N / hp->n_layers)
        return lf_fail(err, LF_UNSUPPORTED, "hidden_size_per_layer_input %d for %d layers is more than %d in all", n,
                       hp->n_layers, (int)LF_HIDDEN_N);
    if (n_rows < hp->n_vocab)
        return lf_fail(err, LF_UNSUPPORTED,
                       "vocab_size_per_layer_input %d is less than vocab_size %d: not all tokens have an input of each "
                       "layer",
                       n_rows, hp->n_vocab);
    hp->layer_input = n;
    hp->n_layer_inputs = n_rows;
    return LF_OK;
}

static enum lf_status read_experts(struct lf_hparams *hp, struct lf_json_value config, struct lf_err *err)
{
    bool experts = false;
    LF_TRY(lf_config_bool_or(config, "enable_moe_block", &experts, err));
    if (!experts) return LF_OK;
    LF_TRY(lf_config_int(config, "num_experts", 1, LF_EXPERTS_N, &hp->n_experts, err));
    LF_TRY(lf_config_int(config, "top_k_experts", 1, LF_MIN(hp->n_experts, LF_EXPERTS_PER_TOKEN_N),
                         &hp->experts_per_token, err));
    LF_TRY(lf_config_int(config, "moe_intermediate_size", 1, LF_HIDDEN_N, &hp->expert_intermediate, err));
    for (int i = 0; i < hp->n_layers; i++) hp->layers[i].has_experts = true;
    return LF_OK;
}

static enum lf_status read(struct lf_hparams *hp, struct lf_json_value config, struct lf_err *err)
{
    double cap = 0;
    LF_TRY(check_switches(config, err));
    LF_TRY(read_layer_inputs(hp, config, err));
    LF_TRY(read_experts(hp, config, err));
    LF_TRY(lf_config_number_or(config, "final_logit_softcapping", 1e-3, 1e6, &cap, NULL, err));
    if (lf_json_is_absent(lf_json_get(config, "rope_parameters"))) {
        hp->n_ropes = 2;
        for (int i = 0; i < hp->n_layers; i++) hp->layers[i].rope = hp->layers[i].window > 0;
        hp->ropes[0].kind = LF_ROPE_PROPORTIONAL;
        hp->ropes[0].n_turned = hp->ropes[0].head_dim / 8;
    }
    hp->attn_scale = 1;
    hp->softcap = (float)cap;
    return LF_OK;
}

static const char *const reads[] = {"final_logit_softcapping", "use_bidirectional_attention", "num_experts", NULL};

#define OF_BOTH                                                                                                        \
    .attention_bias = true, .qk_norm = true, .tied = true, .sliding_window = true, .default_window = WINDOW,           \
    .full_every = 6, .rope_theta = 1e6, .rope_by_type = true, .local_theta_key = "rope_local_base_freq",               \
    .local_theta = 1e4, .stretched = true, .head_dim = 256,                                                            \
    .sizes = {.n_layers = 30,                                                                                          \
              .hidden = 2304,                                                                                          \
              .intermediate = 9216,                                                                                    \
              .n_vocab = 262144,                                                                                       \
              .n_heads = 8,                                                                                            \
              .n_kv_heads = 4,                                                                                         \
              .max_positions = 131072,                                                                                 \
              .norm_eps = 1e-6},                                                                                       \
    .hidden_activation = true, .read = read, .reads = reads, .read_layers = read_layers, .record = record

const struct lf_arch lf_arch_gemma4_text = {.name = "Gemma4ForCausalLM", .model_type = "gemma4_text", OF_BOTH};
const struct lf_arch lf_arch_gemma4 = {
    .name = "Gemma4ForConditionalGeneration", .model_type = "gemma4", .text_type = "gemma4_text", OF_BOTH};
