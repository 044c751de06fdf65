/* The exact edges of the model's own: values at which one check decides and no other would. */
#include "model/hparams.h"
#include "model/sampler.h"
#include "tests/support/config_text.h"

static void expect_config(const struct config_text *c, enum lf_status expected, const char *part)
{
    struct temp_dir d = temp_dir_make();
    struct lf_hparams hp = {0};
    struct lf_err err = {0};
    config_write(c, &d);
    enum lf_status status = lf_hparams_read(&hp, d.path, &err);
    if (status != expected || !strstr(err.message, part)) fail_msg("%s: %s", lf_status_name(status), err.message);
    if (status == LF_OK) lf_hparams_deinit(&hp);
    temp_dir_remove(&d);
}

/* Quotients that would be a head_dim, and counts that would be groups, if the rest did not matter. */
static void heads_divide_what_they_share(void **state)
{
    (void)state;
    struct config_text c = config_llama();
    config_set(&c, "num_attention_heads", "4");
    config_set(&c, "num_key_value_heads", "3");
    expect_config(&c, LF_CORRUPT, "num_attention_heads 4 is no multiple of num_key_value_heads 3");
    config_set(&c, "num_key_value_heads", "8");
    expect_config(&c, LF_CORRUPT, "num_attention_heads 4 is no multiple of num_key_value_heads 8");
    config_set(&c, "num_key_value_heads", "4");
    expect_config(&c, LF_OK, "");
    config_set(&c, "head_dim", NULL);
    config_set(&c, "hidden_size", "130"); /* 130 / 4 = 32 */
    expect_config(&c, LF_CORRUPT, "hidden_size 130 is no multiple of num_attention_heads 4");
    config_set(&c, "hidden_size", "128");
    expect_config(&c, LF_OK, "");
}

enum { N_VOCAB = 2, N_DRAWS = 200 };

/* How often the less likely of two tokens is drawn. */
static int n_second(float temperature, float distance)
{
    struct lf_sampling params = {
        .temperature = temperature, .top_p = 1, .repetition_penalty = 1, .n_logprobs = -1, .seed = 5};
    uint64_t scratch[8];
    int n = 0;
    assert_true(lf_sampler_scratch_bytes(N_VOCAB) <= sizeof scratch);
    for (uint64_t i = 0; i < N_DRAWS; i++) {
        float logits[N_VOCAB] = {distance, 0};
        struct lf_sample_input in = {.logits = logits, .n_vocab = N_VOCAB, .position = i};
        struct lf_sampled out;
        lf_sample(&out, &params, &in, scratch);
        n += out.id == 1;
    }
    return n;
}

static void a_temperature_is_zero_below_a_hundred_thousandth_and_not_above(void **state)
{
    (void)state;
    assert_int_equal(n_second(0, 1e-7f), 0);
    assert_int_equal(n_second(0.99e-5f, 1e-7f), 0);
    for (float t = 1.01e-5f; t < 0.5f; t *= 3) {
        int n = n_second(t, t / 100); /* as good as even */
        if (n < N_DRAWS / 4 || n > N_DRAWS * 3 / 4) fail_msg("temperature %g: %d of %d", (double)t, n, N_DRAWS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_divide_what_they_share),
        cmocka_unit_test(a_temperature_is_zero_below_a_hundred_thousandth_and_not_above),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
