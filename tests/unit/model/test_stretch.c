/* --max-position and --rope-scaling: positions behind those that a model was made for. */
#include <math.h>

#include "core/check.h"
#include "core/limits.h"
#include "model/rope_config.h"
#include "tests/support/config_read.h"
#include "tests/unit/model/plan_bench.h"

#define QWEN3      "[\"Qwen3ForCausalLM\"]", "\"qwen3\""
#define MISTRAL    "[\"MistralForCausalLM\"]", "\"mistral\""
#define PHI3       "[\"Phi3ForCausalLM\"]", "\"phi3\""
#define OLMO3      "[\"Olmo3ForCausalLM\"]", "\"olmo3\""
#define MINISTRAL3 "[\"Ministral3ForCausalLM\"]", "\"ministral3\""

enum { POSITIONS = 1024, PAIRS_N = 8 };

static enum lf_status read_stretched(const struct config_text *c, const struct lf_stretch *stretch,
                                     struct lf_hparams *hp, struct lf_err *err)
{
    struct temp_dir d = temp_dir_make();
    config_write(c, &d);
    enum lf_status status = lf_hparams_read_stretched(hp, d.path, stretch, err);
    temp_dir_remove(&d);
    return status;
}

/* Of a configuration with another rope_scaling, or its own. The caller deinits. */
static struct lf_hparams stretched(struct config_text c, const char *scaling, struct lf_stretch stretch)
{
    struct lf_hparams hp;
    struct lf_err err;
    if (scaling) config_set(&c, "rope_scaling", scaling);
    if (read_stretched(&c, &stretch, &hp, &err) != LF_OK) fail_msg("%s", err.message);
    assert_int_equal(hp.max_positions, stretch.max_position);
    return hp;
}

static void expect_refused(struct config_text c, const char *scaling, struct lf_stretch stretch, enum lf_status want,
                           const char *says)
{
    struct lf_hparams hp = {0};
    struct lf_err err = {0};
    if (scaling) config_set(&c, "rope_scaling", scaling);
    enum lf_status status = read_stretched(&c, &stretch, &hp, &err);
    if (status != want) fail_msg("%s instead of \"%s\": %s", lf_status_name(status), says, err.message);
    if (!strstr(err.message, says)) fail_msg("\"%s\" lacks \"%s\"", err.message, says);
    assert_null(hp.layers);
}

static void expect_text(const struct lf_hparams *hp, const char *says)
{
    char text[LF_STRETCH_TEXT_BYTES];
    lf_rope_stretch_text(hp, text);
    assert_string_equal(text, says);
}

#define FACTORS "[1,1.5,2,3,4,5,6,7,8,9,10,11,12,13,14,15]"
#define LONG_SCALING                                                                                                   \
    "{\"type\":\"longrope\",\"original_max_position_embeddings\":64,\"short_factor\":" FACTORS                         \
    ",\"long_factor\":" FACTORS "}"
#define LLAMA3_SCALING                                                                                                 \
    "{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4,"                             \
    "\"original_max_position_embeddings\":64}"

/* All parameters are what they are without a stretch, and so is every angle that was there before. */
static void positions_go_on_as_they_are_without_yarn(void **state)
{
    (void)state;
    const struct {
        struct config_text config;
        const char *scaling, *says;
        int made;
    } rows[] = {
        {config_llama(), NULL, "positions go on as they are", 256},
        {config_llama(), "{\"type\":\"linear\",\"factor\":2}", "positions go on, scaled by linear as they are", 512},
        {config_llama(), LLAMA3_SCALING, "positions go on, scaled by llama3 as they are", 256},
        {config_good(PHI3), LONG_SCALING, "positions go on, scaled by longrope as they are", 256}};
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++) {
        struct lf_hparams hp = stretched(rows[i].config, rows[i].scaling, (struct lf_stretch){POSITIONS, false, 0});
        struct lf_hparams plain =
            good(rows[i].config, rows[i].scaling ? "rope_scaling" : NULL, rows[i].scaling, NULL, NULL);
        assert_int_equal(hp.made_positions, rows[i].made);
        assert_true(plain.made_positions == rows[i].made && plain.max_positions == rows[i].made);
        assert_memory_equal(&hp.ropes[0], &plain.ropes[0], sizeof(hp.ropes[0]));
        expect_text(&hp, rows[i].says);
        lf_hparams_deinit(&plain);
        lf_hparams_deinit(&hp);
    }
}

struct yarn_case {
    const char *scaling; /* NULL: the configuration has none */
    struct lf_stretch stretch;
    double theta;
    int made, head_dim;
    double attention_factor;
    double inv_freq[PAIRS_N]; /* of pairs 0, 1, d/8, d/6, d/4, d/3, d/2 - 2, d/2 - 1 */
};

#define YARN(factor, original, more)                                                                                   \
    "{\"type\":\"yarn\",\"factor\":" #factor ",\"original_max_position_embeddings\":" #original more "}"

/* Values of transformers 5.24 (ROPE_INIT_FUNCTIONS["yarn"]) for rope_scaling with the raised factor, in float32. */
static const struct yarn_case YARN_CASES[] = {
    {YARN(4, 32768, ""),
     {1 << 20, false, 0},
     1e6,
     131072,
     128,
     1.3465735902799727,
     {1, 0.805842221, 0.0316227786, 0.0107460786, 0.000487132347, 3.60869353e-06, 4.8122704e-08, 3.87793051e-08}},
    {NULL,
     {1 << 20, true, 32768},
     1e6,
     40960,
     128,
     1.3465735902799727,
     {1, 0.805842221, 0.0316227786, 0.0107460786, 0.000487132347, 3.60869353e-06, 4.8122704e-08, 3.87793051e-08}},
    {NULL,
     {1 << 20, true, 0},
     1e6,
     40960,
     128,
     1.3242592351485518,
     {1, 0.805842221, 0.0316227786, 0.0107460786, 0.00054779416, 4.5108668e-06, 6.01533756e-08, 4.84741314e-08}},
    {YARN(4, 64, ""),
     {1024, true, 64},
     1e4,
     256,
     32,
     1.2772588722239782,
     {1, 0.456902325, 0.0250000004, 0.00351463305, 0.000624999986, 0.000197642366, 1.97642366e-05, 1.11142463e-05}},
    {YARN(4, 64, ",\"mscale\":1,\"mscale_all_dim\":0.8"),
     {1024, false, 0},
     1e4,
     256,
     32,
     1.0453850485445595,
     {1, 0.456902325, 0.0250000004, 0.00351463305, 0.000624999986, 0.000197642366, 1.97642366e-05, 1.11142463e-05}},
    {YARN(4, 64, ",\"attention_factor\":1.5"),
     {1024, false, 0},
     1e4,
     256,
     32,
     1.5,
     {1, 0.456902325, 0.0250000004, 0.00351463305, 0.000624999986, 0.000197642366, 1.97642366e-05, 1.11142463e-05}},
    {NULL,
     {1024, true, 0},
     1e4,
     256,
     32,
     1.1386294361119891,
     {1, 0.502090454, 0.0571428537, 0.0261087008, 0.00249999994, 0.000790569466, 7.90569466e-05, 4.44569851e-05}},
};

static void expect_yarn(const struct yarn_case *c, const struct lf_hparams *hp)
{
    int half = c->head_dim / 2;
    int at[PAIRS_N] = {0, 1, c->head_dim / 8, c->head_dim / 6, c->head_dim / 4, c->head_dim / 3, half - 2, half - 1};
    double inv_freq[LF_HEAD_DIM / 2], factor;
    assert_int_equal(hp->ropes[0].kind, LF_ROPE_YARN);
    lf_rope_inv_freq(&hp->ropes[0], hp->max_positions, inv_freq, &factor);
    if (fabs(factor - c->attention_factor) > 1e-12) fail_msg("factor %.17g, not %.17g", factor, c->attention_factor);
    for (int i = 0; i < PAIRS_N; i++)
        if (fabs(inv_freq[at[i]] - c->inv_freq[i]) > 2e-6 * c->inv_freq[i])
            fail_msg("pair %d: %.9g, expected %.9g", at[i], inv_freq[at[i]], c->inv_freq[i]);
}

static void yarn_is_raised_to_what_the_last_position_needs(void **state)
{
    (void)state;
    for (size_t i = 0; i < LF_N_ELEMS(YARN_CASES); i++) {
        const struct yarn_case *y = &YARN_CASES[i];
        struct config_text c = config_good(QWEN3);
        char made[16], dim[16], theta[32];
        snprintf(made, sizeof(made), "%d", y->made);
        snprintf(dim, sizeof(dim), "%d", y->head_dim);
        snprintf(theta, sizeof(theta), "%.1f", y->theta);
        config_set(&c, "max_position_embeddings", made);
        config_set(&c, "head_dim", dim);
        config_set(&c, "rope_theta", theta);
        struct lf_hparams hp = stretched(c, y->scaling, y->stretch);
        assert_int_equal(hp.made_positions, y->made);
        expect_yarn(y, &hp);
        lf_hparams_deinit(&hp);
    }
}

/* A factor that is more than the last position needs stays; the text says what there is. */
static void yarn_is_not_lowered(void **state)
{
    (void)state;
    struct lf_hparams hp = stretched(config_good(QWEN3), YARN(4, 64, ""), (struct lf_stretch){257, false, 0});
    assert_true(fabs(hp.ropes[0].factor - 257.0 / 64) < 1e-12);
    expect_text(&hp, "YaRN by 4.01562 from 64 tokens, for short texts too");
    lf_hparams_deinit(&hp);
    hp = stretched(config_good(MINISTRAL3), YARN(4, 64, ",\"llama_4_scaling_beta\":0.1"),
                   (struct lf_stretch){POSITIONS, false, 0});
    assert_int_equal(hp.q_scale.n_positions, 64); /* queries are scaled from the same length on */
    lf_hparams_deinit(&hp);
}

/* What layers with a window have for themselves does not reach further. */
static void rope_of_layers_with_a_window_stays(void **state)
{
    (void)state;
    struct config_text c = config_good(OLMO3);
    config_set(&c, "num_hidden_layers", "5");
    config_set(&c, "sliding_window", "20");
    struct lf_hparams hp = stretched(c, NULL, (struct lf_stretch){POSITIONS, true, 0});
    assert_true(hp.n_ropes == 2 && hp.ropes[0].kind == LF_ROPE_YARN && hp.ropes[1].kind == LF_ROPE_NONE_SCALED);
    lf_hparams_deinit(&hp);
}

/* A window as long as the context is none, and one again where the context goes on. */
static void windows_hold_behind_the_length_that_the_model_was_made_for(void **state)
{
    (void)state;
    struct config_text c = config_good(MISTRAL);
    config_set(&c, "sliding_window", "300");
    struct lf_hparams hp = good(c, NULL, NULL, NULL, NULL);
    assert_int_equal(hp.layers[0].window, 0);
    lf_hparams_deinit(&hp);
    hp = stretched(c, NULL, (struct lf_stretch){301, false, 0});
    assert_int_equal(hp.layers[0].window, 300);
    lf_hparams_deinit(&hp);
    hp = stretched(c, NULL, (struct lf_stretch){300, false, 0});
    assert_int_equal(hp.layers[0].window, 0);
    lf_hparams_deinit(&hp);
    c = config_llama(); /* has no window: none can be left out any more */
    config_set(&c, "sliding_window", "300");
    expect_refused(c, NULL, (struct lf_stretch){301, false, 0}, LF_UNSUPPORTED, "sliding_window is 300");
    hp = stretched(c, NULL, (struct lf_stretch){300, false, 0});
    assert_int_equal(hp.layers[0].window, 0);
    lf_hparams_deinit(&hp);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    struct config_text llama = config_llama(), qwen = config_good(QWEN3);
    expect_refused(llama, NULL, (struct lf_stretch){256, false, 0}, LF_INVALID,
                   "was made for 256 tokens: less is --ctx");
    expect_refused(llama, "{\"type\":\"linear\",\"factor\":4}", (struct lf_stretch){POSITIONS, false, 0}, LF_INVALID,
                   "was made for 1024 tokens");
    expect_refused(qwen, YARN(4, 64, ""), (struct lf_stretch){256, false, 0}, LF_INVALID, "was made for 256 tokens");
    expect_refused(llama, NULL, (struct lf_stretch){0, true, 0}, LF_INVALID, "--max-position, which is not given");
    expect_refused(llama, NULL, (struct lf_stretch){POSITIONS, true, 257}, LF_INVALID, "yarn:257: the model was made");
    expect_refused(llama, LLAMA3_SCALING, (struct lf_stretch){POSITIONS, true, 0}, LF_INVALID, "scaled by llama3");
    expect_refused(qwen, YARN(4, 64, ""), (struct lf_stretch){POSITIONS, true, 32}, LF_INVALID, "YaRN of 64 tokens");
}

static void a_plan_has_the_positions_that_are_asked_for(void **state)
{
    (void)state;
    struct bench b;
    struct lf_err err;
    struct lf_buf out;
    bench_open(&b);
    struct lf_plan p, made = plan(&b);
    lf_hparams_deinit(&b.hp);
    struct lf_stretch stretch = {1 << 20, false, 0};
    assert_int_equal(lf_hparams_read_stretched(&b.hp, b.dir.path, &stretch, &err), LF_OK);
    assert_int_equal(plan(&b).total_bytes, made.total_bytes); /* --ctx says less */
    b.opts.ctx = 0;
    b.info.available_bytes = (uint64_t)64 << 30;
    p = plan(&b);
    assert_int_equal(p.ctx, 1 << 20);
    assert_int_equal(p.n_request_blocks, (1 << 20) / LF_KV_BLOCK_TOKENS);
    assert_int_equal(p.rope_bytes, ((uint64_t)1 << 20) * 32 * sizeof(float));
    lf_buf_init(&out, 1 << 16);
    lf_plan_print(&p, &b.hp, &out);
    assert_non_null(strstr(out.ptr, "131072 positions\n"));
    assert_non_null(
        strstr(out.ptr, "1048576  tokens, more than the model was made for: positions go on as they are\n"));
    lf_buf_clear(&out);
    lf_plan_print_json(&p, &b.hp, &out);
    assert_non_null(strstr(out.ptr, "\"max_positions\":1048576,\"made_positions\":131072,"));
    lf_buf_deinit(&out);
    b.opts.ctx = (1 << 20) + 1;
    assert_int_equal(lf_plan_make(&p, &b.hp, b.weight_bytes, lf_device_ops(b.dev), &b.info, &b.opts, &err), LF_INVALID);
    assert_non_null(strstr(err.message, "positions for 1048576 tokens"));
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(positions_go_on_as_they_are_without_yarn),
        cmocka_unit_test(yarn_is_raised_to_what_the_last_position_needs),
        cmocka_unit_test(yarn_is_not_lowered),
        cmocka_unit_test(rope_of_layers_with_a_window_stays),
        cmocka_unit_test(windows_hold_behind_the_length_that_the_model_was_made_for),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(a_plan_has_the_positions_that_are_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
