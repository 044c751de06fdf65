/* Qwen3-Next (80B-A3B): delta_net.h with experts in place of most MLPs, one of which computes every token. Rows of
 * in_proj_qkvz and in_proj_ba lie key head by key head: q, k, and v and z of the value heads that go with it; b and a
 * of those. */
#include "core/check.h"
#include "model/arch/delta_net.h"
#include "model/arch/experts.h"
#include "model/config.h"

enum { EXPERTS = 512, PER_TOKEN = 10 }; /* where the keys are missing */

static struct lf_linear by_key_head(struct lf_recorder *r, int layer, struct lf_slot_part part)
{
    part.order = LF_ROWS_BY_SECTION;
    part.n_stored = part.n_rows;
    part.runs[0] = (struct lf_slot_run){.n_rows = part.n_rows, .n_heads = r->hp->delta.n_k_heads};
    return lf_rec_linear(r, layer,
                         &(struct lf_linear_opts){.parts = {part}, .n_in = r->hp->hidden, .shard = LF_SHARD_HEADS});
}

static struct lf_delta_inputs inputs_of(struct lf_recorder *r, int layer)
{
    const struct lf_delta_shape *d = &r->hp->delta;
    int ratio = d->n_v_heads / d->n_k_heads, n_v = ratio * d->v_dim;
    struct lf_slot_part qkvz = {.pattern = "model.layers.#.linear_attn.in_proj_qkvz",
                                .n_rows = lf_delta_channels(d) + d->n_v_heads * d->v_dim,
                                .sections = {d->k_dim, d->k_dim, n_v, n_v}};
    struct lf_slot_part ba = {
        .pattern = "model.layers.#.linear_attn.in_proj_ba", .n_rows = 2 * d->n_v_heads, .sections = {ratio, ratio}};
    return (struct lf_delta_inputs){.qkvz = by_key_head(r, layer, qkvz), .ba = by_key_head(r, layer, ba)};
}

static void record(struct lf_recorder *r)
{
    lf_delta_net_record(r, inputs_of);
}

static enum lf_status read(struct lf_hparams *hp, struct lf_json_value config, struct lf_err *err)
{
    LF_TRY(lf_delta_net_read_experts(hp, config, EXPERTS, PER_TOKEN, err));
    hp->norm_topk = true;
    LF_TRY(lf_config_bool_or(config, "norm_topk_prob", &hp->norm_topk, err));
    return lf_experts_read_dense(hp, config, err);
}

static const char *const reads[] = {"num_experts", "num_local_experts", NULL};

const struct lf_arch lf_arch_qwen3_next = {.name = "Qwen3NextForCausalLM",
                                           .model_type = "qwen3_next",
                                           LF_DELTA_NET_ROW,
                                           .sizes = {.n_layers = 48,
                                                     .hidden = 2048,
                                                     .intermediate = 5632,
                                                     .n_vocab = 151936,
                                                     .n_heads = 16,
                                                     .n_kv_heads = 2,
                                                     .max_positions = 32768,
                                                     .norm_eps = 1e-6},
                                           .read = read,
                                           .reads = reads,
                                           .record = record};
