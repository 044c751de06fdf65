/* server/http/messages.c: what is refused, and the form in which templates get the rest. */
#include "tests/support/test.h"

#include "server/http/messages.h"

struct doc {
    struct lf_json json;
    struct test_guarded text;
};

static struct lf_json_value open_doc(struct doc *d, const char *text)
{
    memset(d, 0, sizeof *d);
    d->text = test_guarded_copy(text, strlen(text));
    assert_int_equal(lf_json_parse(&d->json, lf_str_from(d->text.ptr, strlen(text)), &lf_json_limits_request, NULL),
                     LF_OK);
    return lf_json_root(&d->json);
}

static void close_doc(struct doc *d)
{
    lf_json_deinit(&d->json);
    test_guarded_free(&d->text);
}

static void check_written(const char *text, bool keep_developer, const char *want)
{
    struct doc d;
    struct lf_api_err err;
    struct lf_buf out;
    bool rewrite = false;
    struct lf_json_value messages = open_doc(&d, text);
    lf_buf_init(&out, 1 << 20);
    assert_int_equal(lf_messages_check(messages, &rewrite, &err), LF_OK);
    assert_true(rewrite);
    lf_messages_write(&out, messages, keep_developer);
    assert_string_equal(out.ptr, want);
    lf_buf_deinit(&out);
    close_doc(&d);
}

static void parts_become_one_string_and_the_rest_stays(void **state)
{
    (void)state;
    check_written("[{\"role\":\"user\",\"name\":\"n\\n\",\"content\":[{\"type\":\"text\",\"text\":\"a\\\"b\"},"
                  "{\"text\":\"\\u00e9\",\"type\":\"text\"}],\"x\":{\"y\":[1,null]}}]",
                  false,
                  "[{\"role\":\"user\",\"name\":\"n\\n\",\"content\":\"a\\\"b\\n\\u00e9\",\"x\":{\"y\":[1,null]}}]");
    check_written("[{\"content\":[],\"role\":\"user\"}]", false, "[{\"content\":\"\",\"role\":\"user\"}]");
}

static void a_developer_is_a_system_to_templates_that_know_no_developer(void **state)
{
    (void)state;
    const char *text = "[{\"role\":\"developer\",\"content\":\"x\"},{\"role\":\"user\",\"content\":\"developer\"}]";
    check_written(text, false,
                  "[{\"role\":\"system\",\"content\":\"x\"},{\"role\":\"user\",\"content\":\"developer\"}]");
    check_written(text, true, text);
}

static void plain_messages_need_no_writing(void **state)
{
    (void)state;
    struct doc d;
    struct lf_api_err err;
    bool rewrite = true;
    struct lf_json_value messages =
        open_doc(&d, "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"\"},"
                     "{\"role\":\"assistant\",\"content\":null},{\"role\":\"assistant\"}]");
    assert_int_equal(lf_messages_check(messages, &rewrite, &err), LF_OK);
    assert_false(rewrite);
    close_doc(&d);
}

static void refusals_say_which_message(void **state)
{
    (void)state;
    static const struct {
        const char *text, *param;
    } cases[] = {
        {"[1]", "messages[0]"},
        {"[{\"role\":\"user\",\"content\":\"\"},[]]", "messages[1]"},
        {"[{\"role\":\"owl\",\"content\":\"\"}]", "messages[0].role"},
        {"[{\"content\":\"\"}]", "messages[0].role"},
        {"[{\"role\":\"user\"}]", "messages[0].content"},
        {"[{\"role\":\"user\",\"content\":{}}]", "messages[0].content"},
        {"[{\"role\":\"user\",\"content\":[\"x\"]}]", "messages[0].content"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]", "messages[0].content"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":1}]}]", "messages[0].content"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct doc d;
        struct lf_api_err err;
        bool rewrite;
        assert_int_equal(lf_messages_check(open_doc(&d, cases[i].text), &rewrite, &err), LF_INVALID);
        assert_string_equal(err.param, cases[i].param);
        close_doc(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_become_one_string_and_the_rest_stays),
        cmocka_unit_test(a_developer_is_a_system_to_templates_that_know_no_developer),
        cmocka_unit_test(plain_messages_need_no_writing),
        cmocka_unit_test(refusals_say_which_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
