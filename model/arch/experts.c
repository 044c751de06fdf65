#include "model/arch/experts.h"

#include "core/check.h"
#include "core/limits.h"
#include "model/config.h"

static enum lf_status read_count(struct lf_json_value config, int *out, struct lf_err *err)
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
    if (n == 0) return lf_fail(err, LF_CORRUPT, "num_experts is missing");
    *out = n;
    return LF_OK;
}

enum lf_status lf_experts_read(struct lf_hparams *hp, struct lf_json_value config, struct lf_err *err)
{
    LF_TRY(read_count(config, &hp->n_experts, err));
    LF_TRY(lf_config_int(config, "num_experts_per_tok", 1, LF_MIN(hp->n_experts, LF_EXPERTS_PER_TOKEN_N),
                         &hp->experts_per_token, err));
    for (int i = 0; i < hp->n_layers; i++) hp->layers[i].has_experts = true;
    return LF_OK;
}

static struct lf_linear experts_of(struct lf_recorder *r, int layer, struct lf_linear_opts opts)
{
    opts.n_experts = r->hp->n_experts;
    opts.shard = LF_SHARD_EXPERTS;
    return lf_rec_linear(r, layer, &opts);
}

int lf_rec_expert_mlp(struct lf_recorder *r, int layer, int x, const struct lf_expert_names *names, enum lf_route route)
{
    const struct lf_hparams *hp = r->hp;
    int norm = lf_rec_vector(r, layer, "model.layers.#.post_attention_layernorm", hp->hidden);
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
                                           .whole = names->gate_up_whole});
    struct lf_linear down =
        experts_of(r, layer,
                   (struct lf_linear_opts){.parts = {{.pattern = names->down, .n_rows = hp->hidden}},
                                           .n_in = hp->expert_intermediate,
                                           .whole = names->down_whole});
    int h = lf_rec_rmsnorm(r, x, norm);
    struct lf_routing routing = lf_rec_route(r, lf_rec_gemm_float(r, h, router), hp->experts_per_token, route, 1);
    int act = lf_rec_gate_mul(r, lf_rec_expert_gemm(r, h, gate_up, &routing), LF_ACT_SILU, 0);
    return lf_rec_expert_sum(r, lf_rec_expert_gemm_float(r, act, down, &routing), &routing, x);
}
