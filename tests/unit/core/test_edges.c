/* The exact edges of core: values at which one bound decides and its neighbour would not. */
#include "tests/support/test.h"

#include "core/arena.h"
#include "core/check.h"
#include "core/json.h"

/* Table 3-7 of the Unicode standard: the first and the last of each row that is well formed, and their neighbours. */
static void utf8_is_well_formed_as_the_table_of_the_standard_says(void **state)
{
    (void)state;
    static const char *const good[] = {"\x7F",
                                       "\xC2\x80",
                                       "\xDF\xBF",
                                       "\xE0\xA0\x80",
                                       "\xE0\xBF\xBF",
                                       "\xE1\x80\x80",
                                       "\xEC\xBF\xBF",
                                       "\xED\x80\x80",
                                       "\xED\x9F\xBF",
                                       "\xEE\x80\x80",
                                       "\xEF\xBF\xBF",
                                       "\xF0\x90\x80\x80",
                                       "\xF1\x80\x80\x80",
                                       "\xF3\xBF\xBF\xBF",
                                       "\xF4\x80\x80\x80",
                                       "\xF4\x8F\xBF\xBF"};
    static const char *const bad[] = {"\x80",
                                      "\xBF",
                                      "\xC0\x80",
                                      "\xC0\xBF",
                                      "\xC1\x80",
                                      "\xC1\xBF",
                                      "\xC2",
                                      "\xC2\x7F",
                                      "\xC2\xC0",
                                      "\xDF\xC0",
                                      "\xE0\x80\x80",
                                      "\xE0\x9F\xBF",
                                      "\xE0\xA0\x7F",
                                      "\xE1\x7F\x80",
                                      "\xE1\xC0\x80",
                                      "\xE1\x80\xC0",
                                      "\xED\xA0\x80",
                                      "\xED\xBF\xBF",
                                      "\xF0\x80\x80\x80",
                                      "\xF0\x8F\xBF\xBF",
                                      "\xF1\x80\x80\x7F",
                                      "\xF1\x80\xC0\x80",
                                      "\xF1\xC0\x80\x80",
                                      "\xF4\x90\x80\x80",
                                      "\xF4\xBF\xBF\xBF",
                                      "\xF5\x80\x80\x80",
                                      "\xF8\x88\x80\x80\x80",
                                      "\xFE",
                                      "\xFF"};
    uint32_t cp;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (lf_utf8_decode(good[i], strlen(good[i]), &cp) != (int)strlen(good[i])) fail_msg("good %zu", i);
        assert_true(lf_utf8_valid(lf_str_c(good[i])));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (lf_utf8_decode(bad[i], strlen(bad[i]), &cp) != 0) fail_msg("bad %zu", i);
        assert_false(lf_utf8_valid(lf_str_c(bad[i])));
    }
}

static void bytes_appended_are_those_given(void **state)
{
    (void)state;
    struct lf_buf buf;
    lf_buf_init(&buf, 1000);
    lf_buf_append(&buf, "ab\0c", 4);
    lf_buf_append(&buf, "", 0);
    lf_buf_str(&buf, LF_STR("de"));
    lf_buf_cstr(&buf, "f");
    lf_buf_char(&buf, 'g');
    lf_buf_printf(&buf, "%d", 8);
    assert_int_equal(buf.len, 9);
    assert_memory_equal(buf.ptr, "ab\0cdefg8", 10);
    lf_buf_clear(&buf);
    assert_int_equal(buf.len, 0);
    assert_int_equal(buf.ptr[0], 0);
    lf_buf_deinit(&buf);
}

static void a_buffer_that_failed_takes_nothing_until_it_is_cleared(void **state)
{
    (void)state;
    struct lf_buf buf;
    lf_buf_init(&buf, 4);
    lf_buf_cstr(&buf, "abcd");
    lf_buf_cstr(&buf, "e");
    assert_int_equal(buf.status, LF_LIMIT);
    assert_string_equal(buf.ptr, "abcd");
    buf.len = 0; /* there would be room */
    lf_buf_cstr(&buf, "x");
    assert_int_equal(buf.len, 0);
    assert_int_equal(buf.status, LF_LIMIT);
    lf_buf_clear(&buf);
    lf_buf_cstr(&buf, "wxyz");
    assert_int_equal(buf.status, LF_OK);
    assert_string_equal(buf.ptr, "wxyz");
    lf_buf_deinit(&buf);
}

static void views_compare_at_their_ends(void **state)
{
    (void)state;
    assert_true(lf_str_starts(LF_STR("ab"), LF_STR("ab")));
    assert_false(lf_str_starts(LF_STR("ab"), LF_STR("ac")));
    assert_true(lf_str_ends(LF_STR("ab"), LF_STR("ab")));
    assert_false(lf_str_ends(LF_STR("ab"), LF_STR("cab")));
    assert_false(lf_str_ends(LF_STR("abc"), LF_STR("ab")));
    assert_int_equal(lf_str_find(LF_STR("ab"), LF_STR("")), 0);
    assert_int_equal(lf_str_find(LF_STR("ab"), LF_STR("ab")), 0);
    assert_int_equal(lf_str_find(LF_STR("ab"), LF_STR("abc")), -1);
    assert_int_equal(lf_str_find(LF_STR("aab"), LF_STR("ab")), 1);
    assert_int_equal(lf_str_find(LF_STR("ba"), LF_STR("a")), 1);
}

/* A ceiling that is no multiple of the alignment: the last bytes cannot be given out, for they would be rounded up. */
static void rounding_does_not_pass_the_ceiling_of_an_arena(void **state)
{
    (void)state;
    struct lf_arena arena;
    lf_arena_init(&arena, 64, 1000);
    assert_non_null(lf_arena_alloc(&arena, 992));
    assert_null(lf_arena_alloc(&arena, 8));
    assert_null(lf_arena_alloc(&arena, 1));
    assert_int_equal(arena.used_bytes, 992);
    assert_null(lf_arena_alloc(&arena, 1 << 20));
    lf_arena_deinit(&arena);
    lf_arena_init(&arena, 64, 1000);
    assert_null(lf_arena_alloc(&arena, 993));
    assert_non_null(lf_arena_alloc(&arena, 992));
    lf_arena_deinit(&arena);
}

static bool int64_of(const char *text, int64_t *out)
{
    struct lf_json json;
    assert_int_equal(lf_json_parse(&json, lf_str_c(text), &lf_json_limits_request, NULL), LF_OK);
    bool is = lf_json_int64(lf_json_root(&json), out);
    lf_json_deinit(&json);
    return is;
}

/* Doubles are 2 apart from 2^53 on: what is written with a point there may have been another number. */
static void integers_written_as_fractions_are_exact_up_to_2_to_the_53rd(void **state)
{
    (void)state;
    int64_t x = 0;
    assert_true(int64_of("9007199254740991.0", &x) && x == 9007199254740991);
    assert_true(int64_of("-9007199254740991.0", &x) && x == -9007199254740991);
    assert_true(int64_of("9.007199254740992e15", &x) && x == 9007199254740992);
    assert_false(int64_of("9007199254740993.0", &x)); /* the nearest double is 9007199254740992 */
    assert_false(int64_of("-9007199254740993.0", &x));
    assert_false(int64_of("9007199254740993e0", &x));
    assert_false(int64_of("9007199254740994.0", &x));
    assert_false(int64_of("-9007199254740994.0", &x));
    assert_false(int64_of("1e16", &x));
    assert_false(int64_of("-1e300", &x));
    assert_false(int64_of("1.5", &x));
    assert_true(int64_of("9007199254740993", &x) && x == 9007199254740993); /* as digits, all of them */
    assert_true(int64_of("9223372036854775807", &x) && x == INT64_MAX);
    assert_true(int64_of("-9223372036854775808", &x) && x == INT64_MIN);
    assert_false(int64_of("9223372036854775808", &x));
    assert_false(int64_of("-9223372036854775809", &x));
}

/* A fraction that a double cannot hold beside the digits before it is a fraction all the same. */
static void fractions_too_small_for_a_double_are_not_dropped(void **state)
{
    (void)state;
    int64_t x = -7;
    assert_false(int64_of("4503599627370497.25", &x));
    assert_false(int64_of("1.00000000000000000001", &x));
    assert_false(int64_of("0.1e-400", &x));
    assert_false(int64_of("-1e-400", &x));
    assert_int_equal(x, -7);
    assert_true(int64_of("1.000000000000000000000000", &x) && x == 1);
    assert_true(int64_of("-12.50e1", &x) && x == -125);
    assert_true(int64_of("0.00120E+5", &x) && x == 120);
    assert_true(int64_of("1200e-2", &x) && x == 12);
    assert_true(int64_of("-0.0", &x) && x == 0);
    assert_true(int64_of("0e400", &x) && x == 0);
}

static void what_is_a_multiple_is_not_rounded_up(void **state)
{
    (void)state;
    assert_int_equal(LF_ROUND_UP(0, 16), 0);
    assert_int_equal(LF_ROUND_UP(1, 16), 16);
    assert_int_equal(LF_ROUND_UP(16, 16), 16);
    assert_int_equal(LF_ROUND_UP(17, 16), 32);
    assert_int_equal(LF_ROUND_UP(2 + 2, 1 + 2), 6); /* of expressions */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utf8_is_well_formed_as_the_table_of_the_standard_says),
        cmocka_unit_test(bytes_appended_are_those_given),
        cmocka_unit_test(a_buffer_that_failed_takes_nothing_until_it_is_cleared),
        cmocka_unit_test(views_compare_at_their_ends),
        cmocka_unit_test(rounding_does_not_pass_the_ceiling_of_an_arena),
        cmocka_unit_test(what_is_a_multiple_is_not_rounded_up),
        cmocka_unit_test(integers_written_as_fractions_are_exact_up_to_2_to_the_53rd),
        cmocka_unit_test(fractions_too_small_for_a_double_are_not_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
