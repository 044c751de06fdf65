#include "tests/support/test.h"

#include "core/str.h"

static void a_buffer_grows_to_its_ceiling_and_then_fails_stickily(void **state)
{
    (void)state;
    struct lf_buf buf;
    lf_buf_init(&buf, 100);
    for (int i = 0; i < 100; i++) lf_buf_char(&buf, 'x');
    assert_int_equal(buf.status, LF_OK);
    assert_int_equal(buf.len, 100);
    assert_int_equal(buf.ptr[100], 0);
    lf_buf_char(&buf, 'y');
    assert_int_equal(buf.status, LF_LIMIT);
    lf_buf_cstr(&buf, "");
    assert_int_equal(buf.len, 100);
    lf_buf_clear(&buf);
    lf_buf_printf(&buf, "%d-%s", 7, "abc");
    assert_string_equal(buf.ptr, "7-abc");
    lf_buf_deinit(&buf);
    lf_buf_deinit(&buf);
}

static void what_is_printed_fits_to_the_last_byte_or_not_at_all(void **state)
{
    (void)state;
    for (int before = 0; before <= 100; before++)
        for (int n = 0; n <= 101; n++) {
            struct lf_buf buf;
            lf_buf_init(&buf, 100);
            for (int i = 0; i < before; i++) lf_buf_char(&buf, 'x');
            lf_buf_printf(&buf, "%*s", n, "");
            bool fits = before + n <= 100;
            assert_int_equal(buf.status, fits ? LF_OK : LF_LIMIT);
            assert_int_equal(buf.len, fits ? before + n : before);
            if (buf.ptr) assert_int_equal(strlen(buf.ptr), buf.len);
            lf_buf_deinit(&buf);
        }
}

static void views_compare_and_find(void **state)
{
    (void)state;
    assert_true(lf_str_eq(LF_STR("ab"), lf_str_c("ab")));
    assert_true(lf_str_eq(LF_STR(""), lf_str_c(NULL)));
    assert_true(lf_str_starts(LF_STR("abc"), LF_STR("ab")));
    assert_false(lf_str_starts(LF_STR("a"), LF_STR("ab")));
    assert_true(lf_str_ends(LF_STR("abc"), LF_STR("bc")));
    assert_int_equal(lf_str_find(LF_STR("hello"), LF_STR("lo")), 3);
    assert_int_equal(lf_str_find(LF_STR("hello"), LF_STR("x")), -1);
    assert_int_equal(lf_str_find(LF_STR(""), LF_STR("x")), -1);
    assert_true(lf_str_eq(lf_str_without_bom(LF_STR("\xef\xbb\xbf{}")), LF_STR("{}")));
    assert_true(lf_str_eq(lf_str_without_bom(LF_STR("\xef\xbb\xbf\xef\xbb\xbf")), LF_STR("\xef\xbb\xbf")));
    assert_true(lf_str_eq(lf_str_without_bom(LF_STR("\xef\xbb")), LF_STR("\xef\xbb")));
    assert_true(lf_str_eq(lf_str_without_bom(LF_STR("{}")), LF_STR("{}")));
}

static void every_scalar_value_round_trips(void **state)
{
    (void)state;
    for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
        if (cp >= 0xD800 && cp <= 0xDFFF) continue;
        char utf8[4];
        int n = lf_utf8_encode(cp, utf8);
        uint32_t back = 0;
        if (lf_utf8_decode(utf8, (size_t)n, &back) != n || back != cp) fail_msg("U+%04X", cp);
        for (int cut = 1; cut < n; cut++) assert_int_equal(lf_utf8_decode(utf8, (size_t)cut, &back), 0);
    }
}

static void bad_utf8_is_seen_at_any_alignment(void **state)
{
    (void)state;
    char text[40];
    for (size_t at = 0; at < sizeof text; at++) {
        memset(text, 'a', sizeof text);
        assert_true(lf_utf8_valid(lf_str_from(text, sizeof text)));
        text[at] = (char)0x80;
        struct test_guarded g = test_guarded_copy(text, sizeof text);
        assert_false(lf_utf8_valid(lf_str_from(g.ptr, sizeof text)));
        test_guarded_free(&g);
    }
}

static void a_word_is_one_in_either_case_and_whole(void **state)
{
    (void)state;
    assert_true(lf_str_is_word(LF_STR("Chunked"), "cHUNKED"));
    assert_true(lf_str_is_word(lf_str_from(NULL, 0), ""));
    assert_false(lf_str_is_word(LF_STR("chunke"), "chunked"));
    assert_false(lf_str_is_word(LF_STR("chunkedd"), "chunked"));
    assert_false(lf_str_is_word(LF_STR("chunkex"), "chunked"));
    assert_false(lf_str_is_word(LF_STR("a["), "a{")); /* no letters */
}

static void white_space_is_taken_off_both_ends(void **state)
{
    (void)state;
    assert_true(lf_str_eq(lf_str_trim(LF_STR(" \t\r\n\v\fa b \t\r\n\v\f")), LF_STR("a b")));
    assert_true(lf_str_eq(lf_str_trim(LF_STR("\xa0")), LF_STR("\xa0"))); /* of ASCII only */
    assert_int_equal(lf_str_trim(LF_STR(" \t ")).len, 0);
    assert_int_equal(lf_str_trim(lf_str_c(NULL)).len, 0);
}

static void a_digit_has_its_value_and_all_else_has_none(void **state)
{
    (void)state;
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz", upper[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    for (int c = -128; c < 128; c++) {
        const char *low = c ? strchr(digits, c) : NULL, *up = c ? strchr(upper, c) : NULL;
        assert_int_equal(lf_digit((char)c), low ? low - digits : up ? up - upper + 10 : 36);
    }
}

static void what_is_marked_gets_a_backslash(void **state)
{
    (void)state;
    struct lf_buf buf;
    lf_buf_init(&buf, 100);
    lf_buf_escaped(&buf, "", "|");
    assert_int_equal(buf.len, 0);
    lf_buf_escaped(&buf, "|a||b[", "|[");
    assert_string_equal(buf.ptr, "\\|a\\|\\|b\\[");
    lf_buf_deinit(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buffer_grows_to_its_ceiling_and_then_fails_stickily),
        cmocka_unit_test(what_is_printed_fits_to_the_last_byte_or_not_at_all),
        cmocka_unit_test(views_compare_and_find),
        cmocka_unit_test(a_word_is_one_in_either_case_and_whole),
        cmocka_unit_test(white_space_is_taken_off_both_ends),
        cmocka_unit_test(a_digit_has_its_value_and_all_else_has_none),
        cmocka_unit_test(what_is_marked_gets_a_backslash),
        cmocka_unit_test(every_scalar_value_round_trips),
        cmocka_unit_test(bad_utf8_is_seen_at_any_alignment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
