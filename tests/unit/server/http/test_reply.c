/* server/http/conn/reply.c: the shape of errors. */
#include "tests/support/test.h"

#include "core/json.h"
#include "server/http/conn/reply.h"

static void check(struct lf_api_err *err, const char *want)
{
    struct lf_buf out;
    struct lf_json json = {0};
    lf_buf_init(&out, 4096);
    lf_api_err_write(&out, err);
    assert_string_equal(out.ptr, want);
    assert_int_equal(lf_json_parse(&json, lf_buf_view(&out), &lf_json_limits_request, NULL), LF_OK);
    lf_json_deinit(&json);
    lf_buf_deinit(&out);
}

static void all_four_keys_are_always_there(void **state)
{
    (void)state;
    struct lf_api_err err;
    assert_int_equal(lf_refuse(&err, 400, NULL, NULL, "no %d", 1), LF_INVALID);
    check(&err, "{\"error\":{\"message\":\"no 1\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":null}}");
    assert_int_equal(lf_refuse(&err, 429, "p", "c", "\"\n"), LF_INVALID);
    check(&err, "{\"error\":{\"message\":\"\\\"\\n\",\"type\":\"rate_limit_error\",\"param\":\"p\",\"code\":\"c\"}}");
    assert_int_equal(lf_refuse(&err, 503, NULL, "loading", "x"), LF_INVALID);
    err.has_progress = true;
    err.progress = 0.5;
    check(&err, "{\"error\":{\"message\":\"x\",\"type\":\"server_error\",\"param\":null,\"code\":\"loading\","
                "\"progress\":0.500}}");
}

static void long_messages_and_names_are_cut(void **state)
{
    (void)state;
    struct lf_api_err err;
    char text[2000];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    assert_int_equal(lf_refuse(&err, 400, text, "c", "%s", text), LF_INVALID);
    assert_int_equal(strlen(err.message), LF_ERR_MESSAGE_BYTES - 1);
    assert_int_equal(strlen(err.param), LF_PARAM_BYTES - 1);
}

static void a_reply_is_written_anew_by_an_error(void **state)
{
    (void)state;
    struct lf_reply reply;
    struct lf_api_err err;
    lf_reply_init(&reply);
    lf_buf_cstr(lf_reply_json(&reply, 200), "half an ans");
    assert_int_equal(lf_refuse(&err, 429, NULL, "full", "later"), LF_INVALID);
    err.retry_after_s = 3;
    lf_reply_error(&reply, &err);
    assert_int_equal(reply.status, 429);
    assert_int_equal(reply.retry_after_s, 3);
    assert_int_equal(reply.body.ptr[0], '{');
    assert_null(strstr(reply.body.ptr, "half"));
    lf_reply_deinit(&reply);
}

static void bytes_of_the_program_take_the_place_of_a_body_until_it_is_written_anew(void **state)
{
    (void)state;
    static const char page[] = "<!doctype html>";
    struct lf_reply reply;
    lf_reply_init(&reply);
    lf_reply_static(&reply, 200, "text/html", lf_str_c(page));
    reply.policy = "default-src 'none'";
    assert_ptr_equal(reply.bytes.ptr, page);
    assert_string_equal(reply.content_type, "text/html");
    assert_int_equal(reply.body.len, 0);
    lf_buf_cstr(lf_reply_json(&reply, 404), "{}");
    assert_null(reply.bytes.ptr);
    assert_null(reply.policy);
    assert_string_equal(reply.content_type, "application/json");
    lf_reply_deinit(&reply);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_four_keys_are_always_there),
        cmocka_unit_test(long_messages_and_names_are_cut),
        cmocka_unit_test(a_reply_is_written_anew_by_an_error),
        cmocka_unit_test(bytes_of_the_program_take_the_place_of_a_body_until_it_is_written_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
