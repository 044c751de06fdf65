/* config.json, as transformers reads it for the architectures in lf_archs, and nothing beyond.
 *
 * The file names a model in the words of another program, where a missing key has a default and an unknown key is
 * silently dropped. Here a key falls into one of three groups: those that are read (and checked), those that cannot
 * change a logit, and those that would and are not implemented: the last are refused by name. What differs between the
 * architectures stands in a row of each (arch/arch.h).
 * RoPE is read in rope_config.c. */
#include "model/hparams.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/check.h"
#include "core/file.h"
#include "core/json.h"
#include "core/limits.h"
#include "model/activation.h"
#include "model/arch/arch.h"
#include "model/config.h"
#include "model/foreign.h"
#include "model/formats/quantization.h"
#include "model/rope_config.h"

enum { DEFAULT_MAX_WINDOW_LAYERS = 28, DTYPE_NAME_BYTES = 24, FAMILY_NAMES_BYTES = 200 };

static bool reads_key(const struct lf_arch *fam, const char *key)
{
    int i = 0;
    while (fam->reads && fam->reads[i] && strcmp(fam->reads[i], key) != 0) i++;
    return fam->reads && fam->reads[i];
}

/* Keys by which other programs say that the computation is another one. Refused unless absent, null, false, or a value
 * that leaves things as they are. */
static enum lf_status refuse_foreign_keys(const struct lf_arch *fam, struct lf_json_value root, struct lf_err *err)
{
    static const struct {
        const char *key;
        double neutral, also;
    } rows[] = {
        {"attn_logit_softcapping", 0, 0},
        {"final_logit_softcapping", 0, 0},
        {"query_pre_attn_scalar", 0, 0},
        {"use_bidirectional_attention", 0, 0},
        {"attention_multiplier", 0, 0},
        {"embedding_multiplier", 1, 1},
        {"residual_multiplier", 1, 1},
        {"logits_scaling", 1, 1},
        {"logit_scale", 1, 1},
        {"scale_emb", 1, 1},
        {"scale_depth", 0, 0},
        {"dim_model_base", 0, 0},
        {"clip_qkv", 0, 0},
        {"num_experts", 0, 1},
        {"num_local_experts", 0, 1}, /* one expert is a plain MLP */
        {"n_routed_experts", 0, 0},
        {"no_rope_layers", 0, 0},
        {"use_qk_norm", 0, 0},
        {"qk_layernorm", 0, 0},
        {"attention_chunk_size", 0, 0},
        {"rope_interleaved", 0, 0},
        {"parallel_attn", 0, 0},
        {"alibi", 0, 0},
    };
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++) {
        struct lf_json_value v = lf_json_get(root, rows[i].key);
        double x;
        if (lf_json_is_absent(v) || lf_json_type(v) == LF_JSON_FALSE || reads_key(fam, rows[i].key)) continue;
        if (lf_json_double(v, &x) && (fabs(x - rows[i].neutral) == 0 || fabs(x - rows[i].also) == 0)) continue;
        return lf_fail(err, LF_UNSUPPORTED, "%s is set and would change the result; it is not implemented",
                       rows[i].key);
    }
    struct lf_json_value code = lf_json_get(lf_json_get(root, "auto_map"), "AutoModelForCausalLM");
    if (!lf_json_is_absent(code) && !fam->own_code) {
        return lf_fail(err, LF_UNSUPPORTED, "auto_map: the model brings its own code, which is not run");
    }
    return LF_OK;
}

/* The name of an architecture without what its class does. */
static struct lf_str short_name(const struct lf_arch *arch)
{
    struct lf_str name = lf_str_c(arch->name);
    ptrdiff_t at = lf_str_find(name, LF_STR("For"));
    return at > 0 ? lf_str_from(name.ptr, (size_t)at) : name;
}

/* "Llama, Mistral, Qwen2": what is implemented, for messages, as far as there is room. */
static const char *name_families(char *out, size_t out_bytes)
{
    size_t at = 0;
    for (size_t i = 0; lf_archs[i]; i++) {
        struct lf_str name = short_name(lf_archs[i]);
        bool is_known = false;
        for (size_t k = 0; k < i && !is_known; k++) is_known = lf_str_eq(name, short_name(lf_archs[k]));
        if (is_known) continue;
        if (at + 2 + name.len + sizeof(", …") > out_bytes) {
            snprintf(out + at, out_bytes - at, ", …");
            break;
        }
        at += (size_t)snprintf(out + at, out_bytes - at, "%s%.*s", i == 0 ? "" : ", ", (int)name.len, name.ptr);
    }
    return out;
}

/* Whether the row is that of the model: of two with one name, by what its text_config is. */
static bool is_row_of(const struct lf_arch *arch, struct lf_json_value root, struct lf_json_value name, bool by_type)
{
    struct lf_json_value type = lf_json_get(lf_json_get(root, "text_config"), "model_type");
    if (!lf_json_string_is(name, arch->name)) return false;
    return !by_type || !arch->text_type || lf_json_string_is(type, arch->text_type);
}

/* NULL: it is not implemented. */
static const struct lf_arch *find_arch(struct lf_json_value root, struct lf_json_value name)
{
    const struct lf_arch *of_name = NULL;
    for (size_t i = 0; lf_archs[i]; i++) {
        if (is_row_of(lf_archs[i], root, name, true)) return lf_archs[i];
        if (!of_name && is_row_of(lf_archs[i], root, name, false)) of_name = lf_archs[i];
    }
    return of_name;
}

static enum lf_status read_family(struct lf_json_value root, const struct lf_arch **out, struct lf_err *err)
{
    struct lf_json_value list = lf_json_get(root, "architectures");
    if (lf_json_is_absent(list)) return lf_fail(err, LF_CORRUPT, "architectures is missing");
    if (lf_json_type(list) != LF_JSON_ARRAY || lf_json_len(list) != 1) {
        return lf_fail(err, LF_CORRUPT, "architectures is not an array of one name");
    }
    struct lf_json_value name = lf_json_first(list);
    const struct lf_arch *arch = find_arch(root, name);
    if (arch) {
        struct lf_json_value type = lf_json_get(root, "model_type");
        struct lf_str raw = lf_json_raw(type);
        if (!lf_json_is_absent(type) && !lf_json_string_is(type, arch->model_type)) {
            return lf_fail(err, LF_CORRUPT, "model_type is %.*s, but %s is of type %s",
                           (int)LF_MIN(raw.len, (size_t)64), raw.ptr, arch->name, arch->model_type);
        }
        *out = arch;
        return LF_OK;
    }
    struct lf_str raw = lf_json_raw(name);
    const char *kind = lf_foreign_kind(root, raw);
    char known[FAMILY_NAMES_BYTES];
    return lf_fail(err, LF_UNSUPPORTED, "architecture %.*s%s%s is not implemented (%s are: docs/models.md)",
                   (int)LF_MIN(raw.len, (size_t)64), raw.ptr, *kind ? ", " : "", kind,
                   name_families(known, sizeof(known)));
}

/* A size from 1 to max, or, where it is missing, the architecture's own. */
static enum lf_status read_size(struct lf_json_value root, const char *key, int64_t max, int fallback, int *out,
                                struct lf_err *err)
{
    *out = fallback;
    if (fallback > 0 && lf_json_is_absent(lf_json_get(root, key))) return LF_OK;
    return lf_config_int(root, key, 1, max, out, err);
}

static enum lf_status read_heads(struct lf_hparams *hp, const struct lf_arch *fam, struct lf_json_value root,
                                 struct lf_err *err)
{
    LF_TRY(read_size(root, "num_attention_heads", LF_HEADS_N, fam->sizes.n_heads, &hp->n_heads, err));
    struct lf_json_value kv = lf_json_get(root, "num_key_value_heads");
    hp->n_kv_heads = fam->sizes.n_kv_heads > 0 ? fam->sizes.n_kv_heads : hp->n_heads;
    if (!lf_json_is_absent(kv)) {
        LF_TRY(lf_config_int_of(kv, "num_key_value_heads", 1, LF_HEADS_N, &hp->n_kv_heads, err));
    } else if (lf_json_type(kv) == LF_JSON_NONE && !fam->as_many_kv_heads && fam->sizes.n_kv_heads == 0) {
        return lf_fail(err, LF_CORRUPT, "num_key_value_heads is missing");
    }
    if (hp->n_heads % hp->n_kv_heads != 0) {
        return lf_fail(err, LF_CORRUPT, "num_attention_heads %d is no multiple of num_key_value_heads %d", hp->n_heads,
                       hp->n_kv_heads);
    }
    return LF_OK;
}

static enum lf_status read_sizes(struct lf_hparams *hp, const struct lf_arch *fam, struct lf_json_value root,
                                 struct lf_err *err)
{
    const struct lf_arch_sizes *s = &fam->sizes;
    LF_TRY(read_size(root, "num_hidden_layers", LF_LAYERS_N, s->n_layers, &hp->n_layers, err));
    LF_TRY(read_size(root, "hidden_size", LF_HIDDEN_N, s->hidden, &hp->hidden, err));
    LF_TRY(read_size(root, "intermediate_size", LF_HIDDEN_N, s->intermediate, &hp->intermediate, err));
    LF_TRY(read_size(root, "vocab_size", LF_VOCAB_N, s->n_vocab, &hp->n_vocab, err));
    LF_TRY(read_size(root, "max_position_embeddings", LF_CONTEXT_TOKENS, s->max_positions, &hp->max_positions, err));
    LF_TRY(read_heads(hp, fam, root, err));
    struct lf_json_value dim = lf_json_get(root, "head_dim");
    if (!lf_json_is_absent(dim)) {
        LF_TRY(lf_config_int_of(dim, "head_dim", 1, INT32_MAX, &hp->head_dim, err));
    } else if (fam->head_dim > 0) {
        hp->head_dim = fam->head_dim;
    } else {
        if (hp->hidden % hp->n_heads != 0) {
            return lf_fail(err, LF_CORRUPT,
                           "hidden_size %d is no multiple of num_attention_heads %d, and head_dim is "
                           "missing",
                           hp->hidden, hp->n_heads);
        }
        hp->head_dim = hp->hidden / hp->n_heads;
    }
    if (hp->head_dim % LF_HEAD_DIM_STEP != 0 || hp->head_dim > LF_HEAD_DIM) {
        return lf_fail(err, LF_UNSUPPORTED, "head_dim %d is not implemented (multiples of %d up to %d are)",
                       hp->head_dim, LF_HEAD_DIM_STEP, LF_HEAD_DIM);
    }
    double eps = s->norm_eps;
    bool found;
    LF_TRY(lf_config_number_or(root, "rms_norm_eps", 1e-30, 1.0, &eps, &found, err));
    if (!found && eps == 0) return lf_fail(err, LF_CORRUPT, "rms_norm_eps is missing");
    hp->norm_eps = (float)eps;
    return LF_OK;
}

/* What may stand beside text_config, or in it, which holds then; what is absent stays as it is. */
static enum lf_status read_common(struct lf_hparams *hp, struct lf_json_value root, struct lf_err *err)
{
    LF_TRY(lf_config_bool_or(root, "tie_word_embeddings", &hp->tied, err));
    struct lf_json_value dtype = lf_json_get(root, "torch_dtype");
    if (lf_json_is_absent(dtype)) dtype = lf_json_get(root, "dtype");
    struct lf_str raw = lf_json_raw(dtype);
    if (lf_json_is_absent(dtype)) return LF_OK;
    if (lf_json_string_is(dtype, "auto") || lf_json_string_is(dtype, "bfloat16")) {
        hp->dtype = LF_BF16;
    } else if (lf_json_string_is(dtype, "float16")) {
        hp->dtype = LF_F16;
    } else if (lf_json_string_is(dtype, "float32")) {
        hp->dtype = LF_F32;
    } else {
        return lf_fail(err, LF_UNSUPPORTED, "torch_dtype %.*s is not implemented (bfloat16, float16 and float32 are)",
                       (int)LF_MIN(raw.len, (size_t)DTYPE_NAME_BYTES), raw.ptr);
    }
    return LF_OK;
}

/* Biases, activation, and what is common. */
static enum lf_status read_switches(struct lf_hparams *hp, const struct lf_arch *fam, struct lf_json_value root,
                                    struct lf_err *err)
{
    LF_TRY(lf_activation_read(&hp->act, fam, root, err));
    bool attention_bias = false, mlp_bias = false;
    LF_TRY(lf_config_bool_or(root, "attention_bias", &attention_bias, err));
    LF_TRY(lf_config_bool_or(root, "mlp_bias", &mlp_bias, err));
    const char *foreign = mlp_bias && !fam->mlp_bias ? "mlp_bias" : NULL;
    if (attention_bias && !fam->attention_bias && !fam->qkv_bias) foreign = "attention_bias";
    if (foreign) return lf_fail(err, LF_UNSUPPORTED, "%s is true, but %s has no such bias", foreign, fam->name);
    hp->qkv_bias = fam->qkv_bias || attention_bias;
    hp->o_bias = attention_bias && fam->attention_bias;
    hp->mlp_bias = mlp_bias;
    hp->qk_norm = fam->qk_norm;
    return read_common(hp, root, err);
}

/* layer_types, where given, says of each layer whether it has the window. */
static enum lf_status read_layer_types(struct lf_hparams *hp, struct lf_json_value types, int window,
                                       struct lf_err *err)
{
    if (lf_json_len(types) != (uint32_t)hp->n_layers) {
        return lf_fail(err, LF_CORRUPT, "layer_types is not an array of num_hidden_layers = %d names", hp->n_layers);
    }
    int layer = 0;
    for (struct lf_json_value it = lf_json_first(types); lf_json_more(types, it); it = lf_json_next(types, it)) {
        struct lf_str raw = lf_json_raw(it);
        if (lf_json_string_is(it, "full_attention")) {
            hp->layers[layer].window = 0;
        } else if (lf_json_string_is(it, "sliding_attention")) {
            if (window == 0) {
                return lf_fail(err, LF_CORRUPT, "layer_types gives layer %d a window, but there is no sliding_window",
                               layer);
            }
            hp->layers[layer].window = window;
        } else {
            return lf_fail(err, LF_UNSUPPORTED, "layer_types: \"%.*s\" of layer %d is not implemented",
                           (int)LF_MIN(raw.len, (size_t)64), raw.ptr, layer);
        }
        layer++;
    }
    return LF_OK;
}

static enum lf_status make_layers(struct lf_hparams *hp, struct lf_err *err)
{
    hp->layers = calloc((size_t)hp->n_layers, sizeof(*hp->layers));
    return hp->layers ? LF_OK : lf_fail(err, LF_NO_MEMORY, "no memory for what %d layers differ in", hp->n_layers);
}

static enum lf_status read_windows(struct lf_hparams *hp, const struct lf_arch *fam, struct lf_json_value root,
                                   struct lf_err *err)
{
    struct lf_json_value value = lf_json_get(root, "sliding_window"), types = lf_json_get(root, "layer_types");
    int window = 0, first = 0, interval = fam->full_every;
    bool use = false;
    LF_TRY(lf_config_bool_or(root, "use_sliding_window", &use, err));
    if (lf_json_type(value) == LF_JSON_NONE) {
        /* transformers' default where the key is missing altogether; null means none. */
        window = fam->default_window;
    } else if (!lf_json_is_absent(value)) {
        LF_TRY(lf_config_int_of(value, "sliding_window", 1, INT32_MAX, &window, err));
    }
    if (fam->use_sliding_window) {
        if (!use) window = 0;
        first = DEFAULT_MAX_WINDOW_LAYERS;
        if (!lf_json_is_absent(lf_json_get(root, "max_window_layers"))) {
            LF_TRY(lf_config_int(root, "max_window_layers", 0, INT32_MAX, &first, err));
        }
    } else if (!fam->sliding_window && window > 0) {
        bool off = lf_json_type(lf_json_get(root, "use_sliding_window")) == LF_JSON_FALSE;
        if (!off && window < hp->max_positions) {
            return lf_fail(err, LF_UNSUPPORTED, "sliding_window is %d, but %s has no window", window, fam->name);
        }
        hp->unused_window = off ? 0 : window;
        window = 0;
    }
    if (interval > 0 && !lf_json_is_absent(lf_json_get(root, "sliding_window_pattern")))
        LF_TRY(lf_config_int(root, "sliding_window_pattern", 1, INT32_MAX, &interval, err));
    for (int i = 0; i < hp->n_layers; i++) {
        bool is_full = i < first || (interval > 0 && (i + 1) % interval == 0);
        hp->layers[i].window = is_full ? 0 : window;
    }
    if (interval > 1 && window == 0 && lf_json_is_absent(types))
        return lf_fail(err, LF_CORRUPT, "sliding_window is null, but %s has layers with windows", fam->name);
    if (lf_json_is_absent(types) || fam->own_layer_types) return LF_OK;
    if (lf_json_type(types) != LF_JSON_ARRAY) return lf_config_wrong_type(types, "layer_types", "an array", err);
    if (fam->use_sliding_window || fam->full_every > 0) return read_layer_types(hp, types, window, err);
    for (struct lf_json_value it = lf_json_first(types); lf_json_more(types, it); it = lf_json_next(types, it)) {
        if (lf_json_string_is(it, window ? "sliding_attention" : "full_attention")) continue;
        return lf_fail(err, LF_UNSUPPORTED, "layer_types differs from what %s computes: every layer has %s", fam->name,
                       window ? "the window" : "full attention");
    }
    return LF_OK;
}

bool lf_hparams_add_eos(struct lf_hparams *hp, int32_t id)
{
    for (int i = 0; i < hp->n_eos; i++)
        if (hp->eos_ids[i] == id) return false;
    if (id < 0 || id >= hp->n_vocab || hp->n_eos == LF_EOS_IDS_N) return false;
    hp->eos_ids[hp->n_eos++] = id;
    return true;
}

static enum lf_status add_eos(struct lf_hparams *hp, struct lf_json_value v, struct lf_err *err)
{
    int id;
    LF_TRY(lf_config_int_of(v, "eos_token_id", 0, hp->n_vocab - 1, &id, err));
    if (lf_hparams_add_eos(hp, id)) return LF_OK;
    for (int i = 0; i < hp->n_eos; i++) {
        if (hp->eos_ids[i] == id) return LF_OK;
    }
    return lf_fail(err, LF_LIMIT, "eos_token_id: more than %d ids", LF_EOS_IDS_N);
}

static enum lf_status read_eos(struct lf_hparams *hp, struct lf_json_value root, struct lf_err *err)
{
    struct lf_json_value eos = lf_json_get(root, "eos_token_id");
    if (lf_json_is_absent(eos)) return LF_OK;
    if (lf_json_type(eos) != LF_JSON_ARRAY) return add_eos(hp, eos, err);
    for (struct lf_json_value it = lf_json_first(eos); lf_json_more(eos, it); it = lf_json_next(eos, it)) {
        LF_TRY(add_eos(hp, it, err));
    }
    return LF_OK;
}

/* A window that no position is beyond is none. */
static void drop_wide_windows(struct lf_hparams *hp)
{
    for (int i = 0; i < hp->n_layers; i++)
        if (hp->layers[i].window >= hp->max_positions) hp->layers[i].window = 0;
}

/* The object in which the model of text is described: the file, or its text_config. */
static enum lf_status find_text(const struct lf_arch *fam, struct lf_json_value root, struct lf_json_value *out,
                                struct lf_err *err)
{
    *out = root;
    if (!fam->text_type) return LF_OK;
    *out = lf_json_get(root, "text_config");
    if (lf_json_type(*out) != LF_JSON_OBJECT) return lf_config_wrong_type(*out, "text_config", "an object", err);
    struct lf_json_value type = lf_json_get(*out, "model_type");
    struct lf_str raw = lf_json_raw(type);
    if (lf_json_string_is(type, fam->text_type)) return LF_OK;
    return lf_fail(err, LF_UNSUPPORTED, "text_config: model_type %.*s is not implemented for %s (%s is)",
                   (int)LF_MIN(raw.len, (size_t)64), raw.ptr, fam->name, fam->text_type);
}

static enum lf_status read_text(struct lf_hparams *hp, const struct lf_arch *fam, struct lf_json_value text,
                                struct lf_err *err)
{
    LF_TRY(refuse_foreign_keys(fam, text, err));
    LF_TRY(read_sizes(hp, fam, text, err));
    LF_TRY(read_switches(hp, fam, text, err));
    LF_TRY(make_layers(hp, err));
    LF_TRY(read_windows(hp, fam, text, err));
    if (fam->read_layers) LF_TRY(fam->read_layers(hp, text, err));
    LF_TRY(lf_rope_config_read(hp, fam, text, err));
    if (fam->read) LF_TRY(fam->read(hp, text, err));
    drop_wide_windows(hp);
    return read_eos(hp, text, err);
}

static enum lf_status read_config(struct lf_hparams *hp, struct lf_json_value root, struct lf_err *err)
{
    const struct lf_arch *fam = NULL;
    struct lf_json_value text;
    if (lf_json_type(root) != LF_JSON_OBJECT) return lf_config_wrong_type(root, "the file", "an object", err);
    LF_TRY(read_family(root, &fam, err));
    hp->arch = fam;
    hp->tied = fam->tied;
    hp->dtype = LF_BF16;
    hp->architecture = fam->name;
    LF_TRY(find_text(fam, root, &text, err));
    hp->mxfp4 = fam->mxfp4;
    LF_TRY(lf_quantization_read(&hp->quantization, root, text, &hp->mxfp4, err));
    if (fam->text_type) {
        LF_TRY(refuse_foreign_keys(fam, root, err));
        LF_TRY(read_common(hp, root, err));
    }
    LF_TRY(read_text(hp, fam, text, err));
    return fam->text_type ? read_eos(hp, root, err) : LF_OK;
}

static enum lf_status read_generation_config(struct lf_hparams *hp, struct lf_json_value root, struct lf_err *err)
{
    if (lf_json_type(root) != LF_JSON_OBJECT) return lf_config_wrong_type(root, "the file", "an object", err);
    return read_eos(hp, root, err);
}

/* hf_quant_config.json says how weights are quantized where config.json does not. */
static enum lf_status read_quant_config(struct lf_hparams *hp, struct lf_json_value root, struct lf_err *err)
{
    if (lf_json_type(root) != LF_JSON_OBJECT) return lf_config_wrong_type(root, "the file", "an object", err);
    return lf_quantization_read_modelopt(&hp->quantization, root, err);
}

typedef enum lf_status read_fn(struct lf_hparams *hp, struct lf_json_value root, struct lf_err *err);

static enum lf_status read_file(struct lf_hparams *hp, const char *path, read_fn *fn, struct lf_err *err)
{
    struct lf_json json = {0};
    struct lf_buf text;
    enum lf_status status;
    lf_buf_init(&text, LF_JSON_FILE_BYTES);
    LF_TRY_GOTO(lf_file_read(&text, path, LF_JSON_FILE_BYTES, err), done);
    status = lf_json_parse(&json, lf_str_without_bom(lf_buf_view(&text)), &lf_json_limits_file, err);
    if (status == LF_INVALID) status = LF_CORRUPT;
    if (status == LF_OK) status = fn(hp, lf_json_root(&json), err);
    if (status != LF_OK) lf_fail_within(err, status, "%s", path);
done:
    lf_json_deinit(&json);
    lf_buf_deinit(&text);
    return status;
}

enum lf_status lf_hparams_read(struct lf_hparams *out, const char *dir, struct lf_err *err)
{
    const struct lf_stretch none = {0};
    return lf_hparams_read_stretched(out, dir, &none, err);
}

enum lf_status lf_hparams_read_stretched(struct lf_hparams *out, const char *dir, const struct lf_stretch *stretch,
                                         struct lf_err *err)
{
    struct lf_hparams hp = {.stretch = *stretch};
    char config[4096], generation[4096], quant[4096];
    enum lf_status status;
    if (lf_path_join(config, sizeof(config), dir, "config.json") != LF_OK ||
        lf_path_join(generation, sizeof(generation), dir, "generation_config.json") != LF_OK ||
        lf_path_join(quant, sizeof(quant), dir, "hf_quant_config.json") != LF_OK) {
        return lf_fail(err, LF_LIMIT, "the path %.200s… is too long", dir);
    }
    status = read_file(&hp, config, read_config, err);
    if (status == LF_OK && !hp.quantization && access(quant, F_OK) == 0)
        status = read_file(&hp, quant, read_quant_config, err);
    if (status == LF_OK && access(generation, F_OK) == 0) {
        status = read_file(&hp, generation, read_generation_config, err);
    }
    if (status == LF_OK) {
        *out = hp;
    } else {
        lf_hparams_deinit(&hp);
    }
    return status;
}

void lf_hparams_deinit(struct lf_hparams *hp)
{
    free(hp->layers);
    lf_quantization_free(hp->quantization);
    *hp = (struct lf_hparams){0};
}
