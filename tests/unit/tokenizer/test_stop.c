#include "tests/support/test.h"
#include "tokenizer/stop.h"

/* Gives text in pieces of `step` bytes and flushes; returns what was shown. */
static struct lf_buf run(const struct lf_str *stops, int n_stops, struct lf_str text, size_t step, int *matched)
{
    struct lf_stop stop;
    struct lf_buf out;
    lf_buf_init(&out, 1 << 20);
    lf_stop_init(&stop, stops, n_stops);
    for (size_t at = 0; at < text.len; at += step) {
        size_t n = text.len - at < step ? text.len - at : step;
        bool found = lf_stop_push(&stop, lf_str_from(text.ptr + at, n), &out);
        assert_int_equal(found, stop.matched >= 0);
    }
    lf_stop_flush(&stop, &out);
    *matched = stop.matched;
    return out;
}

static void expect(const char *const *stops, int n_stops, const char *text, const char *shown, int which)
{
    struct lf_str list[LF_STOP_N];
    for (int i = 0; i < n_stops; i++) list[i] = lf_str_c(stops[i]);
    for (size_t step = 1; step <= strlen(text) + 1; step++) {
        int matched;
        struct lf_buf out = run(list, n_stops, lf_str_c(text), step, &matched);
        assert_string_equal(out.len ? out.ptr : "", shown);
        assert_int_equal(matched, which);
        lf_buf_deinit(&out);
    }
}

static void test_text_before_the_stop_is_shown_whatever_the_pieces(void **state)
{
    (void)state;
    expect((const char *[]){"\n\n"}, 1, "one\ntwo\n\nthree", "one\ntwo", 0);
    expect((const char *[]){"aab"}, 1, "aaaab", "aa", 0);
    expect((const char *[]){NULL}, 0, "aaab", "aaab", -1);
    expect((const char *[]){"abab", "x"}, 2, "ababab", "", 0);
    expect((const char *[]){"</s>", "User:"}, 2, "a < b User: c", "a < b ", 1);
}

static void test_the_stop_that_ends_first_wins(void **state)
{
    (void)state;
    expect((const char *[]){"abcd", "bc"}, 2, "xabcd", "xa", 1);
    expect((const char *[]){"bcd", "abcd"}, 2, "xabcd", "x", 1);
    expect((const char *[]){"a", "ab"}, 2, "xab", "x", 0);
}

static void test_what_was_held_back_is_text_at_the_end(void **state)
{
    (void)state;
    expect((const char *[]){"<|end|>"}, 1, "text <|en", "text <|en", -1);
    expect((const char *[]){"zz"}, 1, "", "", -1);
    expect((const char *[]){"zz"}, 1, "z", "z", -1);
}

static void test_nothing_is_shown_after_a_stop(void **state)
{
    (void)state;
    struct lf_str list[] = {LF_STR("S")};
    struct lf_stop stop;
    struct lf_buf out;
    lf_buf_init(&out, 100);
    lf_stop_init(&stop, list, 1);
    assert_true(lf_stop_push(&stop, LF_STR("aSb"), &out));
    assert_true(lf_stop_push(&stop, LF_STR("c"), &out));
    lf_stop_flush(&stop, &out);
    assert_string_equal(out.ptr, "a");
    lf_buf_deinit(&out);
}

static void test_a_partial_match_is_held_back(void **state)
{
    (void)state;
    struct lf_str list[] = {LF_STR("stop")};
    struct lf_stop stop;
    struct lf_buf out;
    lf_buf_init(&out, 100);
    lf_stop_init(&stop, list, 1);
    assert_false(lf_stop_push(&stop, LF_STR("do not st"), &out));
    assert_string_equal(out.ptr, "do not ");
    assert_false(lf_stop_push(&stop, LF_STR("art"), &out));
    assert_string_equal(out.ptr, "do not start");
    lf_buf_deinit(&out);
}

static void test_stops_of_the_longest_length(void **state)
{
    (void)state;
    char longest[LF_STOP_BYTES + 1], text[3 * LF_STOP_BYTES + 1];
    memset(longest, 'a', LF_STOP_BYTES);
    longest[LF_STOP_BYTES] = 0;
    memset(text, 'a', sizeof text - 1);
    text[LF_STOP_BYTES - 1] = 'b'; /* one short of a match, then a match */
    text[sizeof text - 1] = 0;
    char shown[LF_STOP_BYTES + 1];
    memcpy(shown, text, LF_STOP_BYTES);
    shown[LF_STOP_BYTES] = 0;
    expect((const char *[]){longest}, 1, text, shown, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_before_the_stop_is_shown_whatever_the_pieces),
        cmocka_unit_test(test_the_stop_that_ends_first_wins),
        cmocka_unit_test(test_what_was_held_back_is_text_at_the_end),
        cmocka_unit_test(test_nothing_is_shown_after_a_stop),
        cmocka_unit_test(test_a_partial_match_is_held_back),
        cmocka_unit_test(test_stops_of_the_longest_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
