#include "model/arch/decoder.h"

#include "model/arch/arch.h"

int lf_decoder_n_q(const struct lf_hparams *hp, int layer)
{
    return hp->n_heads * lf_layer_head_dim(hp, layer);
}

int lf_decoder_n_kv(const struct lf_hparams *hp, int layer)
{
    return lf_layer_n_kv_heads(hp, layer) * lf_layer_head_dim(hp, layer);
}

/* Rows of q or k. */
static struct lf_slot_part heads_of(const struct lf_hparams *hp, const char *pattern, struct lf_slot_run run)
{
    return (struct lf_slot_part){.pattern = pattern,
                                 .n_rows = run.n_rows,
                                 .runs = {run},
                                 .order = hp->arch->rope_interleaved ? LF_ROWS_DEINTERLEAVE_HEAD : LF_ROWS_AS_STORED,
                                 .head_dim = hp->head_dim,
                                 .rotary_dim = hp->ropes[0].rotary_dim};
}

struct lf_linear lf_decoder_qkv(struct lf_recorder *r, int layer)
{
    const struct lf_hparams *hp = r->hp;
    int n_q = lf_decoder_n_q(hp, layer), n_kv = lf_decoder_n_kv(hp, layer);
    struct lf_slot_run q = {n_q, hp->n_heads, false}, kv = {n_kv, lf_layer_n_kv_heads(hp, layer), true};
    struct lf_linear_opts opts = {
        .parts = {heads_of(hp, "model.layers.#.self_attn.q_proj", q),
                  heads_of(hp, "model.layers.#.self_attn.k_proj", kv),
                  {.pattern = "model.layers.#.self_attn.v_proj", .n_rows = n_kv, .runs = {kv}}},
        .n_in = hp->hidden,
        .bias = hp->qkv_bias,
        .shard = LF_SHARD_HEADS};
    struct lf_linear_opts stacked = {
        .parts = {{.pattern = "model.layers.#.self_attn.qkv_proj", .n_rows = n_q + 2 * n_kv, .runs = {q, kv, kv}}},
        .n_in = hp->hidden,
        .shard = LF_SHARD_HEADS};
    return lf_rec_linear(r, layer, hp->arch->stacked ? &stacked : &opts);
}

struct lf_linear lf_decoder_gate_up(struct lf_recorder *r, int layer)
{
    const struct lf_hparams *hp = r->hp;
    int n = lf_layer_intermediate(hp, layer);
    bool is_stacked = hp->arch->stacked || hp->arch->stacked_gate_up;
    struct lf_linear_opts opts = {.parts = {{.pattern = "model.layers.#.mlp.gate_proj", .n_rows = n},
                                            {.pattern = "model.layers.#.mlp.up_proj", .n_rows = n}},
                                  .n_in = hp->hidden,
                                  .bias = hp->mlp_bias,
                                  .shard = LF_SHARD_ROWS};
    struct lf_slot_part both = {
        .pattern = "model.layers.#.mlp.gate_up_proj", .n_rows = 2 * n, .runs = {{.n_rows = n}, {.n_rows = n}}};
    struct lf_linear_opts stacked = {.parts = {both}, .n_in = hp->hidden, .shard = LF_SHARD_ROWS};
    return lf_rec_linear(r, layer, is_stacked ? &stacked : &opts);
}

/* A matrix back into the residual stream. */
static struct lf_linear back_of(struct lf_recorder *r, int layer, const char *pattern, int n_in, bool bias)
{
    return lf_rec_linear(r, layer,
                         &(struct lf_linear_opts){.parts = {{.pattern = pattern, .n_rows = r->hp->hidden}},
                                                  .n_in = n_in,
                                                  .bias = bias,
                                                  .shard = LF_SHARD_COLUMNS});
}

struct lf_linear lf_decoder_out(struct lf_recorder *r, int layer)
{
    return back_of(r, layer, "model.layers.#.self_attn.o_proj", lf_decoder_n_q(r->hp, layer), r->hp->o_bias);
}

struct lf_linear lf_decoder_down(struct lf_recorder *r, int layer)
{
    return back_of(r, layer, "model.layers.#.mlp.down_proj", lf_layer_intermediate(r->hp, layer), r->hp->mlp_bias);
}

struct lf_decoder_ends lf_decoder_ends(struct lf_recorder *r)
{
    const struct lf_hparams *hp = r->hp;
    struct lf_linear_opts table = {.parts = {{.pattern = "model.embed_tokens", .n_rows = hp->n_vocab}},
                                   .n_in = hp->hidden,
                                   .shard = LF_SHARD_VOCABULARY};
    struct lf_linear_opts head = {
        .parts = {{.pattern = "lm_head", .n_rows = hp->n_vocab}}, .n_in = hp->hidden, .shard = LF_SHARD_VOCABULARY};
    struct lf_decoder_ends ends = {.table = lf_rec_linear(r, -1, &table), .head = lf_rec_linear(r, -1, &head)};
    ends.norm = lf_rec_vector_plus(r, -1, "model.norm", hp->hidden, hp->arch->norm_plus_1 ? 1 : 0);
    if (hp->tied) lf_rec_tie(r, ends.head, ends.table);
    return ends;
}

int lf_decoder_swiglu(struct lf_recorder *r, int h, struct lf_linear gate_up)
{
    return lf_rec_gate_mul(r, lf_rec_gemm(r, h, gate_up), r->hp->act, 0);
}
