/* gpt-oss: what its configuration says, and its tensors wrong in one way each: every directory is refused within a
 * second, with a message that names the tensor. */
#include <math.h>

#include "core/clock.h"
#include "core/log.h"
#include "model/dummy.h"
#include "model/hparams.h"
#include "tests/support/config_read.h"
#include "tests/support/model_dir.h"
#include "tests/support/model_rig.h"

enum { HIDDEN = 64, INTERMEDIATE = 96, EXPERTS = 3, MAX_MS = 1000 };

#define YARN "{\"rope_type\":\"yarn\",\"factor\":8.0,\"original_max_position_embeddings\":32,\"truncate\":false}"

/* Only what has no default. */
static struct config_text config_gpt_oss(void)
{
    struct config_text c = config_good("[\"GptOssForCausalLM\"]", "\"gpt_oss\"");
    config_set(&c, "rope_scaling", YARN);
    config_set(&c, "num_local_experts", "3");
    config_set(&c, "num_experts_per_tok", "2");
    return c;
}

static void the_published_configuration_is_read(void **state)
{
    (void)state;
    struct lf_hparams hp;
    struct lf_err err;
    if (lf_hparams_read(&hp, "tests/bench/shapes/gpt-oss-20b", &err) != LF_OK) fail_msg("%s", err.message);
    assert_int_equal(hp.n_layers, 24);
    assert_int_equal(hp.n_experts, 32);
    assert_int_equal(hp.experts_per_token, 4);
    assert_int_equal(hp.expert_intermediate, 2880);
    assert_int_equal(hp.max_positions, 131072);
    assert_true(hp.qkv_bias && hp.o_bias && !hp.mlp_bias && !hp.tied);
    assert_true(fabs((double)hp.swiglu_limit - 7) < 1e-9);
    assert_int_equal(hp.ropes[0].kind, LF_ROPE_YARN);
    assert_false(hp.ropes[0].truncate);
    assert_true(fabs(hp.ropes[0].theta - 150000) < 1e-9 && fabs(hp.ropes[0].factor - 32) < 1e-9);
    assert_int_equal(hp.dtype, LF_BF16);
    for (int i = 0; i < hp.n_layers; i++) assert_int_equal(hp.layers[i].window, i % 2 ? 0 : 128);
    lf_hparams_deinit(&hp);
}

static void what_is_missing_has_the_default_of_transformers(void **state)
{
    (void)state;
    struct lf_hparams hp;
    struct lf_err err;
    struct config_text c = config_gpt_oss();
    config_set(&c, "head_dim", NULL);
    config_set(&c, "num_hidden_layers", "5");
    config_set(&c, "max_position_embeddings", "256");
    if (read_config(&c, &hp, &err) != LF_OK) fail_msg("%s", err.message);
    assert_int_equal(hp.head_dim, 64);
    assert_true(hp.qkv_bias && hp.o_bias);
    assert_true(fabs((double)hp.swiglu_limit - 7) < 1e-9 && fabs(hp.ropes[0].theta - 150000) < 1e-9);
    for (int i = 0; i < 5; i++) assert_int_equal(hp.layers[i].window, i % 2 ? 0 : 128);
    lf_hparams_deinit(&hp);
    config_set(&c, "attention_bias", "false");
    config_set(&c, "sliding_window", "40");
    config_set(&c, "swiglu_limit", "3.5");
    config_set(&c, "swiglu_alpha", "1.702");
    config_set(&c, "experts_per_token", "2");
    config_set(
        &c, "layer_types",
        "[\"full_attention\",\"full_attention\",\"sliding_attention\",\"full_attention\",\"sliding_attention\"]");
    config_set(&c, "quantization_config", "{\"quant_method\":\"mxfp4\",\"modules_to_not_convert\":[\"lm_head\"]}");
    if (read_config(&c, &hp, &err) != LF_OK) fail_msg("%s", err.message);
    assert_false(hp.qkv_bias || hp.o_bias);
    assert_true(fabs((double)hp.swiglu_limit - 3.5) < 1e-9);
    for (int i = 0; i < 5; i++) assert_int_equal(hp.layers[i].window, i == 2 || i == 4 ? 40 : 0);
    lf_hparams_deinit(&hp);
}

static void what_is_wrong_or_not_implemented_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value, *says;
    } rows[] = {
        {"swiglu_alpha", "1.5", "swiglu_alpha 1.5 is not implemented (1.702 is)"},
        {"swiglu_limit", "0", "swiglu_limit is 0"},
        {"swiglu_limit", "\"7\"", "swiglu_limit is a string"},
        {"rope_scaling", NULL, "rope_scaling is missing, and so is rope_parameters"},
        {"num_experts_per_tok", NULL, "num_experts_per_tok is missing"},
        {"num_experts_per_tok", "4", "num_experts_per_tok is 4"},
        {"num_local_experts", NULL, "num_experts is missing"},
        {"num_experts", "4", "num_local_experts"},
        {"experts_per_token", "3", "num_experts_per_tok is 2, but experts_per_token 3"},
        {"layer_types", "[\"full_attention\"]", "layer_types is not an array of num_hidden_layers = 2 names"},
        {"layer_types", "[\"full_attention\",\"chunked_attention\"]", "chunked_attention"},
        {"attention_bias", "1", "attention_bias is a number"},
        {"mlp_bias", "true", "mlp_bias"},
        {"quantization_config", "{\"quant_method\":\"hqq\",\"bits\":4}", "(hqq, 4 bits)"},
        {"quantization_config", "\"mxfp4\"", "quantization_config"},
        {"quantization", "{\"quant_method\":\"mxfp4\"}", "quantization"},
        {"hidden_act", "\"gelu\"", "hidden_act"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check_refused(config_gpt_oss(), rows[i].key, rows[i].value, rows[i].says);
}

static void no_other_family_is_in_mxfp4(void **state)
{
    (void)state;
    struct lf_hparams hp;
    struct lf_err err;
    struct config_text c = config_llama();
    config_set(&c, "quantization_config", "{\"quant_method\":\"mxfp4\"}");
    assert_int_equal(read_config(&c, &hp, &err), LF_UNSUPPORTED);
    assert_non_null(strstr(err.message, "(mxfp4) are not implemented"));
    assert_non_null(strstr(err.message, "and mxfp4 of gpt-oss"));
}

/* ---- tensors ---- */

static struct model_tensor *add(struct model_dir *m, const char *name, const char *dtype, int a, int b, int c, int d)
{
    struct model_tensor *t = model_dir_add(m, name, a, b);
    t->dtype = dtype;
    t->elem_bytes = strcmp(dtype, "U8") == 0 ? 1 : strcmp(dtype, "F32") == 0 ? 4 : 2;
    t->shape[2] = c;
    t->shape[3] = d;
    t->rank = d ? 4 : c ? 3 : b ? 2 : 1;
    return t;
}

static void add_layer(struct model_dir *m, int layer, bool mxfp4)
{
    static const struct {
        const char *name;
        int rows, cols;
    } plain[] = {{"input_layernorm.weight", HIDDEN, 0},
                 {"post_attention_layernorm.weight", HIDDEN, 0},
                 {"self_attn.q_proj.weight", 64, HIDDEN},
                 {"self_attn.q_proj.bias", 64, 0},
                 {"self_attn.k_proj.weight", 32, HIDDEN},
                 {"self_attn.k_proj.bias", 32, 0},
                 {"self_attn.v_proj.weight", 32, HIDDEN},
                 {"self_attn.v_proj.bias", 32, 0},
                 {"self_attn.o_proj.weight", HIDDEN, 64},
                 {"self_attn.o_proj.bias", HIDDEN, 0},
                 {"self_attn.sinks", 2, 0},
                 {"mlp.router.weight", EXPERTS, HIDDEN},
                 {"mlp.router.bias", EXPERTS, 0}};
    const struct {
        const char *name;
        int rows, cols;
    } experts[] = {{"gate_up_proj", 2 * INTERMEDIATE, HIDDEN}, {"down_proj", HIDDEN, INTERMEDIATE}};
    char name[96];
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        snprintf(name, sizeof(name), "model.layers.%d.%s", layer, plain[i].name);
        add(m, name, "BF16", plain[i].rows, plain[i].cols, 0, 0);
    }
    for (int i = 0; i < 2; i++) {
        int rows = experts[i].rows, cols = experts[i].cols;
        snprintf(name, sizeof(name), "model.layers.%d.mlp.experts.%s_bias", layer, experts[i].name);
        add(m, name, "BF16", EXPERTS, rows, 0, 0);
        snprintf(name, sizeof(name), "model.layers.%d.mlp.experts.%s%s", layer, experts[i].name,
                 mxfp4 ? "_blocks" : "");
        if (!mxfp4) {
            add(m, name, "BF16", EXPERTS, cols, rows, 0);
            continue;
        }
        add(m, name, "U8", EXPERTS, rows, cols / 32, 16);
        snprintf(name, sizeof(name), "model.layers.%d.mlp.experts.%s_scales", layer, experts[i].name);
        add(m, name, "U8", EXPERTS, rows, cols / 32, 0);
    }
}

static struct model_dir tensors_of(bool mxfp4)
{
    struct model_dir m = {.n = 0};
    add(&m, "model.embed_tokens.weight", "BF16", 50, HIDDEN, 0, 0);
    add(&m, "lm_head.weight", "BF16", 50, HIDDEN, 0, 0);
    add(&m, "model.norm.weight", "BF16", HIDDEN, 0, 0, 0);
    for (int l = 0; l < 2; l++) add_layer(&m, l, mxfp4);
    return m;
}

static struct model_tensor *find(struct model_dir *m, const char *end)
{
    for (int i = 0; i < m->n; i++)
        if (lf_str_ends(lf_str_c(m->tensors[i].name), lf_str_c(end))) return &m->tensors[i];
    fail_msg("%s", end);
    return NULL;
}

static enum lf_status open_with(const struct config_text *c, const struct model_dir *m, struct lf_err *err)
{
    struct model_rig rig;
    struct temp_dir d = temp_dir_make();
    struct model_rig_opts opts = {
        .dir = d.path, .max_isa = -1, .n_threads = 1, .ctx = 64, .chunk = 8, .max_seqs = 1, .kv_dtype = LF_BF16};
    config_write(c, &d);
    model_dir_write(m, &d);
    *err = (struct lf_err){LF_OK, ""};
    int64_t start = lf_clock_ns();
    enum lf_status status = model_rig_open(&rig, &opts, err);
    assert_true(lf_clock_ns() - start < (int64_t)MAX_MS * 1000000 * SLOWNESS);
    if (status == LF_OK) model_rig_close(&rig);
    temp_dir_remove(&d);
    return status;
}

static void experts_are_in_mxfp4_or_by_columns_layer_by_layer(void **state)
{
    (void)state;
    struct lf_err err;
    struct config_text c = config_gpt_oss();
    for (int i = 0; i < 2; i++) {
        struct model_dir m = tensors_of(i == 1);
        if (open_with(&c, &m, &err) != LF_OK) fail_msg("%s", err.message);
    }
    /* quantization_config says nothing that the tensors do not, and may name a layer among modules_to_not_convert */
    struct model_dir mixed = {.n = 0};
    struct model_dir first = tensors_of(true);
    for (int i = 0; i < 3; i++) mixed.tensors[mixed.n++] = first.tensors[i];
    add_layer(&mixed, 0, true);
    add_layer(&mixed, 1, false);
    config_set(&c, "quantization_config",
               "{\"quant_method\":\"mxfp4\",\"modules_to_not_convert\":[\"model.layers.1.mlp.experts\"]}");
    if (open_with(&c, &mixed, &err) != LF_OK) fail_msg("%s", err.message);
}

static void a_wrong_tensor_of_experts_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *end, *dtype; /* dtype: NULL: it is not there */
        int shape[4];
        bool mxfp4;
        const char *says;
    } rows[] = {
        {"1.mlp.experts.down_proj_scales", NULL, {0}, true, "1.mlp.experts.down_proj_scales is missing, of which"},
        {"0.mlp.experts.gate_up_proj_blocks", NULL, {0}, true, "gate_up_proj is missing, and so is"},
        {"gate_up_proj_scales", "U8", {3, 192, 3}, true, "gate_up_proj_scales has shape [3, 192, 3], the"},
        {"gate_up_proj_scales", "U8", {3, 192}, true, "asks for [3, 192, 2]"},
        {"gate_up_proj_scales", "BF16", {3, 192, 2}, true, "gate_up_proj_scales is of type BF16, expected U8"},
        {"gate_up_proj_blocks", "U8", {3, 192, 32}, true, "asks for [3, 192, 2, 16]"},
        {"gate_up_proj_blocks", "U8", {3, 192, 2, 32}, true, "has shape [3, 192, 2, 32]"},
        {"gate_up_proj_blocks", "U8", {2, 192, 2, 16}, true, "has shape [2, 192, 2, 16]"},
        {"gate_up_proj_blocks", "U8", {3, 2, 192, 16}, true, "has shape [3, 2, 192, 16]"},
        {"gate_up_proj_blocks", "I8", {3, 192, 2, 16}, true, "gate_up_proj_blocks is of type I8"},
        {"gate_up_proj_blocks", "BF16", {3, 192, 2, 16}, true, "gate_up_proj_blocks is of type BF16, expected U8"},
        {"gate_up_proj_bias", NULL, {0}, true, "gate_up_proj_bias is missing"},
        {"gate_up_proj_bias", "BF16", {192}, true, "asks for [3, 192]"},
        {"gate_up_proj_bias", "U8", {3, 192}, true, "gate_up_proj_bias is of type U8, which is not implemented"},
        {"self_attn.sinks", NULL, {0}, true, "self_attn.sinks is missing"},
        {"self_attn.sinks", "BF16", {64}, true, "sinks has shape [64], the configuration asks for [2]"},
        {"router.bias", NULL, {0}, true, "router.bias is missing"},
        {"gate_up_proj", NULL, {0}, false, "gate_up_proj is missing, and so is"},
        {"gate_up_proj", "BF16", {3, 192, 64}, false, "asks for [3, 64, 192]"},
        {"gate_up_proj", "BF16", {192, 64}, false, "asks for [3, 64, 192]"},
        {"gate_up_proj", "U8", {3, 64, 192}, false, "gate_up_proj is of type U8, which is not implemented"},
        {"down_proj", "BF16", {3, 64, 96}, false, "asks for [3, 96, 64]"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct lf_err err;
        struct config_text c = config_gpt_oss();
        struct model_dir m = tensors_of(rows[i].mxfp4);
        struct model_tensor *t = find(&m, rows[i].end);
        const int *s = rows[i].shape;
        char name[96];
        snprintf(name, sizeof(name), "%s", t->name);
        t->absent = true;
        if (rows[i].dtype) {
            t = add(&m, name, rows[i].dtype, s[0], s[1], s[2], s[3]);
            if (strcmp(rows[i].dtype, "I8") == 0) t->elem_bytes = 1;
        }
        enum lf_status status = open_with(&c, &m, &err);
        if (status != LF_CORRUPT && status != LF_UNSUPPORTED)
            fail_msg("row %zu: %s, %s", i, lf_status_name(status), err.message);
        if (!strstr(err.message, rows[i].says)) fail_msg("\"%s\" lacks \"%s\"", err.message, rows[i].says);
    }
}

static void what_is_there_twice_or_cannot_be_grouped_is_refused(void **state)
{
    (void)state;
    struct lf_err err;
    struct config_text c = config_gpt_oss();
    struct model_dir m = tensors_of(true);
    add(&m, "model.layers.0.mlp.experts.down_proj", "BF16", EXPERTS, INTERMEDIATE, HIDDEN, 0);
    assert_int_equal(open_with(&c, &m, &err), LF_UNSUPPORTED);
    assert_non_null(strstr(err.message, "model.layers.0.mlp.experts.down_proj is no part of"));
    m = tensors_of(false);
    add(&m, "model.layers.1.mlp.experts.down_proj_scales", "U8", EXPERTS, HIDDEN, INTERMEDIATE / 32, 0);
    assert_int_equal(open_with(&c, &m, &err), LF_UNSUPPORTED);
    assert_non_null(strstr(err.message, "model.layers.1.mlp.experts.down_proj_scales is no part of"));
    m = tensors_of(true);
    config_set(&c, "intermediate_size", "100"); /* three groups and a bit */
    find(&m, "0.mlp.experts.gate_up_proj_blocks")->shape[1] = 200;
    find(&m, "0.mlp.experts.gate_up_proj_scales")->shape[1] = 200;
    find(&m, "0.mlp.experts.gate_up_proj_bias")->shape[1] = 200;
    assert_int_equal(open_with(&c, &m, &err), LF_CORRUPT);
    assert_non_null(strstr(err.message, "down_proj_blocks is MXFP4, in groups of 32, of rows of 100"));
}

static void dummy_biases_of_experts_are_small(void **state)
{
    (void)state;
    float bias[64], sinks[64];
    lf_dummy_fill(bias, LF_F32, "model.layers.0.mlp.experts.down_proj_bias.2", 1, 1, 0, 64);
    lf_dummy_fill(sinks, LF_F32, "model.layers.0.self_attn.sinks", 1, 1, 0, 64);
    for (int i = 0; i < 64; i++) {
        assert_true(fabsf(bias[i]) > 0.01f && fabsf(bias[i]) < 0.04f);
        assert_true(fabsf(sinks[i]) > 0.4f && fabsf(sinks[i]) < 2);
    }
}

int main(void)
{
    lf_log_set_level(LF_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_configuration_is_read),
        cmocka_unit_test(what_is_missing_has_the_default_of_transformers),
        cmocka_unit_test(what_is_wrong_or_not_implemented_is_named),
        cmocka_unit_test(no_other_family_is_in_mxfp4),
        cmocka_unit_test(experts_are_in_mxfp4_or_by_columns_layer_by_layer),
        cmocka_unit_test(a_wrong_tensor_of_experts_is_named),
        cmocka_unit_test(what_is_there_twice_or_cannot_be_grouped_is_refused),
        cmocka_unit_test(dummy_biases_of_experts_are_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
