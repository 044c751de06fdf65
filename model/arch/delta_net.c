/* Each layer, x being the residual stream (transformers' modeling_qwen3_next.py for the names):
 *
 *     h = rmsnorm(x)
 *     gated delta net:  [q, k, v, z] = h·Wqkvzᵀ;  [b, a] = h·Wbaᵀ;  o = delta(conv([q, k, v]), b, a)
 *                       x += (rmsnorm(o) · silu(z))·Woᵀ                    the norm is of each head
 *     attention:        [q, gate, K, V] = h·Wᵀ;  q, K = rope(rmsnorm(q), rmsnorm(K))
 *                       x += (attention(q, K, V) · σ(gate))·Woᵀ
 *     then its MLP
 *
 * Norms multiply by 1 + w, but for that of the delta net's heads. RoPE turns a quarter of the channels. q_proj has the
 * rows of q and gate head by head, [q, gate] each: they are parted where they are loaded, into a matrix of q, K and V
 * and another one of the gates, which only those tokens compute that go on. */
#include "model/arch/delta_net.h"

#include "core/check.h"
#include "core/limits.h"
#include "model/arch/decoder.h"
#include "model/arch/experts.h"
#include "model/config.h"

enum {
    INTERVAL = 4,
    CONV_WIDTH = 4,
    K_HEADS = 16,
    V_HEADS = 32,
    K_DIM = 128,
    V_DIM = 128,
    EXPERT_WIDTH = 512
};                                                        /* where keys are missing */
enum { DIM_STEP = 8, MAX_DIM = 256, MAX_CONV_WIDTH = 8 }; /* device/delta.h */

static int norm_of(struct lf_recorder *r, int layer, const char *pattern, int n)
{
    return lf_rec_vector_plus(r, layer, pattern, n, 1);
}

/* The rows of q_proj that are q, or those that are the gate. */
static struct lf_slot_part half_of_q(const struct lf_hparams *hp, bool is_gate)
{
    int n_q = lf_decoder_n_q(hp, 0);
    return (struct lf_slot_part){.pattern = "model.layers.#.self_attn.q_proj",
                                 .n_rows = n_q,
                                 .order = LF_ROWS_BY_SECTION,
                                 .sections = {hp->head_dim, hp->head_dim},
                                 .n_stored = 2 * n_q,
                                 .runs = {{.n_rows = n_q, .n_heads = hp->n_heads}},
                                 .first = is_gate ? n_q : 0};
}

static int attention(struct lf_recorder *r, int layer, int x)
{
    const struct lf_hparams *hp = r->hp;
    int n_kv = lf_decoder_n_kv(hp, layer);
    struct lf_slot_run kv = {.n_rows = n_kv, .n_heads = hp->n_kv_heads, .is_kv = true};
    struct lf_linear_opts qkv = {
        .parts = {half_of_q(hp, false),
                  {.pattern = "model.layers.#.self_attn.k_proj", .n_rows = n_kv, .runs = {kv}},
                  {.pattern = "model.layers.#.self_attn.v_proj", .n_rows = n_kv, .runs = {kv}}},
        .n_in = hp->hidden,
        .bias = hp->qkv_bias,
        .shard = LF_SHARD_HEADS};
    struct lf_linear_opts gate = {
        .parts = {half_of_q(hp, true)}, .n_in = hp->hidden, .bias = hp->qkv_bias, .shard = LF_SHARD_HEADS};
    int norm = norm_of(r, layer, "model.layers.#.input_layernorm", hp->hidden);
    int q_norm = norm_of(r, layer, "model.layers.#.self_attn.q_norm", hp->head_dim);
    int k_norm = norm_of(r, layer, "model.layers.#.self_attn.k_norm", hp->head_dim);
    int h = lf_rec_rmsnorm(r, x, norm);
    int q = lf_rec_rope_append(r, layer, lf_rec_gemm(r, h, lf_rec_linear(r, layer, &qkv)), q_norm, k_norm);
    int g = lf_rec_gemm(r, h, lf_rec_linear(r, layer, &gate));
    int y = lf_rec_gate_sigmoid(r, lf_rec_attention(r, layer, q, 0), g, LF_NONE);
    return lf_rec_gemm_add(r, y, lf_decoder_out(r, layer), x);
}

static int delta_net(struct lf_recorder *r, int layer, int x, lf_delta_inputs_of *inputs_of)
{
    const struct lf_delta_shape *d = &r->hp->delta;
    struct lf_linear_opts out = {.parts = {{.pattern = "model.layers.#.linear_attn.out_proj", .n_rows = r->hp->hidden}},
                                 .n_in = d->n_v_heads * d->v_dim,
                                 .shard = LF_SHARD_COLUMNS};
    int norm = norm_of(r, layer, "model.layers.#.input_layernorm", r->hp->hidden);
    struct lf_delta_inputs in = inputs_of(r, layer);
    int taps = lf_rec_taps(r, layer, "model.layers.#.linear_attn.conv1d", d);
    int a_log = lf_rec_heads_vector(r, layer, "model.layers.#.linear_attn.A_log", d->n_v_heads);
    int dt = lf_rec_heads_vector(r, layer, "model.layers.#.linear_attn.dt_bias", d->n_v_heads);
    int of_head = lf_rec_vector(r, layer, "model.layers.#.linear_attn.norm", d->v_dim);
    int h = lf_rec_rmsnorm(r, x, norm);
    int ba = lf_rec_gemm_float(r, h, in.ba), qkvz = lf_rec_gemm(r, h, in.qkvz);
    int o = lf_rec_delta(r, layer, lf_rec_conv(r, layer, qkvz, taps), ba, a_log, dt);
    return lf_rec_gemm_add(r, lf_rec_gated_norm(r, o, qkvz, of_head), lf_rec_linear(r, layer, &out), x);
}

static int mlp(struct lf_recorder *r, int layer, int x)
{
    static const struct lf_expert_names names = {.router = "model.layers.#.mlp.gate",
                                                 .gate = "model.layers.#.mlp.experts.@.gate_proj",
                                                 .up = "model.layers.#.mlp.experts.@.up_proj",
                                                 .gate_up_whole = "model.layers.#.mlp.experts.gate_up_proj",
                                                 .down = "model.layers.#.mlp.experts.@.down_proj",
                                                 .down_whole = "model.layers.#.mlp.experts.down_proj",
                                                 .shared_gate = "model.layers.#.mlp.shared_expert.gate_proj",
                                                 .shared_up = "model.layers.#.mlp.shared_expert.up_proj",
                                                 .shared_down = "model.layers.#.mlp.shared_expert.down_proj",
                                                 .shared_weight = "model.layers.#.mlp.shared_expert_gate"};
    enum lf_route route = r->hp->norm_topk ? LF_ROUTE_SOFTMAX_RENORM : LF_ROUTE_SOFTMAX;
    return r->hp->layers[layer].has_experts ? lf_rec_expert_mlp(r, layer, x, &names, route) : lf_llama_mlp(r, layer, x);
}

void lf_delta_net_record(struct lf_recorder *r, lf_delta_inputs_of *inputs_of)
{
    const struct lf_hparams *hp = r->hp;
    struct lf_decoder_ends ends = lf_decoder_ends(r);
    int x = lf_rec_embed(r, ends.table);
    for (int layer = 0; layer < hp->n_layers; layer++) {
        x = hp->layers[layer].is_delta ? delta_net(r, layer, x, inputs_of) : attention(r, layer, x);
        x = mlp(r, layer, x);
    }
    lf_rec_logits(r, lf_rec_rmsnorm(r, x, ends.norm), ends.head);
}

/* ---- config.json ---- */

static enum lf_status read_types(struct lf_hparams *hp, struct lf_json_value types, struct lf_err *err)
{
    int layer = 0;
    if (lf_json_type(types) != LF_JSON_ARRAY) return lf_config_wrong_type(types, "layer_types", "an array", err);
    if (lf_json_len(types) != (uint32_t)hp->n_layers)
        return lf_fail(err, LF_CORRUPT, "layer_types is not an array of num_hidden_layers = %d names", hp->n_layers);
    for (struct lf_json_value it = lf_json_first(types); lf_json_more(types, it); it = lf_json_next(types, it)) {
        struct lf_str raw = lf_json_raw(it);
        bool is_delta = lf_json_string_is(it, "linear_attention");
        if (!is_delta && !lf_json_string_is(it, "full_attention"))
            return lf_fail(err, LF_UNSUPPORTED, "layer_types: \"%.*s\" of layer %d is not implemented",
                           (int)LF_MIN(raw.len, (size_t)64), raw.ptr, layer);
        hp->layers[layer++].is_delta = is_delta;
    }
    return LF_OK;
}

/* Every so many-th layer is attention, unless layer_types says it. */
static enum lf_status read_layers(struct lf_hparams *hp, struct lf_json_value config, struct lf_err *err)
{
    struct lf_json_value types = lf_json_get(config, "layer_types");
    int interval = INTERVAL, n_deltas = 0;
    if (!lf_json_is_absent(lf_json_get(config, "full_attention_interval")))
        LF_TRY(lf_config_int(config, "full_attention_interval", 1, INT32_MAX, &interval, err));
    for (int i = 0; i < hp->n_layers; i++) hp->layers[i].is_delta = (i + 1) % interval != 0;
    if (!lf_json_is_absent(types)) LF_TRY(read_types(hp, types, err));
    for (int i = 0; i < hp->n_layers; i++) n_deltas += hp->layers[i].is_delta;
    if (n_deltas < hp->n_layers) return LF_OK;
    return lf_fail(err, LF_UNSUPPORTED,
                   "none of the %d layers is full_attention: models without any are not implemented", hp->n_layers);
}

static enum lf_status read_size(struct lf_json_value config, const char *key, int max, int fallback, int *out,
                                struct lf_err *err)
{
    *out = fallback;
    if (lf_json_is_absent(lf_json_get(config, key))) return LF_OK;
    return lf_config_int(config, key, 1, max, out, err);
}

static enum lf_status read_dim(struct lf_json_value config, const char *key, int fallback, int *out, struct lf_err *err)
{
    LF_TRY(read_size(config, key, INT32_MAX, fallback, out, err));
    if (*out % DIM_STEP == 0 && *out <= MAX_DIM) return LF_OK;
    return lf_fail(err, LF_UNSUPPORTED, "%s %d is not implemented (multiples of %d up to %d are)", key, *out,
                   (int)DIM_STEP, (int)MAX_DIM);
}

static enum lf_status read_shape(struct lf_delta_shape *d, struct lf_json_value config, struct lf_err *err)
{
    LF_TRY(read_size(config, "linear_num_key_heads", LF_HEADS_N, K_HEADS, &d->n_k_heads, err));
    LF_TRY(read_size(config, "linear_num_value_heads", LF_HEADS_N, V_HEADS, &d->n_v_heads, err));
    LF_TRY(read_dim(config, "linear_key_head_dim", K_DIM, &d->k_dim, err));
    LF_TRY(read_dim(config, "linear_value_head_dim", V_DIM, &d->v_dim, err));
    LF_TRY(read_size(config, "linear_conv_kernel_dim", INT32_MAX, CONV_WIDTH, &d->conv_width, err));
    if (d->n_v_heads % d->n_k_heads != 0)
        return lf_fail(err, LF_CORRUPT, "linear_num_value_heads %d is no multiple of linear_num_key_heads %d",
                       d->n_v_heads, d->n_k_heads);
    if (d->conv_width >= 2 && d->conv_width <= MAX_CONV_WIDTH) return LF_OK;
    return lf_fail(err, LF_UNSUPPORTED, "linear_conv_kernel_dim %d is not implemented (2 to %d are)", d->conv_width,
                   (int)MAX_CONV_WIDTH);
}

enum lf_status lf_delta_net_read(struct lf_hparams *hp, struct lf_json_value config, struct lf_err *err)
{
    bool has_gate = true, has_delta = false;
    LF_TRY(lf_config_bool_or(config, "attn_output_gate", &has_gate, err));
    if (!has_gate)
        return lf_fail(err, LF_UNSUPPORTED,
                       "attn_output_gate is false: attention without a gate is not implemented for %s",
                       hp->architecture);
    LF_TRY(read_layers(hp, config, err));
    for (int i = 0; i < hp->n_layers; i++) has_delta |= hp->layers[i].is_delta;
    return has_delta ? read_shape(&hp->delta, config, err) : LF_OK;
}

enum lf_status lf_delta_net_read_experts(struct lf_hparams *hp, struct lf_json_value config, int n_experts,
                                         int per_token, struct lf_err *err)
{
    LF_TRY(lf_experts_read_or(hp, config, n_experts, per_token, err));
    LF_TRY(read_size(config, "moe_intermediate_size", LF_HIDDEN_N, EXPERT_WIDTH, &hp->expert_intermediate, err));
    return read_size(config, "shared_expert_intermediate_size", LF_HIDDEN_N, EXPERT_WIDTH, &hp->shared_intermediate,
                     err);
}
