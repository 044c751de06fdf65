/* RoPE of a model, as config.json and the options say.
 *
 * Formulas of the rope kinds are in attention/rope.c; only their parameters are settled here. */
#include "model/rope_config.h"

#include <math.h>
#include <stdio.h>

#include "core/check.h"
#include "core/limits.h"
#include "model/arch/arch.h"
#include "model/config.h"

#define DEFAULT_ROPE_THETA 10000.0

static enum lf_status check_rope_keys(const struct lf_arch *fam, struct lf_json_value rope, struct lf_err *err)
{
    static const char *const known[] = {"type",
                                        "rope_type",
                                        "rope_theta",
                                        "factor",
                                        "low_freq_factor",
                                        "high_freq_factor",
                                        "original_max_position_embeddings",
                                        "beta_fast",
                                        "beta_slow",
                                        "attention_factor",
                                        "mscale",
                                        "mscale_all_dim",
                                        "truncate",
                                        "partial_rotary_factor",
                                        "attn_factor",
                                        "short_factor",
                                        "long_factor",
                                        "finetuned"};
    for (struct lf_json_value it = lf_json_first(rope); lf_json_more(rope, it); it = lf_json_next(rope, it)) {
        bool found = false;
        for (size_t i = 0; i < LF_N_ELEMS(known) && !found; i++) found = lf_json_string_is(it, known[i]);
        for (int i = 0; fam->reads && fam->reads[i] && !found; i++) found = lf_json_string_is(it, fam->reads[i]);
        if (found || lf_json_is_absent(lf_json_member(it))) continue;
        struct lf_str raw = lf_json_raw(it);
        return lf_fail(err, LF_UNSUPPORTED, "rope parameter \"%.*s\" is not implemented",
                       (int)LF_MIN(raw.len, (size_t)64), raw.ptr);
    }
    return LF_OK;
}

/* Of one kind with several names the first is the usual one. */
static const struct {
    const char *name;
    enum lf_rope_kind kind;
} kinds[] = {{"default", LF_ROPE_NONE_SCALED},
             {"linear", LF_ROPE_LINEAR},
             {"llama3", LF_ROPE_LLAMA3},
             {"yarn", LF_ROPE_YARN},
             {"longrope", LF_ROPE_LONGROPE},
             {"su", LF_ROPE_LONGROPE},
             {"proportional", LF_ROPE_PROPORTIONAL}};

static const char *name_kind(enum lf_rope_kind kind)
{
    size_t i = 0;
    while (i < LF_N_ELEMS(kinds) && kinds[i].kind != kind) i++;
    return i < LF_N_ELEMS(kinds) ? kinds[i].name : "none";
}

static enum lf_status read_rope_kind(struct lf_json_value rope, enum lf_rope_kind *out, struct lf_err *err)
{
    struct lf_json_value type = lf_json_get(rope, "rope_type");
    if (lf_json_is_absent(type)) type = lf_json_get(rope, "type");
    *out = LF_ROPE_NONE_SCALED;
    if (lf_json_is_absent(type)) return LF_OK;
    for (size_t i = 0; i < LF_N_ELEMS(kinds); i++) {
        if (!lf_json_string_is(type, kinds[i].name)) continue;
        *out = kinds[i].kind;
        /* Older files of Phi-3 call it so. */
        if (*out == LF_ROPE_YARN && !lf_json_is_absent(lf_json_get(rope, "long_factor"))) *out = LF_ROPE_LONGROPE;
        return LF_OK;
    }
    double factor;
    bool stretches = !lf_json_double(lf_json_get(rope, "factor"), &factor) || fabs(factor - 1) > 0;
    if (lf_json_string_is(type, "dynamic") && !stretches) return LF_OK; /* by 1: as it is */
    struct lf_str raw = lf_json_raw(type);
    return lf_fail(err, LF_UNSUPPORTED,
                   "rope type \"%.*s\" is not implemented (default, linear, llama3, yarn and longrope are)",
                   (int)LF_MIN(raw.len, (size_t)64), raw.ptr);
}

/* The length a model was trained for before its positions were stretched. It may stand in the rope parameters or
 * beside them. */
static enum lf_status read_original_positions(struct lf_json_value root, struct lf_json_value rope, int fallback,
                                              int *out, struct lf_err *err)
{
    const char *key = "original_max_position_embeddings";
    int inside = 0, beside = 0;
    if (!lf_json_is_absent(lf_json_get(rope, key))) {
        LF_TRY(lf_config_int(rope, key, 1, LF_CONTEXT_TOKENS, &inside, err));
    }
    if (!lf_json_is_absent(lf_json_get(root, key))) {
        LF_TRY(lf_config_int(root, key, 1, LF_CONTEXT_TOKENS, &beside, err));
    }
    if (inside && beside && inside != beside) {
        return lf_fail(err, LF_CORRUPT, "%s is %d, and %d in the rope parameters", key, beside, inside);
    }
    *out = LF_MAX(inside, beside);
    if (*out == 0) *out = fallback;
    return *out > 0 ? LF_OK : lf_fail(err, LF_CORRUPT, "%s is missing", key);
}

static double yarn_mscale(double factor, double mscale)
{
    return factor <= 1.0 ? 1.0 : 0.1 * mscale * log(factor) + 1.0;
}

/* What cos and sin are multiplied by: as it is given, or by the formula. */
static enum lf_status read_yarn_factor(struct lf_rope_opts *r, struct lf_json_value rope, struct lf_err *err)
{
    double mscale = 0, mscale_all_dim = 0;
    bool given;
    LF_TRY(lf_config_number_or(rope, "mscale", 0, 1e6, &mscale, NULL, err));
    LF_TRY(lf_config_number_or(rope, "mscale_all_dim", 0, 1e6, &mscale_all_dim, NULL, err));
    LF_TRY(lf_config_number_or(rope, "attention_factor", 1e-6, 1e6, &r->attention_factor, &given, err));
    if (given) return LF_OK;
    r->attention_factor = mscale > 0 && mscale_all_dim > 0
                              ? yarn_mscale(r->factor, mscale) / yarn_mscale(r->factor, mscale_all_dim)
                              : yarn_mscale(r->factor, 1);
    return LF_OK;
}

/* Parameters of yarn (Peng et al. 2023), with the defaults of transformers. attn_factor is a factor on top, as in vLLM:
 * transformers does not know it, and models whose files have it were made to undo the formula with it
 * (DeepSeek-R1-0528-Qwen3-8B: the product is 1). */
static enum lf_status read_yarn(struct lf_rope_opts *r, struct lf_json_value rope, struct lf_err *err)
{
    double on_top = 1;
    r->beta_fast = 32;
    r->beta_slow = 1;
    LF_TRY(lf_config_number_or(rope, "beta_fast", 1e-6, 1e9, &r->beta_fast, NULL, err));
    LF_TRY(lf_config_number_or(rope, "beta_slow", 1e-6, 1e9, &r->beta_slow, NULL, err));
    if (r->beta_fast < r->beta_slow) {
        return lf_fail(err, LF_CORRUPT, "beta_fast %g is less than beta_slow %g", r->beta_fast, r->beta_slow);
    }
    LF_TRY(lf_config_bool_or(rope, "truncate", &r->truncate, err));
    LF_TRY(read_yarn_factor(r, rope, err));
    LF_TRY(lf_config_number_or(rope, "attn_factor", 1e-6, 1e6, &on_top, NULL, err));
    r->attention_factor *= on_top;
    return LF_OK;
}

static enum lf_status read_factors(struct lf_json_value rope, const char *key, int n, double *out, struct lf_err *err)
{
    struct lf_json_value list = lf_json_get(rope, key);
    int i = 0;
    if (lf_json_type(list) != LF_JSON_ARRAY || lf_json_len(list) != (uint32_t)n)
        return lf_fail(err, LF_CORRUPT, "%s is not an array of %d numbers, one for each pair that is rotated", key, n);
    for (struct lf_json_value it = lf_json_first(list); lf_json_more(list, it); it = lf_json_next(list, it)) {
        if (!lf_json_double(it, &out[i])) return lf_config_wrong_type(it, key, "a number", err);
        if (!(out[i] >= 1e-6 && out[i] <= 1e9))
            return lf_fail(err, LF_CORRUPT, "%s has %g, expected 1e-06 to 1e+09", key, out[i]);
        i++;
    }
    return LF_OK;
}

/* max_position_embeddings is the stretched length; by how much is what the factor on cos and sin is made from. */
static enum lf_status read_longrope(struct lf_rope_opts *r, struct lf_json_value rope, int max_positions,
                                    struct lf_err *err)
{
    bool given;
    r->factor = (double)max_positions / r->original_max_positions;
    LF_TRY(lf_config_number_or(rope, "factor", 1e-6, 1e6, &r->factor, NULL, err));
    LF_TRY(read_factors(rope, "short_factor", r->rotary_dim / 2, r->short_factor, err));
    LF_TRY(read_factors(rope, "long_factor", r->rotary_dim / 2, r->long_factor, err));
    LF_TRY(lf_config_number_or(rope, "attention_factor", 1e-6, 1e6, &r->attention_factor, &given, err));
    if (given) return LF_OK;
    bool stretches = r->factor > 1 && r->original_max_positions > 1;
    r->attention_factor = stretches ? sqrt(1 + log(r->factor) / log(r->original_max_positions)) : 1;
    return LF_OK;
}

static enum lf_status read_llama3(struct lf_rope_opts *r, struct lf_json_value rope, struct lf_err *err)
{
    LF_TRY(lf_config_number(rope, "low_freq_factor", 1e-6, 1e9, &r->low_freq_factor, err));
    LF_TRY(lf_config_number(rope, "high_freq_factor", 1e-6, 1e9, &r->high_freq_factor, err));
    if (!(r->high_freq_factor > r->low_freq_factor)) {
        return lf_fail(err, LF_CORRUPT, "high_freq_factor %g is not greater than low_freq_factor %g",
                       r->high_freq_factor, r->low_freq_factor);
    }
    return LF_OK;
}

static enum lf_status check_rope(const struct lf_arch *fam, struct lf_json_value rope, const char *key,
                                 struct lf_err *err)
{
    if (lf_json_is_absent(rope)) return LF_OK;
    if (lf_json_type(rope) != LF_JSON_OBJECT) return lf_config_wrong_type(rope, key, "an object", err);
    return check_rope_keys(fam, rope, err);
}

/* The object with the rope parameters: rope_scaling where it is set, as in older files, else rope_parameters. */
static enum lf_status find_rope(const struct lf_arch *fam, struct lf_json_value root, struct lf_json_value *out,
                                struct lf_err *err)
{
    struct lf_json_value scaling = lf_json_get(root, "rope_scaling");
    const char *key = lf_json_is_absent(scaling) ? "rope_parameters" : "rope_scaling";
    *out = lf_json_get(root, key);
    return check_rope(fam, *out, key, err);
}

/* The same of a family whose layers with a window have parameters of their own (*local). */
static enum lf_status find_ropes(const struct lf_arch *fam, struct lf_json_value root, struct lf_json_value *full,
                                 struct lf_json_value *local, struct lf_err *err)
{
    struct lf_json_value params = lf_json_get(root, "rope_parameters");
    *full = lf_json_get(root, "rope_scaling");
    *local = (struct lf_json_value){0};
    if (lf_json_is_absent(params)) return check_rope(fam, *full, "rope_scaling", err);
    if (lf_json_type(params) != LF_JSON_OBJECT)
        return lf_config_wrong_type(params, "rope_parameters", "an object", err);
    if (!lf_json_is_absent(*full))
        return lf_fail(err, LF_UNSUPPORTED, "rope_scaling beside rope_parameters is not implemented for this family");
    for (struct lf_json_value it = lf_json_first(params); lf_json_more(params, it); it = lf_json_next(params, it)) {
        if (lf_json_string_is(it, "full_attention") || lf_json_string_is(it, "sliding_attention")) continue;
        struct lf_str raw = lf_json_raw(it);
        return lf_fail(err, LF_UNSUPPORTED,
                       "rope_parameters has \"%.*s\"; expected full_attention and sliding_attention, which this family "
                       "has apart",
                       (int)LF_MIN(raw.len, (size_t)64), raw.ptr);
    }
    *full = lf_json_get(params, "full_attention");
    *local = lf_json_get(params, "sliding_attention");
    LF_TRY(check_rope(fam, *full, "rope_parameters.full_attention", err));
    return check_rope(fam, *local, "rope_parameters.sliding_attention", err);
}

/* Channels that turn; where RoPE is proportional, all do, but of the pairs some stand still. */
static enum lf_status read_rotary_dim(const struct lf_arch *fam, struct lf_json_value root, struct lf_json_value rope,
                                      struct lf_rope_opts *r, struct lf_err *err)
{
    double part = fam->partial_rotary_factor > 0 ? fam->partial_rotary_factor : 1;
    LF_TRY(lf_config_number_or(root, "partial_rotary_factor", 0, 1, &part, NULL, err));
    LF_TRY(lf_config_number_or(rope, "partial_rotary_factor", 0, 1, &part, NULL, err));
    r->n_turned = (int)(part * r->head_dim / 2);
    r->rotary_dim = r->kind == LF_ROPE_PROPORTIONAL ? r->head_dim : (int)(part * r->head_dim);
    if (r->rotary_dim < 2 || r->rotary_dim % 2 != 0) {
        return lf_fail(err, LF_UNSUPPORTED, "partial_rotary_factor %g of head_dim %d is no even number from 2", part,
                       r->head_dim);
    }
    return LF_OK;
}

/* RoPE of layers with a window, or of those without one, before its parameters are read. Their head_dim is one. */
static struct lf_rope_opts rope_of_type(const struct lf_hparams *hp, bool has_window, double theta)
{
    int i = 0;
    while (i < hp->n_layers && (hp->layers[i].window > 0) != has_window) i++;
    return (struct lf_rope_opts){.head_dim = i < hp->n_layers ? lf_layer_head_dim(hp, i) : hp->head_dim,
                                 .theta = theta,
                                 .factor = 1,
                                 .truncate = true};
}

/* ---- positions behind those that the model was made for ---- */

/* YaRN by as much as the last position needs, where the configuration says nothing: factor and original length take
 * the place of rope_scaling's. */
static enum lf_status ask_yarn(const struct lf_hparams *hp, struct lf_json_value rope, struct lf_rope_opts *r,
                               struct lf_err *err)
{
    r->kind = LF_ROPE_YARN;
    r->original_max_positions = hp->stretch.yarn_original ? hp->stretch.yarn_original : hp->max_positions;
    r->factor = (double)hp->stretch.max_position / r->original_max_positions;
    return read_yarn(r, rope, err);
}

/* The factor of the configuration's YaRN, raised to what the last position needs. */
static void raise_yarn(const struct lf_hparams *hp, struct lf_rope_opts *r)
{
    r->factor = fmax(r->factor, (double)hp->stretch.max_position / r->original_max_positions);
}

/* Whether --rope-scaling can be what it says beside what the configuration has. */
static enum lf_status check_asked(const struct lf_hparams *hp, const struct lf_rope_opts *r, struct lf_err *err)
{
    int original = hp->stretch.yarn_original;
    if (!hp->stretch.yarn) return LF_OK;
    if (r->kind != LF_ROPE_YARN)
        return lf_fail(err, LF_INVALID,
                       "--rope-scaling yarn: the model has positions scaled by %s: expected no --rope-scaling",
                       name_kind(r->kind));
    if (original == 0 || original == r->original_max_positions) return LF_OK;
    return lf_fail(err, LF_INVALID, "--rope-scaling yarn:%d: the model has YaRN of %d tokens: expected that, or none",
                   original, r->original_max_positions);
}

/* The model's positions become those of the stretch. */
static enum lf_status stretch_positions(struct lf_hparams *hp, const struct lf_arch *fam, struct lf_err *err)
{
    const struct lf_stretch *s = &hp->stretch;
    if (s->yarn && s->max_position == 0)
        return lf_fail(err, LF_INVALID, "--rope-scaling is for positions of --max-position, which is not given");
    if (s->max_position == 0) return LF_OK;
    if (s->max_position <= hp->made_positions)
        return lf_fail(err, LF_INVALID, "--max-position is %d, but the model was made for %d tokens: less is --ctx",
                       s->max_position, hp->made_positions);
    if (s->yarn_original > hp->made_positions)
        return lf_fail(err, LF_INVALID, "--rope-scaling yarn:%d: the model was made for %d tokens, not more",
                       s->yarn_original, hp->made_positions);
    if (hp->unused_window > 0 && s->max_position > hp->unused_window)
        return lf_fail(err, LF_UNSUPPORTED,
                       "--max-position is %d, but sliding_window is %d, and %s has no window: expected no more than it",
                       s->max_position, hp->unused_window, fam->name);
    hp->max_positions = s->max_position;
    return LF_OK;
}

void lf_rope_stretch_text(const struct lf_hparams *hp, char out[LF_STRETCH_TEXT_BYTES])
{
    const struct lf_rope_opts *r = &hp->ropes[0];
    if (r->kind == LF_ROPE_YARN)
        snprintf(out, LF_STRETCH_TEXT_BYTES, "YaRN by %.6g from %d tokens, for short texts too", r->factor,
                 r->original_max_positions);
    else if (r->kind == LF_ROPE_NONE_SCALED)
        snprintf(out, LF_STRETCH_TEXT_BYTES, "positions go on as they are");
    else
        snprintf(out, LF_STRETCH_TEXT_BYTES, "positions go on, scaled by %s as they are", name_kind(r->kind));
}

/* ---- all of it ---- */

/* *r, which has head_dim and theta, as `rope` says, which may be absent. *positions: how many it is for. */
static enum lf_status read_rope_opts(const struct lf_hparams *hp, const struct lf_arch *fam, struct lf_json_value root,
                                     struct lf_json_value rope, struct lf_rope_opts *r, double *positions,
                                     struct lf_err *err)
{
    *positions = hp->max_positions;
    LF_TRY(read_rope_kind(rope, &r->kind, err));
    LF_TRY(read_rotary_dim(fam, root, rope, r, err));
    LF_TRY(lf_config_number_or(rope, "rope_theta", 1.000001, 1e15, &r->theta, NULL, err));
    if (r->kind != LF_ROPE_YARN && !lf_json_is_absent(lf_json_get(rope, "attn_factor")))
        return lf_fail(err, LF_UNSUPPORTED, "rope parameter \"attn_factor\" is not implemented but for yarn");
    bool may_stretch = r == &hp->ropes[0]; /* layers with a window and a rope of their own look no further than that */
    if (r->kind == LF_ROPE_NONE_SCALED) return may_stretch && hp->stretch.yarn ? ask_yarn(hp, rope, r, err) : LF_OK;
    if (may_stretch && r->kind != LF_ROPE_YARN) LF_TRY(check_asked(hp, r, err));
    if (r->kind == LF_ROPE_PROPORTIONAL) return lf_config_number_or(rope, "factor", 1, 1e6, &r->factor, NULL, err);
    if (r->kind == LF_ROPE_LONGROPE) {
        LF_TRY(read_original_positions(root, rope, 0, &r->original_max_positions, err));
        return read_longrope(r, rope, hp->max_positions, err);
    }
    LF_TRY(lf_config_number(rope, "factor", 1, 1e6, &r->factor, err));
    if (r->kind == LF_ROPE_LLAMA3) {
        LF_TRY(read_original_positions(root, rope, 0, &r->original_max_positions, err));
        LF_TRY(read_llama3(r, rope, err));
    } else if (r->kind == LF_ROPE_YARN) {
        LF_TRY(read_original_positions(root, rope, hp->max_positions, &r->original_max_positions, err));
        *positions = r->original_max_positions * r->factor;
        if (may_stretch) {
            LF_TRY(check_asked(hp, r, err));
            raise_yarn(hp, r);
        }
        LF_TRY(read_yarn(r, rope, err));
    } else if (!fam->stretched) {
        *positions *= r->factor; /* the key counts positions before they are divided */
    }
    return LF_OK;
}

/* RoPE of layers with a window as ropes[1], unless it is what the others have. */
static enum lf_status read_local_rope(struct lf_hparams *hp, const struct lf_arch *fam, struct lf_json_value root,
                                      struct lf_json_value local, double theta, struct lf_err *err)
{
    double positions;
    const struct lf_rope_opts *full = &hp->ropes[0], *own = &hp->ropes[1];
    if (fam->local_theta_key) {
        theta = fam->local_theta;
        LF_TRY(lf_config_number_or(root, fam->local_theta_key, 1.000001, 1e15, &theta, NULL, err));
    }
    hp->ropes[1] = rope_of_type(hp, true, theta);
    LF_TRY(read_rope_opts(hp, fam, root, local, &hp->ropes[1], &positions, err));
    bool is_plain = full->kind == LF_ROPE_NONE_SCALED && own->kind == LF_ROPE_NONE_SCALED;
    bool is_shape = own->head_dim == full->head_dim && own->rotary_dim == full->rotary_dim;
    if (is_plain && is_shape && fabs(own->theta - full->theta) == 0) return LF_OK;
    hp->n_ropes = 2;
    for (int i = 0; i < hp->n_layers; i++) hp->layers[i].rope = hp->layers[i].window > 0;
    return LF_OK;
}

enum lf_status lf_rope_config_read(struct lf_hparams *hp, const struct lf_arch *fam, struct lf_json_value root,
                                   struct lf_err *err)
{
    struct lf_json_value rope, local = {0};
    double theta = fam->rope_theta > 0 ? fam->rope_theta : DEFAULT_ROPE_THETA, positions;
    hp->n_ropes = 1;
    LF_TRY(fam->rope_by_type ? find_ropes(fam, root, &rope, &local, err) : find_rope(fam, root, &rope, err));
    LF_TRY(lf_config_number_or(root, "rope_theta", 1.000001, 1e15, &theta, NULL, err));
    hp->ropes[0] = rope_of_type(hp, false, theta);
    LF_TRY(read_rope_opts(hp, fam, root, rope, &hp->ropes[0], &positions, err));
    if (fam->rope_by_type) LF_TRY(read_local_rope(hp, fam, root, local, theta, err));
    hp->made_positions = hp->max_positions = (int)LF_MIN(positions, (double)LF_CONTEXT_TOKENS);
    return stretch_positions(hp, fam, err);
}
