/* One model over several ranks: who has which rows and columns, where sums are made, what is refused, and that random
 * weights, too, are parts of the same model. */
#include <math.h>
#include <stdlib.h>

#include "core/check.h"
#include "model/formats/quantization.h"
#include "model/passes/passes.h"
#include "model/weights.h"
#include "tests/support/config_text.h"
#include "tests/support/rank_rigs.h"
#include "tests/unit/model/programs_rig.h"

enum { MOST_RANKS = 8, LAYERS = 2 };

static void read_config(struct lf_hparams *hp, const struct config_text *c)
{
    struct temp_dir dir = temp_dir_make();
    struct lf_err err;
    config_write(c, &dir);
    if (lf_hparams_read(hp, dir.path, &err) != LF_OK) fail_msg("%s", err.message);
    temp_dir_remove(&dir);
}

/* 8 query heads and 4 KV heads; a vocabulary that no number of ranks divides. */
static struct config_text config_of(const char *architecture, const char *model_type)
{
    struct config_text c = config_good(architecture, model_type);
    config_set(&c, "num_attention_heads", "8");
    config_set(&c, "num_key_value_heads", "4");
    config_set(&c, "head_dim", "8");
    config_set(&c, "vocab_size", "51");
    return c;
}

static struct config_text with_biases(void)
{
    struct config_text c = config_of("[\"LlamaForCausalLM\"]", "\"llama\"");
    config_set(&c, "attention_bias", "true");
    config_set(&c, "mlp_bias", "true");
    return c;
}

static struct config_text stacked(void)
{
    struct config_text c = config_of("[\"Phi3ForCausalLM\"]", "\"phi3\"");
    config_set(&c, "pad_token_id", "0");
    return c;
}

static struct config_text with_experts(void)
{
    struct config_text c = config_of("[\"Qwen3MoeForCausalLM\"]", "\"qwen3_moe\"");
    config_set(&c, "num_experts", "5");
    config_set(&c, "num_experts_per_tok", "2");
    config_set(&c, "moe_intermediate_size", "24");
    config_set(&c, "mlp_only_layers", "[1]");
    return c;
}

static struct lf_program program_of(struct lf_hparams *hp, int rank, int n_ranks)
{
    struct lf_program p;
    struct lf_err err;
    hp->split = (struct lf_split){.rank = rank, .n_ranks = n_ranks};
    if (lf_program_record(&p, hp, &err) != LF_OK) fail_msg("%s", err.message);
    return p;
}

/* ---- slots ---- */

/* How many ranks have each element of the tensors of one slot: they are one behind the other. */
struct cover {
    int *counts; /* [n_rows, n_columns] */
    int n_rows, n_columns;
};

/* The first row of the part's tensor among those of the slot: tensors stand in the order of their parts. */
static int tensor_begin(const struct lf_slot *whole, const char *pattern)
{
    int row = 0;
    for (int k = 0; strcmp(whole->parts[k].pattern, pattern) != 0; k++) row += whole->parts[k].n_rows;
    return row;
}

static void add_cover(struct cover *c, const struct lf_slot *whole, const struct lf_slot *of_rank)
{
    int n_out = 0;
    for (int k = 0; k < of_rank->n_parts; k++) {
        const struct lf_slot_part *part = &of_rank->parts[k];
        int begin = tensor_begin(whole, part->pattern) + part->rank_row;
        n_out += part->n_rows;
        assert_true(part->n_rows > 0 && of_rank->rank_column + of_rank->n_in <= c->n_columns);
        for (int row = begin; row < begin + part->n_rows; row++)
            for (int i = 0; i < of_rank->n_in; i++) c->counts[row * c->n_columns + of_rank->rank_column + i]++;
    }
    assert_int_equal(n_out, of_rank->n_out);
}

/* How many ranks have a row of the slot. */
static int expected_count(const struct lf_slot *whole, int row, int n_ranks, const struct lf_hparams *hp)
{
    if (whole->shard == LF_SHARD_NONE || (whole->shard == LF_SHARD_COLUMNS && whole->is_vector)) return n_ranks;
    bool is_kv = whole->shard == LF_SHARD_HEADS && row >= hp->n_heads * hp->head_dim;
    return is_kv && n_ranks > hp->n_kv_heads ? n_ranks / hp->n_kv_heads : 1;
}

static void check_cover(const struct config_text *config, int n_ranks)
{
    struct lf_hparams hp;
    struct lf_program of_rank[MOST_RANKS];
    read_config(&hp, config);
    struct lf_program whole = program_of(&hp, 0, 1);
    for (int r = 0; r < n_ranks; r++) of_rank[r] = program_of(&hp, r, n_ranks);
    for (int i = 0; i < whole.n_slots; i++) {
        const struct lf_slot *slot = &whole.slots[i];
        struct cover c = {.n_rows = slot->n_out, .n_columns = slot->n_in};
        c.counts = calloc((size_t)c.n_rows * (size_t)c.n_columns, sizeof(int));
        for (int r = 0; r < n_ranks; r++) {
            assert_int_equal(of_rank[r].n_slots, whole.n_slots);
            add_cover(&c, slot, &of_rank[r].slots[i]);
            /* rank 0, for which is planned, has most */
            assert_true(of_rank[r].slots[i].n_out <= of_rank[0].slots[i].n_out);
        }
        for (int k = 0; k < c.n_rows * c.n_columns; k++)
            assert_int_equal(c.counts[k], expected_count(slot, k / c.n_columns, n_ranks, &hp));
        free(c.counts);
    }
    for (int r = 0; r < n_ranks; r++) lf_program_deinit(&of_rank[r]);
    lf_program_deinit(&whole);
    lf_hparams_deinit(&hp);
}

static void ranks_have_every_element_once_and_kv_heads_as_often_as_there_are_too_few(void **state)
{
    (void)state;
    struct config_text configs[] = {with_biases(), stacked(), with_experts(),
                                    config_of("[\"Qwen3ForCausalLM\"]", "\"qwen3\"")};
    for (size_t i = 0; i < LF_N_ELEMS(configs); i++)
        for (int n = 2; n <= MOST_RANKS; n *= 2) check_cover(&configs[i], n);
}

static void a_cut_anywhere_leaves_nothing_out(void **state)
{
    (void)state;
    for (int n = 1; n < 70; n++)
        for (int n_ranks = 1; n_ranks <= LF_MIN(n, LF_RANKS_N); n_ranks++) {
            int longest = lf_split_first(n, 1, n_ranks);
            assert_int_equal(lf_split_first(n, 0, n_ranks), 0);
            assert_int_equal(lf_split_first(n, n_ranks, n_ranks), n);
            for (int r = 0; r < n_ranks; r++) {
                int length = lf_split_first(n, r + 1, n_ranks) - lf_split_first(n, r, n_ranks);
                assert_true(length == longest || (length == longest - 1 && length > 0));
            }
        }
}

/* ---- ops ---- */

static void two_sums_a_layer_one_of_the_embedding_and_the_logits_of_all(void **state)
{
    (void)state;
    struct lf_hparams hp;
    struct config_text c = with_biases();
    read_config(&hp, &c);
    for (int r = 0; r < 4; r++) {
        struct lf_program p = program_of(&hp, r, 4);
        assert_int_equal(count(&p, LF_OP_ALL_REDUCE), 2 * LAYERS + 1);
        assert_int_equal(count(&p, LF_OP_ALL_GATHER), 1);
        assert_int_equal(p.values[p.logits].width, 51);
        for (int i = 0; i < p.n_ops; i++) {
            const struct lf_op *op = &p.ops[i];
            if (op->kind == LF_OP_EMBED) assert_int_equal(op->first_id, (51 * r + 3) / 4);
            if (op->kind == LF_OP_ATTENTION) assert_int_equal(p.values[op->out[LF_OP_Y]].width, 2 * 8);
            if (op->kind == LF_OP_GATE_MUL) assert_int_equal(p.values[op->out[LF_OP_Y]].width, 96 / 4);
            if (op->kind != LF_OP_ALL_REDUCE) continue;
            /* what is a part of a sum has no residual, and its bias on rank 0 alone */
            const struct lf_op *before = &p.ops[i - 1];
            assert_true(before->in[LF_OP_RESIDUAL] == LF_NONE);
            assert_int_equal(op->in[LF_OP_RESIDUAL] != LF_NONE, before->kind == LF_OP_GEMM);
            assert_int_equal(before->weight[LF_OP_BIAS] != LF_NONE, before->kind == LF_OP_GEMM && r == 0);
        }
        lf_program_deinit(&p);
    }
    lf_hparams_deinit(&hp);
}

/* As on a GPU: half of a norm behind a sum is the sum's, as it is a gemm's where there is one rank. */
static void norms_behind_sums_are_fused_into_them(void **state)
{
    (void)state;
    struct lf_hparams hp;
    struct lf_err err = {0};
    struct config_text c = with_biases();
    int n_fused = 0;
    read_config(&hp, &c);
    struct lf_program p = program_of(&hp, 1, 2);
    if (lf_pass_fuse(&p, (struct lf_fuse_opts){.norms = true}, &err) != LF_OK) fail_msg("%s", err.message);
    if (lf_pass_check(&p, p.slots, p.n_slots, &err) != LF_OK) fail_msg("%s", err.message);
    assert_int_equal(count(&p, LF_OP_RMSNORM), 1); /* that before the logits */
    for (int i = 0; i < p.n_ops; i++) {
        const struct lf_op *op = &p.ops[i];
        if (op->kind != LF_OP_ALL_REDUCE || op->weight[LF_OP_NORM] == LF_NONE) continue;
        const struct lf_op *reader = &p.ops[i + 1];
        n_fused++;
        assert_int_equal(reader->in[LF_OP_X], op->out[LF_OP_Y2]);
        assert_int_equal(reader->in[LF_OP_X_SUM_SQUARES], op->out[LF_OP_Y_SUM_SQUARES]);
        assert_true(reader->x_eps == op->eps && op->eps > 0);
    }
    assert_int_equal(n_fused, 2 * LAYERS);
    lf_program_deinit(&p);
    lf_hparams_deinit(&hp);
}

static void the_sum_of_a_token_s_experts_is_added_up_once(void **state)
{
    (void)state;
    struct lf_hparams hp;
    struct config_text c = with_experts();
    read_config(&hp, &c);
    struct lf_program p = program_of(&hp, 1, 4);
    int n_sums = 0;
    assert_int_equal(count(&p, LF_OP_ALL_REDUCE), 2 * LAYERS + 1);
    for (int i = 0; i + 1 < p.n_ops; i++) {
        const struct lf_op *op = &p.ops[i];
        if (op->kind != LF_OP_EXPERT_SUM) continue;
        n_sums++;
        assert_int_equal(op->in[LF_OP_RESIDUAL], LF_NONE);
        assert_true(p.values[op->in[LF_OP_X]].is_term);
        assert_int_equal(p.slots[p.ops[i - 1].weight[LF_OP_W]].n_in, 24 / 4);
        assert_int_equal(p.ops[i + 1].kind, LF_OP_ALL_REDUCE);
        assert_int_not_equal(p.ops[i + 1].in[LF_OP_RESIDUAL], LF_NONE);
    }
    assert_int_equal(n_sums, LAYERS - 1);
    lf_program_deinit(&p);
    lf_hparams_deinit(&hp);
}

static void the_program_of_one_rank_is_as_it_was_recorded(void **state)
{
    (void)state;
    struct lf_hparams hp;
    struct config_text c = with_biases();
    read_config(&hp, &c);
    struct lf_program none = program_of(&hp, 0, 0), one = program_of(&hp, 0, 1);
    assert_int_equal(none.n_ops, one.n_ops);
    assert_memory_equal(none.ops, one.ops, (size_t)one.n_ops * sizeof(*one.ops));
    assert_int_equal(count(&one, LF_OP_ALL_REDUCE) + count(&one, LF_OP_ALL_GATHER), 0);
    for (int i = 0; i < one.n_slots; i++)
        assert_true(one.slots[i].rank_columns == 0 && one.slots[i].parts[0].rank_rows == 0);
    lf_program_deinit(&none);
    lf_program_deinit(&one);
    lf_hparams_deinit(&hp);
}

/* ---- what is refused ---- */

static void expect_refusal(struct lf_hparams *hp, int n_ranks, enum lf_status status, const char *words)
{
    struct lf_program p;
    struct lf_err err = {0};
    hp->split = (struct lf_split){.n_ranks = n_ranks};
    assert_int_equal(lf_program_record(&p, hp, &err), status);
    if (!strstr(err.message, words)) fail_msg("\"%s\" does not say \"%s\"", err.message, words);
}

static void families_that_are_not_divided_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *dir, *words;
    } rows[] = {{"olmo2-f32", "Olmo2ForCausalLM has norms of all heads at once"},
                {"gemma4-f32", "has heads of another shape"},
                {"gemma4-inputs-f32", "has inputs of each layer"}};
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++) {
        struct lf_hparams hp;
        char dir[256];
        snprintf(dir, sizeof(dir), "tests/golden/model/data/%s", rows[i].dir);
        assert_int_equal(lf_hparams_read(&hp, dir, NULL), LF_OK);
        expect_refusal(&hp, 2, LF_UNSUPPORTED, rows[i].words);
        expect_refusal(&hp, 2, LF_UNSUPPORTED, "not divided over ranks yet: one rank computes them");
        lf_hparams_deinit(&hp);
    }
}

static void heads_and_rows_that_do_not_divide_are_named_with_what_would(void **state)
{
    (void)state;
    struct lf_hparams hp;
    struct config_text c = with_biases();
    read_config(&hp, &c);
    expect_refusal(&hp, 3, LF_INVALID, "over 3 ranks: it has 8 query heads of model.layers.#.self_attn.q_proj; ");
    expect_refusal(&hp, 3, LF_INVALID, "expected 1, 2, 4, 8");
    expect_refusal(&hp, 16, LF_INVALID, "expected 1, 2, 4, 8");
    lf_hparams_deinit(&hp);
    config_set(&c, "intermediate_size", "90");
    read_config(&hp, &c);
    expect_refusal(&hp, 4, LF_INVALID, "over 4 ranks: it has 90 rows of model.layers.#.mlp.gate_proj; expected 1, 2");
    lf_hparams_deinit(&hp);
    config_set(&c, "intermediate_size", "96");
    config_set(&c, "num_attention_heads", "12");
    config_set(&c, "num_key_value_heads", "6");
    read_config(&hp, &c);
    expect_refusal(&hp, 4, LF_INVALID, "it has 6 KV heads of model.layers.#.self_attn.k_proj; expected 1, 2, 3, 6, 12");
    lf_hparams_deinit(&hp);
    config_set(&c, "num_key_value_heads", "4");
    read_config(&hp, &c);
    expect_refusal(&hp, 6, LF_INVALID, "it has 4 KV heads of model.layers.#.self_attn.k_proj; expected 1, 2, 4, 12");
    lf_hparams_deinit(&hp);
    config_set(&c, "num_attention_heads", "16");
    read_config(&hp, &c);
    expect_refusal(&hp, 3, LF_INVALID, "expected 1, 2, 4, 8, 16");
    lf_hparams_deinit(&hp);
    config_set(&c, "num_attention_heads", "5");
    config_set(&c, "num_key_value_heads", "5");
    read_config(&hp, &c);
    expect_refusal(&hp, 5, LF_INVALID, "expected 1 rank: no other number divides it");
    lf_hparams_deinit(&hp);
}

static void each_rank_has_a_word_at_least(void **state)
{
    (void)state;
    struct lf_hparams hp;
    struct config_text c = config_of("[\"LlamaForCausalLM\"]", "\"llama\"");
    config_set(&c, "vocab_size", "8");
    read_config(&hp, &c);
    struct lf_program p = program_of(&hp, 7, 8);
    lf_program_deinit(&p);
    lf_hparams_deinit(&hp);
    config_set(&c, "vocab_size", "7");
    read_config(&hp, &c);
    expect_refusal(&hp, 8, LF_INVALID, "it has 7 rows of model.embed_tokens; expected 1, 2, 4");
    lf_hparams_deinit(&hp);
}

/* ---- programs that no family has ---- */

/* The first op of the kind from ops[from] on. */
static int find(const struct lf_program *p, enum lf_op_kind kind, int from)
{
    while (from < p->n_ops && p->ops[from].kind != kind) from++;
    assert_true(from < p->n_ops);
    return from;
}

static void a_norm_reads_heads(struct lf_program *p)
{
    int attention = find(p, LF_OP_ATTENTION, 0);
    p->ops[find(p, LF_OP_RMSNORM, attention)].in[LF_OP_X] = p->ops[attention].out[LF_OP_Y];
}

static void heads_are_added_to_the_stream(struct lf_program *p)
{
    p->ops[find(p, LF_OP_ATTENTION, 0)].in[LF_OP_RESIDUAL] = p->ops[0].out[LF_OP_Y];
}

static void rows_are_added_to_the_stream(struct lf_program *p)
{
    p->ops[find(p, LF_OP_GEMM, 0)].in[LF_OP_RESIDUAL] = p->ops[0].out[LF_OP_Y];
}

static void a_whole_matrix_reads_channels(struct lf_program *p)
{
    p->slots[p->ops[find(p, LF_OP_GEMM, find(p, LF_OP_GATE_MUL, 0))].weight[LF_OP_W]].shard = LF_SHARD_NONE;
}

static void a_sum_is_rounded(struct lf_program *p)
{
    p->values[p->ops[find(p, LF_OP_GEMM, find(p, LF_OP_ATTENTION, 0))].out[LF_OP_Y]].is_float = false;
}

static void whole_experts_read_channels(struct lf_program *p)
{
    p->slots[p->ops[find(p, LF_OP_EXPERT_GEMM, find(p, LF_OP_GATE_MUL, 0))].weight[LF_OP_W]].shard = LF_SHARD_NONE;
}

static void a_convolution_reads_all_channels(struct lf_program *p)
{
    int conv = find(p, LF_OP_CONV, 0), made = 0;
    while (p->ops[made].out[LF_OP_Y] != p->ops[conv].in[LF_OP_X]) made++;
    p->slots[p->ops[made].weight[LF_OP_W]].shard = LF_SHARD_NONE;
}

static void columns_are_odd(struct lf_program *p)
{
    p->slots[p->ops[find(p, LF_OP_GEMM, find(p, LF_OP_GATE_MUL, 0))].weight[LF_OP_W]].n_in = 95;
}

static void gate_and_up_alternate(struct lf_program *p)
{
    struct lf_slot *slot = &p->slots[p->ops[find(p, LF_OP_GATE_MUL, 0) - 1].weight[LF_OP_W]];
    slot->parts[0].n_rows = 98; /* 49 pairs */
    slot->parts[0].order = LF_ROWS_DEINTERLEAVE;
}

static void expect_refused(struct lf_hparams *hp, void (*change)(struct lf_program *p), enum lf_status status,
                           const char *words)
{
    struct lf_err err = {0};
    struct lf_program p = program_of(hp, 0, 1);
    change(&p);
    assert_int_equal(lf_pass_shard(&p, &(struct lf_split){.rank = 1, .n_ranks = 2}, "Made", &err), status);
    if (!strstr(err.message, words)) fail_msg("\"%s\" does not say \"%s\"", err.message, words);
    lf_program_deinit(&p);
}

static void columns_and_pairs_of_rows_that_do_not_divide_are_refused(void **state)
{
    (void)state;
    struct lf_hparams hp;
    struct config_text c = with_biases();
    read_config(&hp, &c);
    expect_refused(&hp, columns_are_odd, LF_INVALID, "it has 95 columns of model.layers.#.mlp.down_proj; expected 1");
    expect_refused(&hp, gate_and_up_alternate, LF_INVALID, "it has 98 rows of model.layers.#.mlp.gate_proj");
    lf_hparams_deinit(&hp);
}

static void expect_mismatch(struct lf_hparams *hp, void (*change)(struct lf_program *p), const char *op)
{
    char words[64];
    snprintf(words, sizeof(words), "Made: %s of layer ", op);
    expect_refused(hp, change, LF_UNSUPPORTED, words);
}

static void what_reads_a_part_that_it_needs_whole_is_refused(void **state)
{
    (void)state;
    struct lf_hparams dense, experts, delta;
    struct config_text c = with_biases(), e = with_experts();
    read_config(&dense, &c);
    expect_mismatch(&dense, a_norm_reads_heads, "rmsnorm");
    expect_mismatch(&dense, heads_are_added_to_the_stream, "attention");
    expect_mismatch(&dense, rows_are_added_to_the_stream, "gemm");
    expect_mismatch(&dense, a_whole_matrix_reads_channels, "gemm");
    expect_mismatch(&dense, a_sum_is_rounded, "gemm");
    lf_hparams_deinit(&dense);
    read_config(&experts, &e);
    expect_mismatch(&experts, whole_experts_read_channels, "expert_gemm");
    lf_hparams_deinit(&experts);
    assert_int_equal(lf_hparams_read(&delta, "tests/golden/model/data/qwen3-next-f32", NULL), LF_OK);
    expect_mismatch(&delta, a_convolution_reads_all_channels, "conv");
    lf_hparams_deinit(&delta);
}

static void more_gpus_than_a_host_has_are_refused_before_anything_is_planned(void **state)
{
    (void)state;
    struct lf_hparams hp;
    struct lf_plan plan;
    struct lf_err err = {0};
    struct lf_device_info info = {.kind = "cuda", .is_host = false};
    struct lf_plan_opts opts = {.ctx = 64};
    struct config_text c = with_biases();
    read_config(&hp, &c);
    hp.split.n_ranks = LF_GPU_RANKS_N + 1;
    assert_int_equal(lf_plan_make(&plan, &hp, 1, NULL, &info, &opts, &err), LF_UNSUPPORTED);
    assert_string_equal(err.message, "ranks on GPUs are those of one machine, 8 at most, not 9");
    hp.split = (struct lf_split){.n_ranks = 3, .n_cp = 3};
    assert_int_equal(lf_plan_make(&plan, &hp, 1, NULL, &info, &opts, &err), LF_UNSUPPORTED);
    assert_string_equal(err.message, "ranks on GPUs are those of one machine, 8 at most, not 9");
    hp.delta.n_v_heads = 4;
    for (int cp = 0; cp < 2; cp++) {
        hp.split = cp ? (struct lf_split){.n_cp = 2} : (struct lf_split){.n_ranks = 2};
        assert_int_equal(lf_plan_make(&plan, &hp, 1, NULL, &info, &opts, &err), LF_UNSUPPORTED);
        assert_non_null(strstr(err.message, "gated delta nets have not been run over several GPUs yet"));
    }
    lf_hparams_deinit(&hp);
}

/* ---- loading ---- */

enum { N_IDS = 90, VOCAB = 51, CHUNK = 16 };

struct outcome {
    float logits[MOST_RANKS][N_IDS * VOCAB];
};

static void run_prompt(struct model_rig *rig, int rank, void *ctx)
{
    struct outcome *o = ctx;
    int32_t ids[N_IDS], blocks[2] = {1, 0};
    for (int i = 0; i < N_IDS; i++) ids[i] = (i * i + 7 * i) % VOCAB;
    model_rig_run(rig, blocks, ids, N_IDS, 0, CHUNK, true, o->logits[rank]);
}

static struct model_rig_opts dummy_opts(const struct temp_dir *dir)
{
    return (struct model_rig_opts){.dir = dir->path,
                                   .load = LF_LOAD_DUMMY,
                                   .seed = 5,
                                   .max_isa = -1,
                                   .n_threads = 2,
                                   .ctx = 128,
                                   .chunk = CHUNK,
                                   .max_seqs = 1,
                                   .max_out = CHUNK,
                                   .kv_dtype = LF_F32};
}

/* The ranks' parts of random weights are those of the one model: it computes the same, up to the order of sums. */
static void random_weights_are_parts_of_one_model(void **state)
{
    (void)state;
    struct config_text configs[] = {with_biases(), stacked(), with_biases(), with_experts()};
    config_set(&configs[2], "tie_word_embeddings", "true");
    config_set(&configs[2], "torch_dtype", "\"bfloat16\"");
    static struct outcome one, several;
    for (size_t i = 0; i < LF_N_ELEMS(configs); i++) {
        struct temp_dir dir = temp_dir_make();
        config_write(&configs[i], &dir);
        struct model_rig_opts opts = dummy_opts(&dir);
        rank_rigs_run(&opts, 1, run_prompt, &one);
        double most = 0;
        for (int k = 0; k < N_IDS * VOCAB; k++) most = fmax(most, fabs((double)one.logits[0][k]));
        assert_true(most > 0.1);
        for (int n = 2; n <= MOST_RANKS; n *= 2) {
            rank_rigs_run(&opts, n, run_prompt, &several);
            double worst = 0;
            for (int k = 0; k < N_IDS * VOCAB; k++)
                worst = fmax(worst, fabs((double)several.logits[0][k] - (double)one.logits[0][k]));
            if (!(worst < 2e-2 * most)) fail_msg("config %zu, %d ranks: %g of %g", i, n, worst, most);
            for (int r = 1; r < n; r++)
                assert_memory_equal(several.logits[r], several.logits[0], sizeof(several.logits[0]));
        }
        temp_dir_remove(&dir);
    }
}

static void note_total(void *ctx, uint64_t done, uint64_t total)
{
    (void)done;
    *(uint64_t *)ctx = total;
}

/* What a rank reads of the files, and what its weights take. */
static uint64_t bytes_read(int rank, int n_ranks, uint64_t *weight_bytes)
{
    static const char dir[] = "tests/golden/model/data/llama3-f32";
    struct lf_device_opts dev_opts = {.name = "cpu", .n_threads = 1, .max_isa = -1};
    struct lf_device *dev;
    struct lf_hparams hp;
    struct lf_weights_size size;
    struct lf_err err;
    uint64_t total = 0;
    assert_int_equal(lf_device_open(&dev, &dev_opts, &err), LF_OK);
    assert_int_equal(lf_hparams_read(&hp, dir, &err), LF_OK);
    struct lf_program program = program_of(&hp, rank, n_ranks);
    struct lf_model_opts opts = {.dir = dir, .progress = note_total, .progress_ctx = &total};
    struct lf_tensor_set set;
    struct lf_weight_layout *layout;
    struct lf_weights weights;
    assert_int_equal(lf_weights_measure(&size, &hp, &opts, dev, &err), LF_OK);
    assert_int_equal(lf_tensor_set_open(&set, dir, &err), LF_OK);
    assert_int_equal(lf_weight_layout_make(&layout, &hp, &program, &set, LF_CODE_NONE, dev, &err), LF_OK);
    assert_int_equal(lf_weight_layout_bytes(layout), size.bytes);
    assert_int_equal(lf_weights_load(&weights, dev, layout, &opts, &err), LF_OK);
    *weight_bytes = size.bytes;
    lf_weights_unload(&weights, dev);
    lf_weight_layout_free(layout);
    lf_tensor_set_close(&set);
    lf_program_deinit(&program);
    lf_hparams_deinit(&hp);
    lf_device_close(dev);
    return total;
}

static void loading_reads_a_rank_s_part_and_no_more(void **state)
{
    (void)state;
    uint64_t weight_bytes, of_rank, sum = 0, whole = bytes_read(0, 1, &weight_bytes);
    for (int r = 0; r < 2; r++) {
        sum += bytes_read(r, 2, &of_rank);
        assert_true(of_rank < weight_bytes * 6 / 10);
    }
    /* norms are each rank's: 2 a layer, and the last one */
    struct lf_hparams hp;
    assert_int_equal(lf_hparams_read(&hp, "tests/golden/model/data/llama3-f32", NULL), LF_OK);
    assert_int_equal(sum, whole + (uint64_t)(2 * hp.n_layers + 1) * (uint64_t)hp.hidden * sizeof(float));
    lf_hparams_deinit(&hp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_have_every_element_once_and_kv_heads_as_often_as_there_are_too_few),
        cmocka_unit_test(a_cut_anywhere_leaves_nothing_out),
        cmocka_unit_test(two_sums_a_layer_one_of_the_embedding_and_the_logits_of_all),
        cmocka_unit_test(norms_behind_sums_are_fused_into_them),
        cmocka_unit_test(the_sum_of_a_token_s_experts_is_added_up_once),
        cmocka_unit_test(the_program_of_one_rank_is_as_it_was_recorded),
        cmocka_unit_test(families_that_are_not_divided_are_refused_by_name),
        cmocka_unit_test(heads_and_rows_that_do_not_divide_are_named_with_what_would),
        cmocka_unit_test(each_rank_has_a_word_at_least),
        cmocka_unit_test(columns_and_pairs_of_rows_that_do_not_divide_are_refused),
        cmocka_unit_test(what_reads_a_part_that_it_needs_whole_is_refused),
        cmocka_unit_test(more_gpus_than_a_host_has_are_refused_before_anything_is_planned),
        cmocka_unit_test(random_weights_are_parts_of_one_model),
        cmocka_unit_test(loading_reads_a_rank_s_part_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
