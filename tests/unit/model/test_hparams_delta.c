/* What is read of the configurations of models with gated delta nets, and refused; and how rows of their matrices are
 * put in order. */
#include <math.h>

#include "core/check.h"
#include "core/file.h"
#include "model/hparams.h"
#include "model/programs.h"
#include "model/weights.h"
#include "tests/support/config_read.h"

#define NEXT  "[\"Qwen3NextForCausalLM\"]", "\"qwen3_next\""
#define DENSE "[\"Qwen3_5ForCausalLM\"]", "\"qwen3_5_text\""
#define MOE   "[\"Qwen3_5MoeForCausalLM\"]", "\"qwen3_5_moe_text\""

/* Of five layers, and a small shape. */
static struct config_text config_of(const char *architecture, const char *model_type)
{
    struct config_text c = config_good(architecture, model_type);
    config_set(&c, "num_hidden_layers", "5");
    config_set(&c, "linear_num_key_heads", "2");
    config_set(&c, "linear_num_value_heads", "6");
    config_set(&c, "linear_key_head_dim", "16");
    config_set(&c, "linear_value_head_dim", "24");
    return c;
}

/* A character for each layer: n is a delta net, a attention. */
static void check_layers(struct lf_hparams hp, const char *types)
{
    assert_int_equal(hp.n_layers, strlen(types));
    for (int i = 0; i < hp.n_layers; i++) {
        assert_int_equal(hp.layers[i].is_delta, types[i] == 'n');
        assert_int_equal(hp.layers[i].window, 0);
    }
    lf_hparams_deinit(&hp);
}

static void layers_are_what_types_or_the_interval_say(void **state)
{
    (void)state;
    check_layers(good(config_of(DENSE), NULL, NULL, NULL, NULL), "nnnan");
    check_layers(good(config_of(NEXT), "full_attention_interval", "2", NULL, NULL), "nanan");
    check_layers(good(config_of(DENSE), "full_attention_interval", "1", NULL, NULL), "aaaaa");
    check_layers(good(config_of(DENSE), "layer_types", "null", "full_attention_interval", "5"), "nnnna");
    const char *types = "[\"full_attention\",\"linear_attention\",\"linear_attention\",\"full_attention\","
                        "\"linear_attention\"]";
    check_layers(good(config_of(MOE), "layer_types", types, "full_attention_interval", "2"), "annan");
    check_refused(config_of(DENSE), "layer_types", "[\"full_attention\"]", "num_hidden_layers = 5 names");
    check_refused(config_of(DENSE), "layer_types", "\"full_attention\"", "layer_types is a string");
    check_refused(config_of(DENSE), "layer_types",
                  "[\"full_attention\",\"mamba\",\"full_attention\",\"full_attention\",\"full_attention\"]",
                  "layer_types: \"mamba\" of layer 1 is not implemented");
    check_refused(config_of(DENSE), "layer_types",
                  "[\"full_attention\",\"sliding_attention\",\"full_attention\",\"full_attention\",\"full_attention\"]",
                  "\"sliding_attention\" of layer 1 is not implemented");
    check_refused(config_of(DENSE), "full_attention_interval", "6", "none of the 5 layers is full_attention");
    check_refused(config_of(DENSE), "full_attention_interval", "0", "full_attention_interval is 0");
}

static void shapes_are_read_or_the_default(void **state)
{
    (void)state;
    struct config_text c = config_of(DENSE);
    struct lf_hparams hp = good(c, "linear_conv_kernel_dim", "3", NULL, NULL);
    assert_true(hp.delta.n_k_heads == 2 && hp.delta.n_v_heads == 6 && hp.delta.k_dim == 16 && hp.delta.v_dim == 24);
    assert_int_equal(hp.delta.conv_width, 3);
    assert_int_equal(hp.n_experts + hp.shared_intermediate, 0);
    assert_int_equal(hp.ropes[0].rotary_dim, 8); /* a quarter of 32 */
    assert_true(hp.qk_norm && !hp.qkv_bias);
    lf_hparams_deinit(&hp);
    static const char *const keys[] = {"linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim",
                                       "linear_value_head_dim"};
    for (size_t i = 0; i < LF_N_ELEMS(keys); i++) config_set(&c, keys[i], NULL);
    hp = good(c, "attention_bias", "true", "partial_rotary_factor", "0.5");
    assert_true(hp.delta.n_k_heads == 16 && hp.delta.n_v_heads == 32 && hp.delta.k_dim == 128 && hp.delta.v_dim == 128);
    assert_true(hp.delta.conv_width == 4 && hp.qkv_bias && hp.o_bias);
    assert_int_equal(hp.ropes[0].rotary_dim, 16);
    lf_hparams_deinit(&hp);
    check_refused(config_of(DENSE), "linear_key_head_dim", "20",
                  "linear_key_head_dim 20 is not implemented (multiples of 8");
    check_refused(config_of(DENSE), "linear_value_head_dim", "264", "linear_value_head_dim 264 is not implemented");
    check_refused(config_of(DENSE), "linear_num_value_heads", "5", "5 is no multiple of linear_num_key_heads 2");
    check_refused(config_of(DENSE), "linear_conv_kernel_dim", "1",
                  "linear_conv_kernel_dim 1 is not implemented (2 to 8");
    check_refused(config_of(DENSE), "linear_conv_kernel_dim", "9", "linear_conv_kernel_dim 9 is not implemented");
    check_refused(config_of(DENSE), "linear_num_key_heads", "0", "linear_num_key_heads is 0");
    check_refused(config_of(DENSE), "attn_output_gate", "false", "attn_output_gate is false");
    check_refused(config_of(DENSE), "hidden_act", "\"gelu\"", "hidden_act \"gelu\" is not implemented");
    check_refused(config_of(DENSE), "num_experts", "8", "num_experts is set and would change the result");
    check_refused(config_of(DENSE), "mlp_bias", "true", "mlp_bias is true");
}

/* Keys of what no layer is say nothing. */
static void a_shape_that_no_layer_has_is_not_judged(void **state)
{
    (void)state;
    struct config_text c = config_of(DENSE);
    config_set(&c, "full_attention_interval", "1");
    struct lf_hparams hp = good(c, "linear_key_head_dim", "20", "linear_conv_kernel_dim", "9");
    assert_true(hp.delta.n_v_heads == 0 && !hp.layers[0].is_delta);
    lf_hparams_deinit(&hp);
}

static void experts_have_defaults_too(void **state)
{
    (void)state;
    struct lf_hparams hp = good(config_of(MOE), NULL, NULL, NULL, NULL);
    assert_true(hp.n_experts == 256 && hp.experts_per_token == 8 && hp.norm_topk);
    assert_true(hp.expert_intermediate == 512 && hp.shared_intermediate == 512);
    lf_hparams_deinit(&hp);
    hp = good(config_of(MOE), "intermediate_size", NULL, "norm_topk_prob", "false"); /* which it does not have */
    assert_true(hp.norm_topk && hp.layers[3].has_experts);
    lf_hparams_deinit(&hp);
    hp = good(config_of(NEXT), "num_experts", "20", "mlp_only_layers", "[0, 2]");
    assert_true(hp.n_experts == 20 && hp.experts_per_token == 10 && hp.norm_topk);
    assert_true(!hp.layers[0].has_experts && hp.layers[1].has_experts && !hp.layers[2].has_experts);
    lf_hparams_deinit(&hp);
    hp = good(config_of(NEXT), "norm_topk_prob", "false", "shared_expert_intermediate_size", "40");
    assert_true(!hp.norm_topk && hp.shared_intermediate == 40);
    lf_hparams_deinit(&hp);
    check_refused(config_of(MOE), "num_experts", "4", "num_experts_per_tok is missing, and 8, its default");
    check_refused(config_of(NEXT), "shared_expert_intermediate_size", "0", "shared_expert_intermediate_size is 0");
}

/* The files of the larger ones, and of those that were saved again. */
static void text_configs_and_axes_of_positions(void **state)
{
    (void)state;
    struct lf_hparams hp;
    struct lf_err err;
    if (lf_hparams_read(&hp, "tests/bench/shapes/qwen3.6-27b", &err) != LF_OK) fail_msg("%s", err.message);
    assert_true(hp.n_layers == 64 && hp.hidden == 5120 && hp.n_heads == 24 && hp.n_kv_heads == 4 && !hp.tied);
    assert_true(hp.layers[63].is_delta == false && hp.layers[62].is_delta && hp.delta.n_v_heads == 48);
    assert_true(hp.ropes[0].rotary_dim == 64 && fabs(hp.ropes[0].theta - 1e7) < 1);
    assert_true(hp.max_positions == 262144 && hp.dtype == LF_BF16);
    /* 151 MB a sequence: the S of 48 layers, and what their convolutions remember in bf16 */
    uint64_t of_layer = lf_delta_layer_bytes(&hp.delta, 2);
    assert_true(48 * of_layer > 150e6 && 48 * of_layer < 155e6);
    lf_hparams_deinit(&hp);
    if (lf_hparams_read(&hp, "tests/bench/shapes/qwen3.6-35b-a3b", &err) != LF_OK) fail_msg("%s", err.message);
    assert_true(hp.n_layers == 40 && hp.n_experts == 256 && hp.experts_per_token == 8 && hp.shared_intermediate == 512);
    lf_hparams_deinit(&hp);
    struct config_text c = {.n = 0};
    config_set(&c, "architectures", "[\"Qwen3_5ForConditionalGeneration\"]");
    config_set(&c, "model_type", "\"qwen3_5\"");
    config_set(&c, "text_config", "{\"model_type\":\"qwen3_5_text\"}");
    hp = good(c, "tie_word_embeddings", "true", NULL, NULL);
    assert_true(hp.n_layers == 32 && hp.hidden == 4096 && hp.intermediate == 12288 && hp.n_vocab == 248320 && hp.tied);
    lf_hparams_deinit(&hp);
    check_refused(c, "text_config", "{\"model_type\":\"qwen3_5_moe_text\"}",
                  "model_type qwen3_5_moe_text is not implemented");
    check_refused(config_of(DENSE), "rope_parameters", "{\"mrope_sections\":[1,1,1]}", "\"mrope_sections\"");
}

/* Row by row: which row of the tensor it is. */
static void sections_of_groups_lie_side_by_side(void **state)
{
    (void)state;
    struct lf_slot_part part = {.order = LF_ROWS_BY_SECTION, .sections = {2, 1, 3}, .n_stored = 12, .n_rows = 12};
    static const int expected[] = {0, 1, 6, 7, 2, 8, 3, 4, 5, 9, 10, 11};
    for (int i = 0; i < 12; i++) assert_int_equal(lf_row_order_source(&part, i), expected[i]);
    assert_int_equal(lf_slot_part_stored(&part), 12);
    part.first = 4; /* the second section and the third */
    part.n_rows = 8;
    for (int i = 0; i < 8; i++) assert_int_equal(lf_row_order_source(&part, i), expected[4 + i]);
    assert_int_equal(lf_slot_part_stored(&part), 12);
}

/* Each row of q_proj is in one of two matrices; rows that lie key head by key head lie head by head. */
static void every_row_of_a_tensor_has_one_place(void **state)
{
    (void)state;
    struct lf_hparams hp = good(config_of(NEXT), "num_experts", "16", NULL, NULL);
    struct lf_program p;
    struct lf_err err;
    assert_int_equal(lf_program_record(&p, &hp, &err), LF_OK);
    int n_found[3] = {0};
    static const char *const names[] = {"model.layers.#.self_attn.q_proj", "model.layers.#.linear_attn.in_proj_qkvz",
                                        "model.layers.#.linear_attn.in_proj_ba"};
    for (size_t k = 0; k < LF_N_ELEMS(names); k++) {
        bool is_used[512] = {false};
        int layer = k == 0 ? 3 : 0, n_stored = 0, n_used = 0;
        for (int i = 0; i < p.n_slots; i++)
            for (int j = 0; p.slots[i].layer == layer && j < p.slots[i].n_parts; j++) {
                const struct lf_slot_part *part = &p.slots[i].parts[j];
                if (strcmp(part->pattern, names[k]) != 0) continue;
                n_stored = lf_slot_part_stored(part);
                n_found[k]++;
                assert_true(n_stored <= 512);
                for (int row = 0; row < part->n_rows; row++, n_used++) {
                    int from = lf_row_order_source(part, row);
                    assert_true(from >= 0 && from < n_stored && !is_used[from]);
                    is_used[from] = true;
                }
            }
        assert_int_equal(n_used, n_stored);
    }
    assert_true(n_found[0] == 2 && n_found[1] == 1 && n_found[2] == 1);
    lf_program_deinit(&p);
    lf_hparams_deinit(&hp);
}

/* What weights say of the model in data/ one text of whose tensors' header is another, of the same length. */
static void expect_refused(const char *text, const char *instead, const char *says)
{
    static const char *const from = "tests/golden/model/data/qwen3.5-f32";
    struct temp_dir d = temp_dir_make();
    struct lf_buf file;
    struct lf_err err = {0};
    struct lf_tensor_set set;
    struct lf_hparams hp;
    struct lf_program p;
    struct lf_device *dev;
    struct lf_weight_layout *layout;
    lf_buf_init(&file, 1 << 24);
    assert_int_equal(lf_file_read_in(&file, from, "model.safetensors", 1 << 24, &err), LF_OK);
    ptrdiff_t at = lf_str_find(lf_buf_view(&file), lf_str_c(text));
    assert_true(at > 0 && strlen(text) == strlen(instead));
    memcpy(file.ptr + at, instead, strlen(instead));
    temp_dir_write(&d, "model.safetensors", file.ptr, file.len);
    assert_int_equal(lf_device_open(&dev, &(struct lf_device_opts){.name = "cpu", .n_threads = 1, .max_isa = 0}, &err),
                     LF_OK);
    assert_int_equal(lf_hparams_read(&hp, from, &err), LF_OK);
    assert_int_equal(lf_program_record(&p, &hp, &err), LF_OK);
    assert_int_equal(lf_tensor_set_open(&set, d.path, &err), LF_OK);
    assert_int_equal(lf_weight_layout_make(&layout, &hp, &p, &set, LF_CODE_NONE, dev, &err), LF_CORRUPT);
    if (!strstr(err.message, says)) fail_msg("%s", err.message);
    lf_tensor_set_close(&set);
    lf_program_deinit(&p);
    lf_hparams_deinit(&hp);
    lf_device_close(dev);
    lf_buf_deinit(&file);
    temp_dir_remove(&d);
}

static void tensors_of_another_shape_are_named(void **state)
{
    (void)state;
    expect_refused("\"shape\":[208,1,4]", "\"shape\":[208,4,1]",
                   "conv1d.weight has shape [208, 4, 1], the configuration asks for [208, 1, 4]");
    expect_refused("\"shape\":[256,24]", "\"shape\":[24,256]",
                   "self_attn.q_proj.weight has shape [24, 256], the configuration asks for [256, 24]");
    expect_refused("layers.0.linear_attn.A_log", "layers.0.linear_attn.A_lag", "linear_attn.A_log is missing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_what_types_or_the_interval_say),
        cmocka_unit_test(shapes_are_read_or_the_default),
        cmocka_unit_test(a_shape_that_no_layer_has_is_not_judged),
        cmocka_unit_test(experts_have_defaults_too),
        cmocka_unit_test(text_configs_and_axes_of_positions),
        cmocka_unit_test(sections_of_groups_lie_side_by_side),
        cmocka_unit_test(every_row_of_a_tensor_has_one_place),
        cmocka_unit_test(tensors_of_another_shape_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
