/* Models with experts: what of config.json is read and refused, and the three ways in which files hold experts. */
#include "model/arch/experts.h"

#include <math.h>

#include "core/limits.h"
#include "core/log.h"
#include "model/programs.h"
#include "model/weights.h"
#include "tests/support/config_read.h"
#include "tests/support/model_dir.h"
#include "tests/support/model_rig.h"

enum { EXPERTS = 4, WIDTH = 24, HIDDEN = 64 };

static struct config_text config_qwen3_moe(void)
{
    struct config_text c = config_good("[\"Qwen3MoeForCausalLM\"]", "\"qwen3_moe\"");
    config_set(&c, "num_experts", "4");
    config_set(&c, "num_experts_per_tok", "2");
    config_set(&c, "moe_intermediate_size", "24");
    return c;
}

static struct config_text config_mixtral(void)
{
    struct config_text c = config_good("[\"MixtralForCausalLM\"]", "\"mixtral\"");
    config_set(&c, "intermediate_size", "24");
    config_set(&c, "num_local_experts", "4");
    config_set(&c, "num_experts_per_tok", "2");
    return c;
}

/* ---- config.json ---- */

static void qwen3_moe_is_read(void **state)
{
    (void)state;
    struct config_text c = config_qwen3_moe();
    config_set(&c, "num_hidden_layers", "6");
    struct lf_hparams hp = good(c, NULL, NULL, NULL, NULL);
    assert_true(hp.n_experts == EXPERTS && hp.experts_per_token == 2 && hp.expert_intermediate == WIDTH);
    assert_true(hp.intermediate == 96 && hp.qk_norm && !hp.norm_topk);
    for (int i = 0; i < 6; i++) assert_true(hp.layers[i].has_experts && hp.layers[i].window == 0);
    lf_hparams_deinit(&hp);
    hp = good(c, "decoder_sparse_step", "2", "mlp_only_layers", "[3, 70]");
    for (int i = 0; i < 6; i++) assert_int_equal(hp.layers[i].has_experts, i == 1 || i == 5);
    lf_hparams_deinit(&hp);
    hp = good(c, "num_experts", NULL, "num_local_experts", "7"); /* as transformers writes it */
    assert_int_equal(hp.n_experts, 7);
    lf_hparams_deinit(&hp);
    hp = good(c, "num_local_experts", "4", "norm_topk_prob", "true");
    assert_true(hp.n_experts == 4 && hp.norm_topk);
    lf_hparams_deinit(&hp);
    hp = good(c, "num_experts", "1024", "num_experts_per_tok", "64");
    assert_true(hp.n_experts == LF_EXPERTS_N && hp.experts_per_token == LF_EXPERTS_PER_TOKEN_N);
    lf_hparams_deinit(&hp);
}

/* On every layer, whatever max_window_layers says, and only where use_sliding_window does. */
static void windows_of_qwen3_moe_are_those_that_transformers_computes(void **state)
{
    (void)state;
    struct config_text c = config_qwen3_moe();
    config_set(&c, "max_window_layers", "1");
    struct lf_hparams hp = good(c, "sliding_window", "100", NULL, NULL);
    assert_true(hp.layers[0].window == 0 && hp.layers[1].window == 0);
    lf_hparams_deinit(&hp);
    hp = good(c, "sliding_window", "100", "use_sliding_window", "true");
    assert_true(hp.layers[0].window == 100 && hp.layers[1].window == 100);
    lf_hparams_deinit(&hp);
    hp = good(c, "sliding_window", "null", "use_sliding_window", "true");
    assert_true(hp.layers[0].window == 0 && hp.layers[1].window == 0);
    lf_hparams_deinit(&hp);
    config_set(&c, "max_position_embeddings", "8192");
    hp = good(c, "use_sliding_window", "true", NULL, NULL);
    assert_true(hp.layers[0].window == 4096 && hp.layers[1].window == 4096);
    lf_hparams_deinit(&hp);
}

static void mixtral_is_read(void **state)
{
    (void)state;
    struct lf_hparams hp = good(config_mixtral(), "sliding_window", "30", NULL, NULL);
    assert_true(hp.n_experts == EXPERTS && hp.experts_per_token == 2 && hp.expert_intermediate == WIDTH &&
                hp.norm_topk);
    assert_true(hp.layers[0].has_experts && hp.layers[1].has_experts && hp.layers[0].window == 30 && !hp.qk_norm);
    assert_true(fabs(hp.ropes[0].theta - 1e6) < 1e-6);
    lf_hparams_deinit(&hp);
    hp = good(config_mixtral(), NULL, NULL, NULL, NULL);
    assert_int_equal(hp.layers[0].window, 0);
    lf_hparams_deinit(&hp);
}

static void what_contradicts_itself_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value, *says;
    } rows[] = {{"num_experts", NULL, "num_experts is missing"},
                {"num_experts", "0", "num_experts is 0, expected 1 to 1024"},
                {"num_experts", "1025", "num_experts is 1025"},
                {"num_experts", "\"4\"", "num_experts is a string"},
                {"num_local_experts", "5", "num_experts is 4, but num_local_experts 5"},
                {"num_experts_per_tok", NULL, "num_experts_per_tok is missing"},
                {"num_experts_per_tok", "0", "num_experts_per_tok is 0"},
                {"num_experts_per_tok", "5", "num_experts_per_tok is 5, expected 1 to 4"},
                {"moe_intermediate_size", NULL, "moe_intermediate_size is missing"},
                {"moe_intermediate_size", "0", "moe_intermediate_size is 0"},
                {"decoder_sparse_step", "0", "decoder_sparse_step is 0"},
                {"mlp_only_layers", "3", "mlp_only_layers is a number"},
                {"mlp_only_layers", "[-1]", "mlp_only_layers is -1"},
                {"mlp_only_layers", "[null]", "mlp_only_layers is"},
                {"norm_topk_prob", "1", "norm_topk_prob is a number"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct config_text c = config_qwen3_moe();
        struct lf_hparams hp;
        struct lf_err err;
        config_set(&c, rows[i].key, rows[i].value);
        assert_int_equal(read_config(&c, &hp, &err), LF_CORRUPT);
        if (!strstr(err.message, rows[i].says)) fail_msg("\"%s\" lacks \"%s\"", err.message, rows[i].says);
    }
    struct config_text c = config_qwen3_moe();
    struct lf_hparams hp;
    struct lf_err err;
    config_set(&c, "num_experts", "1024");
    config_set(&c, "num_experts_per_tok", "65");
    assert_int_equal(read_config(&c, &hp, &err), LF_CORRUPT);
    assert_non_null(strstr(err.message, "expected 1 to 64"));
}

/* ---- files ---- */

static const struct family {
    struct config_text (*config)(void);
    const char *router, *whole_router, *gate, *up, *down;
    bool qk_norm;
} families[] = {{config_qwen3_moe, "model.layers.%d.mlp.gate.weight", "model.layers.%d.mlp.gate.weight",
                 "model.layers.%d.mlp.experts.%d.gate_proj.weight", "model.layers.%d.mlp.experts.%d.up_proj.weight",
                 "model.layers.%d.mlp.experts.%d.down_proj.weight", true},
                {config_mixtral, "model.layers.%d.block_sparse_moe.gate.weight", "model.layers.%d.mlp.gate.weight",
                 "model.layers.%d.block_sparse_moe.experts.%d.w1.weight",
                 "model.layers.%d.block_sparse_moe.experts.%d.w3.weight",
                 "model.layers.%d.block_sparse_moe.experts.%d.w2.weight", false}};
enum { FAMILIES_N = 2, NAMES_BYTES = 2048 };

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
/* A name of the table above. */
static const char *name_of(const char *format, int layer, int expert)
{
    static char names[8][96];
    static int at;
    at = (at + 1) % 8;
    snprintf(names[at], sizeof(names[at]), format, layer, expert);
    return names[at];
}
#pragma GCC diagnostic pop

static void add_split(struct model_dir *m, const struct family *f, int layer)
{
    model_dir_add(m, name_of(f->router, layer, 0), EXPERTS, HIDDEN);
    for (int e = 0; e < EXPERTS; e++) {
        model_dir_add(m, name_of(f->gate, layer, e), WIDTH, HIDDEN);
        model_dir_add(m, name_of(f->up, layer, e), WIDTH, HIDDEN);
        model_dir_add(m, name_of(f->down, layer, e), HIDDEN, WIDTH);
    }
}

static struct model_tensor *add_whole_tensor(struct model_dir *m, const char *name, int rows, int cols)
{
    struct model_tensor *t = model_dir_add(m, name, EXPERTS, rows);
    t->rank = 3;
    t->shape[2] = cols;
    return t;
}

/* The same values, all experts of a matrix in one tensor. names: room for those of a layer. */
static void add_whole(struct model_dir *m, const struct family *f, int layer, char names[3][NAMES_BYTES])
{
    size_t at[2] = {0, 0};
    for (int e = 0; e < EXPERTS; e++) {
        at[0] += (size_t)snprintf(names[0] + at[0], NAMES_BYTES - at[0], "%s%s|%s", e ? "|" : "",
                                  name_of(f->gate, layer, e), name_of(f->up, layer, e));
        at[1] +=
            (size_t)snprintf(names[1] + at[1], NAMES_BYTES - at[1], "%s%s", e ? "|" : "", name_of(f->down, layer, e));
    }
    snprintf(names[2], NAMES_BYTES, "%s", name_of(f->router, layer, 0));
    model_dir_add(m, name_of(f->whole_router, layer, 0), EXPERTS, HIDDEN)->values_of = names[2];
    add_whole_tensor(m, name_of("model.layers.%d.mlp.experts.gate_up_proj", layer, 0), 2 * WIDTH, HIDDEN)->values_of =
        names[0];
    add_whole_tensor(m, name_of("model.layers.%d.mlp.experts.down_proj", layer, 0), HIDDEN, WIDTH)->values_of =
        names[1];
}

static struct model_dir model_of(const struct family *f, bool whole)
{
    static char names[2][3][NAMES_BYTES];
    struct model_dir llama = model_dir_llama(), m = {.n = 0};
    for (int i = 0; i < llama.n; i++)
        if (!strstr(llama.tensors[i].name, ".mlp.")) m.tensors[m.n++] = llama.tensors[i];
    for (int layer = 0; layer < 2; layer++) {
        if (f->qk_norm) {
            model_dir_add(&m, name_of("model.layers.%d.self_attn.q_norm.weight", layer, 0), 32, 0);
            model_dir_add(&m, name_of("model.layers.%d.self_attn.k_norm.weight", layer, 0), 32, 0);
        }
        if (whole)
            add_whole(&m, f, layer, names[layer]);
        else
            add_split(&m, f, layer);
    }
    return m;
}

struct fixture {
    struct temp_dir dir;
    struct lf_device *dev;
    struct lf_hparams hp;
    struct lf_programs programs;
    struct lf_tensor_set set;
    struct lf_weight_layout *layout;
    struct lf_err err;
};

/* Reads as far as the layout, whose status is returned. */
static enum lf_status fixture_open(struct fixture *f, const struct config_text *c, const struct model_dir *m)
{
    struct lf_device_opts opts = {.name = "cpu", .n_threads = 2, .max_isa = -1};
    *f = (struct fixture){.dir = temp_dir_make()};
    config_write(c, &f->dir);
    if (m) model_dir_write(m, &f->dir);
    assert_int_equal(lf_device_open(&f->dev, &opts, &f->err), LF_OK);
    if (lf_hparams_read(&f->hp, f->dir.path, &f->err) != LF_OK) fail_msg("%s", f->err.message);
    if (m) assert_int_equal(lf_tensor_set_open(&f->set, f->dir.path, &f->err), LF_OK);
    assert_int_equal(lf_programs_make(&f->programs, &f->hp, lf_device_ops(f->dev), false, &f->err), LF_OK);
    return lf_weight_layout_make(&f->layout, &f->hp, &f->programs.recorded, m ? &f->set : NULL, LF_CODE_NONE, f->dev,
                                 &f->err);
}

static void fixture_close(struct fixture *f)
{
    lf_weight_layout_free(f->layout);
    lf_tensor_set_close(&f->set);
    lf_programs_deinit(&f->programs);
    lf_hparams_deinit(&f->hp);
    lf_device_close(f->dev);
    temp_dir_remove(&f->dir);
}

/* Rows of an expert's matrix from row_first on are those of the tensor of that name. */
static void check_rows(struct fixture *f, const struct lf_weight *w, int expert, int row_first, const char *name,
                       int n_rows)
{
    static float row[HIDDEN];
    const struct lf_ops *ops = lf_device_ops(f->dev);
    struct lf_weight one = w->n_experts ? lf_weight_of_expert(ops, w, expert) : *w;
    assert_true(row_first + n_rows <= w->n_out && w->n_in <= HIDDEN);
    for (int r = 0; r < n_rows; r++) {
        ops->weight_row(f->dev, &one, row_first + r, row);
        for (int k = 0; k < w->n_in; k++) {
            float want = model_tensor_value(name, (size_t)r * (size_t)w->n_in + (size_t)k);
            if (fabsf(row[k] - want) > 0) fail_msg("%s: row %d, column %d", name, r, k);
        }
    }
}

/* The slots of a layer's router, gate_up and down. */
static void check_layer(struct fixture *f, const struct lf_weights *w, const struct family *family, int layer)
{
    const struct lf_program *p = &f->programs.recorded;
    int n_found = 0;
    for (int i = 0; i < p->n_slots; i++) {
        const struct lf_slot *s = &p->slots[i];
        if (s->layer == layer && !s->is_vector && s->n_experts == 0 && s->n_out == EXPERTS) {
            check_rows(f, &w->of[i], 0, 0, name_of(family->router, layer, 0), EXPERTS);
            n_found++;
        }
        if (s->layer != layer || s->n_experts == 0) continue;
        assert_int_equal(w->of[i].n_experts, EXPERTS);
        for (int e = 0; e < EXPERTS; e++) {
            bool is_down = s->n_in == WIDTH;
            check_rows(f, &w->of[i], e, 0, name_of(is_down ? family->down : family->gate, layer, e),
                       is_down ? HIDDEN : WIDTH);
            if (!is_down) check_rows(f, &w->of[i], e, WIDTH, name_of(family->up, layer, e), WIDTH);
        }
        n_found++;
    }
    assert_int_equal(n_found, 3);
}

static void set_dtypes(struct model_dir *m, const char *dtype, size_t elem_bytes)
{
    for (int i = 0; i < m->n; i++) {
        m->tensors[i].dtype = dtype;
        m->tensors[i].elem_bytes = elem_bytes;
    }
}

static void experts_are_the_same_however_the_files_hold_them(void **state)
{
    (void)state;
    static const char *const dtypes[] = {"F32", "F16", "BF16"};
    for (int i = 0; i < FAMILIES_N * 3; i++) {
        uint8_t shas[2][LF_SHA256_BYTES];
        const struct family *family = &families[i / 3];
        for (int whole = 0; whole < 2; whole++) {
            struct fixture f;
            struct lf_weights w;
            struct config_text c = family->config();
            struct model_dir m = model_of(family, whole);
            set_dtypes(&m, dtypes[i % 3], i % 3 ? 2 : 4);
            if (fixture_open(&f, &c, &m) != LF_OK) fail_msg("%s", f.err.message);
            struct lf_model_opts opts = {.dir = f.dir.path, .hash_weights = true};
            if (lf_weights_load(&w, f.dev, f.layout, &opts, &f.err) != LF_OK) fail_msg("%s", f.err.message);
            assert_int_equal(lf_device_allocated_bytes(f.dev), lf_weight_layout_bytes(f.layout));
            for (int layer = 0; layer < 2; layer++) check_layer(&f, &w, family, layer);
            memcpy(shas[whole], w.sha, sizeof(w.sha));
            lf_weights_unload(&w, f.dev);
            fixture_close(&f);
        }
        assert_memory_equal(shas[0], shas[1], LF_SHA256_BYTES);
    }
}

static struct model_tensor *tensor_of(struct model_dir *m, const char *name)
{
    int i = 0;
    while (i < m->n && strcmp(m->tensors[i].name, name) != 0) i++;
    assert_true(i < m->n);
    return &m->tensors[i];
}

static void expect_refused(const struct model_dir *m, enum lf_status status, const char *says)
{
    struct fixture f;
    struct config_text c = config_qwen3_moe();
    assert_int_equal(fixture_open(&f, &c, m), status);
    if (!strstr(f.err.message, says)) fail_msg("\"%s\" lacks \"%s\"", f.err.message, says);
    fixture_close(&f);
}

static void experts_that_do_not_fit_are_refused_by_name(void **state)
{
    (void)state;
    struct model_dir m = model_of(&families[0], false);
    tensor_of(&m, "model.layers.1.mlp.experts.3.up_proj.weight")->absent = true;
    expect_refused(&m, LF_CORRUPT, "tensor model.layers.1.mlp.experts.3.up_proj.weight is missing");
    m = model_of(&families[0], false);
    tensor_of(&m, "model.layers.0.mlp.experts.2.down_proj.weight")->shape[0] = 63;
    expect_refused(&m, LF_CORRUPT,
                   "experts.2.down_proj.weight has shape [63, 24], the configuration asks for [64, 24]");
    m = model_of(&families[0], false);
    tensor_of(&m, "model.layers.0.mlp.experts.2.down_proj.weight")->dtype = "BF16";
    tensor_of(&m, "model.layers.0.mlp.experts.2.down_proj.weight")->elem_bytes = 2;
    expect_refused(&m, LF_UNSUPPORTED, "experts.2.down_proj.weight is of type bf16, those it is stacked with are f32");
    m = model_of(&families[0], false); /* one more than config.json says */
    model_dir_add(&m, "model.layers.0.mlp.experts.4.down_proj.weight", HIDDEN, WIDTH);
    expect_refused(&m, LF_UNSUPPORTED, "model.layers.0.mlp.experts.4.down_proj.weight is no part");
    m = model_of(&families[0], true);
    tensor_of(&m, "model.layers.0.mlp.experts.gate_up_proj")->shape[0] = 3;
    expect_refused(&m, LF_CORRUPT, "gate_up_proj has shape [3, 48, 64], the configuration asks for [4, 48, 64]");
    m = model_of(&families[0], true); /* both ways at once */
    model_dir_add(&m, "model.layers.0.mlp.experts.0.gate_proj.weight", WIDTH, HIDDEN);
    expect_refused(&m, LF_UNSUPPORTED, "model.layers.0.mlp.experts.0.gate_proj.weight is no part");
}

/* As gpt-oss has them: no name for each, rows that alternate, and biases. */
static void a_part_may_be_one_tensor_of_all_experts(void **state)
{
    (void)state;
    struct fixture f;
    struct lf_weights w;
    struct lf_recorder r;
    struct lf_program program;
    struct config_text c = config_llama();
    struct model_dir m = model_dir_llama();
    assert_int_equal(fixture_open(&f, &c, &m), LF_OK);
    model_dir_add(&m, "model.norm_bias", EXPERTS, 6); /* beside the layers: no family has it */
    add_whole_tensor(&m, "model.norm", 6, HIDDEN);
    model_dir_write(&m, &f.dir);
    lf_tensor_set_close(&f.set);
    assert_int_equal(lf_tensor_set_open(&f.set, f.dir.path, &f.err), LF_OK);
    lf_recorder_begin(&r, &f.hp);
    struct lf_linear_opts opts = {.parts = {{.pattern = "model.norm", .n_rows = 6, .order = LF_ROWS_DEINTERLEAVE}},
                                  .n_in = HIDDEN,
                                  .bias = true,
                                  .n_experts = EXPERTS};
    (void)lf_rec_linear(&r, -1, &opts);
    assert_int_equal(lf_recorder_end(&r, &program, &f.err), LF_OK);
    lf_weight_layout_free(f.layout);
    f.hp.n_layers = 0; /* of which nothing is wanted here */
    if (lf_weight_layout_make(&f.layout, &f.hp, &program, &f.set, LF_CODE_NONE, f.dev, &f.err) != LF_OK)
        fail_msg("%s", f.err.message);
    struct lf_model_opts model = {.dir = f.dir.path, .hash_weights = true};
    if (lf_weights_load(&w, f.dev, f.layout, &model, &f.err) != LF_OK) fail_msg("%s", f.err.message);
    static const int source[] = {0, 2, 4, 1, 3, 5};
    for (int i = 0; i < EXPERTS * 6; i++) {
        int e = i / 6, from = e * 6 + source[i % 6];
        float row[HIDDEN];
        struct lf_weight one = lf_weight_of_expert(lf_device_ops(f.dev), &w.of[0], e);
        lf_device_ops(f.dev)->weight_row(f.dev, &one, i % 6, row);
        for (int k = 0; k < HIDDEN; k++)
            assert_true(fabsf(row[k] - model_tensor_value("model.norm", (size_t)(from * HIDDEN + k))) <= 0);
        assert_true(fabsf(((float *)w.of[1].data)[i] - model_tensor_value("model.norm_bias", (size_t)from)) <= 0);
    }
    lf_weights_unload(&w, f.dev);
    lf_program_deinit(&program);
    fixture_close(&f);
}

static void random_experts_differ_from_each_other(void **state)
{
    (void)state;
    struct fixture f;
    struct lf_weights w;
    float rows[EXPERTS][HIDDEN];
    struct config_text c = config_qwen3_moe();
    assert_int_equal(fixture_open(&f, &c, NULL), LF_OK);
    struct lf_model_opts opts = {.dir = f.dir.path, .load = LF_LOAD_DUMMY, .dummy_seed = 1};
    assert_int_equal(lf_weights_load(&w, f.dev, f.layout, &opts, &f.err), LF_OK);
    int slot = 0;
    while (f.programs.recorded.slots[slot].n_experts == 0) slot++;
    for (int e = 0; e < EXPERTS; e++) {
        struct lf_weight one = lf_weight_of_expert(lf_device_ops(f.dev), &w.of[slot], e);
        lf_device_ops(f.dev)->weight_row(f.dev, &one, 2 * WIDTH - 1, rows[e]);
        for (int k = 0; k < HIDDEN; k++) assert_true(fabsf(rows[e][k]) > 0 && fabsf(rows[e][k]) < 1);
        for (int other = 0; other < e; other++) assert_memory_not_equal(rows[e], rows[other], sizeof(rows[e]));
    }
    lf_weights_unload(&w, f.dev);
    fixture_close(&f);
}

/* Weights, values, scratch of the experts' GEMMs: to the byte, for any size of a step. */
static void the_model_allocates_exactly_what_the_plan_says(void **state)
{
    (void)state;
    for (int i = 0; i < FAMILIES_N * 3; i++) {
        struct temp_dir dir = temp_dir_make();
        struct config_text c = families[i / 3].config();
        struct model_rig rig;
        struct lf_err err;
        config_write(&c, &dir);
        struct model_rig_opts opts = {.dir = dir.path,
                                      .load = LF_LOAD_DUMMY,
                                      .max_isa = -1,
                                      .n_threads = 2,
                                      .ctx = 200,
                                      .chunk = 1 + 50 * (i % 3),
                                      .max_seqs = 1,
                                      .kv_dtype = LF_BF16};
        if (model_rig_open(&rig, &opts, &err) != LF_OK) fail_msg("%s", err.message);
        assert_int_equal(lf_device_allocated_bytes(rig.dev), rig.plan.total_bytes);
        model_rig_close(&rig);
        temp_dir_remove(&dir);
    }
}

int main(void)
{
    lf_log_set_level(LF_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qwen3_moe_is_read),
        cmocka_unit_test(windows_of_qwen3_moe_are_those_that_transformers_computes),
        cmocka_unit_test(mixtral_is_read),
        cmocka_unit_test(what_contradicts_itself_is_refused_by_name),
        cmocka_unit_test(experts_are_the_same_however_the_files_hold_them),
        cmocka_unit_test(experts_that_do_not_fit_are_refused_by_name),
        cmocka_unit_test(a_part_may_be_one_tensor_of_all_experts),
        cmocka_unit_test(random_experts_differ_from_each_other),
        cmocka_unit_test(the_model_allocates_exactly_what_the_plan_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
