/* Plain weights that are quantized where they are loaded: which, to what values, and what is refused. */
#include <math.h>

#include "core/check.h"
#include "core/quant.h"
#include "model/programs.h"
#include "model/quantize.h"
#include "model/weights.h"
#include "tests/support/config_read.h"
#include "tests/support/model_dir.h"
#include "tests/support/plain_kernels.h"

struct fixture {
    struct temp_dir dir;
    struct lf_device *dev;
    struct lf_hparams hp;
    struct lf_program program;
    struct lf_tensor_set set;
    struct lf_weight_layout *layout;
    struct lf_weights w;
    struct lf_err err;
};

/* A directory with these tensors (NULL: none) is opened; its weights are not. */
static void fixture_open(struct fixture *f, const struct config_text *c, const struct model_dir *m)
{
    struct lf_device_opts opts = {.name = "cpu", .n_threads = 2, .max_isa = -1};
    *f = (struct fixture){.dir = temp_dir_make()};
    config_write(c, &f->dir);
    if (m) model_dir_write(m, &f->dir);
    assert_int_equal(lf_device_open(&f->dev, &opts, &f->err), LF_OK);
    assert_int_equal(lf_hparams_read(&f->hp, f->dir.path, &f->err), LF_OK);
    assert_int_equal(lf_program_record(&f->program, &f->hp, &f->err), LF_OK);
    if (m) assert_int_equal(lf_tensor_set_open(&f->set, f->dir.path, &f->err), LF_OK);
}

static enum lf_status lay_out(struct fixture *f, enum lf_code quantize)
{
    return lf_weight_layout_make(&f->layout, &f->hp, &f->program, f->set.n_files ? &f->set : NULL, quantize, f->dev,
                                 &f->err);
}

static enum lf_status load(struct fixture *f)
{
    struct lf_model_opts opts = {.dir = f->dir.path, .load = f->set.n_files ? LF_LOAD_FILES : LF_LOAD_DUMMY};
    return lf_weights_load(&f->w, f->dev, f->layout, &opts, &f->err);
}

static void fixture_close(struct fixture *f)
{
    lf_weights_unload(&f->w, f->dev);
    lf_weight_layout_free(f->layout);
    lf_tensor_set_close(&f->set);
    lf_program_deinit(&f->program);
    lf_hparams_deinit(&f->hp);
    lf_device_close(f->dev);
    temp_dir_remove(&f->dir);
}

/* Whether the slot whose first part ends so is chosen; all layers that have it agree. */
static bool is_chosen(const struct fixture *f, const bool *chosen, const char *end)
{
    int n = 0, n_chosen = 0;
    for (int i = 0; i < f->program.n_slots; i++) {
        const struct lf_slot *slot = &f->program.slots[i];
        if (slot->is_vector || !lf_str_ends(lf_str_c(slot->parts[0].pattern), lf_str_c(end))) continue;
        n++;
        n_chosen += chosen[i];
    }
    if (n == 0) fail_msg("no slot of %s", end);
    assert_true(n_chosen == 0 || n_chosen == n);
    return n_chosen > 0;
}

static void check_choice(struct config_text c, const char *const *quantized, const char *const *plain)
{
    struct fixture f;
    bool chosen[256];
    fixture_open(&f, &c, NULL);
    assert_true(f.program.n_slots <= 256);
    lf_quantize_choose(&f.program, chosen);
    for (int i = 0; i < f.program.n_slots; i++)
        assert_false(chosen[i] && (f.program.slots[i].is_vector || f.program.slots[i].layer < 0));
    for (; *quantized; quantized++)
        if (!is_chosen(&f, chosen, *quantized)) fail_msg("%s stays plain", *quantized);
    for (; *plain; plain++)
        if (is_chosen(&f, chosen, *plain)) fail_msg("%s is quantized", *plain);
    fixture_close(&f);
}

static void matrices_of_layers_are_quantized_and_what_decides_is_not(void **state)
{
    (void)state;
    check_choice(config_llama(),
                 (const char *const[]){"self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.down_proj", NULL},
                 (const char *const[]){"embed_tokens", "lm_head", NULL});
    struct config_text c = config_delta_net();
    config_set(&c, "architectures", "[\"Qwen3_5MoeForCausalLM\"]");
    config_set(&c, "model_type", "\"qwen3_5_moe_text\"");
    config_set(&c, "num_experts", "6");
    config_set(&c, "num_experts_per_tok", "2");
    config_set(&c, "moe_intermediate_size", "24");
    config_set(&c, "shared_expert_intermediate_size", "40");
    check_choice(
        c,
        (const char *const[]){"self_attn.q_proj", "linear_attn.in_proj_qkv", "linear_attn.out_proj",
                              "experts.@.gate_proj", "experts.@.down_proj", "shared_expert.gate_proj",
                              "shared_expert.down_proj", NULL},
        (const char *const[]){"embed_tokens", "mlp.gate", "linear_attn.in_proj_b", "shared_expert_gate", NULL});
}

/* What the quantizer and the reference make of n_rows rows from a tensor that model_dir wrote. */
static void expect_rows(struct fixture *f, const struct lf_weight *w, int row_first, const char *name, int n_rows,
                        const int *order)
{
    float row[128], want[128], got[128], scales[128];
    uint8_t codes[128];
    int n_in = w->n_in;
    assert_true(n_in <= 128);
    for (int r = 0; r < n_rows; r++) {
        int from = order ? order[r] : r;
        for (int k = 0; k < n_in; k++) row[k] = model_tensor_value(name, (size_t)from * (size_t)n_in + (size_t)k);
        assert_true(lf_quantize_rows(&w->format, 1, n_in, row, codes, scales));
        lf_dequantize_rows(&w->format, 1, n_in, &(struct lf_quant_rows){.codes = codes, .scales = scales}, want);
        lf_device_ops(f->dev)->weight_row(f->dev, w, row_first + r, got);
        assert_memory_equal(got, want, (size_t)n_in * sizeof(*want));
    }
}

static const struct lf_weight *weight(const struct fixture *f, const char *pattern, int layer)
{
    for (int i = 0; i < f->program.n_slots; i++)
        if (f->program.slots[i].layer == layer && strcmp(f->program.slots[i].parts[0].pattern, pattern) == 0)
            return &f->w.of[i];
    fail_msg("no slot of %s", pattern);
    return NULL;
}

static const enum lf_code codes_of_options[] = {LF_CODE_E4M3, LF_CODE_I8, LF_CODE_I4};

static void loaded_rows_are_those_of_the_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < LF_N_ELEMS(codes_of_options); i++) {
        struct config_text c = config_llama();
        struct model_dir m = model_dir_llama();
        struct fixture f;
        fixture_open(&f, &c, &m);
        if (lay_out(&f, codes_of_options[i]) != LF_OK || load(&f) != LF_OK) fail_msg("%s", f.err.message);
        struct lf_format format = lf_weight_layout_format(f.layout), wanted = lf_quantize_format(codes_of_options[i]);
        assert_true(lf_format_equal(&format, &wanted));
        const struct lf_weight *qkv = weight(&f, "model.layers.#.self_attn.q_proj", 1);
        expect_rows(&f, qkv, 0, "model.layers.1.self_attn.q_proj.weight", 64, NULL);
        expect_rows(&f, qkv, 64, "model.layers.1.self_attn.k_proj.weight", 32, NULL);
        expect_rows(&f, weight(&f, "model.layers.#.mlp.down_proj", 0), 0, "model.layers.0.mlp.down_proj.weight", 64,
                    NULL);
        assert_true(lf_format_is_plain(&weight(&f, "lm_head", -1)->format));
        assert_true(lf_format_is_plain(&weight(&f, "model.embed_tokens", -1)->format));
        fixture_close(&f);
    }
}

/* Rows that stand in another order in the file are quantized in that of the slot. */
static void rows_are_quantized_in_their_new_order(void **state)
{
    (void)state;
    struct config_text c = config_llama();
    config_set(&c, "architectures", "[\"Glm4ForCausalLM\"]");
    config_set(&c, "model_type", "\"glm4\"");
    config_set(&c, "partial_rotary_factor", "0.5");
    config_set(&c, "attention_bias", "false");
    struct model_dir m = model_dir_llama();
    m.n = 3;
    for (int l = 0; l < 2; l++) {
        static const struct {
            const char *name;
            int rows, cols;
        } layer[] = {{"input_layernorm.weight", 64, 0},          {"post_attention_layernorm.weight", 64, 0},
                     {"post_self_attn_layernorm.weight", 64, 0}, {"post_mlp_layernorm.weight", 64, 0},
                     {"self_attn.q_proj.weight", 64, 64},        {"self_attn.k_proj.weight", 32, 64},
                     {"self_attn.v_proj.weight", 32, 64},        {"self_attn.o_proj.weight", 64, 64},
                     {"mlp.gate_up_proj.weight", 192, 64},       {"mlp.down_proj.weight", 64, 96}};
        for (size_t i = 0; i < LF_N_ELEMS(layer); i++) {
            char name[96];
            snprintf(name, sizeof(name), "model.layers.%d.%s", l, layer[i].name);
            model_dir_add(&m, name, layer[i].rows, layer[i].cols);
        }
    }
    struct fixture f;
    fixture_open(&f, &c, &m);
    if (lay_out(&f, LF_CODE_I4) != LF_OK || load(&f) != LF_OK) fail_msg("%s", f.err.message);
    int order[64];
    for (int r = 0; r < 64; r++) { /* in each head of 32 the first 16: even ones, then odd ones */
        int in_head = r % 32;
        order[r] = r - in_head + (in_head < 8 ? 2 * in_head : in_head < 16 ? 2 * (in_head - 8) + 1 : in_head);
    }
    expect_rows(&f, weight(&f, "model.layers.#.self_attn.q_proj", 0), 0, "model.layers.0.self_attn.q_proj.weight", 64,
                order);
    fixture_close(&f);
}

static void a_quantized_model_is_as_small_as_it_says(void **state)
{
    (void)state;
    struct config_text c = config_llama();
    config_set(&c, "hidden_size", "256");
    config_set(&c, "intermediate_size", "512");
    config_set(&c, "torch_dtype", "\"bfloat16\"");
    struct fixture f;
    fixture_open(&f, &c, NULL);
    struct lf_weights_size plain, int8, int4;
    struct lf_model_opts opts = {.dir = f.dir.path, .load = LF_LOAD_DUMMY};
    assert_int_equal(lf_weights_measure(&plain, &f.hp, &opts, f.dev, &f.err), LF_OK);
    opts.quantize = LF_CODE_I8;
    assert_int_equal(lf_weights_measure(&int8, &f.hp, &opts, f.dev, &f.err), LF_OK);
    opts.quantize = LF_CODE_I4;
    assert_int_equal(lf_weights_measure(&int4, &f.hp, &opts, f.dev, &f.err), LF_OK);
    assert_true(lf_format_is_plain(&plain.format) && !plain.quantized);
    assert_true(int8.quantized && int8.format.code == LF_CODE_I8 && int4.format.code == LF_CODE_I4);
    uint64_t of_ends = 2 * 64 * 256 * 2; /* table and head, whole panels */
    assert_true((int8.bytes - of_ends) * 10 < (plain.bytes - of_ends) * 6);
    assert_true((int4.bytes - of_ends) * 10 < (plain.bytes - of_ends) * 4);
    fixture_close(&f);
}

static void what_is_not_finite_is_refused_by_name(void **state)
{
    (void)state;
    struct config_text c = config_llama();
    struct model_dir m = model_dir_llama();
    struct fixture f;
    fixture_open(&f, &c, &m);
    const struct lf_tensor *t = lf_tensor_find(&f.set, LF_STR("model.layers.1.mlp.up_proj.weight"));
    FILE *file = fopen(f.set.files[t->file_idx].path, "r+b");
    const float bad = INFINITY;
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)(t->offset + 400), SEEK_SET), 0);
    assert_int_equal(fwrite(&bad, sizeof(bad), 1, file), 1);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(lay_out(&f, LF_CODE_I8), LF_OK);
    assert_int_equal(load(&f), LF_CORRUPT);
    assert_non_null(strstr(f.err.message, "model.layers.1.mlp.up_proj.weight has an element that is infinite or NaN"));
    fixture_close(&f);
}

static bool supports_int8(const struct lf_device *dev, const struct lf_format *format, int n_out, int n_in,
                          int n_experts)
{
    return supports_plain(dev, format, n_out, n_in, n_experts) || format->code == LF_CODE_I8;
}

/* As on a GPU that has no kernels for it. */
static void a_device_without_kernels_refuses_by_name(void **state)
{
    (void)state;
    struct config_text c = config_llama();
    struct fixture f;
    fixture_open(&f, &c, NULL);
    only_plain(f.dev);
    assert_int_equal(lay_out(&f, LF_CODE_E4M3), LF_UNSUPPORTED);
    assert_non_null(strstr(f.err.message, "--quantize fp8: fp8 on this device (cpu) is not implemented"));
    assert_non_null(strstr(f.err.message, "implemented: none, so without --quantize"));
    f.dev->ops.supports_format = supports_int8;
    assert_int_equal(lay_out(&f, LF_CODE_I4), LF_UNSUPPORTED);
    assert_non_null(strstr(f.err.message, "--quantize int4: int4 in groups of 32 on this device"));
    assert_non_null(strstr(f.err.message, "implemented: int8"));
    assert_int_equal(lay_out(&f, LF_CODE_I8), LF_OK);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_of_layers_are_quantized_and_what_decides_is_not),
        cmocka_unit_test(loaded_rows_are_those_of_the_reference),
        cmocka_unit_test(rows_are_quantized_in_their_new_order),
        cmocka_unit_test(a_quantized_model_is_as_small_as_it_says),
        cmocka_unit_test(what_is_not_finite_is_refused_by_name),
        cmocka_unit_test(a_device_without_kernels_refuses_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
