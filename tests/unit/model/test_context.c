/* One context over several ranks: which rows each op of their programs has, and where rows are gathered, cut and
 * combined. Pure; that programs compute the same is model/ranks of tests/golden. */
#include "core/check.h"
#include "device/comm.h"
#include "model/formats/quantization.h"
#include "model/plan.h"
#include "tests/support/config_text.h"
#include "tests/unit/model/programs_rig.h"

enum { MOST_CP = 4, LAYERS = 2 };

/* ---- rows of a step ---- */

static void every_row_is_one_rank_s_or_everybody_s(void **state)
{
    (void)state;
    for (int n_cp = 0; n_cp <= 5; n_cp++)
        for (int n = 1; n <= 200; n++) {
            struct lf_split s = {.n_cp = n_cp};
            int next = 0, most = lf_split_most_rows(n, &s);
            bool divides = lf_split_divides(n, &s);
            assert_int_equal(divides, n_cp > 1 && n >= LF_SPLIT_ROWS_LEAST * n_cp);
            for (s.cp_rank = 0; s.cp_rank < LF_MAX(n_cp, 1); s.cp_rank++) {
                assert_int_equal(lf_split_first_row(n, &s), divides ? next : 0);
                next += lf_split_n_rows(n, &s);
                for (int fewer = 1; fewer <= n; fewer++) assert_true(lf_split_n_rows(fewer, &s) <= most);
            }
            assert_int_equal(next, divides ? n : n * LF_MAX(n_cp, 1));
        }
}

/* A device says from how many rows on dividing them gains something. */
static void a_step_is_divided_from_so_many_rows_on(void **state)
{
    (void)state;
    struct lf_device *dev;
    struct lf_device_opts opts = {.name = "cpu", .n_threads = 1, .max_isa = LF_ISA_C};
    assert_int_equal(lf_device_open(&dev, &opts, NULL), LF_OK);
    assert_int_equal(lf_device_info(dev)->split_rows, LF_SPLIT_ROWS_LEAST); /* what is taken where nothing is said */
    lf_device_close(dev);
    struct lf_split s = {.n_cp = 2, .rows_least = 128};
    assert_false(lf_split_divides(255, &s));
    assert_true(lf_split_divides(256, &s));
    assert_int_equal(lf_split_n_rows(255, &s), 255);
    assert_int_equal(lf_split_n_rows(256, &s), 128);
    assert_int_equal(lf_split_most_rows(300, &s), 255); /* of 255 tokens, rather than half of 300 */
    assert_int_equal(lf_split_most_rows(8192, &s), 4096);
}

static void ranks_of_both_axes_are_numbered_by_rows(void **state)
{
    (void)state;
    int next = 0;
    for (int cp = 0; cp < 3; cp++)
        for (int tp = 0; tp < 2; tp++) {
            struct lf_split s = {.rank = tp, .n_ranks = 2, .cp_rank = cp, .n_cp = 3};
            assert_int_equal(lf_split_world_rank(&s), next++);
            assert_int_equal(lf_split_world(&s), 6);
        }
}

/* ---- programs ---- */

static void read_config(struct lf_hparams *hp, const struct config_text *c)
{
    struct temp_dir dir = temp_dir_make();
    struct lf_err err;
    config_write(c, &dir);
    if (lf_hparams_read(hp, dir.path, &err) != LF_OK) fail_msg("%s", err.message);
    temp_dir_remove(&dir);
}

static void read_llama(struct lf_hparams *hp)
{
    struct config_text c = config_good("[\"LlamaForCausalLM\"]", "\"llama\"");
    config_set(&c, "num_attention_heads", "8");
    config_set(&c, "num_key_value_heads", "4");
    config_set(&c, "head_dim", "8");
    read_config(hp, &c);
}

static struct lf_programs divided(struct lf_hparams *hp, struct lf_split split)
{
    struct lf_device *dev;
    struct lf_device_opts opts = {.name = "cpu", .n_threads = 1, .max_isa = LF_ISA_C};
    hp->split = split;
    assert_int_equal(lf_device_open(&dev, &opts, NULL), LF_OK);
    struct lf_programs p = programs_of(hp, lf_device_ops(dev), false);
    lf_device_close(dev);
    return p;
}

/* A row of values whose rows an op must find alike. */
static bool has_rows(const struct lf_program *p, int value)
{
    if (value == LF_NONE) return false;
    return p->values[value].rows != LF_ROWS_FEW && p->values[value].rows != LF_ROWS_ONE;
}

/* What an op reads, and what it makes of it: of its tokens, and nothing else. */
static void expect_rows(const struct lf_program *p, const struct lf_op *op, enum lf_rows in, enum lf_rows out)
{
    for (int k = 0; k < LF_OP_INPUTS_N; k++)
        if (has_rows(p, op->in[k])) assert_int_equal(p->values[op->in[k]].rows, in);
    for (int k = 0; k < LF_OP_OUTPUTS_N; k++)
        if (has_rows(p, op->out[k])) assert_int_equal(p->values[op->out[k]].rows, out);
}

static void check_op(const struct lf_program *p, int i, bool makes_logits)
{
    const struct lf_op *op = &p->ops[i];
    enum lf_rows out = p->values[op->out[LF_OP_Y]].rows;
    switch (op->kind) {
    case LF_OP_GATHER_ROWS:
        expect_rows(p, op, LF_ROWS_OWN, LF_ROWS_TOKENS);
        break;
    case LF_OP_SLICE_ROWS:
        expect_rows(p, op, LF_ROWS_TOKENS, LF_ROWS_OWN);
        break;
    case LF_OP_PICK:
        expect_rows(p, op, LF_ROWS_TOKENS, LF_ROWS_OUT);
        break;
    case LF_OP_ROPE_APPEND:
    case LF_OP_CONV:
    case LF_OP_DELTA:
        expect_rows(p, op, LF_ROWS_TOKENS, LF_ROWS_TOKENS);
        break;
    case LF_OP_ROPE:
    case LF_OP_ATTENTION:
        assert_true(out == LF_ROWS_TOKENS || out == LF_ROWS_OUT);
        expect_rows(p, op, out, out);
        break;
    case LF_OP_LSE_COMBINE: {
        enum lf_rows in = p->values[op->in[LF_OP_X]].rows;
        const struct lf_op *before = &p->ops[i - 1];
        assert_int_equal(before->kind, LF_OP_ATTENTION);
        assert_int_equal(before->out[LF_OP_Y], op->in[LF_OP_X]);
        assert_int_equal(before->out[LF_OP_Y_LSE], op->in[LF_OP_LSE]);
        assert_true(in == LF_ROWS_TOKENS || out == LF_ROWS_OUT);
        break;
    }
    default:
        assert_true(out == LF_ROWS_OUT || (out == LF_ROWS_OWN && !makes_logits));
        /* where all rows are wanted, logits are of them all */
        expect_rows(p, op, makes_logits ? p->values[op->in[LF_OP_X]].rows : out, out);
        if (makes_logits) assert_int_not_equal(p->values[op->in[LF_OP_X]].rows, LF_ROWS_OWN);
    }
}

static int find_last_gemm(const struct lf_program *p)
{
    int i = p->n_ops - 1;
    while (!lf_op_has_gemm(p->ops[i].kind)) i--;
    return p->logits == LF_NONE ? p->n_ops : i;
}

static void check_programs(struct lf_hparams *hp, int n_ranks, int n_cp)
{
    struct lf_programs first = divided(hp, (struct lf_split){.n_ranks = n_ranks, .n_cp = n_cp});
    for (int r = 0; r < n_cp; r++) {
        struct lf_programs p = divided(hp, (struct lf_split){.n_ranks = n_ranks, .cp_rank = r, .n_cp = n_cp});
        for (int w = 0; w < LF_WANTED_N; w++) {
            const struct lf_program *of = &p.of[w];
            int head = find_last_gemm(of);
            assert_int_equal(of->n_ops, first.of[w].n_ops);
            for (int i = 0; i < of->n_ops; i++) {
                assert_int_equal(of->ops[i].kind, first.of[w].ops[i].kind); /* they meet in the same places */
                check_op(of, i, i >= head);
            }
            assert_int_equal(count(of, LF_OP_LSE_COMBINE), count(of, LF_OP_ATTENTION));
        }
        lf_programs_deinit(&p);
    }
    lf_programs_deinit(&first);
}

static void rows_of_every_op_are_those_that_it_needs(void **state)
{
    (void)state;
    static const char *const dirs[] = {"llama-bf16-tied", "gpt-oss-f32",        "gemma3-f32", "gemma4-inputs-f32",
                                       "qwen3.5-moe-f32", "mixtral-whole-bf16", "gemma4-f32", "olmo2-f32"};
    for (size_t i = 0; i < LF_N_ELEMS(dirs); i++) {
        struct lf_hparams hp;
        char dir[256];
        struct lf_err err;
        snprintf(dir, sizeof(dir), "tests/golden/model/data/%s", dirs[i]);
        if (lf_hparams_read(&hp, dir, &err) != LF_OK) fail_msg("%s", err.message);
        for (int n_cp = 2; n_cp <= MOST_CP; n_cp++) check_programs(&hp, 1, n_cp);
        if (i < 3) check_programs(&hp, 2, 2);
        lf_hparams_deinit(&hp);
    }
}

static void rows_are_gathered_once_a_layer_and_for_the_logits(void **state)
{
    (void)state;
    struct lf_hparams hp;
    read_llama(&hp);
    struct lf_programs p = divided(&hp, (struct lf_split){.cp_rank = 1, .n_cp = 2});
    assert_int_equal(count(&p.of[LF_WANTED_ALL], LF_OP_GATHER_ROWS), LAYERS + 1);
    assert_int_equal(count(&p.of[LF_WANTED_SOME], LF_OP_GATHER_ROWS),
                     LAYERS + 1); /* the residual stream, to be picked */
    assert_int_equal(count(&p.of[LF_WANTED_SEVERAL], LF_OP_GATHER_ROWS), LAYERS + 1);
    assert_int_equal(count(&p.of[LF_WANTED_NONE], LF_OP_GATHER_ROWS), LAYERS);
    assert_int_equal(count(&p.of[LF_WANTED_SEVERAL], LF_OP_LSE_COMBINE), LAYERS);
    for (int w = 0; w < LF_WANTED_N; w++) assert_int_equal(count(&p.of[w], LF_OP_SLICE_ROWS), 0);
    lf_programs_deinit(&p);
    lf_hparams_deinit(&hp);
}

static void what_is_only_picked_is_combined_for_all(void **state)
{
    (void)state;
    struct lf_hparams hp;
    read_llama(&hp);
    struct lf_programs p = divided(&hp, (struct lf_split){.n_cp = 2});
    const struct lf_program *several = &p.of[LF_WANTED_SEVERAL];
    int n_combined = 0;
    for (int i = 0; i < several->n_ops; i++) {
        const struct lf_op *op = &several->ops[i];
        if (op->kind != LF_OP_LSE_COMBINE) continue;
        bool is_last = ++n_combined == LAYERS;
        assert_int_equal(several->values[op->out[LF_OP_Y]].rows, is_last ? LF_ROWS_TOKENS : LF_ROWS_OWN);
        assert_int_equal(several->values[op->in[LF_OP_LSE]].width, 8);
    }
    assert_int_equal(n_combined, LAYERS);
    lf_programs_deinit(&p);
    lf_hparams_deinit(&hp);
}

/* Of each layer q, k and v, and attention's rows, but for those that are picked. */
static void queries_and_attention_go_direct(void **state)
{
    (void)state;
    struct lf_hparams hp;
    read_llama(&hp);
    struct lf_programs p = divided(&hp, (struct lf_split){.cp_rank = 1, .n_cp = 2});
    for (int w = 0; w < LF_WANTED_N; w++) {
        int n_gathered = 0, n_attended = 0, n_other = 0;
        for (int i = 0; i < p.of[w].n_ops; i++) {
            const struct lf_op *op = &p.of[w].ops[i];
            bool is_direct = op->out[LF_OP_Y] != LF_NONE && p.of[w].values[op->out[LF_OP_Y]].goes_direct;
            if (op->kind == LF_OP_GATHER_ROWS)
                n_gathered += is_direct;
            else if (op->kind == LF_OP_ATTENTION)
                n_attended += is_direct;
            else
                n_other += is_direct;
            if (is_direct && op->kind == LF_OP_ATTENTION) assert_int_equal(p.of[w].ops[i - 1].kind, LF_OP_ROPE_APPEND);
        }
        assert_int_equal(n_gathered, LAYERS);
        assert_int_equal(n_attended, w == LF_WANTED_ALL ? LAYERS : LAYERS - 1);
        assert_int_equal(n_other, 0);
    }
    lf_programs_deinit(&p);
    lf_hparams_deinit(&hp);
}

static void sinks_are_keys_of_the_first_rank_alone(void **state)
{
    (void)state;
    struct lf_hparams hp;
    assert_int_equal(lf_hparams_read(&hp, "tests/golden/model/data/gpt-oss-f32", NULL), LF_OK);
    for (int r = 0; r < 3; r++) {
        struct lf_programs p = divided(&hp, (struct lf_split){.cp_rank = r, .n_cp = 3});
        for (int w = 0; w < LF_WANTED_N; w++)
            for (int i = 0; i < p.of[w].n_ops; i++)
                if (p.of[w].ops[i].kind == LF_OP_ATTENTION)
                    assert_int_equal(p.of[w].ops[i].weight[LF_OP_W] != LF_NONE, r == 0);
        lf_programs_deinit(&p);
    }
    lf_hparams_deinit(&hp);
}

static void a_context_that_is_not_divided_leaves_programs_as_they_are(void **state)
{
    (void)state;
    struct lf_hparams hp;
    read_llama(&hp);
    struct lf_programs none = divided(&hp, (struct lf_split){.n_cp = 0}),
                       one = divided(&hp, (struct lf_split){.n_cp = 1});
    for (int w = 0; w < LF_WANTED_N; w++) {
        assert_int_equal(none.of[w].n_ops, one.of[w].n_ops);
        assert_memory_equal(none.of[w].ops, one.of[w].ops, (size_t)one.of[w].n_ops * sizeof(*one.of[w].ops));
        for (int i = 0; i < one.of[w].n_values; i++) assert_int_not_equal(one.of[w].values[i].rows, LF_ROWS_OWN);
    }
    lf_programs_deinit(&none);
    lf_programs_deinit(&one);
    lf_hparams_deinit(&hp);
}

static void gathers_and_combines_that_do_not_fit_are_found(void **state)
{
    (void)state;
    struct lf_hparams hp;
    struct lf_err err;
    read_llama(&hp);
    struct lf_programs p = divided(&hp, (struct lf_split){.n_cp = 2});
    struct lf_program *of = &p.of[LF_WANTED_ALL];
    for (int i = 0; i < of->n_ops; i++) {
        enum lf_op_kind kind = of->ops[i].kind;
        if (kind != LF_OP_GATHER_ROWS && kind != LF_OP_LSE_COMBINE) continue;
        struct lf_value *y = &of->values[of->ops[i].out[LF_OP_Y]], saved = *y;
        if (kind == LF_OP_GATHER_ROWS) y->rows = LF_ROWS_OWN;
        if (kind == LF_OP_LSE_COMBINE) y->width++;
        assert_int_equal(lf_pass_check(of, p.recorded.slots, p.recorded.n_slots, &err), LF_CORRUPT);
        assert_non_null(strstr(err.message, lf_op_name(kind)));
        *y = saved;
    }
    assert_int_equal(lf_pass_check(of, p.recorded.slots, p.recorded.n_slots, &err), LF_OK);
    lf_programs_deinit(&p);
    lf_hparams_deinit(&hp);
}

/* A rank has half the keys of every query, and half the rows of everything else. */
static void the_cost_of_a_large_step_is_divided(void **state)
{
    (void)state;
    struct lf_hparams hp;
    read_llama(&hp);
    struct lf_programs one = divided(&hp, (struct lf_split){.n_cp = 1}),
                       two = divided(&hp, (struct lf_split){.n_cp = 2});
    struct lf_weight weights[256] = {{.n_out = 0}};
    struct lf_cost_step step = {.n_tokens = 64, .n_out = 64, .kv_len = 1024, .kv_layer_bytes = 100, .act_bytes = 4},
                        own = step;
    double flops[2][LF_OP_KINDS_N] = {{0}};
    own.n_own = 32;
    own.n_cp = 2;
    assert_true(one.recorded.n_slots <= (int)LF_N_ELEMS(weights));
    for (int i = 0; i < one.of[LF_WANTED_ALL].n_ops; i++) {
        const struct lf_op *op = &one.of[LF_WANTED_ALL].ops[i];
        flops[0][op->kind] += lf_pass_cost(&one.of[LF_WANTED_ALL], op, one.recorded.slots, weights, &step).flops;
    }
    for (int i = 0; i < two.of[LF_WANTED_ALL].n_ops; i++) {
        const struct lf_op *op = &two.of[LF_WANTED_ALL].ops[i];
        flops[1][op->kind] += lf_pass_cost(&two.of[LF_WANTED_ALL], op, two.recorded.slots, weights, &own).flops;
        if (op->kind != LF_OP_GATHER_ROWS) continue; /* rows that all ranks have are not gathered */
        assert_true(lf_pass_cost(&two.of[LF_WANTED_ALL], op, two.recorded.slots, weights, &own).bytes > 0);
        assert_true(lf_pass_cost(&two.of[LF_WANTED_ALL], op, two.recorded.slots, weights, &step).bytes == 0);
    }
    assert_true(flops[0][LF_OP_ATTENTION] > 0 && 2 * flops[1][LF_OP_ATTENTION] == flops[0][LF_OP_ATTENTION]);
    assert_true(2 * flops[1][LF_OP_RMSNORM] == flops[0][LF_OP_RMSNORM]);
    assert_true(flops[1][LF_OP_LSE_COMBINE] > 0);
    lf_programs_deinit(&one);
    lf_programs_deinit(&two);
    lf_hparams_deinit(&hp);
}

/* ---- memory ---- */

static void place(struct lf_programs *p)
{
    struct lf_place_limits limits = {
        .rows =
            {[LF_ROWS_TOKENS] = 512, [LF_ROWS_OUT] = 512, [LF_ROWS_FEW] = 16, [LF_ROWS_ONE] = 1, [LF_ROWS_OWN] = 256},
        .act_bytes = 2};
    for (int w = 0; w < LF_WANTED_N; w++) (void)lf_pass_place(&p->of[w], &limits, 0);
}

/* Where nothing is to be gathered, own rows are read where they were made; rows that are cut out always are. So what is
 * read by way of another value lives as long as that one. */
static void what_rows_are_of_lives_as_long_as_they(void **state)
{
    (void)state;
    static const char *const dirs[] = {"llama-bf16-tied", "qwen3.5-moe-f32", "gemma3-f32"};
    int n_gathered = 0, n_cut = 0;
    for (size_t i = 0; i < LF_N_ELEMS(dirs); i++) {
        struct lf_hparams hp;
        char dir[256];
        snprintf(dir, sizeof(dir), "tests/golden/model/data/%s", dirs[i]);
        assert_int_equal(lf_hparams_read(&hp, dir, NULL), LF_OK);
        struct lf_programs p = divided(&hp, (struct lf_split){.n_cp = 2});
        place(&p);
        for (int w = 0; w < LF_WANTED_N; w++) {
            const struct lf_program *of = &p.of[w];
            int n_rows_of = 0;
            for (int k = 0; k < of->n_ops; k++) {
                const struct lf_op *op = &of->ops[k];
                if (op->kind != LF_OP_GATHER_ROWS && op->kind != LF_OP_SLICE_ROWS) continue;
                const struct lf_value *y = &of->values[op->out[LF_OP_Y]], *x = &of->values[op->in[LF_OP_X]];
                assert_int_equal(y->rows_of, op->in[LF_OP_X]);
                assert_true(x->last_op >= y->last_op && y->last_op > k);
                n_gathered += op->kind == LF_OP_GATHER_ROWS;
                n_cut += op->kind == LF_OP_SLICE_ROWS;
            }
            for (int k = 0; k < of->n_values; k++) n_rows_of += of->values[k].rows_of != LF_NONE;
            assert_int_equal(n_rows_of, count(of, LF_OP_GATHER_ROWS) + count(of, LF_OP_SLICE_ROWS));
        }
        lf_programs_deinit(&p);
        lf_hparams_deinit(&hp);
    }
    assert_true(n_gathered > 0 && n_cut > 0);
}

enum { CTX = 4096 };

/* Of a GPU that need not be there. */
static struct lf_plan gpu_plan_of(struct lf_device *dev, struct lf_hparams *hp, struct lf_split split, int chunk)
{
    struct lf_plan plan;
    struct lf_err err;
    struct lf_plan_opts opts = {
        .ctx = CTX, .chunk = chunk, .max_seqs = 4, .kv_tokens = CTX, .kv_dtype = LF_BF16, .cache_groups = true};
    hp->max_positions = 2 * CTX;
    hp->split = split;
    hp->split.rows_least = lf_device_info(dev)->split_rows;
    if (lf_plan_make(&plan, hp, 1000, lf_device_ops(dev), lf_device_info(dev), &opts, &err) != LF_OK)
        fail_msg("%s", err.message);
    return plan;
}

static void a_gpu_has_its_part_of_the_cache_and_memory_for_each_end(void **state)
{
    (void)state;
    struct lf_hparams hp;
    struct lf_device *dev;
    struct lf_device_opts device = {.name = "cuda", .gpu_memory_bytes = (uint64_t)80 << 30, .gpu_n_sms = 132};
    if (lf_device_open(&dev, &device, NULL) != LF_OK) skip(); /* built without CUDA */
    read_llama(&hp);
    struct lf_plan one = gpu_plan_of(dev, &hp, (struct lf_split){.n_cp = 1}, 2048);
    for (int n_tp = 1; n_tp <= 2; n_tp++)
        for (int n_cp = 2; n_cp <= 4; n_cp *= 2) {
            struct lf_plan p = gpu_plan_of(dev, &hp, (struct lf_split){.n_ranks = n_tp, .n_cp = n_cp}, 2048);
            assert_int_equal((uint64_t)(n_cp * n_tp) * p.kv_bytes, one.kv_bytes);
            assert_int_equal(p.total_bytes, p.weight_bytes + p.workspace_bytes + p.kv_bytes + p.comm_bytes);
            assert_int_equal(p.comm_bytes, lf_comm_gpu_bytes(n_tp * n_cp, n_tp > 1 && n_cp > 1 ? n_tp : 0));
            assert_true(p.act_bytes < one.act_bytes);
        }
    lf_device_close(dev);
    lf_hparams_deinit(&hp);
}

static void rows_and_columns_have_peer_memory_of_their_own(void **state)
{
    (void)state;
    assert_int_equal(lf_comm_gpu_bytes(4, 2), lf_comm_gpu_bytes(4, 0) + 2 * lf_comm_gpu_bytes(2, 0));
    assert_int_equal(lf_comm_gpu_bytes(4, 1), 2 * lf_comm_gpu_bytes(4, 0)); /* columns of all, and no rows */
}

static struct lf_plan plan_of(struct lf_hparams *hp, int n_cp, int ctx)
{
    struct lf_plan plan;
    struct lf_err err;
    struct lf_device *dev;
    struct lf_device_opts device = {.name = "cpu", .n_threads = 1, .max_isa = LF_ISA_C};
    struct lf_plan_opts opts = {
        .ctx = ctx, .chunk = 256, .max_seqs = 4, .kv_tokens = (uint64_t)ctx, .kv_dtype = LF_BF16, .cache_groups = true};
    hp->max_positions = 2 * CTX;
    hp->split = (struct lf_split){.n_cp = n_cp};
    assert_int_equal(lf_device_open(&dev, &device, NULL), LF_OK);
    if (lf_plan_make(&plan, hp, 1000, lf_device_ops(dev), lf_device_info(dev), &opts, &err) != LF_OK)
        fail_msg("%s", err.message);
    lf_device_close(dev);
    return plan;
}

static void each_rank_has_its_part_of_the_cache_and_a_longer_context_fits(void **state)
{
    (void)state;
    struct lf_hparams hp;
    read_llama(&hp);
    struct lf_plan one = plan_of(&hp, 1, CTX);
    for (int n = 2; n <= MOST_CP; n *= 2) {
        struct lf_plan p = plan_of(&hp, n, CTX);
        assert_int_equal(p.n_ranks, n);
        assert_int_equal(p.n_cp, n);
        assert_int_equal(p.kv_block_bytes, one.kv_block_bytes);
        assert_int_equal(n * p.n_blocks, one.n_blocks);
        assert_int_equal(p.kv_tokens, one.kv_tokens);
        assert_int_equal((uint64_t)n * p.kv_bytes, one.kv_bytes);
        assert_int_equal(p.total_bytes, (uint64_t)n * (p.weight_bytes + p.workspace_bytes + p.kv_bytes) + p.comm_bytes);
        assert_true(p.comm_bytes > lf_comm_group_bytes(n, 1));
        assert_true(p.comm_bytes < lf_comm_group_bytes(n, 2));
    }
    struct lf_plan longer = plan_of(&hp, 2, 2 * CTX);
    assert_int_equal(longer.kv_bytes, one.kv_bytes);
    assert_int_equal(longer.kv_tokens, 2 * one.kv_tokens);
    lf_hparams_deinit(&hp);
}

/* What a rank has of a large step is less than all of it, though all its queries come to every rank. */
static void the_workspace_of_a_rank_is_smaller(void **state)
{
    (void)state;
    struct lf_hparams hp;
    read_llama(&hp);
    struct lf_plan one = plan_of(&hp, 1, CTX), four = plan_of(&hp, 4, CTX);
    assert_true(four.act_bytes < one.act_bytes);
    lf_hparams_deinit(&hp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_one_rank_s_or_everybody_s),
        cmocka_unit_test(a_step_is_divided_from_so_many_rows_on),
        cmocka_unit_test(ranks_of_both_axes_are_numbered_by_rows),
        cmocka_unit_test(rows_of_every_op_are_those_that_it_needs),
        cmocka_unit_test(rows_are_gathered_once_a_layer_and_for_the_logits),
        cmocka_unit_test(what_is_only_picked_is_combined_for_all),
        cmocka_unit_test(queries_and_attention_go_direct),
        cmocka_unit_test(sinks_are_keys_of_the_first_rank_alone),
        cmocka_unit_test(a_context_that_is_not_divided_leaves_programs_as_they_are),
        cmocka_unit_test(gathers_and_combines_that_do_not_fit_are_found),
        cmocka_unit_test(the_cost_of_a_large_step_is_divided),
        cmocka_unit_test(what_rows_are_of_lives_as_long_as_they),
        cmocka_unit_test(rows_and_columns_have_peer_memory_of_their_own),
        cmocka_unit_test(a_gpu_has_its_part_of_the_cache_and_memory_for_each_end),
        cmocka_unit_test(each_rank_has_its_part_of_the_cache_and_a_longer_context_fits),
        cmocka_unit_test(the_workspace_of_a_rank_is_smaller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
