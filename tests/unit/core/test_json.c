#include "tests/support/test.h"

#include <float.h>
#include <math.h>

#include "core/json.h"
#include "core/work.h"

/* Parses text placed against an unmapped page. */
static enum lf_status parse(struct lf_json *out, struct test_guarded *g, struct lf_str text)
{
    *g = test_guarded_copy(text.ptr, text.len);
    return lf_json_parse(out, lf_str_from(g->ptr, text.len), &lf_json_limits_request, NULL);
}

static void accepts(const char *text, bool expected)
{
    struct lf_json doc = {0};
    struct test_guarded g;
    enum lf_status status = parse(&doc, &g, lf_str_c(text));
    if ((status == LF_OK) != expected) fail_msg("%s: %s", text, lf_status_name(status));
    lf_json_deinit(&doc);
    test_guarded_free(&g);
}

static void grammar_is_rfc_8259(void **state)
{
    (void)state;
    const char *good[] = {"0",
                          "-0",
                          "1.5e+3",
                          "\"\"",
                          "[]",
                          "{}",
                          "[1,2,[3]]",
                          " {\"a\" : null } ",
                          "\"\\u00e9\\n\"",
                          "true",
                          "{\"a\":{\"a\":1}}",
                          "\"\\ud83d\\ude00\"",
                          "[{},{}]"};
    const char *bad[] = {"",        " ",       "01",        "1.",          ".5",          "1e",          "+1",
                         "-",       "[1,]",    "{\"a\"}",   "{,}",         "[1 2]",       "{\"a\":1,}",  "nul",
                         "\"",      "\"\\x\"", "\"\\u12\"", "\"\\ud800\"", "\"\\udc00\"", "\"\\u0000\"", "[",
                         "{\"a\":", "1 2",     "]",         "\"\t\"",      "1e999",       "-1e400",      "{1:2}",
                         "tru",     "[}"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) accepts(good[i], true);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) accepts(bad[i], false);
}

/* A pair of surrogates is two escapes side by side, four hexadecimal digits each. */
static void escapes_of_code_points_are_whole(void **state)
{
    (void)state;
    static const char *const good[] = {"\\u00e9",        "\\u00E9",        "\\ufeff",
                                       "\\uD83D\\uDE00", "\\ud83d\\ude00", "\\udbff\\udfff"};
    static const char *const bad[] = {
        "\\u00g0",        "\\u00G0",        "\\u00/0",        "\\u00:0",        "\\u00@0",        "\\u00`0",
        "\\u12",          "\\ud83d\\n",     "\\ud83d\\ud83d", "\\ud83d\\u0041", "\\ud83d\\ue000", "\\ud83dxude00",
        "\\ud83d\\xde00", "\\ud83d\\ude0g", "\\ud83d\\ude0",  "\\ude00\\ud83d", "\\ud83dabcdefgh"};
    char text[64];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        snprintf(text, sizeof text, "\"%s\"", good[i]);
        accepts(text, true);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(text, sizeof text, "\"%s\"", bad[i]);
        accepts(text, false);
    }
    struct lf_json doc = {0};
    struct test_guarded g;
    assert_int_equal(parse(&doc, &g, LF_STR("\"\\\0\"")), LF_INVALID); /* a backslash before a NUL */
    test_guarded_free(&g);
}

static void names_must_differ_after_unescaping(void **state)
{
    (void)state;
    accepts("{\"a\":1,\"b\":2}", true);
    accepts("{\"a\":1,\"a\":2}", false);
    accepts("{\"a\":1,\"\\u0061\":2}", false);
    accepts("[{\"a\":1},{\"a\":2}]", true);
    accepts("{\"x\":{\"a\":1,\"a\":1}}", false);
}

static void invalid_utf8_is_refused(void **state)
{
    (void)state;
    const char *bad[] = {"\"\xff\"", "\"\xc0\xaf\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xe2\x82\""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) accepts(bad[i], false);
    accepts("\"\xf0\x9f\x98\x80 \xe2\x82\xac\"", true);
}

/* Parses head, n times `digit`, tail. */
static enum lf_status parse_digits(const char *head, char digit, size_t n, const char *tail, struct lf_err *err)
{
    struct lf_json doc = {0};
    struct lf_buf text;
    lf_buf_init(&text, 1 << 20);
    lf_buf_cstr(&text, head);
    for (size_t i = 0; i < n; i++) lf_buf_char(&text, digit);
    lf_buf_cstr(&text, tail);
    enum lf_status status = lf_json_parse(&doc, lf_buf_view(&text), &lf_json_limits_request, err);
    lf_json_deinit(&doc);
    lf_buf_deinit(&text);
    return status;
}

/* A double goes to 1.8e308, written out or not. */
static void numbers_that_no_double_can_hold_are_refused(void **state)
{
    (void)state;
    static const char *const says = "a number that no double can hold";
    struct lf_err err = {0};
    assert_int_equal(parse_digits("", '9', 300, "", &err), LF_OK);
    assert_int_equal(parse_digits("", '9', 308, "", &err), LF_OK);
    assert_int_equal(parse_digits("", '9', 309, "", &err), LF_INVALID);
    assert_non_null(strstr(err.message, says));
    assert_int_equal(parse_digits("[-", '9', 309, "]", &err), LF_INVALID);
    assert_int_equal(parse_digits("1", '0', 290, "E18", &err), LF_OK);
    assert_int_equal(parse_digits("1", '0', 290, "E19", &err), LF_INVALID);
    assert_int_equal(parse_digits("", '9', LF_JSON_NUMBER_BYTES, "", &err), LF_INVALID);
    assert_non_null(strstr(err.message, says));
}

/* Also those that a double could hold: nobody writes them. */
static void numbers_that_are_too_long_are_refused_as_such(void **state)
{
    (void)state;
    static const char *const says = "a number of more than 4095 characters";
    struct lf_err err = {0};
    assert_int_equal(parse_digits("0.", '1', LF_JSON_NUMBER_BYTES - 2, "", &err), LF_OK);
    assert_int_equal(parse_digits("[0.", '1', LF_JSON_NUMBER_BYTES - 2, "]", &err), LF_OK);
    const struct {
        const char *head, *tail;
        size_t n;
    } cases[] = {{"0.", "", LF_JSON_NUMBER_BYTES - 1},
                 {"[1,0.", "]", LF_JSON_NUMBER_BYTES - 1},
                 {"", "", LF_JSON_NUMBER_BYTES + 1},
                 {"-", "e-9", 500 * 1000}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        err = (struct lf_err){0};
        assert_int_equal(parse_digits(cases[i].head, '1', cases[i].n, cases[i].tail, &err), LF_INVALID);
        assert_non_null(strstr(err.message, says));
    }
}

static void a_text_of_4_gib_is_refused_unread(void **state)
{
    (void)state;
    struct lf_json doc = {0};
    struct lf_err err = {0};
    struct test_guarded g = test_guarded_copy("1", 1);
    struct lf_str text = lf_str_from(g.ptr, 0xffffffffu); /* but one byte of it is there */
    assert_int_equal(lf_json_parse(&doc, text, &lf_json_limits_file, &err), LF_LIMIT);
    assert_non_null(strstr(err.message, "4 GiB"));
    test_guarded_free(&g);
}

static struct lf_json parsed(const char *text)
{
    struct lf_json doc = {0};
    struct lf_err err;
    if (lf_json_parse(&doc, lf_str_c(text), &lf_json_limits_request, &err) != LF_OK) fail_msg("%s", err.message);
    return doc;
}

static void getters_read_exactly(void **state)
{
    (void)state;
    struct lf_json doc = parsed("{\"i\":9223372036854775807,\"j\":-9223372036854775808,\"over\":9223372036854775808,"
                                "\"f\":1.5,\"one\":1.0,\"e\":1e3,\"t\":true,\"N\":null,\"s\":\"a\\u0041\\n\",\"S\":1}");
    struct lf_json_value root = lf_json_root(&doc);
    int64_t i = 0;
    assert_true(lf_json_int64(lf_json_get(root, "i"), &i) && i == INT64_MAX);
    assert_true(lf_json_int64(lf_json_get(root, "j"), &i) && i == INT64_MIN);
    assert_false(lf_json_int64(lf_json_get(root, "over"), &i));
    assert_false(lf_json_int64(lf_json_get(root, "f"), &i));
    assert_true(lf_json_int64(lf_json_get(root, "one"), &i) && i == 1);
    assert_true(lf_json_int64(lf_json_get(root, "e"), &i) && i == 1000);
    double d = 0;
    assert_true(lf_json_double(lf_json_get(root, "f"), &d) && d == 1.5);
    assert_false(lf_json_double(lf_json_get(root, "s"), &d));
    bool b = false;
    assert_true(lf_json_bool(lf_json_get(root, "t"), &b) && b);
    assert_true(lf_json_is_absent(lf_json_get(root, "N")));
    assert_true(lf_json_is_absent(lf_json_get(root, "missing")));
    assert_int_equal(lf_json_type(lf_json_get(root, "n")), LF_JSON_NONE); /* case matters */
    struct lf_buf text;
    lf_buf_init(&text, 100);
    assert_true(lf_json_string(lf_json_get(root, "s"), &text));
    assert_string_equal(text.ptr, "aA\n");
    lf_buf_deinit(&text);
    lf_json_deinit(&doc);
}

static void iteration_visits_every_child_once(void **state)
{
    (void)state;
    struct lf_json doc = parsed("[[1,[2,3]],{\"a\":[4],\"b\":{\"c\":5}},6]");
    struct lf_json_value root = lf_json_root(&doc);
    int n = 0;
    for (struct lf_json_value it = lf_json_first(root); lf_json_more(root, it); it = lf_json_next(root, it)) n++;
    assert_int_equal(n, 3);
    assert_int_equal(lf_json_len(root), 3);
    struct lf_json_value object = lf_json_next(root, lf_json_first(root));
    n = 0;
    for (struct lf_json_value it = lf_json_first(object); lf_json_more(object, it); it = lf_json_next(object, it)) {
        assert_int_equal(lf_json_type(it), LF_JSON_STRING);
        n++;
    }
    assert_int_equal(n, 2);
    assert_string_equal(lf_json_raw(lf_json_get(lf_json_get(object, "b"), "c")).ptr[0] == '5' ? "5" : "?", "5");
    lf_json_deinit(&doc);
}

/* n times piece between head and tail. */
static struct lf_buf repeated(const char *head, const char *piece, int n, const char *tail)
{
    struct lf_buf buf;
    lf_buf_init(&buf, (size_t)64 << 20);
    lf_buf_cstr(&buf, head);
    for (int i = 0; i < n; i++) lf_buf_cstr(&buf, piece);
    lf_buf_cstr(&buf, tail);
    assert_int_equal(buf.status, LF_OK);
    return buf;
}

static void depth_and_nodes_are_bounded(void **state)
{
    (void)state;
    for (int over = 0; over < 2; over++) {
        struct lf_buf deep = repeated("", "[", LF_JSON_DEPTH + over, "");
        for (int i = 0; i < LF_JSON_DEPTH + over; i++) lf_buf_char(&deep, ']');
        struct lf_json doc = {0};
        assert_int_equal(lf_json_parse(&doc, lf_buf_view(&deep), &lf_json_limits_request, NULL),
                         over ? LF_LIMIT : LF_OK);
        lf_json_deinit(&doc);
        lf_buf_deinit(&deep);
        struct lf_buf wide = repeated("[", "1,", LF_JSON_NODES - 2 + over, "null]");
        assert_int_equal(lf_json_parse(&doc, lf_buf_view(&wide), &lf_json_limits_request, NULL),
                         over ? LF_LIMIT : LF_OK);
        lf_json_deinit(&doc);
        lf_buf_deinit(&wide);
    }
}

/* So many lists of so many ids between brackets. */
static struct lf_buf id_lists(int n_lists, int n_ids)
{
    struct lf_buf buf;
    lf_buf_init(&buf, (size_t)64 << 20);
    for (int i = 0; i < n_lists; i++) {
        lf_buf_cstr(&buf, i ? ",[" : "[[");
        for (int k = 0; k < n_ids; k++) lf_buf_printf(&buf, "%s%d", k ? ", " : "", i * n_ids + k);
        lf_buf_char(&buf, ']');
    }
    lf_buf_char(&buf, ']');
    assert_int_equal(buf.status, LF_OK);
    return buf;
}

static void lists_of_ids_are_no_nodes(void **state)
{
    (void)state;
    enum { N_LISTS = 16, N_IDS = 16384 };
    struct lf_buf text = id_lists(N_LISTS, N_IDS);
    struct lf_json doc = parsed(text.ptr);
    struct lf_json_value root = lf_json_root(&doc);
    assert_true(N_LISTS * N_IDS > LF_JSON_NODES);
    assert_int_equal(doc.n_nodes, 1 + N_LISTS);
    assert_int_equal(lf_json_len(root), N_LISTS);
    int64_t want = 0, id;
    for (struct lf_json_value list = lf_json_first(root); lf_json_more(root, list); list = lf_json_next(root, list)) {
        assert_int_equal(lf_json_len(list), N_IDS);
        for (struct lf_json_value it = lf_json_first(list); lf_json_more(list, it); it = lf_json_next(list, it))
            assert_true(lf_json_int64(it, &id) && id == want++);
    }
    assert_int_equal(want, N_LISTS * N_IDS);
    lf_json_deinit(&doc);
    lf_buf_deinit(&text);
}

/* The array of numbers `v` against the same with a null behind them, which makes each a node. */
static void compare_with_unpacked(struct lf_json_value v)
{
    struct lf_buf text;
    lf_buf_init(&text, 1 << 16);
    lf_buf_append(&text, lf_json_raw(v).ptr, lf_json_raw(v).len - 1);
    lf_buf_cstr(&text, ",null]");
    struct lf_json doc = parsed(text.ptr);
    struct lf_json_value list = lf_json_root(&doc), other = lf_json_first(list);
    assert_int_equal(doc.n_nodes, lf_json_len(v) + 2);
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it)) {
        int64_t i = 0, other_i = 0;
        double x = 0, other_x = 0;
        assert_int_equal(lf_json_type(it), LF_JSON_NUMBER);
        assert_true(lf_str_eq(lf_json_raw(it), lf_json_raw(other)));
        assert_int_equal(lf_json_int64(it, &i), lf_json_int64(other, &other_i));
        assert_true(lf_json_double(it, &x) && lf_json_double(other, &other_x));
        assert_true(i == other_i && x == other_x);
        other = lf_json_next(list, other);
    }
    assert_int_equal(lf_json_type(other), LF_JSON_NULL);
    lf_json_deinit(&doc);
    lf_buf_deinit(&text);
}

static void packed_numbers_read_as_unpacked_ones(void **state)
{
    (void)state;
    static const char *const numbers[] = {"0",   "-0",   "7",    "-12", "1.5",    "1e3",    "1E-7",
                                          "1.0", "0.25", "10e0", "3",   "2e+300", "123456", "9223372036854775808"};
    static const char *const spaces[] = {"", " ", "\n", "\t\r ", ""};
    uint32_t random = 1;
    for (int round = 0; round < 2000; round++) {
        struct lf_buf text;
        lf_buf_init(&text, 1 << 16);
        random = random * 1664525u + 1013904223u;
        uint32_t n = 1 + (random >> 24) % 9;
        for (uint32_t i = 0; i < n; i++) {
            random = random * 1664525u + 1013904223u;
            lf_buf_printf(&text, "%s%s%s%s", i ? "," : "[", spaces[(random >> 8) % 5], numbers[(random >> 16) % 14],
                          spaces[(random >> 24) % 5]);
        }
        lf_buf_char(&text, ']');
        struct lf_json doc = parsed(text.ptr);
        assert_int_equal(doc.n_nodes, 1);
        assert_int_equal(lf_json_len(lf_json_root(&doc)), n);
        compare_with_unpacked(lf_json_root(&doc));
        lf_json_deinit(&doc);
        lf_buf_deinit(&text);
    }
}

static void packed_arrays_stand_among_others(void **state)
{
    (void)state;
    struct lf_json doc = parsed("{\"a\":[1,2,[3,4],[]],\"b\":[ 5 ],\"c\":{\"d\":[6,7]},\"e\":[8,\"x\"],\"f\":9}");
    struct lf_json_value root = lf_json_root(&doc), a = lf_json_get(root, "a"), it = lf_json_first(a);
    int64_t i = 0;
    assert_int_equal(lf_json_len(a), 4);
    assert_true(lf_json_int64(it, &i) && i == 1);
    it = lf_json_next(a, lf_json_next(a, it));
    assert_int_equal(lf_json_len(it), 2);
    assert_true(lf_json_int64(lf_json_first(it), &i) && i == 3);
    it = lf_json_next(a, it);
    assert_int_equal(lf_json_type(it), LF_JSON_ARRAY);
    assert_false(lf_json_len(it) || lf_json_more(it, lf_json_first(it)));
    assert_false(lf_json_more(a, lf_json_next(a, it)));
    struct lf_json_value b = lf_json_get(root, "b"), five = lf_json_first(b);
    assert_true(lf_json_int64(five, &i) && i == 5);
    assert_string_equal(lf_json_type_name(five), "a number");
    assert_false(lf_json_more(five, lf_json_first(five)) || lf_json_len(five) || lf_json_is_absent(five));
    assert_int_equal(lf_json_type(lf_json_get(five, "x")), LF_JSON_NONE);
    struct lf_json_value end = lf_json_next(b, five);
    assert_false(lf_json_more(b, end) || lf_json_more(b, lf_json_next(b, end)));
    assert_true(lf_json_is_absent(end) && lf_json_raw(end).len == 0 && !lf_json_int64(end, &i));
    assert_int_equal(lf_json_len(lf_json_get(lf_json_get(root, "c"), "d")), 2);
    assert_int_equal(lf_json_len(lf_json_get(root, "e")), 2);
    assert_true(lf_json_int64(lf_json_get(root, "f"), &i) && i == 9);
    lf_json_deinit(&doc);
}

static void a_packed_array_is_checked_like_any(void **state)
{
    (void)state;
    const char *bad[] = {"[01]",         "[1,02]", "[1,]",   "[,1]", "[1 2]",    "[1,2",   "[1.]",
                         "[1,-]",        "[1,2}",  "[1,1e]", "[+1]", "[1,.5]",   "[1,,2]", "[1,1e999]",
                         "[1,-1e400,2]", "[1]]",   "[1,2,",  "[1",   "[[1,2],3", "[1,nan]"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) accepts(bad[i], false);
    struct lf_json doc = {0};
    struct lf_err err;
    assert_int_equal(lf_json_parse(&doc, LF_STR("[1, 2, 03]"), &lf_json_limits_request, &err), LF_INVALID);
    assert_string_equal(err.message, "invalid JSON at byte 7: a number with a leading zero");
}

static bool nobody_waits(void *ctx)
{
    (void)ctx;
    return true;
}

static void a_packed_array_ends_when_nobody_waits(void **state)
{
    (void)state;
    for (int mixed = 0; mixed < 2; mixed++) {
        struct lf_buf ids = repeated("[", "1,", 100000, mixed ? "null]" : "1]");
        struct lf_work work = {.is_over = nobody_waits};
        struct lf_json doc = {0};
        assert_int_equal(lf_json_parse_in(&doc, lf_buf_view(&ids), &lf_json_limits_request, &work, NULL), LF_CANCELLED);
        lf_buf_deinit(&ids);
    }
}

static void hostile_texts_take_linear_time(void **state)
{
    (void)state;
    struct lf_buf names;
    lf_buf_init(&names, (size_t)64 << 20);
    lf_buf_char(&names, '{');
    for (int i = 0; i < 120000; i++) lf_buf_printf(&names, "%s\"k%d\":0", i ? "," : "", i);
    lf_buf_char(&names, '}');
    struct lf_buf opening = repeated("", "[", 1000000, "");
    struct lf_buf nested = repeated("", "[1,1,1,[", 1000000, "");
    struct lf_buf ids = repeated("[", "1,", 8000000, "1]");
    double start = cpu_seconds();
    struct lf_json doc = {0};
    assert_int_equal(lf_json_parse(&doc, lf_buf_view(&names), &lf_json_limits_request, NULL), LF_OK);
    lf_json_deinit(&doc);
    assert_int_equal(lf_json_parse(&doc, lf_buf_view(&opening), &lf_json_limits_request, NULL), LF_LIMIT);
    assert_int_equal(lf_json_parse(&doc, lf_buf_view(&nested), &lf_json_limits_request, NULL), LF_LIMIT);
    assert_int_equal(lf_json_parse(&doc, lf_buf_view(&ids), &lf_json_limits_request, NULL), LF_OK);
    struct lf_json_value root = lf_json_root(&doc);
    uint32_t n = 0;
    for (struct lf_json_value it = lf_json_first(root); lf_json_more(root, it); it = lf_json_next(root, it)) n++;
    assert_int_equal(n, 8000001);
    lf_json_deinit(&doc);
    assert_true(cpu_seconds() - start < 2.0 * SLOWNESS); /* tens of milliseconds; quadratic would be minutes */
    lf_buf_deinit(&names);
    lf_buf_deinit(&opening);
    lf_buf_deinit(&nested);
    lf_buf_deinit(&ids);
}

static void every_prefix_of_a_text_is_handled(void **state)
{
    (void)state;
    const char *text = "{\"a\\u00e9\\ud83d\\ude00\":[1.5e-3,true,null,\"x\"],\"b\":{}}";
    for (size_t n = 0; n <= strlen(text); n++) {
        struct lf_json doc = {0};
        struct test_guarded g;
        assert_int_equal(parse(&doc, &g, lf_str_from(text, n)) == LF_OK, n == strlen(text));
        lf_json_deinit(&doc);
        test_guarded_free(&g);
    }
}

static void strings_are_written_as_one_line_of_json(void **state)
{
    (void)state;
    struct lf_buf out;
    lf_buf_init(&out, 1000);
    lf_json_write_string(&out, LF_STR("a\"\\\n\x01\xe2\x80\xa8\xc3\xa9\xff"));
    assert_string_equal(out.ptr, "\"a\\\"\\\\\\n\\u0001\\u2028\xc3\xa9\xef\xbf\xbd\"");
    lf_buf_deinit(&out);
}

static void a_value_is_written_as_it_came_in_one_line(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {" { \"a\" : [ 1.0 , 1e2,\n12345678901234567890 ],\t\"b \\\" c\\\\\" : { } } ",
         "{\"a\":[1.0,1e2,12345678901234567890],\"b \\\" c\\\\\":{}}"},
        {"[true, null,\r\n\"x\xe2\x80\xa8y\xe2\x80\xa9\xe2\x80\xaa\"]", "[true,null,\"x\\u2028y\\u2029\xe2\x80\xaa\"]"},
        {"\"a  b\"", "\"a  b\""},
        {"\"\"", "\"\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct lf_buf out;
        struct lf_json doc = parsed(rows[i][0]);
        lf_buf_init(&out, 1000);
        lf_json_write_value(&out, lf_json_get(lf_json_root(&doc), "nothing"));
        assert_int_equal(out.len, 0);
        lf_json_write_value(&out, lf_json_root(&doc));
        assert_string_equal(out.ptr, rows[i][1]);
        lf_json_deinit(&doc);
        lf_buf_deinit(&out);
    }
}

static void doubles_read_back(void **state)
{
    (void)state;
    double xs[] = {0, 1, -1.5, 0.1, 1.0 / 3, DBL_MAX, DBL_MIN, 123456789012345680.0, 5e-324};
    for (size_t i = 0; i < sizeof xs / sizeof xs[0]; i++) {
        struct lf_buf out;
        lf_buf_init(&out, 100);
        lf_json_write_double(&out, xs[i]);
        struct lf_json doc = parsed(out.ptr);
        double back = NAN;
        assert_true(lf_json_double(lf_json_root(&doc), &back) && back == xs[i]);
        lf_json_deinit(&doc);
        lf_buf_deinit(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grammar_is_rfc_8259),
        cmocka_unit_test(escapes_of_code_points_are_whole),
        cmocka_unit_test(names_must_differ_after_unescaping),
        cmocka_unit_test(numbers_that_no_double_can_hold_are_refused),
        cmocka_unit_test(numbers_that_are_too_long_are_refused_as_such),
        cmocka_unit_test(a_text_of_4_gib_is_refused_unread),
        cmocka_unit_test(invalid_utf8_is_refused),
        cmocka_unit_test(getters_read_exactly),
        cmocka_unit_test(iteration_visits_every_child_once),
        cmocka_unit_test(depth_and_nodes_are_bounded),
        cmocka_unit_test(lists_of_ids_are_no_nodes),
        cmocka_unit_test(packed_numbers_read_as_unpacked_ones),
        cmocka_unit_test(packed_arrays_stand_among_others),
        cmocka_unit_test(a_packed_array_is_checked_like_any),
        cmocka_unit_test(a_packed_array_ends_when_nobody_waits),
        cmocka_unit_test(hostile_texts_take_linear_time),
        cmocka_unit_test(every_prefix_of_a_text_is_handled),
        cmocka_unit_test(strings_are_written_as_one_line_of_json),
        cmocka_unit_test(a_value_is_written_as_it_came_in_one_line),
        cmocka_unit_test(doubles_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
