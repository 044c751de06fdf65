#include <math.h>

#include "model/hparams.h"
#include "tests/support/config_read.h"

#define LLAMA      "[\"LlamaForCausalLM\"]", "\"llama\""
#define MISTRAL    "[\"MistralForCausalLM\"]", "\"mistral\""
#define QWEN2      "[\"Qwen2ForCausalLM\"]", "\"qwen2\""
#define PHI3       "[\"Phi3ForCausalLM\"]", "\"phi3\""
#define SMOLLM3    "[\"SmolLM3ForCausalLM\"]", "\"smollm3\""
#define OLMO3      "[\"Olmo3ForCausalLM\"]", "\"olmo3\""
#define GLM4       "[\"Glm4ForCausalLM\"]", "\"glm4\""
#define GRANITE    "[\"GraniteForCausalLM\"]", "\"granite\""
#define MINISTRAL3 "[\"Ministral3ForCausalLM\"]", "\"ministral3\""
#define QWEN3      "[\"Qwen3ForCausalLM\"]", "\"qwen3\""

static void a_plain_llama_is_read(void **state)
{
    (void)state;
    struct lf_hparams hp = good(config_llama(), NULL, NULL, NULL, NULL);
    assert_string_equal(hp.architecture, "LlamaForCausalLM");
    assert_int_equal(hp.n_layers, 2);
    assert_int_equal(hp.hidden, 64);
    assert_int_equal(hp.n_heads, 2);
    assert_int_equal(hp.n_kv_heads, 1);
    assert_int_equal(hp.head_dim, 32);
    assert_int_equal(hp.intermediate, 96);
    assert_int_equal(hp.n_vocab, 50);
    assert_int_equal(hp.max_positions, 256);
    assert_int_equal(hp.dtype, LF_F32);
    assert_int_equal(hp.n_eos, 1);
    assert_int_equal(hp.eos_ids[0], 2);
    assert_false(hp.tied || hp.qkv_bias || hp.o_bias || hp.mlp_bias || hp.qk_norm);
    assert_int_equal(hp.layers[0].window + hp.layers[1].window, 0);
    assert_int_equal(hp.ropes[0].kind, LF_ROPE_NONE_SCALED);
    assert_int_equal(hp.ropes[0].rotary_dim, 32);
    assert_true(fabs(hp.ropes[0].theta - 10000) < 1e-9);
    assert_true(fabs((double)hp.norm_eps - 1e-5) < 1e-12);
    lf_hparams_deinit(&hp);
    lf_hparams_deinit(&hp);
}

static void head_dim_has_the_default_of_its_architecture(void **state)
{
    (void)state;
    struct lf_hparams hp = good(config_llama(), "head_dim", NULL, NULL, NULL);
    assert_int_equal(hp.head_dim, 32);
    lf_hparams_deinit(&hp);
    hp = good(config_llama(), "head_dim", "null", NULL, NULL);
    assert_int_equal(hp.head_dim, 32);
    lf_hparams_deinit(&hp);
    hp = good(config_good(QWEN3), "head_dim", NULL, NULL, NULL);
    assert_int_equal(hp.head_dim, 128);
    lf_hparams_deinit(&hp);
    hp = good(config_good(QWEN2), "head_dim", "48", NULL, NULL);
    assert_int_equal(hp.head_dim, 48);
    lf_hparams_deinit(&hp);
    hp = good(config_llama(), "num_key_value_heads", NULL, NULL, NULL);
    assert_int_equal(hp.n_kv_heads, 2);
    lf_hparams_deinit(&hp);
}

static void biases_and_norms_follow_the_architecture(void **state)
{
    (void)state;
    struct lf_hparams hp = good(config_llama(), "attention_bias", "true", "mlp_bias", "true");
    assert_true(hp.qkv_bias && hp.o_bias && hp.mlp_bias && !hp.qk_norm);
    lf_hparams_deinit(&hp);
    hp = good(config_good(QWEN2), "attention_bias", "true", "tie_word_embeddings", "true");
    assert_true(hp.qkv_bias && !hp.o_bias && !hp.mlp_bias && !hp.qk_norm && hp.tied);
    lf_hparams_deinit(&hp);
    hp = good(config_good(QWEN3), NULL, NULL, NULL, NULL);
    assert_true(!hp.qkv_bias && !hp.o_bias && !hp.mlp_bias && hp.qk_norm);
    lf_hparams_deinit(&hp);
    hp = good(config_good(QWEN3), "attention_bias", "true", NULL, NULL);
    assert_true(hp.qkv_bias && hp.o_bias && hp.qk_norm);
    lf_hparams_deinit(&hp);
    hp = good(config_good(MISTRAL), "sliding_window", "null", "torch_dtype", "\"bfloat16\"");
    assert_true(!hp.qkv_bias && !hp.qk_norm && hp.dtype == LF_BF16);
    lf_hparams_deinit(&hp);
    hp = good(config_llama(), "torch_dtype", NULL, "dtype", "\"float16\"");
    assert_int_equal(hp.dtype, LF_F16);
    lf_hparams_deinit(&hp);
}

static void check_windows(struct config_text c, int first, int second)
{
    if (first > 256 || second > 256) config_set(&c, "max_position_embeddings", "8192"); /* else they would be none */
    struct lf_hparams hp = good(c, NULL, NULL, NULL, NULL);
    assert_int_equal(hp.layers[0].window, first);
    assert_int_equal(hp.layers[1].window, second);
    lf_hparams_deinit(&hp);
}

static void windows_are_those_that_transformers_computes(void **state)
{
    (void)state;
    struct config_text c = config_good(MISTRAL);
    check_windows(c, 4096, 4096); /* the default of the class where the key is missing */
    config_set(&c, "sliding_window", "null");
    check_windows(c, 0, 0);
    config_set(&c, "sliding_window", "100");
    check_windows(c, 100, 100);
    config_set(&c, "layer_types", "[\"sliding_attention\",\"sliding_attention\"]");
    check_windows(c, 100, 100);

    c = config_good(QWEN2);
    check_windows(c, 0, 0);
    config_set(&c, "sliding_window", "64");
    config_set(&c, "max_window_layers", "1");
    check_windows(c, 0, 0); /* use_sliding_window is false unless said */
    config_set(&c, "use_sliding_window", "true");
    check_windows(c, 0, 64);
    config_set(&c, "max_window_layers", "0");
    check_windows(c, 64, 64);
    config_set(&c, "max_window_layers", "2");
    check_windows(c, 0, 0);
    config_set(&c, "max_window_layers", NULL);
    check_windows(c, 0, 0); /* 28 */
    config_set(&c, "layer_types", "[\"sliding_attention\",\"full_attention\"]");
    check_windows(c, 64, 0);
    config_set(&c, "sliding_window", NULL);
    check_windows(c, 4096, 0);

    c = config_llama();
    config_set(&c, "sliding_window", "256"); /* as many as there are positions: no window */
    check_windows(c, 0, 0);
    config_set(&c, "sliding_window", "16");
    config_set(&c, "use_sliding_window", "false");
    check_windows(c, 0, 0);
    config_set(&c, "layer_types", "[\"full_attention\",\"full_attention\"]");
    check_windows(c, 0, 0);
}

static void rope_is_read_in_the_old_and_the_new_style(void **state)
{
    (void)state;
    struct lf_hparams hp = good(config_llama(), "rope_theta", "5e5", "rope_scaling", "null");
    assert_true(hp.ropes[0].kind == LF_ROPE_NONE_SCALED && fabs(hp.ropes[0].theta - 5e5) < 1e-6);
    lf_hparams_deinit(&hp);
    hp = good(config_llama(), "rope_parameters", "{\"rope_type\":\"default\",\"rope_theta\":1e6}", "rope_theta", "7");
    assert_true(hp.ropes[0].kind == LF_ROPE_NONE_SCALED && fabs(hp.ropes[0].theta - 1e6) < 1e-6);
    lf_hparams_deinit(&hp);
    hp = good(config_llama(), "rope_scaling", "{\"type\":\"linear\",\"factor\":4}", "rope_theta", "1e4");
    assert_true(hp.ropes[0].kind == LF_ROPE_LINEAR && fabs(hp.ropes[0].factor - 4) < 1e-9 && hp.max_positions == 1024);
    lf_hparams_deinit(&hp);
    hp = good(config_llama(), "rope_scaling",
              "{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1,\"high_freq_factor\":4.0,"
              "\"original_max_position_embeddings\":64}",
              NULL, NULL);
    assert_true(hp.ropes[0].kind == LF_ROPE_LLAMA3 && hp.ropes[0].original_max_positions == 64 &&
                hp.max_positions == 256);
    assert_true(fabs(hp.ropes[0].low_freq_factor - 1) + fabs(hp.ropes[0].high_freq_factor - 4) < 1e-9);
    lf_hparams_deinit(&hp);
    /* an empty rope_scaling is one that is set to nothing; partial rotation */
    hp = good(config_llama(), "rope_scaling", "{}", "partial_rotary_factor", "0.5");
    assert_true(hp.ropes[0].kind == LF_ROPE_NONE_SCALED && hp.ropes[0].rotary_dim == 16);
    lf_hparams_deinit(&hp);
}

static void check_yarn(const char *rope, double attention_factor, int max_positions)
{
    struct lf_hparams hp = good(config_good(QWEN2), "rope_scaling", rope, NULL, NULL);
    assert_int_equal(hp.ropes[0].kind, LF_ROPE_YARN);
    assert_true(fabs(hp.ropes[0].attention_factor - attention_factor) < 1e-12);
    assert_int_equal(hp.max_positions, max_positions);
    lf_hparams_deinit(&hp);
}

static void yarn_has_the_defaults_of_transformers(void **state)
{
    (void)state;
    struct lf_hparams hp = good(config_good(QWEN2), "rope_scaling", "{\"type\":\"yarn\",\"factor\":4}", NULL, NULL);
    assert_true(fabs(hp.ropes[0].beta_fast - 32) + fabs(hp.ropes[0].beta_slow - 1) < 1e-9 && hp.ropes[0].truncate);
    assert_int_equal(hp.ropes[0].original_max_positions, 256);
    lf_hparams_deinit(&hp);
#define YARN(more) "{\"type\":\"yarn\",\"factor\":4" more "}"
    check_yarn(YARN(""), 0.1 * log(4) + 1, 1024);
    check_yarn(YARN(",\"attn_factor\":0.8782488562869419"), 1, 1024); /* undoes the formula */
    check_yarn(YARN(",\"attn_factor\":2,\"attention_factor\":1.5"), 3, 1024);
    check_yarn(YARN(",\"original_max_position_embeddings\":64"), 0.1 * log(4) + 1, 256);
    check_yarn(YARN(",\"attention_factor\":1.25"), 1.25, 1024);
    check_yarn(YARN(",\"mscale\":2,\"mscale_all_dim\":0.5"), (0.2 * log(4) + 1) / (0.05 * log(4) + 1), 1024);
    check_yarn(YARN(",\"mscale\":1,\"mscale_all_dim\":0"), 0.1 * log(4) + 1, 1024);
    check_yarn(YARN(",\"mscale\":1,\"mscale_all_dim\":1,\"truncate\":false,\"finetuned\":true"), 1, 1024);
}

static void ends_come_from_both_files_without_repetition(void **state)
{
    (void)state;
    struct temp_dir d = temp_dir_make();
    struct config_text c = config_llama();
    struct lf_hparams hp;
    struct lf_err err;
    config_set(&c, "eos_token_id", "[2,4]");
    config_set(&c, "bos_token_id", "50");
    config_write(&c, &d);
    temp_dir_write_text(&d, "generation_config.json", "{\"eos_token_id\":[4,7,2],\"pad_token_id\":0}");
    assert_int_equal(lf_hparams_read(&hp, d.path, &err), LF_OK);
    assert_int_equal(hp.n_eos, 3);
    assert_int_equal(hp.eos_ids[2], 7);
    lf_hparams_deinit(&hp);
    temp_dir_write_text(&d, "generation_config.json", "{\"eos_token_id\":50}");
    assert_int_equal(lf_hparams_read(&hp, d.path, &err), LF_CORRUPT);
    assert_non_null(strstr(err.message, "generation_config.json: eos_token_id is 50, expected 0 to 49"));
    temp_dir_write_text(&d, "generation_config.json", "[]");
    assert_int_equal(lf_hparams_read(&hp, d.path, &err), LF_CORRUPT);
    temp_dir_remove(&d);
    assert_int_equal(lf_hparams_read(&hp, d.path, &err), LF_NOT_FOUND);
}

static void an_id_that_ends_answers_can_be_added(void **state)
{
    (void)state;
    struct lf_hparams hp = good(config_llama(), NULL, NULL, NULL, NULL); /* its own: 2 */
    assert_false(lf_hparams_add_eos(&hp, 2));
    assert_false(lf_hparams_add_eos(&hp, -1));
    assert_false(lf_hparams_add_eos(&hp, 50));
    assert_true(lf_hparams_add_eos(&hp, 49));
    assert_false(lf_hparams_add_eos(&hp, 49));
    assert_int_equal(hp.n_eos, 2);
    for (int i = 3; i < 3 + LF_EOS_IDS_N - 2; i++) assert_true(lf_hparams_add_eos(&hp, i));
    assert_false(lf_hparams_add_eos(&hp, 40));
    assert_int_equal(hp.n_eos, LF_EOS_IDS_N);
    lf_hparams_deinit(&hp);
}

static void what_cannot_change_the_result_is_let_pass(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value;
    } rows[] = {{"pretraining_tp", "2"},
                {"use_cache", "false"},
                {"transformers_version", "\"4\""},
                {"attention_dropout", "0.1"},
                {"initializer_range", "0.02"},
                {"quantization_config", "null"},
                {"quantization_config", "{}"},
                {"quantization", "{}"},
                {"num_local_experts", "1"},
                {"n_routed_experts", "0"},
                {"torch_dtype", "\"auto\""},
                {"rope_scaling", "{\"type\":\"dynamic\",\"factor\":1.0}"},
                {"logits_scaling", "1.0"},
                {"attn_logit_softcapping", "null"},
                {"num_experts", "0"},
                {"use_qk_norm", "false"},
                {"rope_scaling", "{\"type\":\"linear\",\"factor\":2,\"short_factor\":null}"},
                {"hidden_act", NULL},
                {"model_type", NULL},
                {"auto_map", "{\"AutoConfig\":\"c.C\"}"},
                {"eos_token_id", "null"},
                {"tie_word_embeddings", NULL}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct lf_hparams hp = good(config_llama(), rows[i].key, rows[i].value, NULL, NULL);
        lf_hparams_deinit(&hp);
    }
}

/* Each names the key in its message. */
#define MISTRAL3 "[\"Mistral3ForConditionalGeneration\"]", "\"mistral3\""
#define TEXT_SIZES                                                                                                     \
    "\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":2,\"num_attention_heads\":2,"                   \
    "\"num_key_value_heads\":1,\"head_dim\":32,\"vocab_size\":50,\"max_position_embeddings\":256,\"rms_norm_eps\":1e-" \
    "5"
#define TEXT(more) "{\"model_type\":\"mistral\"," TEXT_SIZES more "}"

static struct lf_hparams good_nested(const char *text, const char *key, const char *value)
{
    static const char *const inner[] = {
        "hidden_size",  "intermediate_size", "num_hidden_layers",      "num_attention_heads",
        "head_dim",     "vocab_size",        "rms_norm_eps",           "num_key_value_heads",
        "bos_token_id", "hidden_act",        "max_position_embeddings"};
    struct config_text c = config_good(MISTRAL3);
    for (size_t i = 0; i < sizeof(inner) / sizeof(inner[0]); i++) config_set(&c, inner[i], NULL);
    config_set(&c, "text_config", text);
    return good(c, key, value, NULL, NULL);
}

/* What is beside text_config holds where nothing in it says otherwise. */
static void a_model_that_sees_has_its_text_part_in_text_config(void **state)
{
    (void)state;
    struct lf_hparams hp = good_nested(TEXT(""), "torch_dtype", "\"float16\"");
    assert_true(hp.hidden == 64 && hp.n_layers == 2 && hp.dtype == LF_F16 && !hp.tied);
    assert_true(hp.n_eos == 1 && hp.eos_ids[0] == 2);
    lf_hparams_deinit(&hp);
    hp = good_nested(TEXT(",\"dtype\":\"float32\",\"tie_word_embeddings\":true,\"eos_token_id\":7"), "torch_dtype",
                     NULL);
    assert_true(hp.dtype == LF_F32 && hp.tied && hp.n_eos == 2 && hp.eos_ids[0] == 7);
    lf_hparams_deinit(&hp);
    hp = good_nested(TEXT(",\"sliding_window\":16"), "tie_word_embeddings", "true");
    assert_true(hp.layers[1].window == 16 && hp.tied);
    lf_hparams_deinit(&hp);
}

#define FACTORS16 "[1,1.1,1.2,1.3,1.4,1.5,1.6,1.7,1.8,1.9,2,2.1,2.2,2.3,2.4,2.5]"
#define LONGROPE  "\"type\":\"longrope\",\"short_factor\":" FACTORS16

static void longrope_has_factors_for_short_and_for_long_contexts(void **state)
{
    (void)state;
    static const char *const types[] = {"longrope", "su", "yarn"}; /* Phi-3 has had all three names for it */
    for (int i = 0; i < 3; i++) {
        char rope[512];
        snprintf(rope, sizeof(rope), "{\"type\":\"%s\",\"short_factor\":%s,\"long_factor\":%s}", types[i], FACTORS16,
                 FACTORS16);
        struct lf_hparams hp = good(config_good(PHI3), "rope_scaling", rope, "original_max_position_embeddings", "64");
        const struct lf_rope_opts *r = &hp.ropes[0];
        assert_int_equal(r->kind, LF_ROPE_LONGROPE);
        assert_int_equal(hp.max_positions, 256); /* the stretched length already */
        assert_true(fabs(r->attention_factor - sqrt(1 + log(4) / log(64))) < 1e-12);
        assert_true(fabs(r->short_factor[15] - 2.5) + fabs(r->long_factor[1] - 1.1) < 1e-12);
        assert_true(lf_rope_is_long(r, 65) && !lf_rope_is_long(r, 64));
        lf_hparams_deinit(&hp);
    }
    struct lf_hparams hp =
        good(config_good(PHI3), "rope_scaling", "{" LONGROPE ",\"long_factor\":" FACTORS16 ",\"attention_factor\":1.5}",
             "original_max_position_embeddings", "64");
    assert_true(fabs(hp.ropes[0].attention_factor - 1.5) < 1e-12);
    lf_hparams_deinit(&hp);
    hp = good(config_good(PHI3), "sliding_window", "256", "auto_map", "{\"AutoModelForCausalLM\":\"modeling_phi3.P\"}");
    assert_int_equal(hp.layers[0].window, 0); /* wider than any context */
    lf_hparams_deinit(&hp);
    hp = good(config_good(PHI3), "sliding_window", "255", NULL, NULL);
    assert_int_equal(hp.layers[1].window, 255);
    lf_hparams_deinit(&hp);
    hp = good(config_good(PHI3), "sliding_window", NULL, NULL, NULL); /* no default */
    assert_int_equal(hp.layers[0].window, 0);
    lf_hparams_deinit(&hp);
}

#define YARN4 "\"rope_type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":32"

static void layers_with_a_window_may_have_rope_of_their_own(void **state)
{
    (void)state;
    struct config_text c = config_good(OLMO3);
    config_set(&c, "num_hidden_layers", "5");
    config_set(&c, "sliding_window", "20");
    struct lf_hparams hp = good(c, "rope_scaling", "{" YARN4 "}", "rope_theta", "7e5");
    for (int i = 0; i < 5; i++) assert_true(hp.layers[i].window == (i == 3 ? 0 : 20) && hp.layers[i].rope == (i != 3));
    assert_true(hp.n_ropes == 2 && hp.ropes[0].kind == LF_ROPE_YARN && hp.ropes[1].kind == LF_ROPE_NONE_SCALED);
    assert_true(fabs(hp.ropes[0].theta - 7e5) + fabs(hp.ropes[1].theta - 7e5) < 1e-6);
    assert_int_equal(hp.max_positions, 128);
    lf_hparams_deinit(&hp);
    hp = good(c, "rope_parameters",
              "{\"full_attention\":{" YARN4 ",\"rope_theta\":9e5},\"sliding_attention\":{\"rope_theta\":3e5}}", NULL,
              NULL);
    assert_true(hp.n_ropes == 2 && hp.ropes[0].kind == LF_ROPE_YARN && hp.ropes[1].kind == LF_ROPE_NONE_SCALED);
    assert_true(fabs(hp.ropes[0].theta - 9e5) + fabs(hp.ropes[1].theta - 3e5) < 1e-6);
    lf_hparams_deinit(&hp);
    hp = good(c, "layer_types",
              "[\"full_attention\",\"sliding_attention\",\"full_attention\",\"full_attention\",\"full_attention\"]",
              "rope_theta", "7e5"); /* one is enough */
    for (int i = 0; i < 5; i++) assert_true(hp.layers[i].window == (i == 1 ? 20 : 0) && hp.layers[i].rope == 0);
    assert_int_equal(hp.n_ropes, 1);
    lf_hparams_deinit(&hp);
    hp = good(c, "sliding_window", NULL, NULL, NULL); /* 4,096 by default: wider than this context, but said so */
    assert_true(hp.layers[0].window == 0 && fabs(hp.ropes[0].theta - 5e5) < 1e-6);
    lf_hparams_deinit(&hp);
}

static void glm4_has_biases_and_half_of_the_channels_rotate_unless_it_says_otherwise(void **state)
{
    (void)state;
    struct lf_hparams hp = good(config_good(GLM4), "attention_bias", NULL, "partial_rotary_factor", NULL);
    assert_true(hp.qkv_bias && !hp.o_bias && hp.ropes[0].rotary_dim == 16);
    lf_hparams_deinit(&hp);
    hp = good(config_good(GLM4), "attention_bias", "false", "partial_rotary_factor", "0.75");
    assert_true(!hp.qkv_bias && !hp.o_bias && hp.ropes[0].rotary_dim == 24);
    lf_hparams_deinit(&hp);
    hp = good(config_good(GLM4), "attention_bias", "true", "head_dim", NULL);
    assert_true(hp.qkv_bias && !hp.o_bias && hp.head_dim == 128);
    lf_hparams_deinit(&hp);
}

static void granite_has_four_multipliers(void **state)
{
    (void)state;
    struct config_text c = config_good(GRANITE);
    struct lf_hparams hp = good(c, NULL, NULL, NULL, NULL);
    const struct lf_multipliers *by = &hp.multipliers;
    assert_true(by->embedding == 1.0f && by->residual == 1.0f && by->logits == 1.0f && hp.attn_scale == 1.0f);
    lf_hparams_deinit(&hp);
    config_set(&c, "embedding_multiplier", "12");
    config_set(&c, "residual_multiplier", "0.22");
    hp = good(c, "attention_multiplier", "0.0078125", "logits_scaling", "16.0");
    assert_true(by->embedding == 12.0f && by->residual == 0.22f && by->logits == 1.0f / 16);
    assert_true(hp.attn_scale == 0.0078125f);
    lf_hparams_deinit(&hp);
}

#define SCALED                                                                                                         \
    "{\"rope_type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":50,\"llama_4_scaling_beta\":0.1}"

static void ministral3_scales_its_queries(void **state)
{
    (void)state;
    struct lf_hparams hp = good(config_good(MINISTRAL3), "rope_parameters", SCALED, NULL, NULL);
    assert_true(fabs(hp.q_scale.beta - 0.1) < 1e-12 && hp.q_scale.n_positions == 50 && hp.layers[0].window == 0);
    lf_hparams_deinit(&hp);
    hp = good(config_good(MINISTRAL3), "rope_parameters",
              "{\"rope_theta\":1e6,\"original_max_position_embeddings\":60,\"llama_4_scaling_beta\":0.2}",
              "sliding_window", "20");
    assert_true(fabs(hp.q_scale.beta - 0.2) < 1e-12 && hp.q_scale.n_positions == 60 && hp.layers[1].window == 20);
    lf_hparams_deinit(&hp);
    hp = good(config_good(MINISTRAL3), "rope_parameters", "{\"rope_theta\":1e6}", NULL, NULL);
    assert_true(fabs(hp.q_scale.beta) <= 0);
    lf_hparams_deinit(&hp);
    /* the same as the text part of a model that sees, which may be of another family too */
    hp = good_nested("{\"model_type\":\"ministral3\"," TEXT_SIZES ",\"rope_parameters\":" SCALED "}", "torch_dtype",
                     NULL);
    assert_int_equal(hp.q_scale.n_positions, 50);
    lf_hparams_deinit(&hp);
}

static void smollm3_says_of_each_layer_whether_it_rotates(void **state)
{
    (void)state;
    struct config_text c = config_good(SMOLLM3);
    config_set(&c, "num_hidden_layers", "5");
    struct lf_hparams hp = good(c, "tie_word_embeddings", NULL, NULL, NULL);
    for (int i = 0; i < 5; i++) assert_int_equal(hp.layers[i].rope, i == 3); /* each fourth does not */
    assert_true(hp.tied && hp.n_ropes == 2 && hp.ropes[1].kind == LF_ROPE_OFF);
    assert_true(fabs(hp.ropes[0].theta - 2e6) < 1e-6);
    lf_hparams_deinit(&hp);
    hp = good(c, "no_rope_layer_interval", "2", NULL, NULL);
    for (int i = 0; i < 5; i++) assert_int_equal(hp.layers[i].rope, i % 2);
    assert_false(hp.tied);
    lf_hparams_deinit(&hp);
    hp = good(c, "no_rope_layers", "[1,0,0,1,1]", "no_rope_layer_interval", "2");
    for (int i = 0; i < 5; i++) assert_int_equal(hp.layers[i].rope, i == 1 || i == 2);
    lf_hparams_deinit(&hp);
}

static void smollm3_has_windows_where_it_does_not_rotate_or_where_it_says_so(void **state)
{
    (void)state;
    struct config_text c = config_good(SMOLLM3);
    config_set(&c, "num_hidden_layers", "5");
    struct lf_hparams hp = good(c, "sliding_window", "32", NULL, NULL);
    for (int i = 0; i < 5; i++) assert_int_equal(hp.layers[i].window, 0); /* it is not to be used */
    lf_hparams_deinit(&hp);
    config_set(&c, "use_sliding_window", "true");
    hp = good(c, "sliding_window", NULL, NULL, NULL);
    for (int i = 0; i < 5; i++) assert_int_equal(hp.layers[i].window, 0);
    lf_hparams_deinit(&hp);
    hp = good(c, "sliding_window", "32", "max_window_layers", "0");
    for (int i = 0; i < 5; i++) assert_int_equal(hp.layers[i].window, i == 3 ? 32 : 0);
    lf_hparams_deinit(&hp);
    config_set(&c, "sliding_window", "32");
    hp = good(c, "layer_types",
              "[\"sliding_attention\",\"full_attention\",\"full_attention\",\"full_attention\","
              "\"sliding_attention\"]",
              NULL, NULL);
    for (int i = 0; i < 5; i++)
        assert_true(hp.layers[i].window == (i % 4 == 0 ? 32 : 0) && hp.layers[i].rope == (i == 3));
    lf_hparams_deinit(&hp);
}

static void what_contradicts_a_family_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *architecture, *type, *key, *value, *says;
    } rows[] = {
        {PHI3, "rope_scaling", "{" LONGROPE "}", "original_max_position_embeddings is missing"},
        {PHI3, "rope_scaling", "{" LONGROPE ",\"original_max_position_embeddings\":64}",
         "long_factor is not an array of 16"},
        {PHI3, "rope_scaling", "{" LONGROPE ",\"original_max_position_embeddings\":64,\"long_factor\":[1]}",
         "long_factor"},
        {PHI3, "rope_scaling",
         "{" LONGROPE ",\"original_max_position_embeddings\":64,\"long_factor\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,\"1\"]}",
         "long_factor is a string"},
        {PHI3, "rope_scaling",
         "{" LONGROPE ",\"original_max_position_embeddings\":64,\"long_factor\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,0]}",
         "long_factor has 0"},
        {MISTRAL3, "vision_config", "{}", "text_config is"},
        {MISTRAL3, "text_config", "[]", "text_config is an array"},
        {MISTRAL3, "text_config", "{\"model_type\":\"mistral\"}", "num_hidden_layers is missing"},
        {OLMO3, "rope_parameters", "[]", "rope_parameters is an array"},
        {OLMO3, "rope_parameters", "{\"full_attention\":[]}", "rope_parameters.full_attention is an array"},
        {GRANITE, "logits_scaling", "0", "logits_scaling is 0"},
        {GRANITE, "embedding_multiplier", "\"12\"", "embedding_multiplier is a string"},
        {MINISTRAL3, "rope_parameters", "{\"llama_4_scaling_beta\":1}", "original_max_position_embeddings is missing"},
        {MINISTRAL3, "rope_theta", "1e6", "rope_parameters is missing"},
        {SMOLLM3, "layer_types", "[\"full_attention\",\"sliding_attention\"]", "layer_types gives layer 1 a window"},
        {SMOLLM3, "no_rope_layers", "[1]", "no_rope_layers is not an array of num_hidden_layers = 2"},
        {SMOLLM3, "no_rope_layers", "[1,2]", "no_rope_layers is 2, expected 0 to 1"},
        {SMOLLM3, "no_rope_layers", "[1,true]", "no_rope_layers is"},
        {SMOLLM3, "no_rope_layers", "1", "no_rope_layers is a number"},
        {SMOLLM3, "no_rope_layer_interval", "0", "no_rope_layer_interval is 0"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct config_text c = config_good(rows[i].architecture, rows[i].type);
        struct lf_hparams hp;
        struct lf_err err;
        config_set(&c, rows[i].key, rows[i].value);
        assert_int_equal(read_config(&c, &hp, &err), LF_CORRUPT);
        if (!strstr(err.message, rows[i].says)) fail_msg("\"%s\" lacks \"%s\"", err.message, rows[i].says);
    }
}

static void what_would_change_the_result_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *architecture, *type, *key, *value, *says;
    } rows[] = {
        {LLAMA, "architectures", "[\"GPT2LMHeadModel\"]", "GPT2LMHeadModel"},
        {LLAMA, "hidden_act", "\"relu\"", "hidden_act \"relu\""},
        {LLAMA, "quantization_config", "{\"quant_method\":\"awq\",\"bits\":3}", "awq: bits is 3"},
        {LLAMA, "quantization_config", "{\"quant_method\":\"hqq\",\"bits\":4}", "(hqq, 4 bits)"},
        {LLAMA, "quantization_config", "[]", "unnamed format"},
        {LLAMA, "compression_config", "{\"format\":\"pack-quantized\"}", "(pack-quantized)"},
        {LLAMA, "quantization", "{\"bits\":4}", "(MLX, 4 bits)"},
        {LLAMA, "attn_logit_softcapping", "50.0", "attn_logit_softcapping"},
        {LLAMA, "attn_logit_softcapping", "1", "attn_logit_softcapping"},
        {LLAMA, "embedding_multiplier", "12.0", "embedding_multiplier"},
        {LLAMA, "embedding_multiplier", "0", "embedding_multiplier"},
        {LLAMA, "n_routed_experts", "1", "n_routed_experts"},
        {LLAMA, "rope_scaling", "{\"type\":\"dynamic\"}", "\"dynamic\""},
        {LLAMA, "architectures", "[\"BertForMaskedLM\"]", "BertForMaskedLM, an encoder or classifier"},
        {LLAMA, "architectures", "[\"MambaForCausalLM\"]", "MambaForCausalLM is not implemented"},
        {LLAMA, "num_local_experts", "8", "num_local_experts"},
        {LLAMA, "auto_map", "{\"AutoModelForCausalLM\":\"m.M\"}", "auto_map"},
        {LLAMA, "sliding_window", "32", "sliding_window"},
        {LLAMA, "layer_types", "[\"sliding_attention\",\"full_attention\"]", "layer_types"},
        {LLAMA, "head_dim", "20", "head_dim 20"},
        {LLAMA, "head_dim", "4", "head_dim 4"},
        {LLAMA, "head_dim", "520", "head_dim 520"},
        {LLAMA, "torch_dtype", "\"float8_e4m3fn\"", "float8_e4m3fn"},
        {LLAMA, "partial_rotary_factor", "0.1", "partial_rotary_factor"},
        {LLAMA, "rope_scaling", "{\"type\":\"dynamic\",\"factor\":2}", "\"dynamic\""},
        {LLAMA, "rope_scaling", "{\"rope_type\":\"longrope\",\"short_mscale\":1.2}", "\"short_mscale\""},
        {LLAMA, "no_rope_layers", "[1,0]", "no_rope_layers"},
        {PHI3, "attention_bias", "true", "attention_bias"},
        {MISTRAL3, "text_config", "{\"model_type\":\"mistral4\"}", "model_type mistral4 is not implemented"},
        {MISTRAL3, "text_config", "{}", "(mistral is)"},
        {MISTRAL3, "text_config", TEXT(",\"num_local_experts\":8"), "num_local_experts"},
        {LLAMA, "rope_scaling", "{\"type\":\"linear\",\"factor\":2,\"attn_factor\":0.5}", "\"attn_factor\""},
        {LLAMA, "rope_scaling", "{\"rope_type\":\"mrope\",\"factor\":2}", "\"mrope\""},
        {LLAMA, "rope_parameters", "{\"full_attention\":{\"rope_type\":\"default\"}}", "\"full_attention\""},
        {OLMO3, "rope_parameters", "{\"rope_type\":\"default\"}", "rope_parameters has \"rope_type\"; expected full"},
        {OLMO3, "rope_parameters", "{\"full_attention\":{\"mrope_section\":[1]}}", "\"mrope_section\""},
        {OLMO3, "layer_types", "[\"full_attention\",\"linear_attention\"]", "linear_attention"},
        {LLAMA, "rope_parameters", "{\"llama_4_scaling_beta\":0.1}", "\"llama_4_scaling_beta\" is not implemented"},
        {GRANITE, "num_local_experts", "8", "num_local_experts"},
        {QWEN2, "rope_scaling", "{\"type\":\"default\",\"mrope_section\":[1,2]}", "\"mrope_section\""},
        {QWEN2, "layer_types", "[\"full_attention\",\"chunked_attention\"]", "chunked_attention"},
        {QWEN2, "mlp_bias", "true", "mlp_bias"},
        {MISTRAL, "attention_bias", "true", "attention_bias"},
        {MISTRAL, "layer_types", "[\"full_attention\",\"sliding_attention\"]", "layer_types"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct config_text c = config_good(rows[i].architecture, rows[i].type);
        struct lf_hparams hp;
        struct lf_err err;
        config_set(&c, rows[i].key, rows[i].value);
        enum lf_status status = read_config(&c, &hp, &err);
        if (status != LF_UNSUPPORTED) fail_msg("%s %s: %s", rows[i].key, rows[i].value, lf_status_name(status));
        if (!strstr(err.message, rows[i].says)) fail_msg("\"%s\" lacks \"%s\"", err.message, rows[i].says);
    }
}

static void what_contradicts_itself_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value, *says;
    } rows[] = {
        {"architectures", NULL, "architectures is missing"},
        {"architectures", "[]", "architectures"},
        {"architectures", "[\"LlamaForCausalLM\",\"MistralForCausalLM\"]", "architectures"},
        {"architectures", "\"LlamaForCausalLM\"", "architectures"},
        {"model_type", "\"qwen2\"", "model_type is qwen2"},
        {"hidden_size", NULL, "hidden_size is missing"},
        {"hidden_size", "0", "hidden_size is 0, expected 1"},
        {"hidden_size", "-64", "hidden_size is -64"},
        {"hidden_size", "64.5", "hidden_size is a number, expected a whole number"},
        {"hidden_size", "\"64\"", "hidden_size is a string"},
        {"hidden_size", "1048577", "hidden_size is 1048577"},
        {"hidden_size", "18446744073709551617", "hidden_size"},
        {"intermediate_size", NULL, "intermediate_size is missing"},
        {"num_hidden_layers", "0", "num_hidden_layers is 0"},
        {"num_hidden_layers", "1025", "num_hidden_layers is 1025"},
        {"num_attention_heads", NULL, "num_attention_heads is missing"},
        {"num_attention_heads", "3", "hidden_size 64 is no multiple of num_attention_heads 3"},
        {"num_key_value_heads", "0", "num_key_value_heads is 0"},
        {"num_key_value_heads", "4", "no multiple of num_key_value_heads 4"},
        {"vocab_size", "4194305", "vocab_size is 4194305"},
        {"max_position_embeddings", NULL, "max_position_embeddings is missing"},
        {"max_position_embeddings", "16777217", "max_position_embeddings is 16777217"},
        {"rms_norm_eps", NULL, "rms_norm_eps is missing"},
        {"rms_norm_eps", "0", "rms_norm_eps is 0"},
        {"rms_norm_eps", "true", "rms_norm_eps is"},
        {"tie_word_embeddings", "1", "tie_word_embeddings is a number"},
        {"attention_bias", "\"no\"", "attention_bias is a string"},
        {"eos_token_id", "50", "eos_token_id is 50"},
        {"eos_token_id", "[2,\"x\"]", "eos_token_id is a string"},
        {"eos_token_id", "-1", "eos_token_id is -1"},
        {"layer_types", "2", "layer_types is a number, expected an array"},
        {"layer_types", "{\"full_attention\":\"full_attention\"}", "layer_types is an object"},
        {"rope_parameters", "{\"partial_rotary_factor\":1.5}", "partial_rotary_factor is 1.5"},
        {"rope_theta", "1", "rope_theta is 1"},
        {"rope_theta", "0", "rope_theta is 0"},
        {"rope_scaling", "[]", "rope_scaling is an array"},
        {"rope_scaling", "{\"type\":\"linear\"}", "factor is missing"},
        {"rope_scaling", "{\"type\":\"linear\",\"factor\":0}", "factor is 0"},
        {"rope_scaling", "{\"type\":\"yarn\",\"factor\":4,\"attention_factor\":0}", "attention_factor is 0"},
        {"rope_scaling", "{\"type\":\"yarn\",\"factor\":4,\"beta_fast\":1,\"beta_slow\":2}", "beta_fast 1"},
        {"rope_scaling", "{\"type\":\"yarn\",\"factor\":4,\"truncate\":1}",
         "truncate is a number, expected true or false"},
        {"rope_scaling", "{\"type\":\"llama3\",\"factor\":4}", "original_max_position_embeddings is missing"},
        {"rope_scaling",
         "{\"type\":\"llama3\",\"factor\":4,\"original_max_position_embeddings\":64,\"low_freq_factor\":4,"
         "\"high_freq_factor\":4}",
         "high_freq_factor 4 is not greater"},
        {"rope_scaling",
         "{\"type\":\"llama3\",\"factor\":4,\"original_max_position_embeddings\":0,\"low_freq_factor\":1,"
         "\"high_freq_factor\":4}",
         "original_max_position_embeddings is 0"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct config_text c = config_llama();
        struct lf_hparams hp;
        struct lf_err err;
        if (strcmp(rows[i].key, "num_attention_heads") == 0 && rows[i].value) config_set(&c, "head_dim", NULL);
        config_set(&c, rows[i].key, rows[i].value);
        enum lf_status status = read_config(&c, &hp, &err);
        if (status != LF_CORRUPT) fail_msg("%s: %s", rows[i].says, lf_status_name(status));
        if (!strstr(err.message, rows[i].says)) fail_msg("\"%s\" lacks \"%s\"", err.message, rows[i].says);
        assert_non_null(strstr(err.message, "config.json: "));
    }
}

/* What stands in the file is shown up to 64 bytes (element types 24), and the message ends as it should. */
static void long_values_are_shown_up_to_a_bound(void **state)
{
    (void)state;
    static const struct {
        const char *architecture, *type, *key, *head, *tail, *says;
        int shown;
    } rows[] = {
        {LLAMA, "architectures", "[\"", "\"]", "is not implemented (Llama, Mistral, Mistral3, ", 64},
        {LLAMA, "model_type", "\"", "\"", "but LlamaForCausalLM is of type llama", 64},
        {LLAMA, "hidden_act", "\"", "\"", "is not implemented for LlamaForCausalLM (silu, swish, gelu, ", 64},
        {LLAMA, "torch_dtype", "\"", "\"", "is not implemented (bfloat16", 24},
        {LLAMA, "rope_scaling", "{\"rope_type\":\"", "\"}", "is not implemented (default, linear", 64},
        {LLAMA, "rope_scaling", "{\"", "\":1}", "\" is not implemented", 64},
        {QWEN2, "layer_types", "[\"full_attention\",\"", "\"]", "\" of layer 1 is not implemented", 64},
    };
    char many[201], value[300], want[66], more[67];
    memset(many, '#', sizeof many);
    many[200] = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct config_text c = config_good(rows[i].architecture, rows[i].type);
        struct lf_hparams hp;
        struct lf_err err;
        snprintf(value, sizeof value, "%s%s%s", rows[i].head, many, rows[i].tail);
        config_set(&c, rows[i].key, value);
        assert_int_not_equal(read_config(&c, &hp, &err), LF_OK);
        snprintf(want, sizeof want, "%.*s", rows[i].shown, many);
        snprintf(more, sizeof more, "%.*s", rows[i].shown + 1, many);
        if (!strstr(err.message, want) || strstr(err.message, more) || !strstr(err.message, rows[i].says))
            fail_msg("%s: %s", rows[i].key, err.message);
    }
}

/* A stretched length ends at the longest context that there is; a factor of 1 stretches nothing. */
static void stretched_lengths_have_a_bound(void **state)
{
    (void)state;
    struct lf_hparams hp = good(config_llama(), "rope_scaling", "{\"type\":\"yarn\",\"factor\":1000000}", NULL, NULL);
    assert_int_equal(hp.max_positions, LF_CONTEXT_TOKENS);
    lf_hparams_deinit(&hp);
    hp = good(config_llama(), "rope_scaling", "{\"type\":\"linear\",\"factor\":65536}", NULL, NULL);
    assert_int_equal(hp.max_positions, LF_CONTEXT_TOKENS);
    lf_hparams_deinit(&hp);
    hp = good(config_llama(), "rope_scaling", "{\"type\":\"yarn\",\"factor\":1}", NULL, NULL);
    assert_int_equal(hp.max_positions, 256);
    assert_true(fabs(hp.ropes[0].attention_factor - 1) < 1e-12);
    lf_hparams_deinit(&hp);
}

static void so_many_ends_are_kept(void **state)
{
    (void)state;
    char list[256] = "[";
    for (int id = 0; id <= LF_EOS_IDS_N; id++) {
        struct config_text c = config_llama();
        struct lf_hparams hp;
        struct lf_err err;
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%d]", id ? "," : "", id);
        config_set(&c, "eos_token_id", list);
        enum lf_status status = read_config(&c, &hp, &err);
        if (id < LF_EOS_IDS_N) {
            assert_int_equal(status, LF_OK);
            assert_int_equal(hp.n_eos, id + 1);
            assert_int_equal(hp.eos_ids[id], id);
            lf_hparams_deinit(&hp);
        } else {
            assert_int_equal(status, LF_LIMIT);
            assert_non_null(strstr(err.message, "eos_token_id: more than 16 ids"));
        }
        list[strlen(list) - 1] = 0;
    }
}

/* The directory's path leaves room for config.json but not for generation_config.json, or for neither. */
static void a_path_that_is_too_long_is_said_so(void **state)
{
    (void)state;
    char dir[4200];
    struct lf_hparams hp;
    struct lf_err err;
    memset(dir, '/', sizeof dir);
    for (size_t n = 4096 - 28; n <= 4096; n++) {
        dir[n] = 0;
        bool fits = n + sizeof "generation_config.json" <= 4096; /* a path that ends with a slash gets no other */
        enum lf_status status = lf_hparams_read(&hp, dir, &err);
        assert_int_equal(status, fits ? LF_NOT_FOUND : LF_LIMIT);
        if (!fits) assert_non_null(strstr(err.message, "is too long"));
        dir[n] = '/';
    }
}

static void two_lengths_before_stretching_are_refused(void **state)
{
    (void)state;
    struct config_text c = config_llama();
    struct lf_hparams hp;
    struct lf_err err;
    config_set(&c, "original_max_position_embeddings", "32");
    config_set(&c, "rope_scaling", "{\"type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":64}");
    assert_int_equal(read_config(&c, &hp, &err), LF_CORRUPT);
    config_set(&c, "original_max_position_embeddings", "\"64\"");
    assert_int_equal(read_config(&c, &hp, &err), LF_CORRUPT);
    assert_non_null(strstr(err.message, "original_max_position_embeddings is a string"));
    config_set(&c, "original_max_position_embeddings", "64");
    hp = good(c, NULL, NULL, NULL, NULL);
    assert_int_equal(hp.ropes[0].original_max_positions, 64);
    lf_hparams_deinit(&hp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_llama_is_read),
        cmocka_unit_test(head_dim_has_the_default_of_its_architecture),
        cmocka_unit_test(biases_and_norms_follow_the_architecture),
        cmocka_unit_test(windows_are_those_that_transformers_computes),
        cmocka_unit_test(rope_is_read_in_the_old_and_the_new_style),
        cmocka_unit_test(yarn_has_the_defaults_of_transformers),
        cmocka_unit_test(ends_come_from_both_files_without_repetition),
        cmocka_unit_test(what_cannot_change_the_result_is_let_pass),
        cmocka_unit_test(an_id_that_ends_answers_can_be_added),
        cmocka_unit_test(a_model_that_sees_has_its_text_part_in_text_config),
        cmocka_unit_test(smollm3_has_windows_where_it_does_not_rotate_or_where_it_says_so),
        cmocka_unit_test(longrope_has_factors_for_short_and_for_long_contexts),
        cmocka_unit_test(layers_with_a_window_may_have_rope_of_their_own),
        cmocka_unit_test(glm4_has_biases_and_half_of_the_channels_rotate_unless_it_says_otherwise),
        cmocka_unit_test(granite_has_four_multipliers),
        cmocka_unit_test(ministral3_scales_its_queries),
        cmocka_unit_test(smollm3_says_of_each_layer_whether_it_rotates),
        cmocka_unit_test(what_contradicts_a_family_is_refused_by_name),
        cmocka_unit_test(what_would_change_the_result_is_refused_by_name),
        cmocka_unit_test(what_contradicts_itself_is_refused_by_name),
        cmocka_unit_test(two_lengths_before_stretching_are_refused),
        cmocka_unit_test(long_values_are_shown_up_to_a_bound),
        cmocka_unit_test(stretched_lengths_have_a_bound),
        cmocka_unit_test(so_many_ends_are_kept),
        cmocka_unit_test(a_path_that_is_too_long_is_said_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
