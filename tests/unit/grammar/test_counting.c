/* grammar/counting.c: a pattern with a length counted beside it is, byte for byte and at every place, the automaton
 * that both make together. */
#include "tests/support/test.h"

#include "core/arena.h"
#include "grammar/json_string.h"
#include "grammar/regex.h"
#include "grammar/terminal.h"

struct pair {
    uint32_t counted, product;
};

/* Both from their starts with every byte. The product is minimized, so each of its states is another set of endings: a
 * counted state that stands for two of them would be wrong. */
static void compare(struct lf_compilation *c, const struct lf_terminal *counted, const struct lf_terminal *product,
                    const char *what)
{
    uint32_t n = 0, most = counted->dfa.n_states * (counted->counting.min + counted->counting.max % 1000 + 2);
    struct pair *list = lf_compilation_scratch(c, most, sizeof *list);
    uint32_t *met = lf_compilation_scratch(c, most, sizeof *met);
    assert_true(list && met);
    list[n++] = (struct pair){0, 0};
    met[0] = 1;
    for (uint32_t i = 0; i < n; i++) {
        struct pair at = list[i];
        assert_int_equal(lf_terminal_accepts(counted, at.counted), lf_terminal_accepts(product, at.product));
        for (int b = 0; b < 256; b++) {
            struct pair to = {lf_terminal_next(counted, at.counted, (uint8_t)b),
                              lf_terminal_next(product, at.product, (uint8_t)b)};
            if ((to.counted == LF_TERMINAL_DEAD) != (to.product == LF_TERMINAL_DEAD))
                fail_msg("%s: byte %d is taken by one", what, b);
            if (to.counted == LF_TERMINAL_DEAD) continue;
            assert_true(to.counted < most);
            if (met[to.counted] && met[to.counted] != to.product + 1) fail_msg("%s: one state for two", what);
            if (met[to.counted]) continue;
            met[to.counted] = to.product + 1;
            list[n++] = to;
        }
    }
}

static void check(const char *pattern, uint32_t min, uint32_t max)
{
    struct lf_arena keep;
    struct lf_compilation c;
    struct lf_err err = {0};
    char what[200];
    snprintf(what, sizeof what, "%s, %u to %u", pattern, min, max);
    lf_arena_init(&keep, 4096, LF_GRAMMAR_BYTES);
    lf_compilation_init(&c, &keep, NULL, &err);
    struct lf_dfa content = lf_grammar_regex(&c, lf_str_c(pattern), LF_REGEX_ANYWHERE);
    content = lf_dfa_minimize(&c, &content);
    struct lf_dfa of_length = lf_json_string_of_length(&c, min, max);
    struct lf_dfa both = lf_dfa_combine(&c, &content, &of_length, LF_DFA_AND);
    struct lf_dfa spelled = lf_json_string_spelled(&c, &both, "");
    struct lf_terminal product = lf_terminal_of_dfa(&c, &spelled);
    struct lf_terminal counted = lf_terminal_of_contents(&c, &content, min, max);
    if (c.status != LF_OK) fail_msg("%s: %s", what, err.message);
    if (lf_terminal_is_empty(&product) != lf_terminal_is_empty(&counted)) fail_msg("%s: only one is empty", what);
    if (!lf_terminal_is_empty(&product) && counted.kind == LF_TERMINAL_COUNTED) compare(&c, &counted, &product, what);
    lf_compilation_deinit(&c);
    lf_arena_deinit(&keep);
}

static void a_counted_pattern_is_the_product_of_pattern_and_length(void **state)
{
    (void)state;
    static const char *const patterns[] = {
        "^\\S+$",
        "",
        "a",
        "^a{2}b?$",
        "^(ab|cde)*$",
        "^(a{3}|b{5})*$",
        "^(a\\n|bn)$",        /* behind `a\` and behind `b` an n is still to come, of which one is half a character */
        "^[\\x01-\\x1f\"]*x", /* every escape */
        "^(\xc3\xa9|\xe2\x82\xac|\xf0\x9f\x98\x80){2,}$",
        "^.$|^.{4}$|^.{9,}$",
        "^(x.{3})*y(z.{2})*$",
        "^$",
        "^[a-z0-9]+(-[a-z0-9]+)*$",
        "^[^@]+@[^@]+[.][a-z]{2,3}$",
    };
    static const uint32_t lengths[][2] = {{0, 0},  {0, 1},  {1, 1},   {0, 3},          {2, 2},           {2, 5}, {4, 9},
                                          {9, 10}, {7, 12}, {23, 24}, {0, UINT32_MAX}, {11, UINT32_MAX}, {5, 4}};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) check(patterns[i], lengths[k][0], lengths[k][1]);
}

/* What no table of a product could have. */
static void long_strings_take_as_little_as_short_ones(void **state)
{
    (void)state;
    struct lf_arena keep;
    struct lf_compilation c;
    struct lf_err err = {0};
    lf_arena_init(&keep, 4096, LF_GRAMMAR_BYTES);
    lf_compilation_init(&c, &keep, NULL, &err);
    struct lf_dfa pairs = lf_grammar_regex(&c, LF_STR("([a-z]{2})*"), LF_REGEX_WHOLE);
    struct lf_terminal t = lf_terminal_of_contents(&c, &pairs, 999999, 1000001);
    uint64_t n_steps = c.n_steps;
    assert_int_equal(c.status, LF_OK);
    assert_true(n_steps < 10000 && t.counting.n_rows <= 4);
    uint32_t at = lf_terminal_next(&t, 0, '"');
    for (int i = 0; i < 1000000; i++) {
        assert_int_equal(lf_terminal_next(&t, at, '"'), LF_TERMINAL_DEAD); /* too few, or an odd number */
        at = lf_terminal_next(&t, at, 'x');
        assert_int_not_equal(at, LF_TERMINAL_DEAD);
    }
    assert_int_equal(lf_terminal_next(&t, at, 'x'), LF_TERMINAL_DEAD); /* one more could come, but not end */
    at = lf_terminal_next(&t, at, '"');
    assert_true(at != LF_TERMINAL_DEAD && lf_terminal_accepts(&t, at) && lf_terminal_is_final(&t, at));
    t = lf_terminal_of_contents(&c, &pairs, 0, UINT32_MAX - 1);
    assert_int_equal(c.status, LF_LIMIT);
    assert_non_null(strstr(err.message, "a length of 4294967294 characters"));
    lf_compilation_deinit(&c);
    lf_arena_deinit(&keep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_counted_pattern_is_the_product_of_pattern_and_length),
        cmocka_unit_test(long_strings_take_as_little_as_short_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
