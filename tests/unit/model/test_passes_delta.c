/* The ops of gated delta nets in programs: what the passes make of them. */
#include <math.h>
#include <string.h>

#include "core/check.h"
#include "model/arch/arch.h"
#include "model/op_table.h"
#include "model/programs.h"
#include "model/recorder.h"
#include "tests/support/test.h"
#include "tests/unit/model/programs_rig.h"

enum { LAYERS = 3, HIDDEN = 64, HEADS = 4, KV_HEADS = 2, HEAD_DIM = 16, VOCAB = 50 };
enum { K_HEADS = 2, V_HEADS = 4, K_DIM = 16, V_DIM = 8, TAPS = 3 };
enum { CHANNELS = 2 * K_HEADS * K_DIM + V_HEADS * V_DIM, N_V = V_HEADS * V_DIM, N_Q = HEADS * HEAD_DIM };

static struct lf_linear matrix(struct lf_recorder *r, int layer, const char *name, int n_out, int n_in)
{
    struct lf_linear_opts opts = {.parts = {{.pattern = name, .n_rows = n_out}}, .n_in = n_in};
    return lf_rec_linear(r, layer, &opts);
}

static int delta_layer(struct lf_recorder *r, int layer, int x)
{
    struct lf_linear in = matrix(r, layer, "in", CHANNELS + N_V, HIDDEN),
                     ba = matrix(r, layer, "ba", 2 * V_HEADS, HIDDEN);
    struct lf_linear out = matrix(r, layer, "out", HIDDEN, N_V);
    int taps = lf_rec_taps(r, layer, "conv1d", &r->hp->delta), a_log = lf_rec_bare_vector(r, layer, "a", V_HEADS);
    int dt = lf_rec_bare_vector(r, layer, "dt", V_HEADS), norm = lf_rec_vector(r, layer, "n", V_DIM);
    int h = lf_rec_rmsnorm(r, x, LF_NONE);
    int b_a = lf_rec_gemm_float(r, h, ba), qkvz = lf_rec_gemm(r, h, in);
    int y = lf_rec_delta(r, layer, lf_rec_conv(r, layer, qkvz, taps), b_a, a_log, dt);
    return lf_rec_gemm_add(r, lf_rec_gated_norm(r, y, qkvz, norm), out, x);
}

/* Attention whose output has a gate, and something with a gate of one number a token. */
static int attention_layer(struct lf_recorder *r, int layer, int x)
{
    struct lf_linear qkv = matrix(r, layer, "qkv", (HEADS + 2 * KV_HEADS) * HEAD_DIM, HIDDEN);
    struct lf_linear gate = matrix(r, layer, "g", N_Q, HIDDEN), out = matrix(r, layer, "o", HIDDEN, N_Q);
    struct lf_linear one = matrix(r, layer, "one", 1, HIDDEN);
    int h = lf_rec_rmsnorm(r, x, LF_NONE);
    int q = lf_rec_rope_append(r, layer, lf_rec_gemm(r, h, qkv), LF_NONE, LF_NONE);
    int g = lf_rec_gemm(r, h, gate);
    int a = lf_rec_gate_sigmoid(r, lf_rec_attention(r, layer, q, 0), g, LF_NONE);
    int y = lf_rec_gemm_float(r, a, out);
    return lf_rec_gate_sigmoid(r, y, lf_rec_gemm_float(r, h, one), x);
}

static void record(struct lf_recorder *r)
{
    struct lf_linear table = matrix(r, -1, "t", VOCAB, HIDDEN);
    int x = lf_rec_embed(r, table);
    for (int i = 0; i < LAYERS; i++) x = r->hp->layers[i].is_delta ? delta_layer(r, i, x) : attention_layer(r, i, x);
    lf_rec_logits(r, lf_rec_rmsnorm(r, x, LF_NONE), table);
}

static void no_delta(struct lf_device *dev, const struct lf_delta_params *p)
{
    (void)dev;
    (void)p;
}

static const struct lf_arch arch = {.name = "HybridForCausalLM", .record = record};

/* deltas: which layers are, a character each. */
static struct lf_hparams hparams(const char *deltas)
{
    static struct lf_layer_hparams layers[LAYERS];
    for (int i = 0; i < LAYERS; i++) layers[i] = (struct lf_layer_hparams){.is_delta = deltas[i] == 'd'};
    return (struct lf_hparams){.arch = &arch,
                               .architecture = arch.name,
                               .n_layers = LAYERS,
                               .hidden = HIDDEN,
                               .n_heads = HEADS,
                               .n_kv_heads = KV_HEADS,
                               .head_dim = HEAD_DIM,
                               .n_vocab = VOCAB,
                               .norm_eps = 1e-6f,
                               .layers = layers,
                               .delta = {K_HEADS, V_HEADS, K_DIM, V_DIM, TAPS},
                               .ropes = {{.rotary_dim = HEAD_DIM, .head_dim = HEAD_DIM}},
                               .n_ropes = 1};
}

static struct lf_programs make(const char *deltas, bool no_fusion)
{
    struct lf_hparams hp = hparams(deltas);
    const struct lf_ops ops = {.delta = no_delta};
    return programs_of(&hp, &ops, no_fusion);
}

static int first_of(const struct lf_program *p, enum lf_op_kind kind)
{
    int i = 0;
    while (i < p->n_ops && p->ops[i].kind != kind) i++;
    assert_true(i < p->n_ops);
    return i;
}

static void ops_are_recorded_with_shapes_and_layers(void **state)
{
    (void)state;
    struct lf_programs p = make("dad", true);
    const struct lf_program *all = &p.recorded;
    assert_int_equal(count(all, LF_OP_CONV), 2);
    assert_int_equal(count(all, LF_OP_DELTA), 2);
    assert_int_equal(count(all, LF_OP_GATED_NORM), 2);
    assert_int_equal(count(all, LF_OP_GATE_SIGMOID), 2);
    const struct lf_op *conv = &all->ops[first_of(all, LF_OP_CONV)], *delta = conv + 1;
    assert_true(conv->kind == LF_OP_CONV && conv->layer == 0 && delta->kind == LF_OP_DELTA && delta->layer == 0);
    assert_int_equal(all->values[conv->in[LF_OP_X]].width, CHANNELS + N_V);
    assert_int_equal(all->values[conv->out[LF_OP_Y]].width, CHANNELS);
    assert_int_equal(all->values[delta->out[LF_OP_Y]].width, N_V);
    assert_int_equal(delta->delta.conv_width, TAPS);
    const struct lf_slot *taps = &all->slots[conv->weight[LF_OP_W]];
    assert_true(taps->is_vector && taps->n_taps == TAPS && taps->n_out == CHANNELS * TAPS);
    lf_programs_deinit(&p);
}

/* What of a step's tokens must reach an op that keeps a state is all of them, attention or not. */
static void every_token_reaches_the_last_state(void **state)
{
    (void)state;
    static const struct {
        const char *deltas;
        enum lf_op_kind last, several;
    } rows[] = {{"dda", LF_OP_ROPE_APPEND, LF_OP_ATTENTION},
                {"dad", LF_OP_DELTA, LF_OP_DELTA},
                {"add", LF_OP_DELTA, LF_OP_DELTA},
                {"aaa", LF_OP_ROPE_APPEND, LF_OP_ATTENTION},
                {"ddd", LF_OP_DELTA, LF_OP_DELTA}};
    for (size_t k = 0; k < LF_N_ELEMS(rows); k++) {
        struct lf_programs p = make(rows[k].deltas, true);
        const struct lf_program *none = &p.of[LF_WANTED_NONE], *some = &p.of[LF_WANTED_SOME];
        const struct lf_program *several = &p.of[LF_WANTED_SEVERAL];
        assert_int_equal(none->ops[none->n_ops - 1].kind, rows[k].last);
        assert_int_equal(none->ops[none->n_ops - 1].layer, LAYERS - 1);
        for (int i = 0; i < some->n_ops; i++)
            assert_int_equal(some->values[some->ops[i].out[LF_OP_Y]].rows,
                             i < none->n_ops ? LF_ROWS_TOKENS : LF_ROWS_OUT);
        assert_int_equal(some->ops[none->n_ops].kind, LF_OP_PICK);
        assert_int_equal(several->ops[first_of(several, LF_OP_PICK) - 1].kind, rows[k].several);
        for (int w = 0; w < LF_WANTED_N; w++)
            for (int i = 0; i < p.of[w].n_ops; i++)
                if (lf_op_keeps(p.of[w].ops[i].kind))
                    assert_int_equal(p.of[w].values[p.of[w].ops[i].out[LF_OP_Y]].rows, LF_ROWS_TOKENS);
        lf_programs_deinit(&p);
    }
}

/* Whoever reads a value finds its own tag in all of its bytes. */
static void no_value_lies_where_another_one_is_still_read(void **state)
{
    (void)state;
    static const struct lf_place_limits limits = {
        .rows = {[LF_ROWS_TOKENS] = 5, [LF_ROWS_OUT] = 2, [LF_ROWS_FEW] = 16, [LF_ROWS_ONE] = 1}, .act_bytes = 4};
    for (int w = 0; w < 2 * LF_WANTED_N; w++) {
        struct lf_programs programs = make("dad", w >= LF_WANTED_N);
        struct lf_program *p = &programs.of[w % LF_WANTED_N];
        uint64_t end = lf_pass_place(p, &limits, 0);
        int *tags = calloc(end, sizeof(*tags));
        assert_non_null(tags);
        for (int i = 0; i < p->n_ops; i++) {
            const struct lf_op *op = &p->ops[i];
            for (int k = 0; k < LF_OP_INPUTS_N + LF_OP_OUTPUTS_N; k++) {
                int v = k < LF_OP_INPUTS_N ? op->in[k] : op->out[k - LF_OP_INPUTS_N];
                if (v == LF_NONE || v == p->logits) continue;
                uint64_t n = limits.rows[p->values[v].rows] * (uint64_t)p->values[v].width * 4;
                for (uint64_t b = 0; b < n; b++) {
                    int *tag = &tags[p->values[v].offset + b];
                    if (k < LF_OP_INPUTS_N && *tag != v + 1) fail_msg("op %d: value %d is overwritten", i, v);
                    *tag = v + 1;
                }
            }
        }
        free(tags);
        lf_programs_deinit(&programs);
    }
}

static void fusions_leave_them_as_they_are(void **state)
{
    (void)state;
    struct lf_programs p = make("dad", false);
    const struct lf_program *all = &p.of[LF_WANTED_ALL];
    assert_int_equal(count(all, LF_OP_CONV), 2);
    assert_int_equal(count(all, LF_OP_DELTA), 2);
    assert_int_equal(count(all, LF_OP_GATED_NORM), 2);
    assert_int_equal(count(all, LF_OP_GATE_SIGMOID), 2);
    assert_int_equal(count(all, LF_OP_GEMM_ROPE_APPEND), 1);
    lf_programs_deinit(&p);
}

static void a_device_without_them_refuses_models_that_have_them(void **state)
{
    (void)state;
    struct lf_programs p;
    struct lf_err err;
    struct lf_hparams hp = hparams("dad");
    const struct lf_ops ops = {.name = "none"};
    assert_int_equal(lf_programs_make(&p, &hp, &ops, true, &err), LF_UNSUPPORTED);
    assert_non_null(strstr(err.message, "HybridForCausalLM has gated delta nets, which are not implemented on this"));
    hp = hparams("aaa");
    assert_int_equal(lf_programs_make(&p, &hp, &ops, true, &err), LF_OK);
    lf_programs_deinit(&p);
}

/* What is changed of the op of a kind, and what the check says of it. */
static void expect_wrong(struct lf_programs *p, const char *message)
{
    struct lf_err err;
    assert_int_equal(lf_pass_check(&p->recorded, p->recorded.slots, p->recorded.n_slots, &err), LF_CORRUPT);
    if (!strstr(err.message, message)) fail_msg("%s", err.message);
    lf_programs_deinit(p);
}

static struct lf_op *op_of(struct lf_programs *p, enum lf_op_kind kind)
{
    *p = make("dad", true);
    return &p->recorded.ops[first_of(&p->recorded, kind)];
}

static void an_op_whose_shapes_do_not_fit_is_named(void **state)
{
    (void)state;
    struct lf_programs p;
    struct lf_op *op = op_of(&p, LF_OP_CONV);
    op->delta.v_dim += 8;
    expect_wrong(&p, "conv of layer 0: the width of its output is 96, expected 128");
    op = op_of(&p, LF_OP_CONV);
    p.recorded.values[op->in[LF_OP_X]].is_float = true;
    expect_wrong(&p, "conv of layer 0: an input of float is 1, expected 0");
    op = op_of(&p, LF_OP_CONV);
    op->weight[LF_OP_W] = LF_NONE;
    expect_wrong(&p, "conv of layer 0: the length of its taps is 0, expected 288");
    op = op_of(&p, LF_OP_CONV);
    op->delta.conv_width++;
    expect_wrong(&p, "conv of layer 0: the length of its taps is 288, expected 384");
    op = op_of(&p, LF_OP_DELTA);
    op->in[LF_OP_GATE] = LF_NONE;
    expect_wrong(&p, "delta of layer 0: an input is -1");
    op = op_of(&p, LF_OP_DELTA);
    p.recorded.values[op->in[LF_OP_GATE]].is_float = false;
    expect_wrong(&p, "delta of layer 0: b and a of float is 0, expected 1");
    op = op_of(&p, LF_OP_DELTA);
    op->in[LF_OP_GATE] = op->in[LF_OP_X];
    expect_wrong(&p, "delta of layer 0: the width of b and a is 96, expected 8");
    op = op_of(&p, LF_OP_DELTA);
    op->weight[LF_OP_BIAS] = LF_NONE;
    expect_wrong(&p, "delta of layer 0: the length of its dt is 0, expected 4");
    op = op_of(&p, LF_OP_GATED_NORM);
    op->in[LF_OP_GATE] = p.recorded.ops[first_of(&p.recorded, LF_OP_DELTA)].in[LF_OP_GATE];
    expect_wrong(&p, "gated_norm of layer -1: the width of its gate is 8, expected 32");
    op = op_of(&p, LF_OP_GATED_NORM);
    p.recorded.slots[op->weight[LF_OP_NORM]].n_out = 5;
    expect_wrong(&p, "gated_norm of layer -1: what its weight leaves of its width is 2, expected 0");
    op = op_of(&p, LF_OP_GATE_SIGMOID);
    op->in[LF_OP_GATE] = p.recorded.ops[first_of(&p.recorded, LF_OP_ROPE_APPEND)].in[LF_OP_X];
    expect_wrong(&p, "gate_sigmoid of layer -1: the width of its gate is 128, expected 64");
    op = op_of(&p, LF_OP_GATE_SIGMOID);
    op->in[LF_OP_RESIDUAL] = op->in[LF_OP_X];
    expect_wrong(&p, "gate_sigmoid of layer -1: a residual of float is 0, expected 1");
}

static struct lf_op_cost cost_of(const struct lf_programs *p, enum lf_op_kind kind, int n_tokens)
{
    static struct lf_weight weights[64];
    struct lf_cost_step step = {.n_tokens = n_tokens, .n_out = 1, .kv_len = 100, .act_bytes = 2};
    for (int i = 0; i < 64; i++) weights[i].format.dtype = LF_F32;
    assert_true(p->recorded.n_slots <= 64);
    return lf_pass_cost(&p->recorded, &p->recorded.ops[first_of(&p->recorded, kind)], p->recorded.slots, weights,
                        &step);
}

/* States are read and written once a step, whatever its tokens. */
static void costs_count_states(void **state)
{
    (void)state;
    struct lf_programs p = make("dad", true);
    for (int n = 1; n <= 9; n += 4) {
        struct lf_op_cost conv = cost_of(&p, LF_OP_CONV, n), delta = cost_of(&p, LF_OP_DELTA, n);
        assert_int_equal((int)conv.bytes, 2 * n * CHANNELS * 2 + CHANNELS * TAPS * 4 + 2 * (TAPS - 1) * CHANNELS * 2);
        assert_int_equal((int)conv.flops, n * CHANNELS * (2 * TAPS + 4));
        int of_state = V_HEADS * K_DIM * V_DIM;
        assert_int_equal((int)delta.flops, 7 * n * of_state);
        assert_int_equal((int)delta.bytes,
                         n * (CHANNELS * 2 + 2 * V_HEADS * 4 + N_V * 2) + 2 * V_HEADS * 4 + 2 * of_state * 4);
        struct lf_op_cost norm = cost_of(&p, LF_OP_GATED_NORM, n), gate = cost_of(&p, LF_OP_GATE_SIGMOID, n);
        assert_int_equal((int)norm.bytes, 3 * n * N_V * 2 + V_DIM * 4);
        assert_int_equal((int)gate.bytes, 3 * n * N_Q * 2);
        assert_true(norm.flops > 0 && gate.flops > 0);
    }
    lf_programs_deinit(&p);
}

static void the_table_of_ops_names_them(void **state)
{
    (void)state;
    static const char *const names[] = {"conv", "delta", "gated_norm", "gate_sigmoid"};
    for (size_t i = 0; i < LF_N_ELEMS(names); i++)
        assert_string_equal(lf_op_name((enum lf_op_kind)((size_t)LF_OP_CONV + i)), names[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_are_recorded_with_shapes_and_layers),
        cmocka_unit_test(every_token_reaches_the_last_state),
        cmocka_unit_test(no_value_lies_where_another_one_is_still_read),
        cmocka_unit_test(fusions_leave_them_as_they_are),
        cmocka_unit_test(a_device_without_them_refuses_models_that_have_them),
        cmocka_unit_test(an_op_whose_shapes_do_not_fit_is_named),
        cmocka_unit_test(costs_count_states),
        cmocka_unit_test(the_table_of_ops_names_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
