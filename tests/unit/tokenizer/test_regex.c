#define PCRE2_CODE_UNIT_WIDTH 8
#include "tests/support/test.h"

#include <pcre2.h>

#include "core/limits.h"
#include "tokenizer/hf/regex.h"
#include "tokenizer/hf/regex_rewrite.h"

/* The matches of pattern in text, each in brackets. */
static void assert_matches(const char *pattern, const char *text, const char *want)
{
    struct lf_regex *regex = NULL;
    struct lf_regex_work work;
    struct lf_regex_walk walk = lf_regex_walk_init(lf_str_c(text));
    struct lf_err err = {0};
    struct lf_buf out;
    bool found = true;
    if (lf_regex_compile(&regex, lf_str_c(pattern), &err) != LF_OK) fail_msg("%s", err.message);
    lf_regex_work_init(&work, NULL, strlen(text));
    lf_buf_init(&out, 4096);
    lf_buf_cstr(&out, "");
    for (;;) {
        assert_int_equal(lf_regex_next(regex, &work, &walk, &found), LF_OK);
        if (!found) break;
        lf_buf_printf(&out, "[%.*s]", (int)(walk.end - walk.first), text + walk.first);
    }
    assert_string_equal(lf_buf_view(&out).ptr, want);
    lf_buf_deinit(&out);
    lf_regex_work_deinit(&work);
    lf_regex_free(regex);
}

/* The linker sends calls of PCRE2's interpreter here. */
static int n_interpreted;

int __real_pcre2_match_8(const pcre2_code *code, PCRE2_SPTR text, PCRE2_SIZE len, PCRE2_SIZE from, uint32_t options,
                         pcre2_match_data *match, pcre2_match_context *context);
int __wrap_pcre2_match_8(const pcre2_code *code, PCRE2_SPTR text, PCRE2_SIZE len, PCRE2_SIZE from, uint32_t options,
                         pcre2_match_data *match, pcre2_match_context *context);
int __wrap_pcre2_match_8(const pcre2_code *code, PCRE2_SPTR text, PCRE2_SIZE len, PCRE2_SIZE from, uint32_t options,
                         pcre2_match_data *match, pcre2_match_context *context)
{
    n_interpreted++;
    return __real_pcre2_match_8(code, text, len, from, options, match, context);
}

/* Walks over all matches with that many steps left; how many were used. */
static uint64_t walk(const char *pattern, struct lf_str text, uint64_t budget, enum lf_status want)
{
    struct lf_regex *regex = NULL;
    struct lf_regex_work work;
    struct lf_regex_walk at = lf_regex_walk_init(text);
    struct lf_err err = {0};
    bool found = true;
    enum lf_status status = LF_OK;
    assert_int_equal(lf_regex_compile(&regex, lf_str_c(pattern), &err), LF_OK);
    lf_regex_work_init(&work, NULL, text.len);
    assert_true(work.budget == LF_REGEX_STEPS_BASE + (uint64_t)text.len * LF_REGEX_STEPS_PER_BYTE);
    work.budget = budget;
    while (status == LF_OK && found) status = lf_regex_next(regex, &work, &at, &found);
    assert_int_equal(status, want);
    assert_int_equal(lf_regex_explain(&work, status, &err), want);
    assert_int_equal(err.message[0] != 0, want != LF_OK);
    uint64_t left = work.budget;
    lf_regex_work_deinit(&work);
    lf_regex_free(regex);
    return budget - left;
}

/* What a text costs is what it may cost, to the step. */
static void test_the_budget_of_steps_holds_to_the_step(void **state)
{
    (void)state;
    static const char *const patterns[] = {"a(?=[^b]*Z)|a", "(?:a|aa)+[ZY]|a", "a{300}Z|a"};
    char text[200];
    memset(text, 'a', sizeof text);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        struct lf_str s = lf_str_from(text, i == 1 ? 16 : sizeof text);
        uint64_t cost = walk(patterns[i], s, UINT64_MAX, LF_OK);
        assert_true(cost > s.len);
        assert_true(walk(patterns[i], s, cost, LF_OK) == cost);
        (void)walk(patterns[i], s, cost - 1, LF_UNSUPPORTED);
    }
}

/* Searching and exact matching alike run compiled code; what passes its stack is interpreted, and costs the same. */
static void test_the_interpreter_is_asked_only_where_the_stack_is_too_small(void **state)
{
    (void)state;
    enum { N = 100000 };
    static char text[N];
    struct lf_str s = lf_str_from(text, N);
    uint32_t has_jit = 0;
    memset(text, 'a', N);
    assert_int_equal(pcre2_config(PCRE2_CONFIG_JIT, &has_jit), 0);
    n_interpreted = 0;
    (void)walk("\\p{L}+", s, UINT64_MAX, LF_OK);
    (void)walk("a(?=[^b]*Z)|a", lf_str_from(text, 200), UINT64_MAX, LF_OK);
    (void)walk("a{300}Z|a", lf_str_from(text, 200), UINT64_MAX, LF_OK);
    assert_true(has_jit ? n_interpreted == 0 : n_interpreted > 0);
    (void)walk("(?:(?:a|b)(?:a|b)?)+", s, UINT64_MAX, LF_OK);
    assert_true(n_interpreted > 0);
}

static void test_classes_are_those_of_unicode(void **state)
{
    (void)state;
    assert_matches("\\s+", "a \t\xc2\xa0\xe3\x80\x80z\xe1\xa0\x8ey\xc2\x85", "[ \t\xc2\xa0\xe3\x80\x80][\xc2\x85]");
    assert_matches("\\w+", "a\xcc\x81_1 \xe2\x93\x90 \xc2\xb2", "[a\xcc\x81_1][\xe2\x93\x90]");
    assert_matches("[^\\s\\p{L}]+", "ab 12\xc2\xa0!", "[12][!]");
    assert_matches("\\h+", "xaF09g", "[aF09]");
    assert_matches("\\d", "1\xd9\xa1\xc2\xb2", "[1][\xd9\xa1]");
    assert_matches("\\p{Han}+", "a\xe4\xb8\xad\xe3\x80\x82", "[\xe4\xb8\xad]");
    assert_matches("\\bab\\b", "ab cab ab.", "[ab][ab]");
    assert_matches("\\Bb", "ab b", "[b]");
    assert_matches("\\p{^L}+|\\P{^Number}", "ab12", "[12]");
    assert_matches("\\Aa|a\\z", "aaa", "[a][a]");
}

static void test_what_families_use_means_the_same(void **state)
{
    (void)state;
    assert_matches("(?i:'s|'t)|\\p{L}+", "It'S Don't", "[It]['S][Don]['t]");
    assert_matches("\\s+(?!\\S)|\\s+", "a   b", "[  ][ ]");
    assert_matches("\\p{N}{1,3}", "12345", "[123][45]");
    assert_matches("a{,2}b", "aaab", "[aab]");
    assert_matches("x{", "x{", "[x{]");
    assert_matches("(a|b)+c", "abac", "[abac]");
    assert_matches("[\\u4e00-\\u9fff]", "a\xe4\xb8\xad", "[\xe4\xb8\xad]");
    assert_matches("\\v", "a\x0b\n", "[\x0b]");
    assert_matches("[!\\-\\]\\[\\\\]", "a-]b[\\", "[-][]][[][\\]");
}

/* One that goes beyond what the search is shown at first, at the beginning and behind it. */
static void test_long_matches_are_found_whole(void **state)
{
    (void)state;
    char text[512], want[512];
    for (int n_before = 0; n_before <= 4; n_before++) {
        for (int n = 120; n <= 300; n += 20) {
            memset(text, ' ', sizeof text);
            memset(text + n_before, 'a', (size_t)n);
            snprintf(text + n_before + n, 4, " b");
            snprintf(want, sizeof want, "[%.*s][b]", n, text + n_before);
            assert_matches("\\p{L}+", text, want);
        }
    }
}

static void test_empty_matches_do_not_follow_a_match(void **state)
{
    (void)state;
    assert_matches("(?=B)", "aBB", "[][]");
    assert_matches("a*", "baac", "[][aa][]");
    assert_matches("x*", "\xe4\xb8\xad", "[][]");
}

static void test_what_is_read_differently_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const patterns[] = {"a{1,2}+", "[a[b]]",     "[a&&b]", "(?m:a)", "(?<n>a)", "\\1",       "[\\S]",
                                           "\\K",     "\\p{Emoji}", "[]a]",   "[a",     "\\",      "(*ACCEPT)", "(?~a)",
                                           "\\xzz",   "(a",         "[\\b]",  "[\\B]",  "[\\z]",   "\\p{}"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        struct lf_regex *regex = NULL;
        struct lf_err err = {0};
        assert_int_equal(lf_regex_compile(&regex, lf_str_c(patterns[i]), &err), LF_UNSUPPORTED);
        assert_non_null(strstr(err.message, patterns[i]));
    }
    struct lf_regex *regex = NULL;
    assert_int_equal(lf_regex_compile(&regex, LF_STR("a\0b"), NULL), LF_UNSUPPORTED);
}

static void test_code_points_and_properties_are_written_in_many_ways(void **state)
{
    (void)state;
    assert_matches("\\x41|\\x{e9}|\\u4e2d|\\x{1F999}", "A\xc3\xa9\xe4\xb8\xad\xf0\x9f\xa6\x99",
                   "[A][\xc3\xa9][\xe4\xb8\xad][\xf0\x9f\xa6\x99]");
    assert_matches("[\\x41-\\x{43}\\u0061]+", "ABCDab", "[ABC][a]");
    assert_matches("\\x4g", "\x04g", "[\x04g]"); /* one digit, then a letter */
    assert_matches("\\p{^L}|\\P{Number}", "a1", "[a][1]");
    assert_matches("\\p{Han}\\p{Letter}\\p{Nd}",
                   "\xe4\xb8\xad"
                   "a1",
                   "[\xe4\xb8\xad"
                   "a1]");
    assert_matches("\\\xc3\xa9\\-\\_", "\xc3\xa9-_", "[\xc3\xa9-_]"); /* a letter beyond ASCII escaped is itself */
    assert_matches("\\va", "\va\na", "[\va]");
    assert_matches("a{2}|b{,2}c|d{1,}", "aaa bbc c dd", "[aa][bbc][c][dd]");
    assert_matches("a{}|a{,}|a{x}|a{1", "a{} a{,} a{x} a{1", "[a{}][a{,}][a{x}][a{1]");
}

static void test_what_is_malformed_is_refused_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *says;
    } cases[] = {
        {"a\\pL", "this form of \\p at byte 1"},
        {"\\p", "this form of \\p at byte 0"},
        {"\\p{", "this form of \\p at byte 0"},
        {"\\p{L", "this form of \\p at byte 0"},
        {"\\pL}", "this form of \\p at byte 0"},
        {"\\p{}", "this form of \\p at byte 0"},
        {"\\p{^}", "this property at byte 0"},
        {"ab\\p{Klingon}", "this property at byte 2"},
        {"\\p{^Klingon}", "this property at byte 0"},
        {"\\x", "this code point at byte 0"},
        {"\\xg", "this code point at byte 0"},
        {"\\x{}", "this code point at byte 0"},
        {"\\x{41", "this code point at byte 0"},
        {"\\x{4g}", "this code point at byte 0"},
        {"\\x{123456789}", "this code point at byte 0"},
        {"\\u", "this code point at byte 0"},
        {"\\u004", "this code point at byte 0"},
        {"\\u00g1", "this code point at byte 0"},
        {"\\u{41}", "this code point at byte 0"},
        {"[\\W]", "a negated class inside a set at byte 1"},
        {"[\\D]", "a negated class inside a set at byte 1"},
        {"[\\H]", "a negated class inside a set at byte 1"},
        {"[\\A]", "an anchor inside a set at byte 1"},
        {"[\\b]", "\\b inside a set at byte 1"},
        {"[\\B]", "\\B inside a set at byte 1"},
        {"a\\G", "this escape at byte 1"},
        {"[^]", "a set that begins with ] at byte 2"},
        {"(?P<n>a)", "this kind of group at byte 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lf_regex *regex = NULL;
        struct lf_err err = {0};
        assert_int_equal(lf_regex_compile(&regex, lf_str_c(cases[i].pattern), &err), LF_UNSUPPORTED);
        if (!strstr(err.message, cases[i].says)) fail_msg("%s: %s", cases[i].pattern, err.message);
    }
    char many[400];
    struct lf_regex *regex = NULL;
    struct lf_err err = {0};
    memset(many, 'a', sizeof many);
    memcpy(many + 300, "\\K", 3);
    assert_int_equal(lf_regex_compile(&regex, lf_str_c(many), &err), LF_UNSUPPORTED);
    static const char says[] = "\": this escape at byte 300";
    memcpy(many + 200, says, sizeof says);
    assert_non_null(strstr(err.message, many)); /* 200 bytes of the pattern, then what is wrong */
}

static void test_a_pattern_that_tries_for_ever_is_stopped(void **state)
{
    (void)state;
    struct lf_regex *regex = NULL;
    struct lf_regex_work work;
    char text[64];
    bool found;
    memset(text, 'a', sizeof text);
    memcpy(text + sizeof text - 2, " c", 2); /* the letter is there, or nothing would be tried */
    struct lf_regex_walk walk = lf_regex_walk_init(lf_str_from(text, sizeof text));
    assert_int_equal(lf_regex_compile(&regex, LF_STR("(a|a)*(a|a)*(a|a)*(a|a)*c"), NULL), LF_OK);
    lf_regex_work_init(&work, NULL, sizeof text);
    assert_int_equal(lf_regex_next(regex, &work, &walk, &found), LF_UNSUPPORTED);
    lf_regex_work_deinit(&work);
    lf_regex_free(regex);
}

/* What a search may do before it is counted is little: that is what the match limit is for. */
static void test_a_search_is_left_early(void **state)
{
    (void)state;
    struct lf_regex *regex = NULL;
    struct lf_regex_work work;
    char text[4096];
    bool found = true;
    for (size_t i = 0; i < sizeof text; i++) text[i] = i % 16 == 15 ? ' ' : 'a';
    struct lf_regex_walk walk = lf_regex_walk_init(lf_str_from(text, sizeof text));
    assert_int_equal(lf_regex_compile(&regex, LF_STR("(?:a|a)+[cd]|a+"), NULL), LF_OK);
    lf_regex_work_init(&work, NULL, 1 << 24);
    uint64_t budget = work.budget;
    while (found) assert_int_equal(lf_regex_next(regex, &work, &walk, &found), LF_OK);
    assert_true(budget - work.budget > 2 * sizeof text); /* it was counted, so it was left */
    lf_regex_work_deinit(&work);
    lf_regex_free(regex);
}

static void test_a_literal_is_found_as_written(void **state)
{
    (void)state;
    struct lf_regex *regex = NULL;
    struct lf_regex_work work;
    struct lf_regex_walk walk = lf_regex_walk_init(LF_STR("a.b.+.+c"));
    bool found;
    lf_regex_work_init(&work, NULL, walk.text.len);
    assert_int_equal(lf_regex_literal(&regex, LF_STR(".+"), NULL), LF_OK);
    assert_int_equal(lf_regex_next(regex, &work, &walk, &found), LF_OK);
    assert_true(found && walk.first == 3 && walk.end == 5);
    assert_int_equal(lf_regex_next(regex, &work, &walk, &found), LF_OK);
    assert_true(found && walk.first == 5 && walk.end == 7);
    assert_int_equal(lf_regex_next(regex, &work, &walk, &found), LF_OK);
    assert_false(found);
    lf_regex_free(regex);
    assert_int_equal(lf_regex_literal(&regex, LF_STR(""), NULL), LF_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_budget_of_steps_holds_to_the_step),
        cmocka_unit_test(test_the_interpreter_is_asked_only_where_the_stack_is_too_small),
        cmocka_unit_test(test_classes_are_those_of_unicode),
        cmocka_unit_test(test_what_families_use_means_the_same),
        cmocka_unit_test(test_empty_matches_do_not_follow_a_match),
        cmocka_unit_test(test_what_is_read_differently_is_refused_by_name),
        cmocka_unit_test(test_code_points_and_properties_are_written_in_many_ways),
        cmocka_unit_test(test_what_is_malformed_is_refused_with_its_place),
        cmocka_unit_test(test_a_pattern_that_tries_for_ever_is_stopped),
        cmocka_unit_test(test_a_search_is_left_early),
        cmocka_unit_test(test_a_literal_is_found_as_written),
        cmocka_unit_test(test_long_matches_are_found_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
