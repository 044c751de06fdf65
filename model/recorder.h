/* Records a layer program (program.h): what the files of families (arch/) are written in.
 *
 *     int h = lf_rec_rmsnorm(r, x, lf_rec_vector(r, layer, "model.layers.#.input_layernorm", hidden));
 *     x = lf_rec_gemm_add(r, h, w, x);
 *
 * Values, slots and matrices are named by what the functions return; none of them runs or reads anything. What fails
 * (memory) fails once, at the end: functions after that do nothing, and lf_recorder_end says why. One thread. */
#ifndef LF_MODEL_RECORDER_H
#define LF_MODEL_RECORDER_H

#include "model/hparams.h"
#include "model/program.h"

struct lf_recorder {
    const struct lf_hparams *hp; /* borrowed */
    struct lf_program program;
    enum lf_status status;
    struct lf_err err;
};

/* A matrix and the bias that goes with it: slots. */
struct lf_linear {
    int weight, bias; /* bias: LF_NONE: none */
};

struct lf_linear_opts {
    struct lf_slot_part parts[LF_SLOT_PARTS_N]; /* those without a pattern are not there */
    int n_in;
    bool bias; /* each part has one, a tensor of the same name */
    /* Experts, 0: none. A pattern with "@" is of one expert's tensor, with ".weight" or ".bias" behind it; one without
     * is of the tensor of all experts, with nothing or "_bias". */
    int n_experts;
    const char *whole; /* as in struct lf_slot, of the matrix; or NULL */
    bool by_columns;   /* of the matrix, as in struct lf_slot */
    enum lf_shard shard;
};

/* Which experts compute a token: values. */
struct lf_routing {
    int weights, routing, first;
    int k;
};

void lf_recorder_begin(struct lf_recorder *r, const struct lf_hparams *hp);
/* The program, which is the caller's then; on failure nothing is left. */
LF_MUST_CHECK enum lf_status lf_recorder_end(struct lf_recorder *r, struct lf_program *out, struct lf_err *err);

/* ---- slots; layer -1: outside the layers ---- */

struct lf_linear lf_rec_linear(struct lf_recorder *r, int layer, const struct lf_linear_opts *opts);
/* A vector of n floats, pattern.weight in the files. */
int lf_rec_vector(struct lf_recorder *r, int layer, const char *pattern, int n);
/* The same, `add` added to each. */
int lf_rec_vector_plus(struct lf_recorder *r, int layer, const char *pattern, int n, float add);
/* One that the files know by the pattern alone. */
int lf_rec_bare_vector(struct lf_recorder *r, int layer, const char *pattern, int n);
/* The same with a number for each head, which ranks divide. */
int lf_rec_heads_vector(struct lf_recorder *r, int layer, const char *pattern, int n_heads);
/* The taps of a convolution of channels by themselves, [channels, 1, width] in the files: channels · width floats. */
int lf_rec_taps(struct lf_recorder *r, int layer, const char *pattern, const struct lf_delta_shape *d);
/* The matrix shares the bytes of another one, unless the files hold one that differs. */
void lf_rec_tie(struct lf_recorder *r, struct lf_linear linear, struct lf_linear to);

/* ---- ops ---- */

/* The residual stream of the step's tokens. */
int lf_rec_embed(struct lf_recorder *r, struct lf_linear table);
int lf_rec_embed_scaled(struct lf_recorder *r, struct lf_linear table, float scale);
/* Of rows of the table the n columns from `column` on, float, for a layer. */
int lf_rec_embed_columns(struct lf_recorder *r, int layer, struct lf_linear table, int column, int n, float scale);
/* norm(x) · weight, with the model's eps; weight: a slot, or LF_NONE. */
int lf_rec_rmsnorm(struct lf_recorder *r, int x, int weight);
/* residual + norm(y) · weight, float: y is lf_rec_gemm_float's. residual: LF_NONE: none. */
int lf_rec_norm_add(struct lf_recorder *r, int y, int weight, int residual);
/* The same, all of it times the number in a slot. */
int lf_rec_norm_add_scaled(struct lf_recorder *r, int y, int weight, int residual, int scale);
/* A float value in act_dtype: a gemm's x where no norm comes before it. */
int lf_rec_round(struct lf_recorder *r, int x);
/* x·wᵀ (+ bias), in act_dtype. */
int lf_rec_gemm(struct lf_recorder *r, int x, struct lf_linear w);
/* The same, float. */
int lf_rec_gemm_float(struct lf_recorder *r, int x, struct lf_linear w);
/* alpha · (x·wᵀ (+ bias)), float. */
int lf_rec_gemm_float_scaled(struct lf_recorder *r, int x, struct lf_linear w, float alpha);
/* residual + x·wᵀ (+ bias), float. */
int lf_rec_gemm_add(struct lf_recorder *r, int x, struct lf_linear w, int residual);
/* residual + alpha · (x·wᵀ (+ bias)), float. */
int lf_rec_gemm_add_scaled(struct lf_recorder *r, int x, struct lf_linear w, float alpha, int residual);
/* act(first half) · second half. limit: of LF_ACT_SWIGLU_OAI, else 0. */
int lf_rec_gate_mul(struct lf_recorder *r, int gate_up, enum lf_act act, float limit);
/* act(gate) · up, of two values; up is float. */
int lf_rec_gate_mul_by(struct lf_recorder *r, int gate, int up, enum lf_act act);
/* q of qkv, rotated; K and V are appended to the layer's cache. Norms: slots, or LF_NONE; of each head, or, where they
 * are as long as the row, of all heads at once. */
int lf_rec_rope_append(struct lf_recorder *r, int layer, int qkv, int q_norm, int k_norm);
/* The same of q alone, in a layer that reads the keys and values of another one (lf_layer_hparams.alias_back). */
int lf_rec_rope(struct lf_recorder *r, int layer, int q, int q_norm);
/* The same; V gets a norm of each head without a weight, and may be K before its norm (v_of_k): then qkv has no v. */
int lf_rec_rope_append_v_norm(struct lf_recorder *r, int layer, int qkv, int q_norm, int k_norm, bool v_of_k);
/* Over the layer's cache, of the last `window` keys where window > 0; scores as hp->attn_scale says. */
int lf_rec_attention(struct lf_recorder *r, int layer, int q, int window);
/* The same with a slot of n_heads numbers: e^sinks[h] joins the denominator of head h (attention.h). */
int lf_rec_sink_attention(struct lf_recorder *r, int layer, int q, int window, int sinks);
/* k experts for each token by a router's logits, float; weights times scale. */
struct lf_routing lf_rec_route(struct lf_recorder *r, int logits, int k, enum lf_route route, float scale);
/* The same; the weight of an expert is then multiplied by its number in a slot. */
struct lf_routing lf_rec_route_scaled(struct lf_recorder *r, int logits, int k, enum lf_route route, int scale);
/* x·w[e]ᵀ (+ bias) of each expert's rows, in act_dtype or float. x: of the tokens, or expert rows. */
int lf_rec_expert_gemm(struct lf_recorder *r, int x, struct lf_linear experts, const struct lf_routing *routing);
int lf_rec_expert_gemm_float(struct lf_recorder *r, int x, struct lf_linear experts, const struct lf_routing *routing);
/* residual + the weighted sum of a token's expert rows, float. residual: LF_NONE: none. */
int lf_rec_expert_sum(struct lf_recorder *r, int x, const struct lf_routing *routing, int residual);
/* The convolution of the left channels of x, and the delta rule over what it makes: hp->delta says the shapes. w: a
 * slot of lf_rec_taps; ba: float, b of all value heads, then a; a_log, dt: slots. */
int lf_rec_conv(struct lf_recorder *r, int layer, int x, int w);
int lf_rec_delta(struct lf_recorder *r, int layer, int qkv, int ba, int a_log, int dt);
/* norm(x) · weight · silu(gate) of each head, which is as long as the weight; gate: the right channels of a value. */
int lf_rec_gated_norm(struct lf_recorder *r, int x, int gate, int weight);
/* x · σ(gate), of the same types; or, float, with a gate of one float a token and a residual, or LF_NONE. */
int lf_rec_gate_sigmoid(struct lf_recorder *r, int x, int gate, int residual);
/* x·wᵀ of the tokens whose logits are wanted: what the program is for. */
void lf_rec_logits(struct lf_recorder *r, int x, struct lf_linear head);
/* The same, times alpha. */
void lf_rec_logits_scaled(struct lf_recorder *r, int x, struct lf_linear head, float alpha);
/* cap · tanh(logits / cap), behind lf_rec_logits. */
void lf_rec_softcap(struct lf_recorder *r, float cap);

#endif
