/* The activation by its names, and that every family's MLPs and experts have the one that its key names. */
#include "model/activation.h"
#include "core/check.h"
#include "model/arch/arch.h"
#include "model/programs.h"
#include "tests/support/config_read.h"

#define LLAMA  "[\"LlamaForCausalLM\"]", "\"llama\""
#define GEMMA3 "[\"Gemma3ForCausalLM\"]", "\"gemma3_text\""

static const struct {
    const char *name;
    enum lf_act act;
} names[] = {{"\"silu\"", LF_ACT_SILU},
             {"\"swish\"", LF_ACT_SILU},
             {"\"gelu\"", LF_ACT_GELU},
             {"\"gelu_python\"", LF_ACT_GELU},
             {"\"gelu_pytorch_tanh\"", LF_ACT_GELU_TANH},
             {"\"gelu_python_tanh\"", LF_ACT_GELU_TANH},
             {"\"gelu_new\"", LF_ACT_GELU_TANH},
             {"\"gelu_fast\"", LF_ACT_GELU_TANH},
             {"\"gelu_accurate\"", LF_ACT_GELU_TANH}};

static void an_activation_is_read_by_its_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < LF_N_ELEMS(names); i++) {
        struct lf_hparams hp = good(config_good(LLAMA), "hidden_act", names[i].name, NULL, NULL);
        assert_int_equal(hp.act, names[i].act);
        lf_hparams_deinit(&hp);
        struct config_text c = config_good(GEMMA3);
        config_set(&c, "hidden_act", NULL);
        hp = good(c, "sliding_window", "16", "hidden_activation", names[i].name);
        assert_int_equal(hp.act, names[i].act);
        lf_hparams_deinit(&hp);
    }
    struct config_text c = config_good(LLAMA);
    config_set(&c, "hidden_act", NULL);
    struct lf_hparams hp = good(c, NULL, NULL, NULL, NULL);
    assert_int_equal(hp.act, LF_ACT_SILU);
    lf_hparams_deinit(&hp);
    /* the key of other families is not read, and may say the same by another name */
    hp = good(c, "hidden_act", "\"gelu_new\"", "hidden_activation", "\"gelu_fast\"");
    assert_int_equal(hp.act, LF_ACT_GELU_TANH);
    lf_hparams_deinit(&hp);
    hp = good(c, "hidden_act", "null", "hidden_activation", "\"swish\"");
    assert_int_equal(hp.act, LF_ACT_SILU);
    lf_hparams_deinit(&hp);
    check_refused(c, "hidden_activation", "\"gelu\"", "hidden_activation says something else than hidden_act");
}

static void others_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const values[] = {"\"relu\"", "\"quick_gelu\"", "\"gelu_10\"", "\"SiLU\"", "\"\"",
                                         "1",        "[\"silu\"]"};
    for (size_t i = 0; i < LF_N_ELEMS(values); i++) {
        check_refused(config_good(LLAMA), "hidden_act", values[i], "hidden_act");
        check_refused(config_good(LLAMA), "hidden_activation", values[i], "hidden_activation");
    }
    /* one that has its own, and one whose convolutions have what the key names */
    struct config_text c = config_good("[\"GptOssForCausalLM\"]", "\"gpt_oss\"");
    check_refused(c, "hidden_act", "\"gelu\"", "\" is not implemented for GptOssForCausalLM (silu)");
    c = config_good("[\"Qwen3NextForCausalLM\"]", "\"qwen3_next\"");
    check_refused(c, "hidden_act", "\"gelu\"", "\" is not implemented for Qwen3NextForCausalLM (silu)");
}

/* Gates of every kind of MLP, experts and inputs of layers too, have the activation; gpt-oss has its own. */
static void every_gate_has_it(void **state)
{
    (void)state;
    static const char *const dirs[] = {"llama-f32",     "phi3-window-f32", "smollm3-f32",         "olmo2-f32",
                                       "glm4-f32",      "granite-f32",     "qwen3-moe-f32",       "mixtral-window-f32",
                                       "gemma3-f32",    "gemma4-f32",      "gemma4-experts-bf16", "gemma4-inputs-f32",
                                       "ministral3-f32"};
    for (size_t i = 0; i < LF_N_ELEMS(dirs); i++) {
        char dir[256];
        struct lf_hparams hp;
        struct lf_program p;
        struct lf_err err;
        int n = 0;
        (void)snprintf(dir, sizeof dir, "tests/golden/model/data/%s", dirs[i]);
        if (lf_hparams_read(&hp, dir, &err) != LF_OK) fail_msg("%s", err.message);
        hp.act = LF_ACT_GELU;
        assert_int_equal(lf_program_record(&p, &hp, &err), LF_OK);
        for (int k = 0; k < p.n_ops; k++) {
            if (p.ops[k].kind != LF_OP_GATE_MUL) continue;
            if (p.ops[k].act != LF_ACT_GELU) fail_msg("%s: op %d", dirs[i], k);
            n++;
        }
        assert_true(n >= hp.n_layers);
        lf_program_deinit(&p);
        lf_hparams_deinit(&hp);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_activation_is_read_by_its_names),
        cmocka_unit_test(others_are_refused_by_name),
        cmocka_unit_test(every_gate_has_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
