#include "core/log.h"
#include "model/generation_config.h"
#include "tests/support/temp_dir.h"

static enum lf_status read_text(struct lf_sampling_defaults *out, const char *text, struct lf_err *err)
{
    struct temp_dir d = temp_dir_make();
    if (text) temp_dir_write_text(&d, "generation_config.json", text);
    *err = (struct lf_err){0};
    enum lf_status status = lf_generation_config_read(out, d.path, err);
    temp_dir_remove(&d);
    return status;
}

/* What of it is not plain, as it is printed. */
static void check_printed(const char *text, const char *expected)
{
    struct lf_sampling_defaults d;
    struct lf_err err;
    struct lf_buf out;
    if (read_text(&d, text, &err) != LF_OK) fail_msg("%s: %s", text, err.message);
    lf_buf_init(&out, 1000);
    lf_sampling_defaults_print(&d, &out);
    assert_string_equal(lf_buf_view(&out).ptr, expected);
    lf_buf_deinit(&out);
}

static void what_a_file_does_not_set_stays_plain(void **state)
{
    (void)state;
    check_printed(NULL, "");
    check_printed("{}", "");
    check_printed("{\"temperature\":null,\"top_k\":null,\"eos_token_id\":[1,2],\"do_sample\":false}", "");
    check_printed("{\"temperature\":1.0,\"top_p\":1,\"top_k\":0,\"min_p\":0.0,\"repetition_penalty\":1}", "");
    check_printed("{\"top_k\":-1}", "");
    check_printed("{\"do_sample\":true,\"temperature\":0.6,\"top_p\":0.95,\"top_k\":20,\"min_p\":0.05,"
                  "\"repetition_penalty\":1.05}",
                  "temperature 0.6, top_p 0.95, min_p 0.05, repetition_penalty 1.05, top_k 20");
    check_printed("{\"temperature\":0}", "temperature 0");
    check_printed("\xef\xbb\xbf{\"top_k\":7}", "top_k 7");
}

static void a_value_is_taken_at_its_limits_and_refused_past_them(void **state)
{
    (void)state;
    static const struct {
        const char *good[2], *bad[4];
    } rows[] = {
        {{"{\"temperature\":0}", "{\"temperature\":2}"},
         {"{\"temperature\":-0.01}", "{\"temperature\":2.01}", "{\"temperature\":\"1\"}", "{\"temperature\":true}"}},
        {{"{\"top_p\":0}", "{\"top_p\":1}"}, {"{\"top_p\":-0.1}", "{\"top_p\":1.01}", "{\"top_p\":[]}"}},
        {{"{\"min_p\":0}", "{\"min_p\":1}"}, {"{\"min_p\":-0.1}", "{\"min_p\":1.01}", "{\"min_p\":{}}"}},
        {{"{\"repetition_penalty\":0.01}", "{\"repetition_penalty\":100}"},
         {"{\"repetition_penalty\":0}", "{\"repetition_penalty\":100.1}"}},
        {{"{\"top_k\":-1}", "{\"top_k\":2147483647}"},
         {"{\"top_k\":-2}", "{\"top_k\":2147483648}", "{\"top_k\":1.5}", "{\"top_k\":\"all\"}"}},
        {{"{}", "{\"num_beams\":4}"}, {"[]", "{", "\"x\"", "1"}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int k = 0; k < 4; k++) {
            struct lf_sampling_defaults d = {.top_k = 77};
            struct lf_err err;
            if (k < 2 && read_text(&d, rows[i].good[k], &err) != LF_OK) fail_msg("%s", err.message);
            if (!rows[i].bad[k]) continue;
            d.top_k = 77;
            assert_int_equal(read_text(&d, rows[i].bad[k], &err), LF_CORRUPT);
            assert_non_null(strstr(err.message, "generation_config.json"));
            assert_int_equal(d.top_k, 77); /* nothing is written */
        }
    }
}

int main(void)
{
    lf_log_set_level(LF_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_file_does_not_set_stays_plain),
        cmocka_unit_test(a_value_is_taken_at_its_limits_and_refused_past_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
