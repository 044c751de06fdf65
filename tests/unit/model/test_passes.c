#include <math.h>
#include <string.h>

#include "core/mix.h"
#include "model/arch/arch.h"
#include "model/op_table.h"
#include "model/programs.h"
#include "model/recorder.h"
#include "tests/support/test.h"
#include "tests/unit/model/programs_rig.h"

enum { LAYERS = 3, HIDDEN = 64, HEADS = 4, KV_HEADS = 2, HEAD_DIM = 32, INTERMEDIATE = 96, VOCAB = 50 };

static struct lf_hparams hparams(void)
{
    static struct lf_layer_hparams layers[LAYERS];
    return (struct lf_hparams){.arch = &lf_arch_qwen3,
                               .n_layers = LAYERS,
                               .hidden = HIDDEN,
                               .n_heads = HEADS,
                               .n_kv_heads = KV_HEADS,
                               .head_dim = HEAD_DIM,
                               .intermediate = INTERMEDIATE,
                               .n_vocab = VOCAB,
                               .norm_eps = 1e-6f,
                               .qk_norm = true,
                               .layers = layers,
                               .ropes = {{.rotary_dim = HEAD_DIM, .head_dim = HEAD_DIM}},
                               .n_ropes = 1};
}

enum { EXPERTS = 8, CHOSEN = 3, EXPERT_WIDTH = 40 };

/* Of whose layers the first and the last have experts. */
static struct lf_hparams hparams_with_experts(void)
{
    static struct lf_layer_hparams layers[LAYERS] = {{.has_experts = true}, {0}, {.has_experts = true}};
    struct lf_hparams hp = hparams();
    hp.arch = &lf_arch_qwen3_moe;
    hp.layers = layers;
    hp.n_experts = EXPERTS;
    hp.experts_per_token = CHOSEN;
    hp.expert_intermediate = EXPERT_WIDTH;
    return hp;
}

static void no_route(struct lf_device *dev, const struct lf_route_params *p)
{
    (void)dev;
    (void)p;
}

static int some_tokens(const struct lf_device *dev, const struct lf_gemm_params *p)
{
    (void)dev;
    (void)p;
    return LF_FUSED_NORM_TOKENS;
}

static bool by_rows(const struct lf_device *dev, const struct lf_weight *w, enum lf_fp8_scales *by)
{
    (void)dev;
    (void)w;
    *by = LF_FP8_ROWS;
    return true;
}

static struct lf_programs make(bool fused_norms, bool no_fusion)
{
    struct lf_hparams hp = hparams();
    const struct lf_ops ops = {.fused_norm_tokens = fused_norms ? some_tokens : NULL,
                               .quantizes_x = fused_norms ? by_rows : NULL};
    return programs_of(&hp, &ops, no_fusion);
}

static struct lf_programs make_with_experts(bool fused_norms, bool no_fusion)
{
    struct lf_hparams hp = hparams_with_experts();
    const struct lf_ops ops = {.fused_norm_tokens = fused_norms ? some_tokens : NULL, .route = no_route};
    return programs_of(&hp, &ops, no_fusion);
}

static void recording_is_deterministic_and_knows_every_tensor(void **state)
{
    (void)state;
    struct lf_programs a = make(false, true), b = make(false, true);
    const struct lf_program *p = &a.recorded;
    assert_int_equal(p->n_ops, 3 + 9 * LAYERS);
    assert_int_equal(p->n_slots, 3 + 8 * LAYERS);
    assert_int_equal(p->n_ops, b.recorded.n_ops);
    assert_memory_equal(p->ops, b.recorded.ops, (size_t)p->n_ops * sizeof(*p->ops));
    assert_int_equal(p->n_slots, b.recorded.n_slots);
    for (int i = 0; i < p->n_slots; i++) {
        const struct lf_slot *one = &p->slots[i], *other = &b.recorded.slots[i];
        assert_true(one->layer == other->layer && one->n_out == other->n_out && one->n_in == other->n_in);
        assert_string_equal(one->parts[0].pattern, other->parts[0].pattern);
    }
    assert_int_equal(p->values[p->logits].width, VOCAB);
    assert_int_equal(p->values[p->logits].rows, LF_ROWS_OUT);
    int n_rows = 0, n_sharded = 0;
    for (int i = 0; i < p->n_slots; i++) {
        int parts = 0;
        for (int k = 0; k < p->slots[i].n_parts; k++) parts += p->slots[i].parts[k].n_rows;
        assert_int_equal(parts, p->slots[i].n_out);
        n_rows += p->slots[i].n_out;
        n_sharded += p->slots[i].shard != LF_SHARD_NONE;
    }
    int of_layer = 4 * HIDDEN + (HEADS + 2 * KV_HEADS) * HEAD_DIM + 2 * HEAD_DIM + 2 * INTERMEDIATE;
    assert_int_equal(n_rows, 2 * VOCAB + HIDDEN + LAYERS * of_layer);
    assert_int_equal(n_sharded, 2 + 4 * LAYERS);
    lf_programs_deinit(&a);
    lf_programs_deinit(&b);
}

static void rows_that_nobody_wants_end_with_the_last_append(void **state)
{
    (void)state;
    struct lf_programs p = make(false, true);
    const struct lf_program *all = &p.of[LF_WANTED_ALL], *none = &p.of[LF_WANTED_NONE];
    assert_int_equal(all->n_ops, p.recorded.n_ops);
    assert_int_equal(none->ops[none->n_ops - 1].kind, LF_OP_ROPE_APPEND);
    assert_int_equal(none->ops[none->n_ops - 1].layer, LAYERS - 1);
    assert_int_equal(none->logits, LF_NONE);
    assert_int_equal(all->n_ops - none->n_ops, 2 + 4 + 2); /* attention and its gemm, the MLP, norm and logits */
    /* behind it: queries and the residual stream are picked, and every op has the picked rows */
    const struct lf_program *some = &p.of[LF_WANTED_SOME];
    assert_int_equal(count(some, LF_OP_PICK), 2);
    int at = none->n_ops;
    assert_true(some->ops[at].kind == LF_OP_PICK && some->ops[at + 1].kind == LF_OP_PICK);
    assert_int_equal(some->values[some->ops[at].in[LF_OP_X]].width + some->values[some->ops[at + 1].in[LF_OP_X]].width,
                     HIDDEN + HEADS * HEAD_DIM);
    assert_int_equal(some->ops[at + 2].kind, LF_OP_ATTENTION);
    for (int i = 0; i < some->n_ops; i++)
        assert_int_equal(some->values[some->ops[i].out[LF_OP_Y]].rows, i < at ? LF_ROWS_TOKENS : LF_ROWS_OUT);
    /* or behind the last attention */
    const struct lf_program *several = &p.of[LF_WANTED_SEVERAL];
    assert_int_equal(count(several, LF_OP_PICK), 2);
    assert_int_equal(several->ops[at].kind, LF_OP_ATTENTION);
    assert_int_equal(several->values[several->ops[at].out[LF_OP_Y]].rows, LF_ROWS_TOKENS);
    assert_int_equal(several->ops[at + 1].kind, LF_OP_PICK);
    lf_programs_deinit(&p);
}

static void each_fusion_takes_the_place_of_what_it_fuses(void **state)
{
    (void)state;
    struct lf_programs plain = make(true, true), some = make(false, false), norms = make(true, false);
    for (int i = 0; i < LF_WANTED_N; i++) {
        const struct lf_program *p = &plain.of[i], *f = &some.of[i], *n = &norms.of[i];
        int layers = i == LF_WANTED_NONE ? LAYERS - 1 : LAYERS;
        assert_int_equal(count(p, LF_OP_GEMM_GATE_MUL) + count(p, LF_OP_GEMM_ROPE_APPEND), 0);
        assert_int_equal(count(f, LF_OP_GEMM_ROPE_APPEND), LAYERS);
        assert_int_equal(count(f, LF_OP_GEMM_GATE_MUL), layers);
        assert_int_equal(count(f, LF_OP_GATE_MUL) + count(f, LF_OP_ROPE_APPEND), 0);
        assert_int_equal(count(f, LF_OP_RMSNORM), count(p, LF_OP_RMSNORM));
        assert_int_equal(f->n_ops, p->n_ops - LAYERS - layers);
        /* the first norm has no gemm before it; the one before the logits none behind it that divides */
        assert_int_equal(count(n, LF_OP_RMSNORM), i == LF_WANTED_NONE ? 1 : 2);
        int n_halves = 0;
        for (int k = 0; k < n->n_ops; k++) {
            const struct lf_op *op = &n->ops[k];
            if (op->out[LF_OP_Y_SUM_SQUARES] == LF_NONE) continue;
            n_halves++;
            const struct lf_op *reader = &n->ops[k + 1];
            assert_int_equal(reader->in[LF_OP_X_SUM_SQUARES], op->out[LF_OP_Y_SUM_SQUARES]);
            assert_int_equal(reader->in[LF_OP_X], op->out[LF_OP_Y2]);
            assert_int_equal(n->values[op->out[LF_OP_Y_SUM_SQUARES]].width, HIDDEN / LF_NORM_PART);
            assert_true(reader->x_eps > 0 && op->eps > 0 && op->weight[LF_OP_NORM] != LF_NONE);
        }
        assert_int_equal(n_halves, f->n_ops - n->n_ops);
    }
    lf_programs_deinit(&plain);
    lf_programs_deinit(&some);
    lf_programs_deinit(&norms);
}

static const struct lf_op *reader_of(const struct lf_program *p, int value)
{
    const struct lf_op *reader = NULL;
    for (int i = 0; i < p->n_ops; i++)
        for (int k = 0; k < LF_OP_INPUTS_N; k++)
            if (p->ops[i].in[k] == value) reader = &p->ops[i];
    return reader;
}

/* Norms and gated activations are made as the matrix wants them that reads them. */
static void what_one_gemm_reads_is_written_as_codes(void **state)
{
    (void)state;
    struct lf_hparams hp = hparams();
    const struct lf_ops with = {.fused_norm_tokens = some_tokens, .quantizes_x = by_rows};
    struct lf_programs codes = programs_of(&hp, &with, false), plain = programs_of(&hp, &with, true);
    struct lf_programs without = make(false, false);
    for (int i = 0; i < LF_WANTED_N; i++) {
        const struct lf_program *p = &codes.of[i];
        int n_made = 0, n_read = 0, layers = i == LF_WANTED_NONE ? LAYERS - 1 : LAYERS;
        for (int k = 0; k < p->n_ops; k++) {
            const struct lf_op *op = &p->ops[k];
            n_read += op->x_codes;
            if (op->codes_for == LF_NONE) continue;
            const struct lf_op *reader = reader_of(p, op->out[op->kind == LF_OP_RMSNORM ? LF_OP_Y : LF_OP_Y2]);
            assert_true(reader->x_codes && reader->weight[LF_OP_W] == op->codes_for);
            n_made++;
        }
        /* a norm before qkv and one before the MLP, its activation; and the norm before the logits */
        assert_int_equal(n_made, LAYERS + 2 * layers + (i != LF_WANTED_NONE));
        assert_int_equal(n_read, n_made);
        for (int k = 0; k < plain.of[i].n_ops; k++) assert_int_equal(plain.of[i].ops[k].codes_for, LF_NONE);
        for (int k = 0; k < without.of[i].n_ops; k++) assert_int_equal(without.of[i].ops[k].codes_for, LF_NONE);
    }
    lf_programs_deinit(&codes);
    lf_programs_deinit(&plain);
    lf_programs_deinit(&without);
}

/* What experts' down reads is written so, too; what their gate and up read the router reads as well. */
static void so_is_what_one_gemm_of_experts_reads(void **state)
{
    (void)state;
    struct lf_hparams hp = hparams_with_experts();
    const struct lf_ops ops = {.quantizes_x = by_rows, .route = no_route};
    struct lf_programs p = programs_of(&hp, &ops, false);
    const struct lf_program *all = &p.of[LF_WANTED_ALL];
    int n_given = 0, n_own = 0;
    for (int k = 0; k < all->n_ops; k++) {
        const struct lf_op *op = &all->ops[k];
        if (op->kind == LF_OP_EXPERT_GEMM) n_given += op->x_codes;
        if (op->kind == LF_OP_EXPERT_GEMM) n_own += !op->x_codes;
        if (op->kind != LF_OP_GATE_MUL) continue;
        const struct lf_op *down = reader_of(all, op->out[LF_OP_Y]);
        assert_true(down->kind == LF_OP_EXPERT_GEMM && down->x_codes && down->weight[LF_OP_W] == op->codes_for);
    }
    assert_int_equal(n_given, 2); /* layers with experts */
    assert_int_equal(n_own, 2);
    lf_programs_deinit(&p);
}

/* A norm that somebody else reads too stays an op of its own, and what two ops read is no codes. */
static void what_two_ops_read_is_not_fused_away(void **state)
{
    (void)state;
    struct lf_recorder r;
    struct lf_program p;
    struct lf_err err;
    struct lf_hparams hp = hparams();
    lf_recorder_begin(&r, &hp);
    struct lf_linear_opts square = {.parts = {{.pattern = "w", .n_rows = HIDDEN}}, .n_in = HIDDEN};
    struct lf_linear table =
        lf_rec_linear(&r, -1, &(struct lf_linear_opts){.parts = {{.pattern = "t", .n_rows = VOCAB}}, .n_in = HIDDEN});
    struct lf_linear up = lf_rec_linear(
        &r, -1, &(struct lf_linear_opts){.parts = {{.pattern = "u", .n_rows = 2 * HIDDEN}}, .n_in = HIDDEN});
    struct lf_linear w = lf_rec_linear(&r, 0, &square);
    int norm = lf_rec_vector(&r, 0, "n", HIDDEN);
    int x = lf_rec_embed(&r, table);
    int h = lf_rec_rmsnorm(&r, x, norm);
    x = lf_rec_gemm_add(&r, h, w, x);
    h = lf_rec_rmsnorm(&r, x, norm);
    int g = lf_rec_gemm(&r, h, up);
    int a = lf_rec_gate_mul(&r, g, LF_ACT_SILU, 0);
    x = lf_rec_gemm_add(&r, a, w, x);
    x = lf_rec_gemm_add(&r, h, w, x);                                        /* h once more */
    (void)lf_rec_gemm_add(&r, lf_rec_gate_mul(&r, g, LF_ACT_SILU, 0), w, x); /* g once more */
    assert_int_equal(lf_recorder_end(&r, &p, &err), LF_OK);
    assert_int_equal(lf_pass_fuse(&p, (struct lf_fuse_opts){.norms = true, .codes = true}, &err), LF_OK);
    assert_int_equal(count(&p, LF_OP_RMSNORM), 2);
    assert_int_equal(count(&p, LF_OP_GATE_MUL), 2);
    assert_int_equal(count(&p, LF_OP_GEMM), 5);
    assert_int_equal(p.ops[1].codes_for, w.weight); /* the first norm has one reader */
    assert_int_equal(p.ops[3].codes_for, LF_NONE);
    assert_false(p.ops[4].x_codes);
    lf_program_deinit(&p);
}

/* What OLMo 2, Granite and Gemma do: scales, norms behind a GEMM, a norm over all heads, capped logits. */
static void record_scaled(struct lf_recorder *r)
{
    const struct lf_hparams *hp = r->hp;
    int n_q = HEADS * HEAD_DIM, n_kv = KV_HEADS * HEAD_DIM;
    struct lf_linear table =
        lf_rec_linear(r, -1, &(struct lf_linear_opts){.parts = {{.pattern = "t", .n_rows = VOCAB}}, .n_in = HIDDEN});
    struct lf_linear qkv = lf_rec_linear(
        r, 0, &(struct lf_linear_opts){.parts = {{.pattern = "q", .n_rows = n_q + 2 * n_kv}}, .n_in = HIDDEN});
    struct lf_linear out =
        lf_rec_linear(r, 0, &(struct lf_linear_opts){.parts = {{.pattern = "o", .n_rows = HIDDEN}}, .n_in = n_q});
    struct lf_linear up = lf_rec_linear(
        r, 0, &(struct lf_linear_opts){.parts = {{.pattern = "u", .n_rows = 2 * INTERMEDIATE}}, .n_in = HIDDEN});
    struct lf_linear down = lf_rec_linear(
        r, 0, &(struct lf_linear_opts){.parts = {{.pattern = "d", .n_rows = HIDDEN}}, .n_in = INTERMEDIATE});
    int norm = lf_rec_vector_plus(r, 0, "n", HIDDEN, 1), q_norm = lf_rec_vector(r, 0, "qn", n_q);
    int k_norm = lf_rec_vector(r, 0, "kn", n_kv);
    int x = lf_rec_embed_scaled(r, table, 8);
    for (int layer = 0; layer < hp->n_layers; layer++) {
        int h = lf_rec_rmsnorm(r, x, LF_NONE);
        int q = lf_rec_rope_append(r, layer, lf_rec_gemm(r, h, qkv), q_norm, k_norm);
        x = lf_rec_norm_add(r, lf_rec_gemm_float(r, lf_rec_attention(r, layer, q, 0), out), norm, x);
        h = layer == 0 ? lf_rec_round(r, x) : lf_rec_rmsnorm(r, x, norm);
        int act = lf_rec_gate_mul(r, lf_rec_gemm(r, h, up), LF_ACT_SWIGLU_OAI, 7);
        x = lf_rec_gemm_add_scaled(r, act, down, 0.25f, x);
    }
    lf_rec_logits_scaled(r, lf_rec_rmsnorm(r, x, norm), table, 0.5f);
    lf_rec_softcap(r, 30);
}

static struct lf_programs make_scaled(bool fused_norms)
{
    struct lf_err err;
    struct lf_programs p = {0};
    struct lf_hparams hp = hparams();
    const struct lf_arch arch = {.name = "Scaled", .record = record_scaled};
    const struct lf_ops ops = {.fused_norm_tokens = fused_norms ? some_tokens : NULL};
    hp.arch = &arch;
    hp.architecture = arch.name;
    hp.q_scale = (struct lf_q_scale){.beta = 0.1, .n_positions = 100};
    hp.attn_scale = 0.125f;
    if (lf_programs_make(&p, &hp, &ops, false, &err) != LF_OK) fail_msg("%s", err.message);
    return p;
}

static void ops_carry_what_they_were_recorded_with(void **state)
{
    (void)state;
    struct lf_programs p = make_scaled(true);
    const struct lf_program *f = &p.of[LF_WANTED_SOME];
    int n_adds = 0, n_scaled = 0;
    assert_true(f->ops[0].kind == LF_OP_EMBED && f->ops[0].scale == 8.0f);
    for (int i = 0; i < f->n_ops; i++) {
        const struct lf_op *op = &f->ops[i];
        if (op->kind == LF_OP_GEMM_ROPE_APPEND) assert_true(op->norm_whole_row && op->scales_q && op->rotary_dim > 0);
        if (op->kind == LF_OP_GEMM_GATE_MUL) assert_true(op->act == LF_ACT_SWIGLU_OAI && op->limit == 7.0f);
        if (op->kind == LF_OP_ATTENTION) assert_true(op->scale == 0.125f);
        /* halves of a fused norm: the one behind the MLP has no weight, so there are none */
        assert_int_equal(op->out[LF_OP_Y_SUM_SQUARES], LF_NONE);
        n_adds +=
            op->kind == LF_OP_RMSNORM && op->in[LF_OP_RESIDUAL] != LF_NONE && f->values[op->out[LF_OP_Y]].is_float;
        n_scaled += op->kind == LF_OP_GEMM && op->alpha == 0.25f && op->in[LF_OP_RESIDUAL] != LF_NONE;
    }
    assert_int_equal(n_adds, LAYERS);
    assert_int_equal(n_scaled, LAYERS);
    assert_int_equal(count(f, LF_OP_GEMM_ROPE_APPEND), LAYERS);
    assert_int_equal(count(f, LF_OP_GEMM_GATE_MUL), LAYERS);
    const struct lf_op *cap = &f->ops[f->n_ops - 1], *logits = cap - 1;
    assert_true(cap->kind == LF_OP_SOFTCAP && cap->softcap == 30.0f && logits->alpha == 0.5f);
    assert_true(cap->in[LF_OP_X] == f->logits && cap->out[LF_OP_Y] == f->logits);
    assert_int_equal(logits->out[LF_OP_Y], f->logits);
    assert_true(p.recorded.slots[f->ops[f->n_ops - 3].weight[LF_OP_NORM]].add == 1.0f);
    lf_programs_deinit(&p);
}

/* ---- places ---- */

static uint64_t bytes_of(const struct lf_value *v, const struct lf_place_limits *l)
{
    uint64_t each = v->each ? (uint64_t)v->each : 1;
    return l->rows[v->rows] * each * (uint64_t)v->width * (v->is_float || v->is_int ? 4 : l->act_bytes);
}

static bool reads(const struct lf_op *op, int value)
{
    bool found = false;
    for (int k = 0; k < LF_OP_INPUTS_N; k++) found |= op->in[k] == value;
    return found;
}

/* Runs the program on tags instead of numbers: whoever reads a value must find its own tag in all of its bytes. */
static void check_places(const struct lf_program *p, const struct lf_place_limits *l, uint64_t begin, uint64_t end)
{
    int *tags = calloc(end - begin, sizeof(*tags));
    assert_non_null(tags);
    for (int i = 0; i < p->n_ops; i++) {
        const struct lf_op *op = &p->ops[i];
        for (int v = 0; v < p->n_values; v++)
            for (uint64_t b = 0; v != p->logits && reads(op, v) && b < bytes_of(&p->values[v], l); b++)
                if (tags[p->values[v].offset - begin + b] != v + 1) fail_msg("op %d: value %d is overwritten", i, v);
        for (int k = 0; k < LF_OP_OUTPUTS_N; k++) {
            const struct lf_value *v = op->out[k] == LF_NONE ? NULL : &p->values[op->out[k]];
            if (!v || op->out[k] == p->logits) continue;
            assert_true(v->offset % LF_PLACE_ALIGN_BYTES == 0 && v->offset >= begin);
            assert_true(v->offset + bytes_of(v, l) <= end);
            for (uint64_t b = 0; b < bytes_of(v, l); b++) {
                int tag = tags[v->offset - begin + b] - 1;
                /* what is written over has been read, but for the residual, which is read as it is written */
                bool is_residual = k == LF_OP_Y && tag >= 0 && tag == op->in[LF_OP_RESIDUAL];
                if (tag >= 0 && !is_residual && reads(op, tag)) fail_msg("op %d writes over its input", i);
                tags[v->offset - begin + b] = op->out[k] + 1;
            }
        }
    }
    free(tags);
}

static void no_value_lies_where_another_one_is_still_read(void **state)
{
    (void)state;
    static const struct lf_place_limits limits[] = {{{40, 7, LF_FUSED_NORM_TOKENS, 1}, 4},
                                                    {{40, 40, LF_FUSED_NORM_TOKENS, 1}, 2},
                                                    {{1, 1, LF_FUSED_NORM_TOKENS, 1}, 2},
                                                    {{9, 300, LF_FUSED_NORM_TOKENS, 1}, 4}};
    for (int i = 0; i < 4 * LF_WANTED_N * 3 * 2; i++) {
        const struct lf_place_limits *l = &limits[i % 4];
        bool fused_norms = i / 4 % 3 == 1, no_fusion = i / 4 % 3 == 2;
        struct lf_programs programs =
            i % 24 < 12 ? make(fused_norms, no_fusion) : make_with_experts(fused_norms, no_fusion);
        struct lf_program *p = &programs.of[i / 24];
        uint64_t end = lf_pass_place(p, l, 512);
        check_places(p, l, 512, end);
        for (int k = 0; k < p->n_ops; k++) { /* the residual stream is one place */
            int residual = p->ops[k].in[LF_OP_RESIDUAL];
            if (residual == LF_NONE) continue;
            assert_true(p->values[residual].offset == p->values[p->ops[k].out[LF_OP_Y]].offset);
        }
        lf_programs_deinit(&programs);
    }
    for (int i = 0; i < 4 * LF_WANTED_N; i++) { /* and with norms that add to it */
        struct lf_programs programs = make_scaled(i % 2);
        struct lf_program *p = &programs.of[i / 4];
        uint64_t end = lf_pass_place(p, &limits[i % 4], 512);
        check_places(p, &limits[i % 4], 512, end);
        for (int k = 0; k < p->n_ops; k++) {
            int residual = p->ops[k].in[LF_OP_RESIDUAL];
            if (residual == LF_NONE) continue;
            assert_true(p->values[residual].offset == p->values[p->ops[k].out[LF_OP_Y]].offset);
        }
        lf_programs_deinit(&programs);
    }
}

/* The op that needs most is gate_up: the residual stream, its norm, gate and up, and what they become. */
static void a_step_takes_no_more_than_its_largest_op(void **state)
{
    (void)state;
    struct lf_programs programs = make(false, false);
    const struct lf_place_limits l = {{1000, 10, LF_FUSED_NORM_TOKENS}, 2};
    uint64_t of_mlp = 1000 * (4 * HIDDEN + 2 * HIDDEN + 2 * 3 * INTERMEDIATE);
    uint64_t of_qkv = 1000 * (4 * HIDDEN + 2 * HIDDEN + 2 * (2 * HEADS + 2 * KV_HEADS) * HEAD_DIM);
    uint64_t least = of_mlp > of_qkv ? of_mlp : of_qkv;
    uint64_t end = lf_pass_place(&programs.of[LF_WANTED_ALL], &l, 0);
    assert_true(end >= least && end < least + 8 * LF_PLACE_ALIGN_BYTES);
    lf_programs_deinit(&programs);
}

/* Random programs: gemms over any values that are there, with and without residuals. */
static void random_programs_keep_their_values_apart(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct lf_recorder r;
        struct lf_program p;
        struct lf_err err;
        struct lf_hparams hp = hparams();
        int floats[32], acts[32], n_floats = 1, n_acts = 0;
        lf_recorder_begin(&r, &hp);
        struct lf_linear w = lf_rec_linear(
            &r, 0, &(struct lf_linear_opts){.parts = {{.pattern = "w", .n_rows = HIDDEN}}, .n_in = HIDDEN});
        int norm = lf_rec_vector(&r, 0, "n", HIDDEN);
        floats[0] = lf_rec_embed(&r, w);
        acts[n_acts++] = lf_rec_rmsnorm(&r, floats[0], norm);
        for (int i = 0; i < 20; i++) {
            uint64_t x = lf_random64(seed, (uint64_t)i);
            int f = floats[x / 8 % (uint64_t)n_floats], a = acts[x / 1024 % (uint64_t)n_acts];
            if (x % 3 == 0)
                acts[n_acts++] = lf_rec_rmsnorm(&r, f, norm);
            else if (x % 3 == 1)
                acts[n_acts++] = lf_rec_gemm(&r, a, w);
            else
                floats[n_floats++] = lf_rec_gemm_add(&r, a, w, f);
        }
        assert_int_equal(lf_recorder_end(&r, &p, &err), LF_OK);
        assert_int_equal(lf_pass_check(&p, p.slots, p.n_slots, &err), LF_OK);
        if (seed % 2)
            assert_int_equal(lf_pass_fuse(&p, (struct lf_fuse_opts){.norms = true, .codes = true}, &err), LF_OK);
        const struct lf_place_limits l = {{5, 5, LF_FUSED_NORM_TOKENS}, seed % 3 ? 4 : 2};
        uint64_t end = lf_pass_place(&p, &l, 256);
        check_places(&p, &l, 256, end);
        lf_program_deinit(&p);
    }
}

/* ---- checks and costs ---- */

static void expect_wrong(struct lf_programs *programs, const char *what)
{
    struct lf_err err;
    const struct lf_program *p = &programs->recorded;
    assert_int_equal(lf_pass_check(p, p->slots, p->n_slots, &err), LF_CORRUPT);
    if (!strstr(err.message, what)) fail_msg("%s: %s", what, err.message);
    lf_programs_deinit(programs);
}

static int first_of(const struct lf_program *p, enum lf_op_kind kind)
{
    int i = 0;
    while (p->ops[i].kind != kind) i++;
    return i;
}

static void an_op_whose_shapes_do_not_fit_is_named(void **state)
{
    (void)state;
    struct lf_programs p = make(false, true);
    struct lf_op *gemm = &p.recorded.ops[first_of(&p.recorded, LF_OP_GEMM)];
    p.recorded.slots[gemm->weight[LF_OP_W]].n_in++;
    expect_wrong(&p, "op 2 of the program, gemm of layer -1: the width of its input is 64, expected 65");
    p = make(false, true);
    p.recorded.values[p.recorded.ops[first_of(&p.recorded, LF_OP_GEMM)].out[LF_OP_Y]].width--;
    expect_wrong(&p, "gemm of layer -1: the width of its output is 255, expected 256");
    p = make(false, true);
    p.recorded.slots[p.recorded.ops[first_of(&p.recorded, LF_OP_RMSNORM)].weight[LF_OP_NORM]].n_out = 3;
    expect_wrong(&p, "op 1 of the program, rmsnorm of layer -1: the length of its weight is 3, expected 64");
    p = make(false, true);
    struct lf_op *attention = &p.recorded.ops[first_of(&p.recorded, LF_OP_ATTENTION)];
    attention->in[LF_OP_X] = p.recorded.logits; /* made later */
    expect_wrong(&p, "attention of layer 0: the number of ops that make its input is 0");
    p = make(false, true);
    p.recorded.ops[first_of(&p.recorded, LF_OP_ATTENTION) + 1].in[LF_OP_RESIDUAL] = 1; /* the norm */
    expect_wrong(&p, "a residual of float");
    p = make(false, true);
    p.recorded.values[p.recorded.ops[first_of(&p.recorded, LF_OP_GATE_MUL)].out[LF_OP_Y]].width++;
    expect_wrong(&p, "gate_mul");
}

static void an_op_beyond_llama_that_does_not_fit_is_named(void **state)
{
    (void)state;
    struct lf_programs p = make_scaled(false);
    struct lf_op *append = &p.recorded.ops[first_of(&p.recorded, LF_OP_ROPE_APPEND)];
    p.recorded.slots[append->weight[LF_OP_Q_NORM]].n_out -= 2;
    expect_wrong(&p, "rope_append of layer 0: the length of its q_norm is 126, expected 128");
    p = make_scaled(false);
    append = &p.recorded.ops[first_of(&p.recorded, LF_OP_ROPE_APPEND)];
    append->norm_whole_row = false; /* then both have one length */
    expect_wrong(&p, "rope_append of layer 0: the length of its k_norm is 64, expected 128");
    p = make_scaled(false);
    struct lf_op *add = &p.recorded.ops[first_of(&p.recorded, LF_OP_ATTENTION) + 2];
    p.recorded.values[add->in[LF_OP_X]].is_float = false;
    expect_wrong(&p, "rmsnorm of layer -1: an input of float is 0, expected 1");
    p = make_scaled(false);
    add = &p.recorded.ops[first_of(&p.recorded, LF_OP_ATTENTION) + 2];
    p.recorded.values[add->out[LF_OP_Y]].is_float = false;
    expect_wrong(&p, "rmsnorm of layer -1: a residual of float is 0, expected 1");
    p = make_scaled(false);
    p.recorded.ops[p.recorded.n_ops - 1].out[LF_OP_Y] = 0;
    expect_wrong(&p, "softcap of layer -1: its output is 0");
    p = make_scaled(false);
    p.recorded.values[p.recorded.ops[first_of(&p.recorded, LF_OP_ROUND)].out[LF_OP_Y]].is_float = true;
    expect_wrong(&p, "round of layer -1: an output of float is 1, expected 0");
}

static void sinks_are_a_vector_of_one_number_a_head(void **state)
{
    (void)state;
    struct lf_recorder r;
    struct lf_program p;
    struct lf_err err;
    struct lf_hparams hp = hparams();
    lf_recorder_begin(&r, &hp);
    struct lf_linear w = lf_rec_linear(&r, 0, &(struct lf_linear_opts){.parts = {{"w", HIDDEN}}, .n_in = HIDDEN});
    int norm = lf_rec_vector(&r, 0, "n", HIDDEN);
    int sinks = lf_rec_bare_vector(&r, 0, "model.layers.#.self_attn.sinks", HEADS);
    int x = lf_rec_rmsnorm(&r, lf_rec_embed(&r, w), norm);
    (void)lf_rec_sink_attention(&r, 0, x, 7, sinks);
    (void)lf_rec_attention(&r, 0, x, 0);
    assert_int_equal(lf_recorder_end(&r, &p, &err), LF_OK);
    const struct lf_op *with = &p.ops[2], *without = &p.ops[3];
    assert_true(with->kind == LF_OP_ATTENTION && with->weight[LF_OP_W] == sinks && with->window == 7);
    assert_int_equal(without->weight[LF_OP_W], LF_NONE);
    assert_string_equal(p.slots[sinks].suffix, "");
    assert_int_equal(lf_pass_check(&p, p.slots, p.n_slots, &err), LF_OK);
    p.slots[sinks].n_out = 5;
    assert_int_equal(lf_pass_check(&p, p.slots, p.n_slots, &err), LF_CORRUPT);
    assert_non_null(strstr(err.message, "attention of layer 0: what its sinks leave of its width is 4, expected 0"));
    p.slots[sinks].n_out = HEADS;
    p.slots[sinks].is_vector = false;
    assert_int_equal(lf_pass_check(&p, p.slots, p.n_slots, &err), LF_CORRUPT);
    assert_non_null(strstr(err.message, "the slot of its sinks"));
    lf_program_deinit(&p);
}

static struct lf_op_cost cost_of(const struct lf_programs *p, enum lf_op_kind kind, int n_tokens, int kv_len,
                                 int window)
{
    static struct lf_weight weights[64];
    struct lf_cost_step step = {
        .n_tokens = n_tokens, .n_out = 1, .kv_len = kv_len, .kv_layer_bytes = 256, .act_bytes = 2};
    struct lf_op op = p->recorded.ops[first_of(&p->recorded, kind)];
    assert_true(p->recorded.n_slots <= 64);
    for (int i = 0; i < 64; i++) weights[i].format.dtype = LF_BF16;
    op.window = window;
    return lf_pass_cost(&p->recorded, &op, p->recorded.slots, weights, &step);
}

static void costs_are_what_counting_gives(void **state)
{
    (void)state;
    struct lf_programs p = make(false, true);
    for (int n = 1; n <= 20; n++) {
        for (int window = 0; window <= 40; window += 3) {
            int kv_len = 30, n_keys = 0;
            for (int t = kv_len - n; t < kv_len; t++) n_keys += window > 0 && t + 1 > window ? window : t + 1;
            struct lf_op_cost c = cost_of(&p, LF_OP_ATTENTION, n, kv_len, window);
            assert_int_equal((int)c.flops, 4 * HEADS * HEAD_DIM * n_keys);
            int n_seen = window > 0 && window + n - 1 < kv_len ? window + n - 1 : kv_len;
            assert_int_equal((int)c.bytes, n_seen * 256 + 2 * n * HEADS * HEAD_DIM * 2);
        }
    }
    struct lf_op_cost gemm = cost_of(&p, LF_OP_GEMM, 5, 5, 0);
    int n_qkv = (HEADS + 2 * KV_HEADS) * HEAD_DIM;
    assert_int_equal((int)gemm.flops, 2 * 5 * HIDDEN * n_qkv);
    assert_int_equal((int)gemm.bytes, 2 * (HIDDEN * n_qkv + 5 * HIDDEN + 5 * n_qkv));
    struct lf_op_cost embed = cost_of(&p, LF_OP_EMBED, 5, 5, 0);
    assert_int_equal((int)embed.bytes, 5 * HIDDEN * (2 + 4));
    lf_programs_deinit(&p);
    p = make_scaled(false);
    struct lf_op_cost cap = cost_of(&p, LF_OP_SOFTCAP, 5, 5, 0); /* of the one token with logits */
    assert_int_equal((int)cap.bytes, 2 * VOCAB * 4);
    assert_true(cap.flops > 0);
    lf_programs_deinit(&p);
}

/* ---- experts ---- */

static void rows_of_experts_are_so_many_for_each_token(void **state)
{
    (void)state;
    struct lf_programs p = make_with_experts(true, true);
    const struct lf_program *all = &p.of[LF_WANTED_ALL], *some = &p.of[LF_WANTED_SOME];
    assert_int_equal(count(all, LF_OP_ROUTE), 2);
    assert_int_equal(count(all, LF_OP_EXPERT_GEMM), 4);
    assert_int_equal(count(all, LF_OP_EXPERT_SUM), 2);
    for (int i = 0; i < some->n_ops; i++) {
        const struct lf_op *op = &some->ops[i];
        const struct lf_value *y = &some->values[op->out[LF_OP_Y]];
        bool is_of_expert = op->kind == LF_OP_EXPERT_GEMM ||
                            (op->kind == LF_OP_GATE_MUL && some->values[op->in[LF_OP_X]].width == 2 * EXPERT_WIDTH);
        assert_int_equal(y->each, is_of_expert ? CHOSEN : 0);
        if (op->kind != LF_OP_ROUTE) continue;
        const struct lf_value *routing = &some->values[op->out[LF_OP_Y_ROUTING]];
        const struct lf_value *first = &some->values[op->out[LF_OP_Y_FIRST]];
        assert_true(routing->is_int && routing->width == 2 * CHOSEN && routing->rows == y->rows);
        assert_true(first->is_int && first->width == EXPERTS + 1 && first->rows == LF_ROWS_ONE);
    }
    /* behind the pick the last layer's experts compute picked tokens alone */
    int route = some->n_ops - 1;
    while (some->ops[route].kind != LF_OP_ROUTE) route--;
    assert_int_equal(some->values[some->ops[route].out[LF_OP_Y]].rows, LF_ROWS_OUT);
    assert_int_equal(some->values[some->ops[first_of(some, LF_OP_ROUTE)].out[LF_OP_Y]].rows, LF_ROWS_TOKENS);
    lf_programs_deinit(&p);
}

static void a_device_without_experts_refuses_models_that_have_them(void **state)
{
    (void)state;
    struct lf_programs p;
    struct lf_err err;
    struct lf_hparams hp = hparams_with_experts();
    const struct lf_ops ops = {.name = "none"};
    hp.architecture = "Qwen3MoeForCausalLM";
    assert_int_equal(lf_programs_make(&p, &hp, &ops, true, &err), LF_UNSUPPORTED);
    assert_non_null(strstr(err.message, "Qwen3MoeForCausalLM has experts, which are not implemented on this device"));
}

static void experts_whose_shapes_do_not_fit_are_named(void **state)
{
    (void)state;
    struct lf_programs p = make_with_experts(false, true);
    p.recorded.values[p.recorded.ops[first_of(&p.recorded, LF_OP_ROUTE)].out[LF_OP_Y]].width = EXPERTS + 1;
    expect_wrong(&p, "route of layer -1: its number of experts a token is 9, expected 8");
    p = make_with_experts(false, true);
    p.recorded.values[p.recorded.ops[first_of(&p.recorded, LF_OP_ROUTE)].out[LF_OP_Y_ROUTING]].width--;
    expect_wrong(&p, "the width of its routing is 5");
    p = make_with_experts(false, true);
    p.recorded.values[p.recorded.ops[first_of(&p.recorded, LF_OP_ROUTE)].out[LF_OP_Y_FIRST]].width--;
    expect_wrong(&p, "the width of its list of first rows is 8, expected 9");
    p = make_with_experts(false, true);
    p.recorded.ops[first_of(&p.recorded, LF_OP_ROUTE)].out[LF_OP_Y_FIRST] = LF_NONE;
    expect_wrong(&p, "the number of its outputs is 1, expected 3");
    p = make_with_experts(false, true);
    struct lf_op *gemm = &p.recorded.ops[first_of(&p.recorded, LF_OP_EXPERT_GEMM)];
    p.recorded.slots[gemm->weight[LF_OP_W]].n_experts = EXPERTS + 1;
    expect_wrong(&p, "expert_gemm of layer -1: the width of its routing is 9, expected 10");
    p = make_with_experts(false, true);
    gemm = &p.recorded.ops[first_of(&p.recorded, LF_OP_EXPERT_GEMM)];
    p.recorded.slots[gemm->weight[LF_OP_W]].n_experts = 0;
    expect_wrong(&p, "its matrices' slot");
    p = make_with_experts(false, true);
    gemm = &p.recorded.ops[first_of(&p.recorded, LF_OP_EXPERT_GEMM)];
    p.recorded.slots[gemm->weight[LF_OP_W]].n_in++;
    expect_wrong(&p, "the width of its input is 64, expected 65");
    p = make_with_experts(false, true);
    gemm = &p.recorded.ops[first_of(&p.recorded, LF_OP_EXPERT_GEMM)];
    gemm->in[LF_OP_ROUTING] = gemm->in[LF_OP_FIRST];
    expect_wrong(&p, "a value of routing");
    p = make_with_experts(false, true);
    gemm = &p.recorded.ops[first_of(&p.recorded, LF_OP_EXPERT_GEMM)];
    p.recorded.values[gemm->out[LF_OP_Y]].each = CHOSEN + 1;
    expect_wrong(&p, "the width of its routing is 6, expected 8");
    p = make_with_experts(false, true);
    p.recorded.values[p.recorded.ops[first_of(&p.recorded, LF_OP_GATE_MUL)].out[LF_OP_Y]].each = 0;
    expect_wrong(&p, "gate_mul of layer -1: its number of rows a token is 0, expected 3");
    p = make_with_experts(false, true);
    struct lf_op *sum = &p.recorded.ops[first_of(&p.recorded, LF_OP_EXPERT_SUM)];
    sum->in[LF_OP_ROUTE_WEIGHTS] = sum->in[LF_OP_RESIDUAL];
    expect_wrong(&p, "expert_sum of layer -1: the number of its weights is 64, expected 3");
    p = make_with_experts(false, true);
    p.recorded.values[p.recorded.ops[first_of(&p.recorded, LF_OP_EXPERT_SUM)].out[LF_OP_Y]].width--;
    expect_wrong(&p, "the width of its output is 63, expected 64");
    p = make_with_experts(false, true);
    struct lf_op *router = &p.recorded.ops[first_of(&p.recorded, LF_OP_ROUTE) - 1];
    p.recorded.slots[router->weight[LF_OP_W]].n_experts = 2;
    expect_wrong(&p, "gemm of layer -1: its matrix's slot");
}

static void a_step_reads_the_experts_that_its_tokens_choose(void **state)
{
    (void)state;
    assert_true(fabs(lf_cost_experts(1, 3, 8) - 3) < 1e-12);
    assert_true(fabs(lf_cost_experts(2, 3, 8) - (3 + 3 * 5.0 / 8)) < 1e-12); /* the second token's that are new */
    assert_true(fabs(lf_cost_experts(5, 8, 8) - 8) < 1e-12);
    assert_true(lf_cost_experts(200, 3, 8) > 7.999 && lf_cost_experts(200, 3, 8) <= 8);
    struct lf_programs p = make_with_experts(false, true);
    static const double n_experts[] = {0, 3, 3 + 3 * 5.0 / 8};
    for (int n = 1; n <= 2; n++) {
        struct lf_op_cost gemm = cost_of(&p, LF_OP_EXPERT_GEMM, n, n, 0);
        assert_true(fabs(gemm.flops - 2.0 * n * CHOSEN * HIDDEN * 2 * EXPERT_WIDTH) < 0.5);
        double of_weights = n_experts[n] * 2 * EXPERT_WIDTH * HIDDEN * 2;
        double of_values = n * (HIDDEN + CHOSEN * 2 * EXPERT_WIDTH) * 2 + n * 2 * CHOSEN * 4 + (EXPERTS + 1) * 4;
        assert_true(fabs(gemm.bytes - of_weights - of_values) < 0.5);
        struct lf_op_cost sum = cost_of(&p, LF_OP_EXPERT_SUM, n, n, 0);
        assert_true(fabs(sum.flops - 2.0 * n * CHOSEN * HIDDEN) < 0.5);
        assert_true(fabs(sum.bytes - n * ((CHOSEN + 2) * HIDDEN * 4 + 2 * CHOSEN * 4 + CHOSEN * 4)) < 0.5);
        struct lf_op_cost route = cost_of(&p, LF_OP_ROUTE, n, n, 0);
        assert_true(route.flops > 0 && fabs(route.bytes - n * (EXPERTS + 3 * CHOSEN) * 4 - (EXPERTS + 1) * 4) < 0.5);
    }
    lf_programs_deinit(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recording_is_deterministic_and_knows_every_tensor),
        cmocka_unit_test(rows_that_nobody_wants_end_with_the_last_append),
        cmocka_unit_test(each_fusion_takes_the_place_of_what_it_fuses),
        cmocka_unit_test(what_one_gemm_reads_is_written_as_codes),
        cmocka_unit_test(so_is_what_one_gemm_of_experts_reads),
        cmocka_unit_test(what_two_ops_read_is_not_fused_away),
        cmocka_unit_test(ops_carry_what_they_were_recorded_with),
        cmocka_unit_test(no_value_lies_where_another_one_is_still_read),
        cmocka_unit_test(a_step_takes_no_more_than_its_largest_op),
        cmocka_unit_test(random_programs_keep_their_values_apart),
        cmocka_unit_test(an_op_whose_shapes_do_not_fit_is_named),
        cmocka_unit_test(an_op_beyond_llama_that_does_not_fit_is_named),
        cmocka_unit_test(sinks_are_a_vector_of_one_number_a_head),
        cmocka_unit_test(costs_are_what_counting_gives),
        cmocka_unit_test(rows_of_experts_are_so_many_for_each_token),
        cmocka_unit_test(a_device_without_experts_refuses_models_that_have_them),
        cmocka_unit_test(experts_whose_shapes_do_not_fit_are_named),
        cmocka_unit_test(a_step_reads_the_experts_that_its_tokens_choose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
