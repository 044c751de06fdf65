/* What hparams.c and the families' files read of Gemma's configurations, and refuse. */
#include <math.h>

#include "model/hparams.h"
#include "tests/support/config_read.h"

#define GEMMA3      "[\"Gemma3ForCausalLM\"]", "\"gemma3_text\""
#define GEMMA3_SEES "[\"Gemma3ForConditionalGeneration\"]", "\"gemma3\""

static struct config_text config_gemma3(void)
{
    struct config_text c = config_good(GEMMA3);
    config_set(&c, "hidden_act", NULL);
    config_set(&c, "hidden_activation", "\"gelu_pytorch_tanh\"");
    config_set(&c, "num_hidden_layers", "7");
    config_set(&c, "sliding_window", "16");
    return c;
}

static void check_gemma3_kinds(const struct lf_hparams *hp, int interval, double theta, double local)
{
    for (int i = 0; i < hp->n_layers; i++) {
        bool is_local = (i + 1) % interval != 0;
        assert_int_equal(hp->layers[i].window, is_local ? 16 : 0);
        assert_int_equal(hp->layers[i].rope, is_local);
    }
    assert_int_equal(hp->n_ropes, 2);
    assert_true(fabs(hp->ropes[0].theta - theta) < 1e-6 && fabs(hp->ropes[1].theta - local) < 1e-6);
    assert_int_equal(hp->ropes[1].kind, LF_ROPE_NONE_SCALED);
    assert_int_equal(hp->max_positions, 256); /* what was stretched already */
}

static void gemma3_has_layers_of_two_kinds_each_with_its_rope(void **state)
{
    (void)state;
    struct lf_hparams hp = good(config_gemma3(), NULL, NULL, NULL, NULL);
    check_gemma3_kinds(&hp, 6, 1e6, 1e4);
    assert_true(fabs((double)hp.attn_scale - 1.0 / 16) < 1e-9 && hp.softcap == 0);
    lf_hparams_deinit(&hp);
    hp = good(config_gemma3(), "sliding_window_pattern", "2", "query_pre_attn_scalar", "168");
    check_gemma3_kinds(&hp, 2, 1e6, 1e4);
    assert_true(fabs((double)hp.attn_scale - 1 / sqrt(168)) < 1e-7);
    lf_hparams_deinit(&hp);
    struct config_text c = config_gemma3();
    config_set(&c, "rope_theta", "50000");
    config_set(&c, "rope_local_base_freq", "3000");
    hp = good(c, "rope_scaling", "{\"rope_type\":\"linear\",\"factor\":8}", "final_logit_softcapping", "30");
    check_gemma3_kinds(&hp, 6, 50000, 3000);
    assert_int_equal(hp.ropes[0].kind, LF_ROPE_LINEAR);
    assert_true(fabs(hp.ropes[0].factor - 8) < 1e-9 && fabs((double)hp.softcap - 30) < 1e-9);
    lf_hparams_deinit(&hp);
    hp = good(config_gemma3(), "rope_parameters",
              "{\"full_attention\":{\"rope_type\":\"linear\",\"factor\":8,\"rope_theta\":50000},"
              "\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":3000}}",
              "tie_word_embeddings", NULL);
    check_gemma3_kinds(&hp, 6, 50000, 3000);
    assert_true(hp.ropes[0].kind == LF_ROPE_LINEAR && hp.tied);
    lf_hparams_deinit(&hp);
    hp = good(config_gemma3(), "num_hidden_layers", "2", "layer_types", "[\"full_attention\",\"sliding_attention\"]");
    assert_true(hp.layers[0].window == 0 && hp.layers[0].rope == 0 && hp.layers[1].window == 16);
    assert_int_equal(hp.layers[1].rope, 1);
    lf_hparams_deinit(&hp);
    /* a window that is none leaves a layer its rope */
    hp = good(config_gemma3(), "sliding_window", "256", NULL, NULL);
    assert_true(hp.layers[0].window == 0 && hp.layers[0].rope == 1 && hp.layers[5].rope == 0);
    lf_hparams_deinit(&hp);
}

/* The files of the larger ones say in text_config what is not the default of transformers. */
static void gemma3_has_defaults_for_what_its_files_leave_out(void **state)
{
    (void)state;
    struct config_text c = {.n = 0};
    config_set(&c, "architectures", "[\"Gemma3ForConditionalGeneration\"]");
    config_set(&c, "model_type", "\"gemma3\"");
    config_set(&c, "eos_token_id", "[1,106]");
    config_set(&c, "torch_dtype", "\"bfloat16\"");
    config_set(&c, "vision_config", "{\"model_type\":\"siglip_vision_model\"}");
    config_set(&c, "text_config",
               "{\"hidden_size\":2560,\"intermediate_size\":10240,\"model_type\":\"gemma3_text\","
               "\"num_hidden_layers\":34,\"rope_scaling\":{\"factor\":8.0,\"rope_type\":\"linear\"},"
               "\"sliding_window\":1024}");
    struct lf_hparams hp = good(c, NULL, NULL, NULL, NULL);
    assert_true(hp.n_heads == 8 && hp.n_kv_heads == 4 && hp.head_dim == 256 && hp.n_vocab == 262208);
    assert_true(hp.max_positions == 131072 && hp.tied && hp.qk_norm && hp.n_eos == 2 && hp.dtype == LF_BF16);
    assert_true(hp.layers[4].window == 1024 && hp.layers[5].window == 0 && fabs((double)hp.norm_eps - 1e-6) < 1e-12);
    lf_hparams_deinit(&hp);
}

static void what_contradicts_gemma3_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value, *says;
    } rows[] = {
        {"hidden_activation", "\"relu\"", "hidden_activation \"relu\""},
        {"hidden_act", "\"gelu\"", "hidden_act says something else than hidden_activation"},
        {"use_bidirectional_attention", "true", "use_bidirectional_attention"},
        {"attn_logit_softcapping", "50", "attn_logit_softcapping"},
        {"sliding_window", "null", "sliding_window is null"},
        {"sliding_window_pattern", "0", "sliding_window_pattern is 0"},
        {"query_pre_attn_scalar", "0", "query_pre_attn_scalar is 0"},
        {"partial_rotary_factor", "0.5", "partial_rotary_factor"},
        {"rope_parameters", "{\"rope_theta\":10000}", "\"rope_theta\""},
        {"rope_parameters", "[]", "rope_parameters is an array"},
        {"rope_parameters", "{\"full_attention\":1}", "full_attention is a number"},
        {"rope_parameters", "{\"sliding_attention\":{\"rope_type\":\"dynamic\",\"factor\":2}}", "\"dynamic\""},
        {"rope_local_base_freq", "1", "rope_local_base_freq is 1"},
        {"layer_types", "[\"full_attention\"]", "layer_types is not an array"},
        {"mlp_bias", "true", "mlp_bias"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check_refused(config_gemma3(), rows[i].key, rows[i].value, rows[i].says);
    struct config_text c = config_good(GEMMA3_SEES);
    struct lf_hparams hp;
    struct lf_err err = {0};
    config_set(&c, "text_config", "{\"model_type\":\"gemma2\"}");
    assert_int_equal(read_config(&c, &hp, &err), LF_UNSUPPORTED);
    assert_non_null(strstr(err.message, "(gemma3_text is)"));
}

#define GEMMA4 "[\"Gemma4ForCausalLM\"]", "\"gemma4_text\""

static struct config_text config_gemma4(void)
{
    struct config_text c = config_good(GEMMA4);
    config_set(&c, "hidden_act", NULL);
    config_set(&c, "num_hidden_layers", "8");
    config_set(&c, "sliding_window", "16");
    config_set(&c, "global_head_dim", "32");
    config_set(&c, "hidden_size_per_layer_input", "0");
    return c;
}

static void gemma4_has_values_of_keys_and_a_last_layer_without_a_window(void **state)
{
    (void)state;
    struct lf_hparams hp =
        good(config_gemma4(), "attention_k_eq_v", "true", "use_bidirectional_attention", "\"vision\"");
    for (int i = 0; i < 8; i++) {
        bool is_full = i == 5 || i == 7;
        assert_true(hp.layers[i].window == (is_full ? 0 : 16) && hp.layers[i].rope == !is_full);
        assert_int_equal(hp.layers[i].v_of_k, is_full);
    }
    assert_true(hp.ropes[0].kind == LF_ROPE_PROPORTIONAL && hp.ropes[0].n_turned == 4 && hp.ropes[0].rotary_dim == 32);
    assert_true(fabs(hp.ropes[0].theta - 1e6) < 1e-6 && fabs(hp.ropes[1].theta - 1e4) < 1e-6);
    assert_true(hp.attn_scale == 1 && hp.softcap == 0);
    lf_hparams_deinit(&hp);
    struct config_text c = config_gemma4();
    config_set(&c, "global_head_dim", NULL);
    config_set(&c, "per_layer_config", "{}");
    hp = good(c, "final_logit_softcapping", "30", "rope_parameters",
              "{\"full_attention\":{\"rope_type\":\"proportional\",\"partial_rotary_factor\":0.3,\"rope_theta\":50000,"
              "\"factor\":2},\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":3000}}");
    assert_true(hp.ropes[0].n_turned == 4 && fabs(hp.ropes[0].factor - 2) < 1e-9 && hp.max_positions == 256);
    assert_true(fabs(hp.ropes[0].theta - 50000) < 1e-6 && fabs(hp.ropes[1].theta - 3000) < 1e-6);
    assert_true(fabs((double)hp.softcap - 30) < 1e-6 && !hp.layers[5].v_of_k);
    lf_hparams_deinit(&hp);
    hp = good(config_gemma4(), "per_layer_config", "{\"05\":{\"head_dim\":40},\"7\":{\"head_dim\":40}}", "use_cache",
              "true");
    assert_true(hp.layers[5].head_dim == 40 && hp.layers[7].head_dim == 40 && hp.layers[0].head_dim != 40);
    lf_hparams_deinit(&hp);
    c = config_gemma4();
    config_set(&c, "enable_moe_block", "true");
    config_set(&c, "num_experts", "8");
    hp = good(c, "top_k_experts", "3", "moe_intermediate_size", "24");
    assert_true(hp.n_experts == 8 && hp.experts_per_token == 3 && hp.expert_intermediate == 24);
    assert_true(hp.layers[0].has_experts && hp.layers[7].has_experts && hp.intermediate == 96);
    lf_hparams_deinit(&hp);
}

static void what_gemma4_has_not_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value, *says;
    } rows[] = {
        {"global_head_dim", "60", "global_head_dim 60"},
        {"global_head_dim", "520", "global_head_dim 520"},
        {"global_head_dim", "-8", "global_head_dim is -8"},
        {"per_layer_config", "{\"5\":{\"head_dim\":64}}", "head_dim 64 and 32"},
        {"per_layer_config", "{\"5\":{\"sliding_window\":64}}", "\"sliding_window\""},
        {"per_layer_config", "{\"5\":64}", "per_layer_config of a layer is a number"},
        {"per_layer_config", "{\"5\":null}", "per_layer_config of a layer is null"},
        {"per_layer_config", "{\"8\":{}}", "the numbers of 8 layers"},
        {"per_layer_config", "{\"full_attention\":{\"head_dim\":64}}", "the numbers of 8 layers"},
        {"per_layer_config", "{\"\":{}}", "the numbers of 8 layers"},
        {"per_layer_config", "{\"00005\":{}}", "the numbers of 8 layers"},
        {"per_layer_config", "{\"5\":{},\"05\":{}}", "the numbers of 8 layers"},
        {"per_layer_config", "{\"5 \":{}}", "the numbers of 8 layers"},
        {"per_layer_config", "{\"a\":{}}", "the numbers of 8 layers"},
        {"per_layer_config", "{\"5\":{\"head_dim\":60},\"7\":{\"head_dim\":60}}", "head_dim 60"},
        {"per_layer_config", "{\"0\":{\"num_key_value_heads\":3}}", "3 KV heads of layer 0"},
        {"per_layer_config", "[]", "per_layer_config is an array"},
        {"hidden_size_per_layer_input", "-1", "hidden_size_per_layer_input is -1"},
        {"hidden_size_per_layer_input", "8.5", "hidden_size_per_layer_input"},
        {"hidden_size_per_layer_input", "131073", "hidden_size_per_layer_input 131073 for 8 layers"}, /* LF_HIDDEN_N */
        {"vocab_size_per_layer_input", "-1", "vocab_size_per_layer_input is -1"},
        {"vocab_size_per_layer_input", "\"many\"", "vocab_size_per_layer_input"},
        {"num_kv_shared_layers", "3", "no layer before them is of layer 5's type"},
        {"num_kv_shared_layers", "8", "num_kv_shared_layers is 8"},
        {"use_double_wide_mlp", "2", "use_double_wide_mlp"},
        {"enable_moe_block", "true", "num_experts is missing"},
        {"enable_moe_block", "1", "enable_moe_block"},
        {"use_bidirectional_attention", "\"all\"", "use_bidirectional_attention"},
        {"use_bidirectional_attention", "true", "use_bidirectional_attention"},
        {"rope_scaling", "{\"rope_type\":\"linear\",\"factor\":8}", "rope_scaling"},
        {"hidden_activation", "\"quick_gelu\"", "hidden_activation"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check_refused(config_gemma4(), rows[i].key, rows[i].value, rows[i].says);
}

/* 256 for each of 262,144 tokens where nothing is said; those of tokens that there are not are read all the same. */
static void gemma4_has_inputs_of_each_layer(void **state)
{
    (void)state;
    struct config_text c = config_gemma4();
    struct lf_hparams hp = good(c, "vocab_size_per_layer_input", "1", NULL, NULL); /* has no rows to be too few */
    assert_true(hp.layer_input == 0 && hp.n_layer_inputs == 0);
    lf_hparams_deinit(&hp);
    hp = good(c, "hidden_size_per_layer_input", NULL, NULL, NULL);
    assert_true(hp.layer_input == 256 && hp.n_layer_inputs == 262144);
    lf_hparams_deinit(&hp);
    hp = good(c, "hidden_size_per_layer_input", "9", "vocab_size_per_layer_input", "50"); /* vocab_size */
    assert_true(hp.layer_input == 9 && hp.n_layer_inputs == 50);
    lf_hparams_deinit(&hp);
    hp = good(c, "hidden_size_per_layer_input", "131072", NULL, NULL);
    assert_int_equal(hp.layer_input, 131072);
    lf_hparams_deinit(&hp);
    config_set(&c, "hidden_size_per_layer_input", "9");
    check_refused(c, "vocab_size_per_layer_input", "49", "vocab_size_per_layer_input 49 is less than vocab_size 50");
    check_refused(c, "vocab_size_per_layer_input", "0", "vocab_size_per_layer_input 0 is less than");
}

/* Both ways of saying so: that of the hub, and that of transformers 5. */
static void gemma4_has_heads_of_their_own_in_layers_without_a_window(void **state)
{
    (void)state;
    struct config_text c = config_gemma4();
    config_set(&c, "attention_k_eq_v", "true");
    config_set(&c, "global_head_dim", NULL);
    struct lf_hparams hp = good(c, "num_key_value_heads", "2", "num_global_key_value_heads", "1");
    config_set(
        &c, "per_layer_config",
        "{\"5\":{\"head_dim\":512,\"num_key_value_heads\":1},\"7\":{\"head_dim\":512,\"num_key_value_heads\":1}}");
    struct lf_hparams same = good(c, "num_key_value_heads", "2", NULL, NULL);
    for (int i = 0; i < 8; i++) {
        bool is_full = i == 5 || i == 7;
        assert_int_equal(lf_layer_head_dim(&hp, i), is_full ? 512 : 32);
        assert_int_equal(lf_layer_n_kv_heads(&hp, i), is_full ? 1 : 2);
        assert_int_equal(lf_layer_head_dim(&same, i), lf_layer_head_dim(&hp, i));
        assert_int_equal(lf_layer_n_kv_heads(&same, i), lf_layer_n_kv_heads(&hp, i));
    }
    assert_true(hp.ropes[0].head_dim == 512 && hp.ropes[0].rotary_dim == 512 && hp.ropes[0].n_turned == 64);
    assert_true(hp.ropes[1].head_dim == 32 && hp.ropes[1].rotary_dim == 32);
    lf_hparams_deinit(&hp);
    lf_hparams_deinit(&same);
    /* the number counts only where K is V; a base that is the other layers' leaves them their tables */
    c = config_gemma4();
    config_set(&c, "num_key_value_heads", "2");
    hp = good(c, "num_global_key_value_heads", "1", "rope_theta", "10000");
    assert_int_equal(lf_layer_n_kv_heads(&hp, 7), 2);
    assert_true(hp.n_ropes == 2 && hp.layers[0].rope == 1 && hp.layers[7].rope == 0);
    lf_hparams_deinit(&hp);
}

static void gemma4_has_layers_that_share_the_keys_of_the_last_of_their_type(void **state)
{
    (void)state;
    struct config_text c = config_gemma4();
    config_set(&c, "layer_types",
               "[\"sliding_attention\",\"full_attention\",\"sliding_attention\",\"sliding_attention\","
               "\"full_attention\",\"sliding_attention\",\"sliding_attention\",\"full_attention\"]");
    static const int back[8] = {0, 0, 0, 0, 3, 2, 3, 6};
    struct lf_hparams hp = good(c, "num_kv_shared_layers", "4", "use_double_wide_mlp", "true");
    for (int i = 0; i < 8; i++) {
        assert_int_equal(hp.layers[i].alias_back, back[i]);
        assert_int_equal(lf_layer_intermediate(&hp, i), i < 4 ? 96 : 192);
    }
    lf_hparams_deinit(&hp);
    hp = good(c, "num_kv_shared_layers", "1", NULL, NULL);
    assert_true(hp.layers[6].alias_back == 0 && hp.layers[7].alias_back == 3);
    assert_int_equal(lf_layer_intermediate(&hp, 7), 96);
    lf_hparams_deinit(&hp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemma3_has_layers_of_two_kinds_each_with_its_rope),
        cmocka_unit_test(gemma3_has_defaults_for_what_its_files_leave_out),
        cmocka_unit_test(what_contradicts_gemma3_is_refused_by_name),
        cmocka_unit_test(gemma4_has_values_of_keys_and_a_last_layer_without_a_window),
        cmocka_unit_test(gemma4_has_heads_of_their_own_in_layers_without_a_window),
        cmocka_unit_test(gemma4_has_layers_that_share_the_keys_of_the_last_of_their_type),
        cmocka_unit_test(gemma4_has_inputs_of_each_layer),
        cmocka_unit_test(what_gemma4_has_not_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
