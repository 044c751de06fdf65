#include "tests/support/test.h"

#include <string.h>

#include "core/check.h"
#include "server/load/about_server.h"

static struct lf_about_server good(const char *body)
{
    struct lf_about_server s;
    if (!lf_about_server_read(&s, lf_str_c(body))) fail_msg("%s", body);
    return s;
}

static void capacity_names_the_model_and_its_ranks(void **state)
{
    (void)state;
    struct lf_about_server s =
        good("{\"object\":\"capacity\",\"model\":\"demo\",\"plan\":{\"kv_bytes\":1,\"ranks\":4}}");
    assert_int_equal(s.n_ranks, 4);
    assert_string_equal(s.model, "demo");
    assert_int_equal(s.n_context_ranks, 1);
    assert_int_equal(s.block_tokens, 64);
}

static void capacity_names_the_ranks_of_a_context_and_its_blocks(void **state)
{
    (void)state;
    struct lf_about_server s = good("{\"model\":\"demo\",\"blocks\":{\"tokens\":256,\"total\":9},"
                                    "\"plan\":{\"ranks\":8,\"context_ranks\":4}}");
    assert_int_equal(s.n_ranks, 8);
    assert_int_equal(s.n_context_ranks, 4);
    assert_int_equal(s.block_tokens, 256);
    s = good("{\"model\":\"demo\",\"blocks\":{\"tokens\":0},\"plan\":{\"ranks\":8,\"context_ranks\":-4}}");
    assert_int_equal(s.n_context_ranks, 1); /* what is no count is not said */
    assert_int_equal(s.block_tokens, 64);
}

/* A name is another's text: it neither moves the cursor nor ends within a character. */
static void names_are_made_fit_for_a_terminal(void **state)
{
    (void)state;
    struct lf_buf body;
    assert_string_equal(good("{\"plan\":{\"ranks\":1},\"model\":\"a\\u001b[2J\\n\\u007fé\"}").model, "a?[2J??é");
    for (int n_before = 0; n_before < 2; n_before++) { /* characters of two bytes, from an even place and an odd one */
        lf_buf_init(&body, 1 << 16);
        lf_buf_printf(&body, "{\"plan\":{\"ranks\":1},\"model\":\"%.*s", n_before, "a");
        for (int i = 0; i < LF_SERVER_MODEL_BYTES; i++) lf_buf_cstr(&body, "é");
        lf_buf_cstr(&body, "\"}");
        struct lf_about_server s = good(lf_buf_view(&body).ptr);
        lf_buf_deinit(&body);
        assert_int_equal(strlen(s.model), LF_SERVER_MODEL_BYTES - 2 + n_before);
        assert_true(lf_utf8_valid(lf_str_c(s.model)));
    }
    assert_string_equal(good("{\"plan\":{\"ranks\":1},\"model\":\"\"}").model, "");
}

static void what_does_not_say_it_is_unknown(void **state)
{
    (void)state;
    static const char *const bodies[] = {"",
                                         "{",
                                         "Not Found",
                                         "[]",
                                         "{\"model\":\"m\"}",
                                         "{\"model\":\"m\",\"plan\":{}}",
                                         "{\"model\":\"m\",\"plan\":{\"ranks\":0}}",
                                         "{\"model\":\"m\",\"plan\":{\"ranks\":-1}}",
                                         "{\"model\":\"m\",\"plan\":{\"ranks\":1.5}}",
                                         "{\"model\":\"m\",\"plan\":{\"ranks\":3000000000}}",
                                         "{\"model\":\"m\",\"plan\":{\"ranks\":\"2\"}}",
                                         "{\"model\":7,\"plan\":{\"ranks\":2}}",
                                         "{\"plan\":{\"ranks\":2}}"};
    for (size_t i = 0; i < LF_N_ELEMS(bodies); i++) {
        struct lf_about_server s = {.n_ranks = 9, .model = "x"};
        if (lf_about_server_read(&s, lf_str_c(bodies[i]))) fail_msg("%s", bodies[i]);
        assert_true(s.n_ranks == 0 && s.n_context_ranks == 0 && s.block_tokens == 0 && s.model[0] == '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(capacity_names_the_model_and_its_ranks),
        cmocka_unit_test(capacity_names_the_ranks_of_a_context_and_its_blocks),
        cmocka_unit_test(names_are_made_fit_for_a_terminal),
        cmocka_unit_test(what_does_not_say_it_is_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
