/* Every field of config.json and generation_config.json, for each architecture, with every kind of value in its place:
 * each directory is read and then holds what it must, or is refused with a message. */
#include "model/hparams.h"
#include "tests/support/by_field.h"
#include "tests/support/temp_dir.h"

struct tally {
    struct temp_dir dir;
    const char *name;
    int n_read, n_refused;
};

static void changed(void *ctx, struct lf_str text)
{
    struct tally *t = ctx;
    struct lf_hparams hp = {0};
    struct lf_err err = {0};
    char copy[8192];
    (void)snprintf(copy, sizeof copy, "%.*s", (int)text.len, text.ptr);
    if (t->n_read + t->n_refused > 0) temp_dir_delete(&t->dir, t->name); /* some file systems sync what is replaced */
    temp_dir_write_text(&t->dir, t->name, copy);
    enum lf_status status = lf_hparams_read(&hp, t->dir.path, &err);
    if (status != LF_OK) {
        t->n_refused++;
        if (!err.message[0] || status == LF_NO_MEMORY) fail_msg("%s: %s", lf_status_name(status), copy);
        return;
    }
    t->n_read++;
    if (hp.n_layers < 1 || hp.n_heads < 1 || hp.n_kv_heads < 1 || hp.n_heads % hp.n_kv_heads || hp.head_dim < 1 ||
        hp.head_dim > LF_HEAD_DIM || hp.n_vocab < 1 || hp.max_positions < 1 || hp.ropes[0].rotary_dim % 2 ||
        !(hp.ropes[0].theta > 1) || !(hp.norm_eps > 0))
        fail_msg("read: %s", copy);
    if (hp.layer_input < 0 || hp.layer_input * hp.n_layers > LF_HIDDEN_N ||
        (hp.layer_input > 0 && hp.n_layer_inputs < hp.n_vocab))
        fail_msg("inputs of layers: %s", copy);
    int n_deltas = 0;
    for (int i = 0; i < hp.n_layers; i++) {
        const struct lf_layer_hparams *layer = &hp.layers[i];
        int head_dim = lf_layer_head_dim(&hp, i), n_kv = lf_layer_n_kv_heads(&hp, i), of = i - layer->alias_back;
        assert_true(layer->window >= 0 && layer->rope < hp.n_ropes);
        if (head_dim < 1 || head_dim > LF_HEAD_DIM || n_kv < 1 || hp.n_heads % n_kv ||
            hp.ropes[layer->rope].head_dim != head_dim || hp.ropes[layer->rope].rotary_dim > head_dim)
            fail_msg("layer %d of %s", i, copy);
        if (of < 0 || of > i || (of < i && hp.layers[of].alias_back > 0) || hp.layers[of].window != layer->window ||
            lf_layer_head_dim(&hp, of) != head_dim || lf_layer_n_kv_heads(&hp, of) != n_kv)
            fail_msg("layer %d reads layer %d: %s", i, of, copy);
        if (hp.layers[i].has_experts)
            assert_true(hp.shared_intermediate >= 0 && hp.experts_per_token >= 1 &&
                        hp.experts_per_token <= hp.n_experts && hp.n_experts <= LF_EXPERTS_N &&
                        hp.expert_intermediate >= 1);
        n_deltas += layer->is_delta;
    }
    const struct lf_delta_shape *d = &hp.delta;
    if (n_deltas > 0 && (d->n_k_heads < 1 || d->n_v_heads % d->n_k_heads || d->k_dim % 8 || d->v_dim % 8 ||
                         d->k_dim > 256 || d->v_dim > 256 || d->conv_width < 2 || d->conv_width > 8))
        fail_msg("a delta net of %s", copy);
    if (n_deltas == hp.n_layers) fail_msg("no layer has attention: %s", copy);
    lf_hparams_deinit(&hp);
}

#define REST "\"hidden_act\": \"silu\", " SIZES

#define SIZES                                                                                                          \
    "\"hidden_size\": 64, \"intermediate_size\": 96, \"num_hidden_layers\": 2,"                                        \
    " \"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 32, \"vocab_size\": 50,"                   \
    " \"max_position_embeddings\": 256, \"rms_norm_eps\": 1e-5, \"tie_word_embeddings\": false,"                       \
    " \"torch_dtype\": \"float32\", \"bos_token_id\": 1, \"eos_token_id\": [2, 3], \"attention_bias\": false,"         \
    " \"mlp_bias\": false, \"partial_rotary_factor\": 1.0"

#define DELTA                                                                                                          \
    "\"linear_conv_kernel_dim\": 4, \"linear_key_head_dim\": 16, \"linear_num_key_heads\": 2,"                         \
    " \"linear_num_value_heads\": 4, \"linear_value_head_dim\": 24"

#define EXPERTS                                                                                                        \
    "\"num_experts\": 8, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 24,"                                   \
    " \"shared_expert_intermediate_size\": 40"

#define MROPE                                                                                                          \
    "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 1e7, \"partial_rotary_factor\": 0.25,"          \
    " \"mrope_interleaved\": true, \"mrope_section\": [2, 1, 1]}"

static const char *const configs[] = {
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", " REST ", \"rope_theta\": 5e5,"
    " \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0,"
    " \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 64}}",
    "{\"architectures\": [\"MistralForCausalLM\"], \"model_type\": \"mistral\", " REST ", \"sliding_window\": 100,"
    " \"rope_theta\": 1e6, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0}}",
    "{\"architectures\": [\"Qwen2ForCausalLM\"], \"model_type\": \"qwen2\", " REST ", \"use_sliding_window\": true,"
    " \"sliding_window\": 100, \"max_window_layers\": 1, \"rope_parameters\": {\"rope_theta\": 1e6,"
    " \"rope_type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 64, \"beta_fast\": 32,"
    " \"beta_slow\": 1, \"truncate\": true, \"mscale\": 1.0, \"mscale_all_dim\": 1.0, \"attention_factor\": 1.1}}",
    "{\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\", " REST ", \"rope_theta\": 1e6,"
    " \"layer_types\": [\"full_attention\", \"sliding_attention\"], \"sliding_window\": 100,"
    " \"use_sliding_window\": true, \"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 2.0}}",
    "{\"architectures\": [\"Phi3ForCausalLM\"], \"model_type\": \"phi3\", " REST ", \"rope_theta\": 1e4,"
    " \"original_max_position_embeddings\": 64, \"sliding_window\": 100, \"rope_scaling\": {\"type\": \"longrope\","
    " \"short_factor\": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1.5], \"long_factor\": [2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,9]}}",
    "{\"architectures\": [\"SmolLM3ForCausalLM\"], \"model_type\": \"smollm3\", " REST ", \"rope_theta\": 1e6,"
    " \"no_rope_layers\": [1, 0], \"no_rope_layer_interval\": 4, \"use_sliding_window\": false,"
    " \"layer_types\": [\"full_attention\", \"full_attention\"], \"sliding_window\": null}",
    "{\"architectures\": [\"Olmo2ForCausalLM\"], \"model_type\": \"olmo2\", " REST ", \"rope_theta\": 5e5,"
    " \"rope_scaling\": null, \"sliding_window\": null, \"layer_types\": [\"full_attention\", \"full_attention\"]}",
    "{\"architectures\": [\"Olmo3ForCausalLM\"], \"model_type\": \"olmo3\", " REST ", \"sliding_window\": 100,"
    " \"layer_types\": [\"sliding_attention\", \"full_attention\"], \"rope_parameters\": {\"full_attention\":"
    " {\"rope_type\": \"yarn\", \"rope_theta\": 5e5, \"factor\": 4.0, \"original_max_position_embeddings\": 64},"
    " \"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 5e5}}}",
    "{\"architectures\": [\"Glm4ForCausalLM\"], \"model_type\": \"glm4\", " REST ", \"rope_theta\": 1e4,"
    " \"rope_scaling\": null, \"attention_dropout\": 0.0, \"pad_token_id\": 0}",
    "{\"architectures\": [\"GraniteForCausalLM\"], \"model_type\": \"granite\", " REST ", \"rope_theta\": 1e7,"
    " \"rope_scaling\": null, \"embedding_multiplier\": 12.0, \"residual_multiplier\": 0.22,"
    " \"attention_multiplier\": 0.0078125, \"logits_scaling\": 16.0}",
    "{\"architectures\": [\"Ministral3ForCausalLM\"], \"model_type\": \"ministral3\", " REST ","
    " \"sliding_window\": null, \"rope_parameters\": {\"rope_type\": \"yarn\", \"type\": \"yarn\", \"rope_theta\": 1e6,"
    " \"factor\": 16.0, \"original_max_position_embeddings\": 64, \"beta_fast\": 32.0, \"beta_slow\": 1.0,"
    " \"mscale\": 1.0, \"mscale_all_dim\": 1.0, \"llama_4_scaling_beta\": 0.1, \"max_position_embeddings\": 256}}",
    "{\"architectures\": [\"Mistral3ForConditionalGeneration\"], \"model_type\": \"mistral3\","
    " \"vision_config\": {\"hidden_size\": 8}, \"eos_token_id\": 2, \"text_config\": {\"model_type\": "
    "\"ministral3\", " REST ", \"rope_parameters\": {\"rope_theta\": 1e6, \"llama_4_scaling_beta\": 0.1,"
    " \"original_max_position_embeddings\": 64}}}",
    "{\"architectures\": [\"Qwen3MoeForCausalLM\"], \"model_type\": \"qwen3_moe\", " REST ", \"rope_theta\": 1e6,"
    " \"num_experts\": 8, \"num_local_experts\": 8, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 24,"
    " \"norm_topk_prob\": true, \"decoder_sparse_step\": 1, \"mlp_only_layers\": [1, 7], \"sliding_window\": 100,"
    " \"use_sliding_window\": true, \"max_window_layers\": 1}",
    "{\"architectures\": [\"MixtralForCausalLM\"], \"model_type\": \"mixtral\", " REST ", \"rope_theta\": 1e6,"
    " \"num_local_experts\": 8, \"num_experts_per_tok\": 2, \"sliding_window\": 100}",
    "{\"architectures\": [\"Gemma3ForCausalLM\"], \"model_type\": \"gemma3_text\", " SIZES ", \"rope_theta\": 1e6,"
    " \"rope_local_base_freq\": 1e4, \"sliding_window\": 100, \"sliding_window_pattern\": 2,"
    " \"query_pre_attn_scalar\": 256, \"hidden_activation\": \"gelu_pytorch_tanh\", \"attn_logit_softcapping\": null,"
    " \"final_logit_softcapping\": 30.0, \"use_bidirectional_attention\": false,"
    " \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 8.0}}",
    "{\"architectures\": [\"Gemma4ForCausalLM\"], \"model_type\": \"gemma4_text\", " SIZES ", \"sliding_window\": 100,"
    " \"layer_types\": [\"sliding_attention\", \"full_attention\"], \"global_head_dim\": 64,"
    " \"hidden_size_per_layer_input\": 0, \"attention_k_eq_v\": true, \"num_global_key_value_heads\": 1,"
    " \"num_kv_shared_layers\": 0, \"enable_moe_block\": false, \"use_bidirectional_attention\": \"vision\","
    " \"final_logit_softcapping\": 30.0, \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"proportional\","
    " \"partial_rotary_factor\": 0.25, \"rope_theta\": 1e6}, \"sliding_attention\": {\"rope_theta\": 1e4}}}",
    "{\"architectures\": [\"Gemma4ForCausalLM\"], \"model_type\": \"gemma4_text\", " SIZES ", \"sliding_window\": 100,"
    " \"layer_types\": [\"full_attention\", \"full_attention\"], \"hidden_size_per_layer_input\": 0,"
    " \"per_layer_config\": {\"0\": {\"head_dim\": 64, \"num_key_value_heads\": 2},"
    " \"1\": {\"head_dim\": 64, \"num_key_value_heads\": 2}}, \"num_kv_shared_layers\": 1,"
    " \"use_double_wide_mlp\": true, \"enable_moe_block\": true, \"num_experts\": 8, \"top_k_experts\": 2,"
    " \"moe_intermediate_size\": 24}",
    "{\"architectures\": [\"Gemma4ForConditionalGeneration\"], \"model_type\": \"gemma4\", \"eos_token_id\": [1, 106],"
    " \"audio_config\": {\"model_type\": \"gemma4_audio\"}, \"text_config\": {\"model_type\": \"gemma4_text\", " SIZES
    ", \"sliding_window\": 100, \"layer_types\": [\"full_attention\", \"full_attention\"], \"global_head_dim\": 64,"
    " \"hidden_size_per_layer_input\": 16, \"vocab_size_per_layer_input\": 50, \"num_kv_shared_layers\": 1,"
    " \"use_double_wide_mlp\": true, \"hidden_activation\": \"gelu_pytorch_tanh\", \"final_logit_softcapping\": 30.0,"
    " \"use_bidirectional_attention\": null, \"rope_parameters\": {\"full_attention\": {\"rope_type\": "
    "\"proportional\","
    " \"partial_rotary_factor\": 0.25, \"rope_theta\": 1e6}, \"sliding_attention\": {\"rope_theta\": 1e4}}}}",
    "{\"architectures\": [\"Gemma3ForConditionalGeneration\"], \"model_type\": \"gemma3\", \"eos_token_id\": 1,"
    " \"text_config\": {\"model_type\": \"gemma3_text\", " SIZES ", \"sliding_window\": 100,"
    " \"layer_types\": [\"full_attention\", \"sliding_attention\"], \"rope_parameters\": {"
    " \"full_attention\": {\"rope_type\": \"linear\", \"factor\": 8.0, \"rope_theta\": 1e6},"
    " \"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 1e4}}}}",
    "{\"architectures\": [\"GptOssForCausalLM\"], \"model_type\": \"gpt_oss\", " REST ", \"rope_theta\": 150000,"
    " \"layer_types\": [\"sliding_attention\", \"full_attention\"], \"sliding_window\": 128, \"swiglu_limit\": 7.0,"
    " \"swiglu_alpha\": 1.702, \"experts_per_token\": 4, \"num_experts_per_tok\": 4, \"num_local_experts\": 32,"
    " \"initial_context_length\": 4096, \"router_aux_loss_coef\": 0.9, \"output_router_logits\": false,"
    " \"quantization_config\": {\"quant_method\": \"mxfp4\", \"modules_to_not_convert\": [\"lm_head\"]},"
    " \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 32.0, \"original_max_position_embeddings\": 64,"
    " \"beta_fast\": 32.0, \"beta_slow\": 1.0, \"truncate\": false}}",
    "{\"architectures\": [\"Qwen3NextForCausalLM\"], \"model_type\": \"qwen3_next\", " REST ", \"rope_theta\": 1e7,"
    " \"full_attention_interval\": 2, \"rope_scaling\": null, \"use_sliding_window\": false, " DELTA ", " EXPERTS ","
    " \"norm_topk_prob\": true, \"decoder_sparse_step\": 1, \"mlp_only_layers\": [1, 7]}",
    "{\"architectures\": [\"Qwen3_5ForCausalLM\"], \"model_type\": \"qwen3_5_text\", " REST ", " DELTA ","
    " \"layer_types\": [\"linear_attention\", \"full_attention\"], \"attn_output_gate\": true, " MROPE "}",
    "{\"architectures\": [\"Qwen3_5ForConditionalGeneration\"], \"model_type\": \"qwen3_5\", \"image_token_id\": 40,"
    " \"vision_config\": {\"depth\": 2}, \"tie_word_embeddings\": false, \"text_config\": {\"model_type\":"
    " \"qwen3_5_text\", " REST ", " DELTA ", \"full_attention_interval\": 2, \"mtp_num_hidden_layers\": 1, " MROPE "}}",
    "{\"architectures\": [\"Qwen3_5MoeForConditionalGeneration\"], \"model_type\": \"qwen3_5_moe\","
    " \"tie_word_embeddings\": false, \"text_config\": {\"model_type\": \"qwen3_5_moe_text\", " REST ", " DELTA ","
    " " EXPERTS ", \"full_attention_interval\": 2, " MROPE "}}",
    "{\"architectures\": [\"Qwen3_5MoeForCausalLM\"], \"model_type\": \"qwen3_5_moe_text\", " REST ", " DELTA ","
    " " EXPERTS ", \"layer_types\": [\"full_attention\", \"linear_attention\"], \"rope_theta\": 1e7}",
};

static const char *const no_lists[2] = {"", ""};

static void every_field_of_config_json(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        struct tally t = {.dir = temp_dir_make(), .name = "config.json"};
        int n = by_field(lf_str_c(configs[i]), no_lists, changed, &t);
        print_message("config %zu: %d changes, %d read, %d refused\n", i, n, t.n_read, t.n_refused);
        assert_true(n > 1000 && t.n_refused > n / 4 && t.n_read + t.n_refused == n);
        temp_dir_remove(&t.dir);
    }
}

static void every_field_of_generation_config_json(void **state)
{
    (void)state;
    struct tally t = {.dir = temp_dir_make(), .name = "generation_config.json"};
    temp_dir_write_text(&t.dir, "config.json", configs[0]);
    int n = by_field(LF_STR("{\"bos_token_id\": 1, \"eos_token_id\": [2, 3, 4], \"temperature\": 0.6}"), no_lists,
                     changed, &t);
    print_message("%d changes, %d read, %d refused\n", n, t.n_read, t.n_refused);
    assert_true(n > 200 && t.n_read > 20 && t.n_refused > 20);
    temp_dir_remove(&t.dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_of_config_json),
        cmocka_unit_test(every_field_of_generation_config_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
