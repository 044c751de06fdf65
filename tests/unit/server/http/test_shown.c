/* server/http/api/shown.c: what of a request's text stands in a message. */
#include "tests/support/test.h"

#include "server/http/api/shown.h"

static void shows(const char *text, const char *expected)
{
    char out[LF_SHOWN_BYTES];
    struct test_guarded copy = test_guarded_copy(text, strlen(text));
    lf_shown(out, lf_str_from(copy.ptr, strlen(text)));
    assert_string_equal(out, expected);
    test_guarded_free(&copy);
}

static void visible_text_stays(void **state)
{
    (void)state;
    shows("", "");
    shows("org/model-8B", "org/model-8B");
    shows("\xe6\x97\xa5\xe6\x9c\xac \"x\"", "\xe6\x97\xa5\xe6\x9c\xac \"x\"");
}

static void what_hides_does_not(void **state)
{
    (void)state;
    shows("a\nb\x7f\x1b[31m", "a?b??[31m");
    shows("a\xffz\xe6\x97", "a?z??");
    shows("\xe2\x80\xae\xe2\x80\x8b\xc2\x85x\xef\xbb\xbf", "???x?");
    shows("\xe2\x81\xa6\xe2\x80\xa8\xf3\xa0\x80\x81", "???");
}

static void at_the_limit_and_one_past_it(void **state)
{
    (void)state;
    char text[LF_SHOWN_BYTES + 64], out[LF_SHOWN_BYTES];
    memset(text, 'a', sizeof text);
    lf_shown(out, lf_str_from(text, LF_SHOWN_BYTES - 1));
    assert_int_equal(strlen(out), LF_SHOWN_BYTES - 1);
    assert_int_equal(out[LF_SHOWN_BYTES - 2], 'a');
    lf_shown(out, lf_str_from(text, LF_SHOWN_BYTES));
    assert_int_equal(strlen(out), LF_SHOWN_BYTES - 1);
    assert_string_equal(out + LF_SHOWN_BYTES - 5, "a...");
    for (size_t first = 0; first < 4; first++) { /* never half a character */
        for (size_t i = first; i + 3 <= sizeof text; i += 3) memcpy(text + i, "\xe6\x97\xa5", 3);
        lf_shown(out, lf_str_from(text, sizeof text));
        assert_true(strlen(out) < LF_SHOWN_BYTES && lf_utf8_valid(lf_str_c(out)));
        assert_string_equal(out + strlen(out) - 3, "...");
        memset(text, 'a', sizeof text);
    }
}

static void shows_json(const char *text, const char *expected)
{
    struct lf_json json = {0};
    struct lf_err err;
    assert_int_equal(lf_json_parse(&json, lf_str_c(text), &lf_json_limits_request, &err), LF_OK);
    assert_string_equal(lf_shown_json(lf_json_root(&json)).text, expected);
    lf_json_deinit(&json);
}

static void values_are_shown_as_they_came(void **state)
{
    (void)state;
    shows_json("1.50", "1.50");
    shows_json("-0", "-0");
    shows_json("true", "true");
    shows_json("false", "false");
    shows_json("null", "null");
    shows_json("\"a \\\"b\\n\"", "the string \"a \\\"b\\n\"");
    shows_json("\"\"", "the string \"\"");
    shows_json("[]", "an array of 0");
    shows_json("[1, [2, 3]]", "an array of 2");
    shows_json("{\"a\": 1}", "an object");
    struct lf_json json = {0};
    struct lf_err err;
    assert_int_equal(lf_json_parse(&json, LF_STR("{}"), &lf_json_limits_request, &err), LF_OK);
    assert_string_equal(lf_shown_json(lf_json_get(lf_json_root(&json), "x")).text, "nothing");
    lf_json_deinit(&json);
}

/* The longest that is shown whole, and a byte more; numbers and strings alike. */
static void long_values_are_cut(void **state)
{
    (void)state;
    char text[LF_SHOWN_BYTES + 2], quoted[LF_SHOWN_BYTES + 4], whole[LF_SHOWN_BYTES + 16];
    for (size_t n = LF_SHOWN_BYTES - 1; n <= LF_SHOWN_BYTES; n++) {
        memset(text, '7', n);
        text[n] = '\0';
        snprintf(quoted, sizeof quoted, "\"%s\"", text);
        if (n == LF_SHOWN_BYTES) memcpy(text + n - 4, "...", 4);
        snprintf(whole, sizeof whole, "the string \"%s\"", text);
        shows_json(quoted, whole);
        quoted[n + 1] = '\0';
        shows_json(quoted + 1, text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(visible_text_stays),           cmocka_unit_test(what_hides_does_not),
        cmocka_unit_test(at_the_limit_and_one_past_it), cmocka_unit_test(values_are_shown_as_they_came),
        cmocka_unit_test(long_values_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
