/* Inputs of each layer (Gemma 4 E2B and E4B): what is recorded, which rows of it are computed, and what it takes. */
#include "core/check.h"
#include "core/file.h"
#include "core/log.h"
#include "model/arch/arch.h"
#include "model/op_table.h"
#include "model/passes/passes.h"
#include "model/programs.h"
#include "model/recorder.h"
#include "model/weights.h"
#include "model/workspace.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"

#define E4B "tests/bench/shapes/gemma-4-e4b"
#define E2B "tests/bench/shapes/gemma-4-e2b"

struct shape {
    struct lf_device *dev;
    struct lf_hparams hp;
    struct lf_programs programs;
};

static void open_shape(struct shape *s, const char *dir, bool no_fusion)
{
    struct lf_err err;
    struct lf_device_opts opts = {.name = "cpu", .n_threads = 1, .max_isa = -1};
    assert_int_equal(lf_device_open(&s->dev, &opts, &err), LF_OK);
    if (lf_hparams_read(&s->hp, dir, &err) != LF_OK) fail_msg("%s", err.message);
    if (lf_programs_make(&s->programs, &s->hp, lf_device_ops(s->dev), no_fusion, &err) != LF_OK)
        fail_msg("%s", err.message);
}

static void close_shape(struct shape *s)
{
    lf_programs_deinit(&s->programs);
    lf_hparams_deinit(&s->hp);
    lf_device_close(s->dev);
}

/* Columns of the table, and not the embedding. */
static bool is_input(const struct lf_op *op)
{
    return op->kind == LF_OP_EMBED && op->column != LF_NONE;
}

static int last_append(const struct lf_program *p)
{
    int last = -1;
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == LF_OP_ROPE_APPEND || p->ops[i].kind == LF_OP_GEMM_ROPE_APPEND) last = i;
    return last;
}

/* The columns of all layers, in their order; those behind the last append are of the tokens that are picked. */
static void each_layer_reads_its_columns_for_the_tokens_it_computes(void **state)
{
    (void)state;
    for (int wanted = 0; wanted < LF_WANTED_N; wanted++) {
        struct shape s;
        open_shape(&s, E2B, false);
        const struct lf_program *p = &s.programs.of[wanted];
        bool picks = wanted == LF_WANTED_SOME || wanted == LF_WANTED_SEVERAL;
        int n = 0, n_picked = 0, append = last_append(p), n_expected = wanted == LF_WANTED_NONE ? 14 : 35;
        for (int i = 0; i < p->n_ops; i++) {
            if (!is_input(&p->ops[i])) continue;
            const struct lf_value *y = &p->values[p->ops[i].out[LF_OP_Y]];
            assert_true(p->ops[i].layer == n && p->ops[i].column == 256 * n && y->width == 256 && y->is_float);
            if (wanted == LF_WANTED_SOME) assert_int_equal(y->rows == LF_ROWS_OUT, i > append);
            n_picked += y->rows == LF_ROWS_OUT;
            n++;
        }
        assert_int_equal(n, n_expected);
        assert_int_equal(n_picked, wanted == LF_WANTED_SOME ? 21 : picks ? 1 : 0); /* 20 layers have no append */
        close_shape(&s);
    }
}

/* What waits for the last layer is as wide as the residual stream, and nothing is as wide as the inputs of all. */
static void no_value_holds_the_inputs_of_all_layers(void **state)
{
    (void)state;
    struct shape s;
    open_shape(&s, E4B, false);
    struct lf_program *p = &s.programs.of[LF_WANTED_ALL];
    lf_program_find_lives(p);
    int n_long = 0;
    for (int i = 0; i < p->n_values; i++) {
        bool is_long = p->values[i].last_op - p->values[i].first_op > 100;
        assert_true(p->values[i].width != 42 * 256);
        if (!is_long) continue;
        assert_true(p->values[i].width == 2560 && !p->values[i].is_float); /* x₀, rounded */
        n_long++;
    }
    assert_int_equal(n_long, 1);
    close_shape(&s);
}

/* Rows of the table are never a GEMM's input: its scratch is for the widest of those. */
static void the_table_makes_no_scratch_wider(void **state)
{
    (void)state;
    struct shape s;
    struct lf_workspace with, without;
    struct lf_step_limits limits = {.ctx = 1024, .chunk = 64, .max_seqs = 1, .max_out = 8, .kv_dtype = LF_BF16};
    open_shape(&s, E4B, false);
    const struct lf_ops *ops = lf_device_ops(s.dev);
    struct lf_layer_kinds kinds;
    struct lf_err err;
    assert_int_equal(lf_layer_kinds_make(&kinds, &s.hp, &s.programs, LF_BF16, LF_F32, true, &err), LF_OK);
    lf_workspace_layout(&with, &s.programs, &kinds, &s.hp, &limits, ops, lf_device_info(s.dev));
    struct lf_program *recorded = &s.programs.recorded;
    for (int i = 0; i < recorded->n_ops; i++)
        if (is_input(&recorded->ops[i])) recorded->slots[recorded->ops[i].weight[LF_OP_W]].n_in = 1;
    lf_workspace_layout(&without, &s.programs, &kinds, &s.hp, &limits, ops, lf_device_info(s.dev));
    assert_int_equal(with.total_bytes, without.total_bytes);
    lf_layer_kinds_deinit(&kinds);
    close_shape(&s);
}

/* Weights that many ops read are in the table of ops once, and so is what its rows add up to. */
static void the_table_of_ops_adds_up_to_the_weights(void **state)
{
    (void)state;
    static const char *const dirs[] = {E4B, E2B};
    for (size_t i = 0; i < LF_N_ELEMS(dirs) * 2; i++) {
        struct shape s;
        struct lf_weight_layout *layout;
        struct lf_weight weights[4096];
        struct lf_op_table table;
        struct lf_err err;
        open_shape(&s, dirs[i / 2], false);
        const struct lf_program *recorded = &s.programs.recorded;
        const struct lf_ops *ops = lf_device_ops(s.dev);
        assert_int_equal(lf_weight_layout_make(&layout, &s.hp, recorded, NULL, LF_CODE_NONE, s.dev, &err), LF_OK);
        assert_true(recorded->n_slots <= (int)LF_N_ELEMS(weights));
        lf_weight_layout_describe(layout, weights);
        struct lf_op_table_opts opts = {.program = &s.programs.of[i % 2 ? LF_WANTED_ALL : LF_WANTED_SOME],
                                        .slots = recorded->slots,
                                        .weights = weights,
                                        .tied = true,
                                        .ops = ops,
                                        .info = lf_device_info(s.dev),
                                        .hp = &s.hp,
                                        .kv_dtype = LF_BF16,
                                        .step = {.n_tokens = i % 2 ? 1 : 512, .kv_len = 4096}};
        assert_int_equal(lf_op_table_make(&table, &opts, &err), LF_OK);
        uint64_t sum = 0, of_table = 0;
        for (int r = 0; r < table.n_rows; r++) {
            sum += table.rows[r].weight_bytes;
            if (table.rows[r].kind == LF_OP_EMBED && table.rows[r].n_out == 256) of_table += table.rows[r].weight_bytes;
        }
        assert_int_equal(sum, lf_weight_layout_bytes(layout));
        assert_int_equal(of_table, (uint64_t)262144 * 256 * 2 * (uint64_t)s.hp.n_layers);
        lf_weight_layout_free(layout);
        close_shape(&s);
    }
}

/* Gemma 4 E4B: 2.8 of its 7.5 billion weights are the table. */
static void the_table_is_counted_with_the_weights(void **state)
{
    (void)state;
    struct shape s;
    struct lf_err err;
    struct lf_weights_size with, without;
    struct lf_model_opts opts = {.dir = E4B, .load = LF_LOAD_DUMMY};
    uint64_t table = (uint64_t)262144 * 42 * 256 * 2;
    uint64_t others = (uint64_t)42 * 256 * 2560 * 3 * 2 + (uint64_t)42 * 2560 * sizeof(float) + 256 * sizeof(float);
    open_shape(&s, E4B, false);
    assert_int_equal(lf_weights_measure(&with, &s.hp, &opts, s.dev, &err), LF_OK);
    assert_in_range(with.bytes / 2, 7400000000, 7500000000);
    s.hp.layer_input = 0;
    assert_int_equal(lf_weights_measure(&without, &s.hp, &opts, s.dev, &err), LF_OK);
    assert_int_equal(with.bytes - without.bytes, table + others);
    close_shape(&s);
}

/* Of a lookup the columns that are read, in their type, and what is made of them. */
static void a_lookup_costs_its_columns(void **state)
{
    (void)state;
    struct shape s;
    static struct lf_weight weights[4096];
    open_shape(&s, E4B, false);
    const struct lf_program *p = &s.programs.of[LF_WANTED_ALL];
    struct lf_cost_step step = {.n_tokens = 7, .n_out = 1, .kv_len = 7, .act_bytes = 2};
    for (size_t i = 0; i < LF_N_ELEMS(weights); i++) weights[i].format.dtype = LF_BF16;
    int n = 0;
    for (int i = 0; i < p->n_ops; i++) {
        struct lf_op_cost c = lf_pass_cost(p, &p->ops[i], s.programs.recorded.slots, weights, &step);
        if (is_input(&p->ops[i])) assert_int_equal((int)c.bytes, 7 * 256 * (2 + 4));
        if (p->ops[i].kind != LF_OP_GATE_MUL) continue;
        assert_int_equal((int)c.bytes, 7 * 256 * (2 + 4 + 2)); /* gate, up, out */
        n++;
    }
    assert_int_equal(n, 42); /* and those of MLPs are fused */
    close_shape(&s);
}

static void expect_wrong(const struct lf_program *p, const char *what)
{
    struct lf_err err;
    assert_int_equal(lf_pass_check(p, p->slots, p->n_slots, &err), LF_CORRUPT);
    if (!strstr(err.message, what)) fail_msg("%s: %s", what, err.message);
}

static struct lf_op *first_input(struct lf_program *p)
{
    int i = 0;
    while (!is_input(&p->ops[i])) i++;
    return &p->ops[i];
}

static struct lf_op *first_by(struct lf_program *p)
{
    int i = 0;
    while (p->ops[i].kind != LF_OP_GATE_MUL || p->ops[i].in[LF_OP_UP] == LF_NONE) i++;
    return &p->ops[i];
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    struct shape s;
    open_shape(&s, E4B, true);
    struct lf_program *p = &s.programs.recorded;
    struct lf_op *input = first_input(p), *by = first_by(p), was = *input, by_was = *by;
    input->column = 41 * 256 + 1;
    expect_wrong(p, "embed of layer 0: its last column is 10752, expected 10751");
    input->column = -2;
    expect_wrong(p, "embed of layer 0: its last column");
    input->column = LF_NONE; /* whole rows */
    expect_wrong(p, "embed of layer 0: the width of its output is 256, expected 10752");
    *input = was;
    p->values[input->out[LF_OP_Y]].is_float = false;
    expect_wrong(p, "embed of layer 0: an output of float");
    p->values[input->out[LF_OP_Y]].is_float = true;
    input->weight[LF_OP_W] = LF_NONE;
    expect_wrong(p, "its table's slot is -1");
    *input = was;
    by->in[LF_OP_UP] = by->in[LF_OP_X]; /* not float */
    expect_wrong(p, "gate_mul of layer -1: an up of float");
    by->in[LF_OP_UP] = p->ops[0].out[LF_OP_Y]; /* the residual stream */
    expect_wrong(p, "gate_mul of layer -1: the width of its up is 2560, expected 256");
    by->in[LF_OP_UP] = p->logits; /* made later */
    expect_wrong(p, "the number of ops that make its input is 0");
    by->in[LF_OP_UP] = LF_NONE; /* then its gate is both */
    expect_wrong(p, "gate_mul of layer -1: the width of its input is 256, expected 512");
    *by = by_was;
    p->values[by->out[LF_OP_Y]].width--;
    expect_wrong(p, "gate_mul of layer -1: the width of its gate is 256, expected 255");
    close_shape(&s);
}

/* A gate whose up is another value's has no kernel in one piece with the gemm before it. */
static void a_gate_by_another_value_is_not_fused(void **state)
{
    (void)state;
    struct lf_recorder r;
    struct lf_program p;
    struct lf_err err;
    static struct lf_layer_hparams layers[1];
    struct lf_hparams hp = {.arch = &lf_arch_gemma4_text, .n_layers = 1, .hidden = 8, .layers = layers};
    lf_recorder_begin(&r, &hp);
    struct lf_linear w =
        lf_rec_linear(&r, 0, &(struct lf_linear_opts){.parts = {{.pattern = "w", .n_rows = 8}}, .n_in = 8});
    int x = lf_rec_embed(&r, w), h = lf_rec_round(&r, x);
    int act = lf_rec_gate_mul_by(&r, lf_rec_gemm(&r, h, w), x, LF_ACT_GELU_TANH);
    act = lf_rec_gate_mul(&r, lf_rec_gemm(&r, act, w), LF_ACT_SILU, 0);
    assert_int_equal(lf_recorder_end(&r, &p, &err), LF_OK);
    assert_int_equal(p.values[act].width, 4);
    assert_int_equal(lf_pass_fuse(&p, (struct lf_fuse_opts){.norms = false}, &err), LF_OK);
    assert_int_equal(p.n_ops, 5);
    assert_true(p.ops[2].kind == LF_OP_GEMM && p.ops[3].kind == LF_OP_GATE_MUL && p.ops[3].in[LF_OP_UP] == x);
    assert_true(p.ops[4].kind == LF_OP_GEMM_GATE_MUL && p.ops[4].in[LF_OP_UP] == LF_NONE);
    lf_program_deinit(&p);
}

#define SHARED "tests/golden/model/data/gemma4-inputs-f32"

/* Reads the headers of a copy of the fixture, in which a tensor has another name of the same length. */
static enum lf_status bind_renamed(const char *name, const char *other, struct lf_err *err)
{
    struct temp_dir dir = temp_dir_make();
    struct shape s;
    struct lf_buf config, tensors;
    struct lf_tensor_set set;
    struct lf_weight_layout *layout = NULL;
    lf_buf_init(&config, 1 << 16);
    lf_buf_init(&tensors, 1 << 24);
    assert_int_equal(lf_file_read(&config, SHARED "/config.json", 1 << 16, err), LF_OK);
    assert_int_equal(lf_file_read(&tensors, SHARED "/model.safetensors", 1 << 24, err), LF_OK);
    ptrdiff_t at = lf_str_find(lf_buf_view(&tensors), lf_str_c(name));
    assert_true(at > 0 && strlen(name) == strlen(other));
    memcpy(tensors.ptr + at, other, strlen(other));
    temp_dir_write(&dir, "config.json", config.ptr, config.len);
    temp_dir_write(&dir, "model.safetensors", tensors.ptr, tensors.len);
    open_shape(&s, dir.path, false);
    assert_int_equal(lf_tensor_set_open(&set, dir.path, err), LF_OK);
    enum lf_status status = lf_weight_layout_make(&layout, &s.hp, &s.programs.recorded, &set, LF_CODE_NONE, s.dev, err);
    lf_weight_layout_free(layout);
    lf_tensor_set_close(&set);
    close_shape(&s);
    lf_buf_deinit(&tensors);
    lf_buf_deinit(&config);
    temp_dir_remove(&dir);
    return status;
}

/* Layers 4 to 6 read the keys and values of others, and the files have theirs all the same. */
static void only_what_transformers_leaves_unread_is_left_unread(void **state)
{
    (void)state;
    struct lf_err err;
    assert_int_equal(bind_renamed("layers.4.self_attn.k_norm.weight", "layers.5.self_attn.v_norm.weight", &err), LF_OK);
    assert_int_equal(bind_renamed("layers.4.self_attn.k_norm.weight", "layers.0.self_attn.cache.k_scale", &err), LF_OK);
    assert_int_equal(bind_renamed("layers.4.self_attn.k_norm.weight", "layers.1.self_attn.cache.v_scale", &err), LF_OK);
    static const char *const others[] = {"layers.0.self_attn.v_norm.weight", "layers.0.self_attn.cache.o_scale",
                                         "layers.4.self_attn.k_nora.weight", "layers.4.other_attn.knorm.weight"};
    for (size_t i = 0; i < LF_N_ELEMS(others); i++) {
        assert_int_equal(bind_renamed("layers.4.self_attn.k_norm.weight", others[i], &err), LF_UNSUPPORTED);
        if (!strstr(err.message, others[i]) || !strstr(err.message, "is no part of")) fail_msg("%s", err.message);
    }
}

int main(void)
{
    lf_log_set_level(LF_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_layer_reads_its_columns_for_the_tokens_it_computes),
        cmocka_unit_test(no_value_holds_the_inputs_of_all_layers),
        cmocka_unit_test(the_table_makes_no_scratch_wider),
        cmocka_unit_test(the_table_of_ops_adds_up_to_the_weights),
        cmocka_unit_test(the_table_is_counted_with_the_weights),
        cmocka_unit_test(a_lookup_costs_its_columns),
        cmocka_unit_test(what_does_not_fit_is_named),
        cmocka_unit_test(a_gate_by_another_value_is_not_fused),
        cmocka_unit_test(only_what_transformers_leaves_unread_is_left_unread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
