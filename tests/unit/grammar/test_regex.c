/* grammar/regex.c and dfa.c: random patterns against what Python's re says (golden/grammar/regex.json), the algebra of
 * automata on them, what is refused and by which name, and the bounds. */
#include "tests/support/test.h"

#include "core/file.h"
#include "core/json.h"
#include "grammar/regex.h"

struct rig {
    struct lf_arena keep;
    struct lf_err err;
    struct lf_compilation c;
};

static void begin(struct rig *rig)
{
    *rig = (struct rig){0};
    lf_arena_init(&rig->keep, 4096, LF_GRAMMAR_BYTES);
    lf_compilation_init(&rig->c, &rig->keep, NULL, &rig->err);
}

static void end(struct rig *rig)
{
    lf_compilation_deinit(&rig->c);
    lf_arena_deinit(&rig->keep);
}

static void string_of(struct lf_json_value v, struct lf_buf *out)
{
    lf_buf_clear(out);
    assert_true(lf_json_string(v, out));
}

static void check_case(struct lf_json_value one, const char *verdicts, enum lf_regex_extent extent)
{
    struct rig rig;
    struct lf_buf text;
    begin(&rig);
    lf_buf_init(&text, 4096);
    string_of(lf_json_get(one, "pattern"), &text);
    struct lf_dfa dfa = lf_grammar_regex(&rig.c, lf_buf_view(&text), extent);
    struct lf_dfa least = lf_dfa_minimize(&rig.c, &dfa), none = lf_dfa_combine(&rig.c, &dfa, &least, LF_DFA_MINUS);
    struct lf_dfa any = lf_grammar_regex(&rig.c, LF_STR("[^]*"), LF_REGEX_WHOLE);
    struct lf_dfa other = lf_dfa_combine(&rig.c, &any, &dfa, LF_DFA_MINUS);
    struct lf_dfa both = lf_dfa_combine(&rig.c, &any, &dfa, LF_DFA_AND);
    struct lf_dfa all = lf_dfa_combine(&rig.c, &other, &dfa, LF_DFA_OR);
    if (rig.c.status != LF_OK) fail_msg("%s: %s", text.ptr, rig.err.message);
    assert_true(least.n_states <= dfa.n_states);
    assert_int_equal(none.n_states, 0);
    struct lf_json_value texts = lf_json_get(one, "texts");
    for (struct lf_json_value it = lf_json_first(texts); lf_json_more(texts, it); it = lf_json_next(texts, it)) {
        bool expected = *verdicts++ == '1';
        string_of(it, &text);
        struct lf_str t = lf_buf_view(&text);
        if (lf_dfa_accepts(&dfa, t) != expected)
            fail_msg("%.*s on %s: expected %d", (int)lf_json_raw(lf_json_get(one, "pattern")).len,
                     lf_json_raw(lf_json_get(one, "pattern")).ptr, text.ptr, expected);
        assert_int_equal(lf_dfa_accepts(&least, t), expected);
        assert_int_equal(lf_dfa_accepts(&other, t), !expected);
        assert_int_equal(lf_dfa_accepts(&both, t), expected);
        assert_true(lf_dfa_accepts(&all, t));
    }
    lf_buf_deinit(&text);
    end(&rig);
}

static void patterns_match_as_in_python(void **state)
{
    (void)state;
    struct lf_buf text;
    struct lf_json doc = {0};
    int n = 0;
    lf_buf_init(&text, 1 << 20);
    assert_int_equal(lf_file_read(&text, "tests/golden/grammar/regex.json", 1 << 20, NULL), LF_OK);
    assert_int_equal(lf_json_parse(&doc, lf_buf_view(&text), &lf_json_limits_file, NULL), LF_OK);
    struct lf_json_value all = lf_json_root(&doc);
    for (struct lf_json_value it = lf_json_first(all); lf_json_more(all, it); it = lf_json_next(all, it), n++) {
        check_case(it, lf_json_raw(lf_json_get(it, "whole")).ptr, LF_REGEX_WHOLE);
        check_case(it, lf_json_raw(lf_json_get(it, "anywhere")).ptr, LF_REGEX_ANYWHERE);
    }
    assert_int_equal(n, 400);
    lf_json_deinit(&doc);
    lf_buf_deinit(&text);
}

static bool matches(const char *pattern, const char *text)
{
    struct rig rig;
    begin(&rig);
    struct lf_dfa dfa = lf_grammar_regex(&rig.c, lf_str_c(pattern), LF_REGEX_WHOLE);
    if (rig.c.status != LF_OK) fail_msg("%s: %s", pattern, rig.err.message);
    bool yes = lf_dfa_accepts(&dfa, lf_str_c(text));
    end(&rig);
    return yes;
}

static void escapes_mean_what_they_mean_in_ecmascript(void **state)
{
    (void)state;
    assert_true(matches("\\x41\\u0042\\u{43}\\cA\\t\\/", "ABC\x01\t/"));
    assert_true(matches("\\uD83D\\uDE00{2}", "😀😀"));
    assert_true(matches("[\\uD83D\\uDE00-\\u{1F602}]", "😁"));
    assert_true(matches("(?<year>[0-9]{4})", "2024"));
    assert_true(matches("(?<$_1a\xc3\xa9>[0-9]{4})", "2024"));
    assert_true(matches("\\s", "\xc2\xa0"));
    assert_false(matches("\\S", "\xe2\x80\xa8"));
    assert_false(matches("\\d", "\xd9\xa3"));
    assert_true(matches("[^]", "\n"));
    assert_false(matches("[]", "a"));
    assert_false(matches(".", "\xff"));
    assert_false(matches(".", "\xed\xa0\x80")); /* a surrogate */
    assert_false(matches("..", "\xc3\xa9"));    /* one character of two bytes */
    assert_true(matches("[\\b]", "\b"));
    assert_true(matches("}]", "}]"));
    assert_true(matches("\\0\\x7E[\\-+]\\.", (const char[]){0, '~', '-', '.', 0}) || matches("\\x7E[\\-+]\\.", "~-."));
    assert_true(matches("[^\\u{10000}-\\u{10FFFF}]", "\xef\xbf\xbf"));
    assert_false(matches("[^\\u{10000}-\\u{10FFFF}]", "😀"));
    assert_false(matches("[^\\0-\\u{10ffff}]", "a"));
    assert_true(matches("\\ca\\cZ", "\x01\x1a"));
    assert_true(matches("a{2}?b??c*?", "aabc") && matches("a{1,}", "aaa") && matches("a{0}", ""));
    assert_true(matches("[a-]", "-") && matches("[-a]", "-") && matches("[\\w-]", "-") && matches("[a-\\u00e9]", "z"));
}

static void what_is_not_supported_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *says;
        enum lf_status status;
    } cases[] = {
        {"a(?=b)", "look-ahead", LF_UNSUPPORTED},
        {"(?<!a)b", "look-behind", LF_UNSUPPORTED},
        {"(a)\\1", "back reference", LF_UNSUPPORTED},
        {"\\k<x>", "back reference", LF_UNSUPPORTED},
        {"\\bx", "word boundary", LF_UNSUPPORTED},
        {"\\p{L}", "property", LF_UNSUPPORTED},
        {"(?i)a", "flags", LF_UNSUPPORTED},
        {"\\ud800", "surrogates", LF_UNSUPPORTED},
        {"a**", "nothing to repeat", LF_INVALID},
        {"*", "nothing to repeat", LF_INVALID},
        {"(a", "group without an end", LF_INVALID},
        {"a)", "without its (", LF_INVALID},
        {"[a", "too early", LF_INVALID},
        {"\\", "too early", LF_INVALID},
        {"[b-a]", "wrong order", LF_INVALID},
        {"a{2,1}", "m below n", LF_INVALID},
        {"a{", "without a number", LF_INVALID},
        {"\\u12", "four hex", LF_INVALID},
        {"\\y", "means nothing", LF_INVALID},
        {"\xff", "UTF-8", LF_INVALID},
        {"a{10001}", "10000 repetitions", LF_LIMIT},
        {"[\\d-z]", "end of a range", LF_INVALID},
        {"[a-\\w]", "end of a range", LF_INVALID},
        {"\\u{}", "no code point", LF_INVALID},
        {"\\u{110000}", "no code point", LF_INVALID},
        {"\\u{41", "no code point", LF_INVALID},
        {"\\u{4g}", "no code point", LF_INVALID},
        {"\\udc00", "surrogates", LF_UNSUPPORTED},
        {"\\ud83d\\u0041", "surrogates", LF_UNSUPPORTED},
        {"\\ud83dx", "surrogates", LF_UNSUPPORTED},
        {"\\x4", "two hexadecimal", LF_INVALID},
        {"\\x4g", "two hexadecimal", LF_INVALID},
        {"\\c", "means nothing", LF_INVALID},
        {"\\c1", "means nothing", LF_INVALID},
        {"\\Bx", "word boundary", LF_UNSUPPORTED},
        {"\\P{L}", "property", LF_UNSUPPORTED},
        {"\\01", "", LF_UNSUPPORTED},
        {"(?!a)", "look-ahead", LF_UNSUPPORTED},
        {"(?<=a)b", "look-behind", LF_UNSUPPORTED},
        {"(?<name", "name without an end", LF_INVALID},
        {"(?<>a)", "name without an end", LF_INVALID},
        {"(?<*r>a)", "name that is none", LF_INVALID},
        {"(?<1a>a)", "name that is none", LF_INVALID},
        {"(?<a b>a)", "name that is none", LF_INVALID},
        {"a+?+", "nothing to repeat", LF_INVALID},
        {"a?{2}{3}", "nothing to repeat", LF_INVALID},
        {"a{2", "{ without }", LF_INVALID},
        {"a{1,10001}", "10000 repetitions", LF_LIMIT},
        {"((a{0,1000}){0,1000}){0,1000}", "make it simpler", LF_LIMIT},
        {"(.*a.{20}|b)*", "make it simpler", LF_LIMIT},
        {"(a{10000}){6}", "states", LF_LIMIT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rig rig;
        begin(&rig);
        struct lf_dfa dfa = lf_grammar_regex(&rig.c, lf_str_c(cases[i].pattern), LF_REGEX_WHOLE);
        if (rig.c.status != cases[i].status || !strstr(rig.err.message, cases[i].says))
            fail_msg("%s: status %d, %s", cases[i].pattern, rig.c.status, rig.err.message);
        assert_int_equal(dfa.n_states, 0);
        end(&rig);
    }
}

static void bounds_hold_at_the_limit_and_one_past_it(void **state)
{
    (void)state;
    for (int over = 0; over < 2; over++) {
        struct rig rig;
        struct lf_buf text;
        lf_buf_init(&text, 4096);
        for (int i = 0; i < LF_GRAMMAR_REGEX_DEPTH + over; i++) lf_buf_char(&text, '(');
        for (int i = 0; i < LF_GRAMMAR_REGEX_DEPTH + over; i++) lf_buf_char(&text, ')');
        begin(&rig);
        (void)lf_grammar_regex(&rig.c, lf_buf_view(&text), LF_REGEX_WHOLE);
        assert_int_equal(rig.c.status, over ? LF_LIMIT : LF_OK);
        end(&rig);
        lf_buf_clear(&text);
        lf_buf_printf(&text, "a{%d}", LF_GRAMMAR_REPEAT_N + over);
        begin(&rig);
        (void)lf_grammar_regex(&rig.c, lf_buf_view(&text), LF_REGEX_WHOLE);
        assert_int_equal(rig.c.status, over ? LF_LIMIT : LF_OK);
        end(&rig);
        lf_buf_deinit(&text);
    }
}

static bool nobody_waits(void *ctx)
{
    (void)ctx;
    return true;
}

static void a_client_that_has_gone_ends_the_work(void **state)
{
    (void)state;
    struct rig rig;
    struct lf_work work = {.is_over = nobody_waits};
    begin(&rig);
    rig.c.work = &work;
    (void)lf_grammar_regex(&rig.c, LF_STR("(.*a.{14}|b)*"), LF_REGEX_WHOLE);
    assert_int_equal(rig.c.status, LF_CANCELLED);
    end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match_as_in_python),
        cmocka_unit_test(escapes_mean_what_they_mean_in_ecmascript),
        cmocka_unit_test(what_is_not_supported_is_refused_by_name),
        cmocka_unit_test(bounds_hold_at_the_limit_and_one_past_it),
        cmocka_unit_test(a_client_that_has_gone_ends_the_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
