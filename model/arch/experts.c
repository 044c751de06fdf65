#include "model/arch/experts.h"

#include "core/check.h"
#include "core/limits.h"
#include "model/arch/arch.h"
#include "model/config.h"

static enum lf_status read_count(struct lf_json_value config, int fallback, int *out, struct lf_err *err)
{
    static const char *const keys[] = {"num_experts", "num_local_experts"};
    int n = 0;
    for (size_t i = 0; i < LF_N_ELEMS(keys); i++) {
        int value;
        if (lf_json_is_absent(lf_json_get(config, keys[i]))) continue;
        LF_TRY(lf_config_int(config, keys[i], 1, LF_EXPERTS_N, &value, err));
        if (n > 0 && value != n)
            return lf_fail(err, LF_CORRUPT, "num_experts is %d, but num_local_experts %d", n, value);
        n = value;
    }
    if (n == 0) n = fallback;
    if (n == 0) return lf_fail(err, LF_CORRUPT, "num_experts is missing");
    *out = n;
    return LF_OK;
}

enum lf_status lf_experts_read_or(struct lf_hparams *hp, struct lf_json_value config, int n_experts, int per_token,
                                  struct lf_err *err)
{
    LF_TRY(read_count(config, n_experts, &hp->n_experts, err));
    int max = LF_MIN(hp->n_experts, LF_EXPERTS_PER_TOKEN_N);
    hp->experts_per_token = per_token;
    if (per_token == 0 || !lf_json_is_absent(lf_json_get(config, "num_experts_per_tok")))
        LF_TRY(lf_config_int(config, "num_experts_per_tok", 1, max, &hp->experts_per_token, err));
    if (hp->experts_per_token > max)
        return lf_fail(err, LF_CORRUPT, "num_experts_per_tok is missing, and %d, its default, is more than %d experts",
                       per_token, hp->n_experts);
    for (int i = 0; i < hp->n_layers; i++) hp->layers[i].has_experts = true;
    return LF_OK;
}

enum lf_status lf_experts_read(struct lf_hparams *hp, struct lf_json_value config, struct lf_err *err)
{
    return lf_experts_read_or(hp, config, 0, 0, err);
}

enum lf_status lf_experts_read_dense(struct lf_hparams *hp, struct lf_json_value config, struct lf_err *err)
{
    struct lf_json_value list = lf_json_get(config, "mlp_only_layers");
    int step = 1;
    if (!lf_json_is_absent(lf_json_get(config, "decoder_sparse_step")))
        LF_TRY(lf_config_int(config, "decoder_sparse_step", 1, INT32_MAX, &step, err));
    for (int i = 0; i < hp->n_layers; i++) hp->layers[i].has_experts = (i + 1) % step == 0;
    if (lf_json_is_absent(list)) return LF_OK;
    if (lf_json_type(list) != LF_JSON_ARRAY) return lf_config_wrong_type(list, "mlp_only_layers", "an array", err);
    for (struct lf_json_value it = lf_json_first(list); lf_json_more(list, it); it = lf_json_next(list, it)) {
        int layer;
        LF_TRY(lf_config_int_of(it, "mlp_only_layers", 0, INT32_MAX, &layer, err));
        if (layer < hp->n_layers) hp->layers[layer].has_experts = false;
    }
    return LF_OK;
}

static struct lf_linear experts_of(struct lf_recorder *r, int layer, struct lf_linear_opts opts)
{
    opts.n_experts = r->hp->n_experts;
    return lf_rec_linear(r, layer, &opts);
}

/* x and what the shared expert makes of h. */
static int add_shared(struct lf_recorder *r, int layer, int h, int x, const struct lf_expert_names *names)
{
    int hidden = r->hp->hidden, n = r->hp->shared_intermediate;
    struct lf_linear_opts gate_up = {
        .parts = {{.pattern = names->shared_gate, .n_rows = n}, {.pattern = names->shared_up, .n_rows = n}},
        .n_in = hidden,
        .shard = LF_SHARD_ROWS};
    struct lf_linear_opts down = {
        .parts = {{.pattern = names->shared_down, .n_rows = hidden}}, .n_in = n, .shard = LF_SHARD_COLUMNS};
    struct lf_linear_opts weight = {.parts = {{.pattern = names->shared_weight, .n_rows = 1}}, .n_in = hidden};
    int gate = lf_rec_gemm_float(r, h, lf_rec_linear(r, layer, &weight));
    int act = lf_rec_gate_mul(r, lf_rec_gemm(r, h, lf_rec_linear(r, layer, &gate_up)), r->hp->act, 0);
    return lf_rec_gate_sigmoid(r, lf_rec_gemm_float(r, act, lf_rec_linear(r, layer, &down)), gate, x);
}

int lf_rec_expert_mlp(struct lf_recorder *r, int layer, int x, const struct lf_expert_names *names, enum lf_route route)
{
    const struct lf_hparams *hp = r->hp;
    int norm = lf_rec_vector_plus(r, layer, "model.layers.#.post_attention_layernorm", hp->hidden,
                                  hp->arch->norm_plus_1 ? 1 : 0);
    struct lf_linear router =
        lf_rec_linear(r, layer,
                      &(struct lf_linear_opts){.parts = {{.pattern = names->router, .n_rows = hp->n_experts}},
                                               .n_in = hp->hidden,
                                               .whole = names->router_instead});
    struct lf_linear gate_up =
        experts_of(r, layer,
                   (struct lf_linear_opts){.parts = {{.pattern = names->gate, .n_rows = hp->expert_intermediate},
                                                     {.pattern = names->up, .n_rows = hp->expert_intermediate}},
                                           .n_in = hp->hidden,
                                           .shard = LF_SHARD_ROWS,
                                           .whole = names->gate_up_whole});
    struct lf_linear down =
        experts_of(r, layer,
                   (struct lf_linear_opts){.parts = {{.pattern = names->down, .n_rows = hp->hidden}},
                                           .n_in = hp->expert_intermediate,
                                           .shard = LF_SHARD_COLUMNS,
                                           .whole = names->down_whole});
    int h = lf_rec_rmsnorm(r, x, norm);
    if (hp->shared_intermediate > 0) x = add_shared(r, layer, h, x, names);
    struct lf_routing routing = lf_rec_route(r, lf_rec_gemm_float(r, h, router), hp->experts_per_token, route, 1);
    int act = lf_rec_gate_mul(r, lf_rec_expert_gemm(r, h, gate_up, &routing), r->hp->act, 0);
    return lf_rec_expert_sum(r, lf_rec_expert_gemm_float(r, act, down, &routing), &routing, x);
}
