/* JSON byte by byte: it takes what core/json takes, and stops at the byte that cannot come. */
#include "tests/support/test.h"

#include "core/check.h"
#include "core/json.h"
#include "template/answer/json_scan.h"

/* How many bytes of the text fit; *whole: whether they are a value. */
static size_t scan(struct lf_str text, bool *whole)
{
    struct lf_json_scan s;
    size_t n = 0;
    lf_json_scan_init(&s);
    while (n < text.len && lf_json_scan_byte(&s, text.ptr[n])) n++;
    *whole = n == text.len && lf_json_scan_is_whole(&s);
    return n;
}

static bool takes(struct lf_str text)
{
    bool whole;
    scan(text, &whole);
    return whole;
}

static bool json_takes(struct lf_str text)
{
    struct lf_json json = {0};
    bool ok = lf_json_parse(&json, text, &lf_json_limits_request, NULL) == LF_OK;
    lf_json_deinit(&json);
    return ok;
}

static const char *const values[] = {"{}",
                                     "[]",
                                     " {\"a\" : [ 1 , -2.5e+3,true,false , null ] , \"b\":{}}\n",
                                     "0",
                                     "-0",
                                     "12",
                                     "1.5",
                                     "1e5",
                                     "1E-400",
                                     "\"\"",
                                     "\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\"",
                                     "\"\\ud83d\\ude00x\"",
                                     "true",
                                     "null",
                                     "[[[]],{\"a\":[]}]",
                                     "\"é\"",
                                     "1e307",
                                     "0.5"};

static void values_are_taken(void **state)
{
    (void)state;
    for (size_t i = 0; i < LF_N_ELEMS(values); i++)
        if (!takes(lf_str_c(values[i])) || !json_takes(lf_str_c(values[i]))) fail_msg("%s", values[i]);
}

static void what_is_no_value_is_refused(void **state)
{
    static const char *const texts[] = {"",
                                        " ",
                                        "{",
                                        "[1",
                                        "{]",
                                        "[}",
                                        "{\"a\"}",
                                        "{\"a\":}",
                                        "{\"a\":1,}",
                                        "[1,]",
                                        "[,1]",
                                        "{1:2}",
                                        "{\"a\" 1}",
                                        "01",
                                        "-",
                                        "1.",
                                        ".5",
                                        "1e",
                                        "1e+",
                                        "+1",
                                        "--1",
                                        "1.e5",
                                        "1e5.5",
                                        "1-",
                                        "tru",
                                        "trux",
                                        "nul1",
                                        "\"",
                                        "\"\\x\"",
                                        "\"\\u12g4\"",
                                        "\"\\u0000\"",
                                        "\"\\ud83d\"",
                                        "\"\\ud83dx\"",
                                        "\"\\ud83d\\n\"",
                                        "\"\\ud83d\\u0041\"",
                                        "\"\\ude00\"",
                                        "\"\n\"",
                                        "1 2",
                                        "{}x",
                                        "\"a\"b",
                                        "1e309",
                                        "-1e999",
                                        "]",
                                        "}",
                                        "1}",
                                        "10e308"};
    (void)state;
    for (size_t i = 0; i < LF_N_ELEMS(texts); i++) {
        if (takes(lf_str_c(texts[i]))) fail_msg("%s", texts[i]);
        if (json_takes(lf_str_c(texts[i]))) fail_msg("core/json: %s", texts[i]);
    }
    assert_false(takes(LF_STR("\"\\\0\"")));
}

/* Values with a byte changed, taken out or put in: what is taken here is taken there. */
static void what_is_taken_is_json(void **state)
{
    static const char alphabet[] = "{}[]\",:\\u0019d8ceE+-.tfn a";
    uint64_t seed = 7;
    size_t n_taken = 0;
    (void)state;
    for (int i = 0; i < 200000; i++) {
        char text[128];
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t r = seed >> 16;
        const char *value = values[r % LF_N_ELEMS(values)];
        size_t n = strlen(value), at = (r >> 8) % n, k = 1 + (r >> 40) % 3;
        memcpy(text, value, n);
        for (; k > 0; k--, at = (at + 3) % n) text[at] = alphabet[(r >> (12 + 5 * k)) % (sizeof(alphabet) - 1)];
        struct lf_str s = lf_str_from(text, n);
        if (!lf_utf8_valid(s)) continue;
        bool ours = takes(s), theirs = json_takes(s);
        if (ours && !theirs) {
            struct lf_err err = {0};
            struct lf_json json = {0};
            assert_int_not_equal(lf_json_parse(&json, s, &lf_json_limits_request, &err), LF_OK);
            if (!strstr(err.message, "twice")) fail_msg("%.*s: %s", (int)n, text, err.message);
        }
        /* it may refuse numbers a little below the largest, and no others */
        if (theirs && !ours && !memchr(text, 'e', n) && !memchr(text, 'E', n)) fail_msg("%.*s", (int)n, text);
        n_taken += ours;
    }
    assert_true(n_taken > 1000);
}

static void depth_and_numbers_end_where_json_ends(void **state)
{
    char text[LF_JSON_NUMBER_BYTES + 3];
    (void)state;
    for (size_t depth = LF_JSON_DEPTH - 1; depth <= LF_JSON_DEPTH + 1; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        assert_int_equal(takes(lf_str_from(text, 2 * depth)), depth <= LF_JSON_DEPTH);
        assert_int_equal(json_takes(lf_str_from(text, 2 * depth)), depth <= LF_JSON_DEPTH);
    }
    memset(text, '1', sizeof(text));
    text[1] = '.';
    assert_true(takes(lf_str_from(text, LF_JSON_NUMBER_BYTES)));
    assert_true(json_takes(lf_str_from(text, LF_JSON_NUMBER_BYTES)));
    assert_false(takes(lf_str_from(text, LF_JSON_NUMBER_BYTES + 1)));
    assert_false(json_takes(lf_str_from(text, LF_JSON_NUMBER_BYTES + 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_taken),
        cmocka_unit_test(what_is_no_value_is_refused),
        cmocka_unit_test(what_is_taken_is_json),
        cmocka_unit_test(depth_and_numbers_end_where_json_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
