#include "tests/unit/tokenizer/support.h"
#include "tokenizer/hf/normalize.h"
#include "tokenizer/unicode.h"

static void assert_form(enum lf_normal_form form, const char *text, const char *want)
{
    struct lf_marked from, to;
    lf_marked_init(&from, false, NULL);
    lf_marked_init(&to, false, NULL);
    lf_marked_append(&from, lf_str_c(text), false);
    assert_int_equal(lf_unicode_normalize(&to, &from, form, NULL), LF_OK);
    assert_int_equal(lf_marked_status(&to), LF_OK);
    assert_string_equal(lf_buf_view(&to.text).ptr, want);
    lf_marked_deinit(&from);
    lf_marked_deinit(&to);
}

static void test_normal_forms(void **state)
{
    (void)state;
    assert_form(LF_NFC, "", "");
    assert_form(LF_NFC, "plain", "plain");
    assert_form(LF_NFC, "e\xcc\x81t\xc3\xa9", "\xc3\xa9t\xc3\xa9");
    assert_form(LF_NFD, "\xc3\xa9", "e\xcc\x81");
    /* marks in order of class: dot below (220) before acute (230), whatever came first */
    assert_form(LF_NFD, "a\xcc\x81\xcc\xa3", "a\xcc\xa3\xcc\x81");
    assert_form(LF_NFC, "a\xcc\x81\xcc\xa3", "\xe1\xba\xa1\xcc\x81");
    assert_form(LF_NFC, "\xe1\xba\xa1\xcc\x82", "\xe1\xba\xad");
    /* a second mark of one class is kept from the letter */
    assert_form(LF_NFC, "e\xcc\x80\xcc\x81", "\xc3\xa8\xcc\x81");
    /* Hangul is computed */
    assert_form(LF_NFD, "\xea\xb0\x81", "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8");
    assert_form(LF_NFC, "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", "\xea\xb0\x81");
    /* excluded from composition */
    assert_form(LF_NFC, "\xe0\xa5\x98", "\xe0\xa4\x95\xe0\xa4\xbc");
    /* two starters that compose */
    assert_form(LF_NFC, "\xe0\xa7\x87\xe0\xa6\xbe", "\xe0\xa7\x8b");
    assert_form(LF_NFC, "\xe2\x84\xab", "\xc3\x85");
    assert_form(LF_NFKC, "\xef\xac\x81\xef\xbc\xa1\xc2\xb2", "fiA2");
    assert_form(LF_NFKD, "\xc2\xbd",
                "1\xe2\x81\x84"
                "2");
    assert_form(LF_NFC, "\xef\xac\x81", "\xef\xac\x81");
    assert_form(LF_NFC, "\xcc\x81x", "\xcc\x81x");
}

static void test_a_million_marks_on_one_letter(void **state)
{
    (void)state;
    struct lf_marked from, to;
    lf_marked_init(&from, false, NULL);
    lf_marked_init(&to, false, NULL);
    lf_marked_append(&from, LF_STR("e"), false);
    while (from.text.len < 1 << 20) lf_marked_append(&from, LF_STR("\xcc\x81\xcc\xa3"), false);
    double start = cpu_seconds();
    assert_int_equal(lf_unicode_normalize(&to, &from, LF_NFC, NULL), LF_OK);
    assert_true(cpu_seconds() - start < 1.0 * SLOWNESS);
    assert_memory_equal(to.text.ptr, "\xe1\xba\xb9", 3); /* e with dot below */
    lf_marked_deinit(&from);
    lf_marked_deinit(&to);
}

static void test_marks_of_users_travel_along(void **state)
{
    (void)state;
    struct lf_marked from, to;
    lf_marked_init(&from, true, NULL);
    lf_marked_init(&to, true, NULL);
    lf_marked_append(&from, LF_STR("ae"), false);
    lf_marked_append(&from, LF_STR("\xcc\x81"), true);
    lf_marked_append(&from, LF_STR("b"), false);
    assert_int_equal(lf_unicode_normalize(&to, &from, LF_NFC, NULL), LF_OK);
    assert_int_equal(to.text.len, 4);
    assert_memory_equal(to.user.ptr, "\0\1\1\0", 4);
    lf_marked_deinit(&from);
    lf_marked_deinit(&to);
}

static void test_small_letters(void **state)
{
    (void)state;
    struct lf_marked from, to;
    lf_marked_init(&from, false, NULL);
    lf_marked_init(&to, false, NULL);
    lf_marked_append(&from, LF_STR("AbC\xc4\xb0\xce\xa3\xe1\xba\x9e"), false);
    assert_int_equal(lf_unicode_lowercase(&to, &from, NULL), LF_OK);
    assert_string_equal(to.text.ptr, "abci\xcc\x87\xcf\x83\xc3\x9f");
    lf_marked_deinit(&from);
    lf_marked_deinit(&to);
}

static void test_properties(void **state)
{
    (void)state;
    assert_true(lf_unicode_is_space(' ') && lf_unicode_is_space(0x3000) && lf_unicode_is_space(0x85));
    assert_false(lf_unicode_is_space(0x200b) || lf_unicode_is_space('a') || lf_unicode_is_space(0x180e));
    assert_true(lf_unicode_is_word('_') && lf_unicode_is_word(0x301) && lf_unicode_is_word(0x4e2d));
    assert_false(lf_unicode_is_word('-') || lf_unicode_is_word(0xb2) || lf_unicode_is_word(0x1f600));
    assert_true(lf_unicode_is_numeric('7') && lf_unicode_is_numeric(0xbd) && lf_unicode_is_numeric(0x2160));
    assert_false(lf_unicode_is_numeric('a') || lf_unicode_is_numeric(0x4e00));
    assert_true(lf_unicode_is_punctuation('$') && lf_unicode_is_punctuation(0x3002));
    assert_false(lf_unicode_is_punctuation(' ') || lf_unicode_is_punctuation(0x20ac) ||
                 lf_unicode_is_punctuation(0x61d) || lf_unicode_is_punctuation(0x10ffff));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_normal_forms),
        cmocka_unit_test(test_a_million_marks_on_one_letter),
        cmocka_unit_test(test_marks_of_users_travel_along),
        cmocka_unit_test(test_small_letters),
        cmocka_unit_test(test_properties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
