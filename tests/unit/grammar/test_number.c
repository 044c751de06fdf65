/* grammar/number.c: bounds compared with the same comparison done on integers, over all short decimals. */
#include "tests/support/test.h"

#include "grammar/number.h"

static struct lf_decimal decimal(const char *text)
{
    struct lf_decimal d;
    if (!lf_decimal_read(&d, lf_str_c(text))) fail_msg("%s", text);
    return d;
}

static void show(const struct lf_decimal *d, char *out)
{
    if (d->negative) *out++ = '-';
    for (int i = 0; i < d->n; i++) {
        if (i == d->n_int) *out++ = '.';
        *out++ = d->digits[i];
    }
    *out = 0;
}

static void decimals_are_read_whatever_their_spelling(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"0", "0"},          {"-0", "0"},           {"-0.0", "0"},          {"1", "1"},
        {"-12.50", "-12.5"}, {"1e3", "1000"},       {"1.5e1", "15"},        {"1e-3", "0.001"},
        {"0.001e3", "1"},    {"100e-1", "10"},      {"0.00012", "0.00012"}, {"120e-5", "0.0012"},
        {"5E+2", "500"},     {"0e99999999999", "0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1000];
        struct lf_decimal d = decimal(cases[i][0]);
        show(&d, text);
        assert_string_equal(text, cases[i][1]);
    }
}

static void digits_end_at_their_limit(void **state)
{
    (void)state;
    struct lf_decimal d;
    char text[LF_GRAMMAR_BOUND_DIGITS_N + 4];
    for (int over = 0; over < 2; over++) {
        memset(text, '7', sizeof text);
        text[LF_GRAMMAR_BOUND_DIGITS_N + over] = 0;
        assert_int_equal(lf_decimal_read(&d, lf_str_c(text)), !over);
        text[0] = '0', text[1] = '.';
        text[LF_GRAMMAR_BOUND_DIGITS_N + over] = '7';
        text[LF_GRAMMAR_BOUND_DIGITS_N + over + 2] = 0;
        memset(text + 2, '7', LF_GRAMMAR_BOUND_DIGITS_N + (size_t)over);
        assert_int_equal(lf_decimal_read(&d, lf_str_c(text)), !over);
    }
    assert_true(lf_decimal_read(&d, LF_STR("1e399")) && lf_decimal_read(&d, LF_STR("1e-400")));
    assert_false(lf_decimal_read(&d, LF_STR("1e400")) || lf_decimal_read(&d, LF_STR("1e-401")));
}

/* In hundredths. */
static const char *const bounds[] = {"0",   "1",    "-1",   "9",     "10",    "-10",  "99", "100",
                                     "0.5", "-0.5", "0.25", "12.34", "-12.3", "1.05", "7",  "-7.07"};

static int hundredths(const char *text)
{
    struct lf_decimal d = decimal(text);
    int x = 0;
    for (int i = 0; i < d.n_int + 2; i++) x = x * 10 + (i < d.n ? d.digits[i] - '0' : 0);
    return d.negative ? -x : x;
}

static void check(const struct lf_number_bounds *b, int min, int max)
{
    struct lf_arena keep;
    struct lf_compilation c;
    struct lf_err err = {0};
    lf_arena_init(&keep, 4096, LF_GRAMMAR_BYTES);
    lf_compilation_init(&c, &keep, NULL, &err);
    struct lf_dfa dfa = lf_grammar_number(&c, b);
    if (c.status != LF_OK) fail_msg("%s", err.message);
    for (int x = -12500; x <= 12500; x += x > -1500 && x < 1500 ? 1 : 5) {
        char text[32];
        int whole = abs(x) / 100, part = abs(x) % 100;
        if (part == 0)
            snprintf(text, sizeof text, "%s%d", x < 0 ? "-" : "", whole);
        else
            snprintf(text, sizeof text, part % 10 ? "%s%d.%02d" : "%s%d.%d", x < 0 ? "-" : "", whole,
                     part % 10 ? part : part / 10);
        bool expected = (!b->has_min || (b->min_exclusive ? x > min : x >= min)) &&
                        (!b->has_max || (b->max_exclusive ? x < max : x <= max)) &&
                        (!(b->integer || b->multiple_of) || part == 0) &&
                        (!b->multiple_of || whole % b->multiple_of == 0);
        if (lf_dfa_accepts(&dfa, lf_str_c(text)) != expected) fail_msg("%s: expected %d", text, expected);
    }
    assert_false(lf_dfa_accepts(&dfa, LF_STR("01")));
    assert_false(lf_dfa_accepts(&dfa, LF_STR("1.")));
    assert_false(lf_dfa_accepts(&dfa, LF_STR("-")));
    assert_false(lf_dfa_accepts(&dfa, LF_STR("")));
    lf_compilation_deinit(&c);
    lf_arena_deinit(&keep);
}

static void bounds_are_those_of_the_values(void **state)
{
    (void)state;
    unsigned n = sizeof bounds / sizeof *bounds;
    for (unsigned i = 0; i < n; i++)
        for (unsigned flags = 0; flags < 32; flags++) {
            const char *low = bounds[i], *high = bounds[(i * 7 + flags) % n];
            struct lf_number_bounds b = {.has_min = flags & 1,
                                         .has_max = flags & 2,
                                         .min_exclusive = flags & 4,
                                         .max_exclusive = flags & 8,
                                         .integer = flags & 16,
                                         .multiple_of = flags % 5 == 4 ? 7 : 0,
                                         .min = decimal(low),
                                         .max = decimal(high)};
            check(&b, hundredths(low), hundredths(high));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decimals_are_read_whatever_their_spelling),
        cmocka_unit_test(digits_end_at_their_limit),
        cmocka_unit_test(bounds_are_those_of_the_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
