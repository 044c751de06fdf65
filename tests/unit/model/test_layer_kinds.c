/* Layers of one model that differ in KV heads, head_dim and window, and layers that read the keys of an earlier one:
 * against the same model in which those compute the same keys once more. */
#include "core/check.h"
#include "model/arch/arch.h"
#include "model/layer_kinds.h"
#include "tests/support/config_text.h"
#include "tests/support/model_rig.h"
#include "tests/support/test.h"

enum { LAYERS = 4, TOKENS = 200, N_VOCAB = 50, HEADS = 2, TABLE = 4, BLOCKS = 40 };

/* Layers 0 and 2 see all, with a KV head of 32; 1 and 3 the last 40 tokens, with two of 64. */
static bool shares;
static bool have_one_shape; /* all of them like layer 0, but for the window */

static int q_width(const struct lf_recorder *r, int layer)
{
    return HEADS * lf_layer_head_dim(r->hp, layer);
}

/* The projections of a layer; keys and values of layers 2 and 3 have the names of those of 0 and 1. */
static int attention(struct lf_recorder *r, int layer, int h)
{
    static const char *const q_names[LAYERS] = {"a.q", "b.q", "c.q", "d.q"};
    int kv_width = lf_layer_n_kv_heads(r->hp, layer) * lf_layer_head_dim(r->hp, layer);
    bool is_alias = r->hp->layers[layer].alias_back > 0;
    struct lf_linear_opts opts = {.parts = {{q_names[layer], q_width(r, layer)},
                                            {layer % 2 ? "b.k" : "a.k", kv_width},
                                            {layer % 2 ? "b.v" : "a.v", kv_width}},
                                  .n_in = r->hp->hidden};
    if (is_alias) opts.parts[1].pattern = NULL;
    int qkv = lf_rec_gemm(r, h, lf_rec_linear(r, layer, &opts));
    int q = is_alias ? lf_rec_rope(r, layer, qkv, LF_NONE) : lf_rec_rope_append(r, layer, qkv, LF_NONE, LF_NONE);
    return lf_rec_attention(r, layer, q, r->hp->layers[layer].window);
}

static int add_attention(struct lf_recorder *r, int layer, int h, int x)
{
    static const char *const names[LAYERS] = {"a.o", "b.o", "c.o", "d.o"};
    struct lf_linear_opts opts = {.parts = {{names[layer], r->hp->hidden}}, .n_in = q_width(r, layer)};
    struct lf_linear out = lf_rec_linear(r, layer, &opts);
    return lf_rec_gemm_add(r, attention(r, layer, h), out, x);
}

static void record(struct lf_recorder *r)
{
    struct lf_linear table =
        lf_rec_linear(r, -1, &(struct lf_linear_opts){.parts = {{"table", N_VOCAB}}, .n_in = r->hp->hidden});
    int x = lf_rec_embed(r, table);
    for (int layer = 0; layer < 2; layer++) {
        int h = lf_rec_rmsnorm(r, x, lf_rec_vector(r, layer, "norm", r->hp->hidden));
        x = add_attention(r, layer, h, x);
        x = add_attention(r, layer + 2, h, x);
    }
    lf_rec_logits(r, lf_rec_rmsnorm(r, x, lf_rec_vector(r, -1, "norm", r->hp->hidden)), table);
}

static void change(struct lf_hparams *hp)
{
    static const struct lf_arch arch = {.name = "Layers", .model_type = "layers", .record = record};
    hp->arch = &arch;
    hp->ropes[1] = hp->ropes[0];
    hp->ropes[1].head_dim = hp->ropes[1].rotary_dim = 64;
    hp->n_ropes = 2;
    for (int i = 0; i < LAYERS; i++) {
        bool slides = i % 2;
        hp->layers[i] = (struct lf_layer_hparams){.window = slides ? 40 : 0,
                                                  .rope = slides && !have_one_shape,
                                                  .n_kv_heads = slides && !have_one_shape ? 2 : 1,
                                                  .head_dim = slides && !have_one_shape ? 64 : 32,
                                                  .alias_back = shares && i >= 2 ? 2 : 0};
    }
}

static struct model_rig open_rig(const struct temp_dir *dir, bool cache_groups)
{
    struct model_rig rig;
    struct lf_err err = {0};
    struct config_text c = config_llama();
    config_set(&c, "num_hidden_layers", "4");
    config_write(&c, dir);
    struct model_rig_opts opts = {.dir = dir->path,
                                  .load = LF_LOAD_DUMMY,
                                  .max_isa = -1,
                                  .n_threads = 2,
                                  .ctx = 256,
                                  .chunk = 64,
                                  .max_seqs = 2,
                                  .max_out = 64,
                                  .kv_tokens = 64 * BLOCKS,
                                  .kv_dtype = LF_BF16,
                                  .cache_groups = cache_groups,
                                  .change = change};
    if (model_rig_open(&rig, &opts, &err) != LF_OK) fail_msg("%s", err.message);
    assert_int_equal(lf_device_allocated_bytes(rig.dev), rig.plan.total_bytes);
    rig.table_stride = TABLE;
    return rig;
}

/* Logits of every token, then those of the last alone, in steps of so many tokens. */
static float *logits_of(bool with_alias, bool cache_groups, int chunk)
{
    struct temp_dir dir = temp_dir_make();
    int32_t ids[TOKENS], tables[LF_KV_GROUPS_N * TABLE];
    float *logits = calloc((TOKENS + 1) * N_VOCAB, sizeof(*logits));
    assert_non_null(logits);
    shares = with_alias;
    struct model_rig rig = open_rig(&dir, cache_groups);
    for (int i = 0; i < TOKENS; i++) ids[i] = i * 7 % N_VOCAB;
    for (int i = 0; i < LF_KV_GROUPS_N * TABLE; i++) tables[i] = (i * 11 + 5) % BLOCKS;
    assert_true(rig.kv.n_groups * TABLE <= BLOCKS);
    model_rig_run(&rig, tables, ids, TOKENS, 0, chunk, true, logits);
    model_rig_run(&rig, tables, ids, TOKENS, 0, chunk, false, logits + TOKENS * N_VOCAB);
    assert_memory_equal(logits + (TOKENS - 1) * N_VOCAB, logits + TOKENS * N_VOCAB, N_VOCAB * sizeof(*logits));
    model_rig_close(&rig);
    temp_dir_remove(&dir);
    return logits;
}

static void an_alias_computes_what_keys_of_its_own_would(void **state)
{
    (void)state;
    static const int chunks[] = {1, 13, 64};
    float *expected = logits_of(false, false, 64);
    for (int i = 0; i < 12; i++) {
        float *got = logits_of(i % 2, i / 2 % 2, chunks[i / 4]);
        assert_memory_equal(expected, got, (TOKENS + 1) * N_VOCAB * sizeof(*got));
        free(got);
    }
    assert_true(expected[0] < 1e6f && expected[0] > -1e6f); /* no NaN */
    free(expected);
}

static void kinds_and_shapes_are_those_of_the_layers(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct temp_dir dir = temp_dir_make();
        struct lf_programs programs;
        struct lf_layer_kinds kinds;
        bool cache_groups = i / 2;
        shares = i % 2;
        struct model_rig rig = open_rig(&dir, cache_groups);
        const struct lf_kv_layout *layout = lf_model_kv_layout(rig.model);
        assert_int_equal(lf_programs_make(&programs, &rig.hp, lf_device_ops(rig.dev), false, NULL), LF_OK);
        assert_int_equal(lf_layer_kinds_make(&kinds, &rig.hp, &programs, LF_BF16, LF_F32, cache_groups, NULL), LF_OK);
        assert_true(lf_kv_layout_same(layout, &kinds.layout));
        assert_int_equal(kinds.n, 2);
        assert_int_equal(kinds.n_shapes, 2);
        for (int layer = 0; layer < LAYERS; layer++) {
            const struct lf_layer_kind *kind = lf_layer_kind_of(&kinds, layer, layer % 2 ? 40 : 0);
            assert_int_equal(kinds.shapes[kind->shape_idx].head_dim, layer % 2 ? 64 : 32);
            assert_ptr_equal(kind, lf_layer_kind_of_append(&kinds, layer));
            assert_int_equal(kind->tail_idx != LF_NONE, layer % 2); /* behind the last append */
            assert_int_equal(layout->groups[layout->places[layer].group].window, cache_groups && layer % 2 ? 40 : 0);
        }
        int n_layers = 0;
        for (int g = 0; g < layout->n_groups; g++) n_layers += layout->groups[g].n_layers;
        assert_int_equal(n_layers, shares ? 2 : 4);
        lf_layer_kinds_deinit(&kinds);
        lf_programs_deinit(&programs);
        model_rig_close(&rig);
        temp_dir_remove(&dir);
    }
}

/* Groups that differ in nothing but the window lie side by side, and are of two kinds all the same. */
static void a_kind_has_the_groups_of_its_window_and_no_others(void **state)
{
    (void)state;
    struct temp_dir dir = temp_dir_make();
    struct lf_programs programs;
    struct lf_layer_kinds kinds;
    shares = false;
    have_one_shape = true;
    struct model_rig rig = open_rig(&dir, true);
    assert_int_equal(lf_programs_make(&programs, &rig.hp, lf_device_ops(rig.dev), false, NULL), LF_OK);
    assert_int_equal(lf_layer_kinds_make(&kinds, &rig.hp, &programs, LF_BF16, LF_F32, true, NULL), LF_OK);
    assert_int_equal(kinds.n, 2);
    assert_int_equal(kinds.n_shapes, 1);
    int n_groups = 0;
    for (int i = 0; i < kinds.n; n_groups += kinds.of[i++].attn.n_groups)
        for (int g = 0; g < kinds.of[i].attn.n_groups; g++)
            assert_int_equal(kinds.layout.groups[kinds.of[i].attn.first_group + g].window, kinds.of[i].attn.window);
    assert_int_equal(n_groups, kinds.layout.n_groups);
    lf_layer_kinds_deinit(&kinds);
    lf_programs_deinit(&programs);
    model_rig_close(&rig);
    temp_dir_remove(&dir);
    have_one_shape = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_alias_computes_what_keys_of_its_own_would),
        cmocka_unit_test(kinds_and_shapes_are_those_of_the_layers),
        cmocka_unit_test(a_kind_has_the_groups_of_its_window_and_no_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
