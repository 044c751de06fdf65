/* The grammar of templates: each place of each statement where something else may stand, limits at and past the mark,
 * and what a template's author reads when he got it wrong. */
#include "core/json.h"
#include "tests/support/test.h"
#include "template/chat_template.h"

static enum lf_status parse(const char *source, size_t len, struct lf_err *err)
{
    struct lf_chat_template *t = NULL;
    *err = (struct lf_err){0};
    enum lf_status status = lf_chat_template_create(&t, lf_str_from(source, len), err);
    lf_chat_template_destroy(t);
    return status;
}

/* Renders without variables and compares: the whole text, or a part of the message. */
static void expect_bytes(const char *source, size_t len, enum lf_status want, const char *text)
{
    struct lf_chat_template *t = NULL;
    struct lf_chat_text out = {0};
    struct lf_err err = {0};
    struct lf_chat_render_params p = {0};
    enum lf_status status = lf_chat_template_create(&t, lf_str_from(source, len), &err);
    if (status == LF_OK) status = lf_chat_template_render(t, &out, &p, &err);
    const char *got = status != LF_OK ? err.message : out.text.ptr ? out.text.ptr : "";
    bool same = status == LF_OK ? strcmp(got, text) == 0 : strstr(got, text) != NULL;
    if (status != want || !same) fail_msg("%.100s: %s: %s", source, lf_status_name(status), got);
    lf_chat_text_deinit(&out);
    lf_chat_template_destroy(t);
}

static void expect(const char *source, enum lf_status want, const char *text)
{
    expect_bytes(source, strlen(source), want, text);
}

/* Spaces stand between all tokens of tags and nowhere else. */
static const char *const spaced[] = {
    "{% if a == 1 or not b and c in d %}x{% elif e is not none %}y{% else %}z{% endif %}",
    "{% if a : %}x{% endif %}",
    "{% for k , v in d . items ( ) if v is string %}{% break %}{% continue %}{% else %}n{% endfor %}",
    "{% for ( a , ( b , c ) ) in c %}x{% endfor %}",
    "{% set a , b = 1 , 2 %}{% set ns . x = 3 %}{% set t | upper | trim %}q{% endset %}",
    "{% macro m ( a , b = 2 , c = [ 1 , ] ) %}{{ a }}{{ caller ( ) }}{{ varargs }}{{ kwargs }}{% endmacro %}",
    "{% call ( x , y = 1 ) m ( 1 , c = 3 , * [ 2 ] , ** { 'k' : 4 , } ) %}{{ x }}{% endcall %}",
    "{% call m ( 1 , ) %}x{% endcall %}",
    "{% filter upper | replace ( 'a' , 'b' ) %}abc{% endfilter %}",
    "{% with a = 1 , b = a + 2 %}{{ b }}{% endwith %}",
    "{% generation %}g{% endgeneration %}",
    "{% print a , b %}",
    "{{ ( 1 , 2 ) }}{{ ( ) }}{{ ( 1 , ) }}{{ 1 , 2 }}",
    "{{ [ 1 , 2 ] [ 0 ] }}{{ 'abc' [ 1 : 2 : 1 ] }}{{ x [ 1 , 2 ] }}{{ x [ : , ] }}",
    "{{ x . 0 . y ( ) . z }}{{ { 1 : 2 , 'a' : b } }}",
    "{{ - 1 + + 2 ~ 3 * 4 / 5 // 6 % 7 ** 8 }}{{ 1 < 2 <= 3 > 4 >= 5 != 6 not in [ 7 ] }}",
    "{{ a if b else c if d }}{{ 'a' 'b' }}{{ x | default ( 1 ) | trim }}",
    "{{ x is divisibleby ( 3 ) }}{{ x is divisibleby 3 }}{{ x is not defined }}{{ x is sameas x . y [ 0 ] }}",
};

static void no_place_of_a_tag_takes_a_letter_that_the_language_lacks(void **state)
{
    (void)state;
    struct lf_err err;
    char source[256];
    for (size_t i = 0; i < sizeof spaced / sizeof *spaced; i++) {
        size_t len = (size_t)snprintf(source, sizeof source, "%s", spaced[i]);
        bool comma = strstr(source, ": , ]") != NULL; /* "x[:,]" is wrong as it stands */
        if (!comma && parse(source, len, &err) != LF_OK) fail_msg("%s: %s", source, err.message);
        for (size_t at = 0; at < len; at++) {
            if (spaced[i][at] != ' ') continue;
            source[at] = '`';
            enum lf_status status = parse(source, len, &err);
            if (status != LF_INVALID || !strstr(err.message, comma ? "line 1: " : "unexpected character '`' in a tag"))
                fail_msg("%s: %s: %s", source, lf_status_name(status), err.message);
            source[at] = ' ';
        }
    }
}

static void a_template_that_ends_within_a_tag_or_a_block_is_refused(void **state)
{
    (void)state;
    struct lf_err err;
    for (size_t i = 0; i < sizeof spaced / sizeof *spaced; i++) {
        for (size_t len = 1; len < strlen(spaced[i]); len++) {
            if (spaced[i][len] != ' ' || strstr(spaced[i], ": , ]")) continue;
            enum lf_status status = parse(spaced[i], len, &err);
            if (status != LF_INVALID || !strstr(err.message, "line 1: expected "))
                fail_msg("%.*s: %s: %s", (int)len, spaced[i], lf_status_name(status), err.message);
        }
    }
}

/* Each place where a token is required gets a semicolon, which stands nowhere. */
static void what_was_expected_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *source, *says;
    } cases[] = {
        {"{{ ; }}", "expected an expression, found ';'"},
        {"{{ }}", "expected an expression, found '}}'"},
        {"{{ 1 ; }}", "expected '}}', found ';'"},
        {"{% ; %}", "expected the name of a statement, found ';'"},
        {"{% if ; %}{% endif %}", "expected an expression, found ';'"},
        {"{% if 1 ; %}{% endif %}", "expected '%}', found ';'"},
        {"{% if 1 %}{% endif ; %}", "expected '%}', found ';'"},
        {"{% if 1 %}{% else ; %}{% endif %}", "expected '%}', found ';'"},
        {"{% if 1 %}{% elif ; %}{% endif %}", "expected an expression, found ';'"},
        {"{% for ; in x %}{% endfor %}", "expected an expression, found ';'"},
        {"{% for x ; in y %}{% endfor %}", "expected 'in', found ';'"},
        {"{% for x in ; %}{% endfor %}", "expected an expression, found ';'"},
        {"{% for x in y if ; %}{% endfor %}", "expected an expression, found ';'"},
        {"{% for x in y %}{% else ; %}{% endfor %}", "expected '%}', found ';'"},
        {"{% for 1 in x %}{% endfor %}", "expected a name to assign to"},
        {"{% set 'a' = 1 %}", "expected a name to assign to"},
        {"{% set (a, 1) = x %}", "expected a name to assign to"},
        {"{% set ; = 1 %}", "expected an expression, found ';'"},
        {"{% set a = ; %}", "expected an expression, found ';'"},
        {"{% set a | ; %}{% endset %}", "expected a filter's name, found ';'"},
        {"{% set a ; %}{% endset %}", "expected '%}', found ';'"},
        {"{% set ns.; = 1 %}", "expected an attribute's name, found ';'"},
        {"{% macro ; %}{% endmacro %}", "expected the macro's name, found ';'"},
        {"{% macro m ; %}{% endmacro %}", "expected '(', found ';'"},
        {"{% macro m(;) %}{% endmacro %}", "expected a parameter's name, found ';'"},
        {"{% macro m(a;) %}{% endmacro %}", "expected ',' or ')', found ';'"},
        {"{% macro m(a=;) %}{% endmacro %}", "expected an expression, found ';'"},
        {"{% macro m(a=1, b) %}{% endmacro %}", "a parameter with a default stands before, found ')'"},
        {"{% call(;) m() %}{% endcall %}", "expected a parameter's name, found ';'"},
        {"{% call ; %}{% endcall %}", "expected an expression, found ';'"},
        {"{% call m %}{% endcall %}", "expected a call before, found '%}'"},
        {"{% filter ; %}{% endfilter %}", "expected a filter's name, found ';'"},
        {"{% with ; = 1 %}{% endwith %}", "expected an expression, found ';'"},
        {"{% with a ; %}{% endwith %}", "expected '=', found ';'"},
        {"{% with a = ; %}{% endwith %}", "expected an expression, found ';'"},
        {"{% with a = 1 b %}{% endwith %}", "expected ',' or '%}', found 'b'"},
        {"{% print ; %}", "expected an expression, found ';'"},
        {"{% print 1 2 %}", "expected ',' or '%}', found number"},
        {"{% break %}", "'break' outside of a loop"},
        {"{% for x in y %}{% macro m() %}{% continue %}{% endmacro %}{% endfor %}", "'continue' outside of a loop"},
        {"{{ [1 2] }}", "expected ',' or ']', found number"},
        {"{{ [1, ;] }}", "expected an expression, found ';'"},
        {"{{ {1 2} }}", "expected ':', found number"},
        {"{{ {1: ;} }}", "expected an expression, found ';'"},
        {"{{ {1: 2 3} }}", "expected ',' or '}', found number"},
        {"{{ {;: 2} }}", "expected an expression, found ';'"},
        {"{{ (1 2) }}", "expected ')', found number"},
        {"{{ (1, ;) }}", "expected an expression, found ';'"},
        {"{{ x[;] }}", "expected an expression, found ';'"},
        {"{{ x[1:;] }}", "expected an expression, found ';'"},
        {"{{ x[1:2:;] }}", "expected an expression, found ';'"},
        {"{{ x[1:2:3:4] }}", "expected ',' or ']', found ':'"},
        {"{{ x[1 2] }}", "expected ',' or ']', found number"},
        {"{{ x[1,] }}", "expected an expression, found ']'"},
        {"{{ x[1:2, 3] }}", "expected one slice only"},
        {"{{ x[1, 2:3] }}", "expected one slice only"},
        {"{{ x.; }}", "expected a name or a number, found ';'"},
        {"{{ x.'a' }}", "expected a name or a number, found string"},
        {"{{ f(;) }}", "expected an expression, found ';'"},
        {"{{ f(a=;) }}", "expected an expression, found ';'"},
        {"{{ f(1 2) }}", "expected ',' or ')', found number"},
        {"{{ f(a=1, b=2, a=3) }}", "an argument is given twice"},
        {"{{ x|; }}", "expected a filter's name, found ';'"},
        {"{{ x|a.; }}", "expected a name, found ';'"},
        {"{{ x|a.b.c }}", "there is no filter 'a.b.c'"},
        {"{{ x|default(;) }}", "expected an expression, found ';'"},
        {"{{ x is ; }}", "expected a test's name, found ';'"},
        {"{{ x is not ; }}", "expected a test's name, found ';'"},
        {"{{ x is eq(;) }}", "expected an expression, found ';'"},
        {"{{ x is eq [;] }}", "expected an expression, found ';'"},
        {"{{ x is eq y.; }}", "expected a name or a number, found ';'"},
        {"{{ x is defined is defined }}", "expected no second 'is', found 'is'"},
        {"{{ - ; }}", "expected an expression, found ';'"},
        {"{{ not ; }}", "expected an expression, found ';'"},
        {"{{ 1 + ; }}", "expected an expression, found ';'"},
        {"{{ 1 if ; else 2 }}", "expected an expression, found ';'"},
        {"{{ 1 if 2 else ; }}", "expected an expression, found ';'"},
        {"{{ (1 }}", "expected ')', found '}'"},
        {"{{ 1) }}", "unexpected ')'"},
        {"a{# b", "a comment is not closed: expected '#}'"},
        {"a{% raw %}b{% endfor %}", "expected '{% endraw %}', found end of template"},
        {"{{ \x01 }}", "unexpected character (byte 0x01) in a tag"},
        {"{{ \x7f }}", "unexpected character (byte 0x7f) in a tag"},
        {"{{ \xc3\xa9 }}", "unexpected character (byte 0xc3) in a tag"},
        {"{{ ? }}", "unexpected character '?' in a tag"},
    };
    struct lf_err err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum lf_status status = parse(cases[i].source, strlen(cases[i].source), &err);
        if (status != LF_INVALID || !strstr(err.message, cases[i].says))
            fail_msg("%s: %s: %s", cases[i].source, lf_status_name(status), err.message);
    }
}

static void names_of_filters_are_shown_up_to_a_bound(void **state)
{
    (void)state;
    struct lf_err err;
    char source[300], shown[100];
    snprintf(source, sizeof source, "{{ x|%0200d }}", 0);
    memset(strchr(source, '0'), 'y', 200);
    snprintf(shown, sizeof shown, "there is no filter '%.64s'", source + 5);
    assert_int_equal(parse(source, strlen(source), &err), LF_INVALID);
    assert_non_null(strstr(err.message, shown));
}

static void loop_is_no_target_within_a_loop(void **state)
{
    (void)state;
    const char *says = "cannot assign to 'loop' in a for loop";
    expect("{% for loop in [1] %}{% endfor %}", LF_INVALID, says);
    expect("{% for a, loop in [1] %}{% endfor %}", LF_INVALID, says);
    expect("{% for a, (b, loop) in [[1, [2, 3]]] %}{% endfor %}", LF_INVALID, says);
    expect("{% for a in [1] %}{% set loop = 1 %}{% endfor %}", LF_INVALID, says);
    expect("{% for a in [1] %}{% set a, (b, loop) = 1, (2, 3) %}{% endfor %}", LF_INVALID, says);
    expect("{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{{ loop.index }}{% endfor %}", LF_OK, "1231");
    expect("{% set loop = 7 %}{{ loop }}", LF_OK, "7");
    expect("{% for a in [1] %}{% macro m() %}{% set loop = 5 %}{{ loop }}{% endmacro %}{{ m() }}{% endfor %}", LF_OK,
           "5");
}

/* caller, varargs and kwargs are there for every macro that mentions them; as parameters they are parameters. */
static void special_names_may_be_parameters(void **state)
{
    (void)state;
    expect("{% macro m(caller) %}{{ caller() }}{% endmacro %}", LF_INVALID, "the parameter 'caller' needs a default");
    expect("{% macro m(caller) %}x{% endmacro %}{{ m(1) }}", LF_OK, "x");
    expect("{% macro m(caller=3) %}{{ caller }}{% endmacro %}{{ m() }}", LF_OK, "3");
    expect("{% macro m(varargs, kwargs) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2) }}", LF_OK, "12");
    expect("{% macro m(varargs) %}{{ varargs }}{% endmacro %}{{ m(1, 2) }}", LF_INVALID, "argument");
    expect("{% macro m(kwargs) %}{{ kwargs }}{% endmacro %}{{ m(1, b=2) }}", LF_INVALID, "argument");
    expect("{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, b=3) }}", LF_OK, "1(2,){'b': 3}");
}

/* A chain of n attributes in each place where an expression makes one that is deeper by some. */
static void expressions_have_a_depth_wherever_they_stand(void **state)
{
    (void)state;
    static const struct {
        const char *head, *tail;
        size_t adds;
    } places[] = {
        {"{{ ", " }}", 0},
        {"{{ 1 + ", " }}", 1},
        {"{{ [", "] }}", 1},
        {"{{ [1, ", ", 2] }}", 1},
        {"{{ (1, ", ") }}", 1},
        {"{{ {1: ", "} }}", 2},
        {"{{ {", ": 1} }}", 2},
        {"{{ y[", "] }}", 1},
        {"{{ y[1, ", "] }}", 2},
        {"{{ y[:", "] }}", 2},
        {"{{ y[::", "] }}", 2},
        {"{{ y(", ") }}", 2},
        {"{{ y(a=", ") }}", 2},
        {"{{ y(*", ") }}", 2},
        {"{{ y|default(", ") }}", 2},
        {"{{ y is eq(", ") }}", 2},
        {"{{ y is eq ", " }}", 2},
        {"{{ 1 if y else ", " }}", 1},
        {"{{ 1 if ", " else y }}", 1},
        {"{{ 1 ~ ", " }}", 1},
        {"{{ 1 < ", " }}", 2},
        {"{{ 1 < 2 < ", " }}", 2},
        {"{{ not ", " }}", 1},
        {"{{ - ", " }}", 1},
    };
    enum { DEPTH = 4 * LF_TEMPLATE_DEPTH };
    struct lf_buf source;
    struct lf_err err;
    lf_buf_init(&source, 1 << 16);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        for (int more = 0; more < 3; more++) { /* the second one is also too deep for what holds it directly */
            lf_buf_clear(&source);
            lf_buf_printf(&source, "%sx", places[i].head);
            for (size_t n = places[i].adds; n < DEPTH + (size_t)more; n++) lf_buf_cstr(&source, ".a");
            lf_buf_cstr(&source, places[i].tail);
            enum lf_status status = parse(source.ptr, source.len, &err);
            if (status != (more ? LF_LIMIT : LF_OK) ||
                (more && !strstr(err.message, "an expression is deeper than 512")))
                fail_msg("%s…%s, %d more: %s: %s", places[i].head, places[i].tail, more, lf_status_name(status),
                         err.message);
        }
    }
    lf_buf_deinit(&source);
}

static void nesting_is_bounded_wherever_it_begins(void **state)
{
    (void)state;
    static const struct {
        const char *head, *piece, *tail;
    } places[] = {
        {"{{ ", "- ", "1 }}"},
        {"{{ ", "+ ", "1 }}"},
        {"{{ ", "not ", "1 }}"},
        {"{{ ", "x(", "1 }}"},
        {"{{ ", "x[", "1 }}"},
        {"{{ ", "{1: ", "1 }}"},
        {"{{ ", "1 if x else ", "1 }}"},
        {"{{ ", "x is eq(", "1 }}"},
        {"{{ ", "x|default(", "1 }}"},
        {"", "{% for x in y %}", ""},
        {"", "{% set x %}", ""},
        {"", "{% macro m() %}", ""},
        {"", "{% call m() %}", ""},
        {"", "{% filter trim %}", ""},
        {"", "{% with %}", ""},
        {"", "{% generation %}", ""},
        {"", "{% if 1 %}{% else %}", ""},
        {"", "{% for x in y %}{% else %}", ""},
    };
    struct lf_buf source;
    struct lf_err err;
    lf_buf_init(&source, 1 << 16);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        for (int n = LF_TEMPLATE_DEPTH - 3; n <= LF_TEMPLATE_DEPTH + 3; n++) {
            lf_buf_clear(&source);
            lf_buf_cstr(&source, places[i].head);
            for (int k = 0; k < n; k++) lf_buf_cstr(&source, places[i].piece);
            lf_buf_cstr(&source, places[i].tail); /* what is open stays open: that is noticed later, if at all */
            enum lf_status status = parse(source.ptr, source.len, &err);
            bool deep = status == LF_LIMIT && strstr(err.message, "nested deeper than 128");
            if (n == LF_TEMPLATE_DEPTH - 3 ? deep : n == LF_TEMPLATE_DEPTH + 3 && !deep)
                fail_msg("%s %d times: %s: %s", places[i].piece, n, lf_status_name(status), err.message);
        }
    }
    lf_buf_deinit(&source);
}

static void so_many_parameters_and_arguments(void **state)
{
    (void)state;
    struct lf_buf source;
    struct lf_err err;
    lf_buf_init(&source, 1 << 16);
    for (int n = 256; n <= 257; n++) {
        lf_buf_clear(&source);
        lf_buf_cstr(&source, "{% macro m(a0");
        for (int i = 1; i < n; i++) lf_buf_printf(&source, ", a%d", i);
        lf_buf_cstr(&source, ") %}{% endmacro %}");
        assert_int_equal(parse(source.ptr, source.len, &err), n == 256 ? LF_OK : LF_LIMIT);
        if (n > 256) assert_non_null(strstr(err.message, "more than 256 parameters"));
        lf_buf_clear(&source);
        lf_buf_cstr(&source, "{{ f(a0=1");
        for (int i = 1; i < n; i++) lf_buf_printf(&source, ", a%d=1", i);
        lf_buf_cstr(&source, ") }}");
        assert_int_equal(parse(source.ptr, source.len, &err), n == 256 ? LF_OK : LF_LIMIT);
        if (n > 256) assert_non_null(strstr(err.message, "more than 256 arguments"));
    }
    lf_buf_deinit(&source);
}

/* More names than the first tables have room for: each keeps its value. */
static void many_names_are_told_apart(void **state)
{
    (void)state;
    enum { N = 1000 };
    struct lf_buf source, want;
    lf_buf_init(&source, 1 << 20);
    lf_buf_init(&want, 1 << 20);
    for (int i = 0; i < N; i++) lf_buf_printf(&source, "{%% set name_%d = %d %%}", i, i * 7);
    for (int i = N; i-- > 0;) {
        lf_buf_printf(&source, "{{ name_%d }},", i);
        lf_buf_printf(&want, "%d,", i * 7);
    }
    expect(source.ptr, LF_OK, want.ptr);
    lf_buf_deinit(&want);
    lf_buf_deinit(&source);
}

static void strings_are_unescaped_as_python_does(void **state)
{
    (void)state;
    expect("{{ '\\\\ \\' \\\" \\n\\r\\t\\a\\b\\f\\v' }}", LF_OK, "\\ ' \" \n\r\t\a\b\f\v");
    expect("{{ 'a\\\nb' }}", LF_OK, "ab");
    expect("{{ '\\0\\7\\12\\101\\777'|length }}", LF_OK, "5");
    expect("{{ '\\101\\1018\\48' }}", LF_OK,
           "AA8\x04"
           "8");
    expect("{{ '\\x41\\u00e9\\U0001f999\\ud7ff\\ue000\\U0010ffff' }}", LF_OK,
           "A\xc3\xa9\xf0\x9f\xa6\x99\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf");
    expect("{{ '\\q\\ ' }}", LF_OK, "\\q\\ ");
    expect("{{ '\\\xc3\xa9\\\xe4\xb8\xad\\\xf0\x9f\xa6\x99' }}", LF_OK, "\\xe9\\u4e2d\\U0001f999");
    static const char *const malformed[] = {
        "\\x4",    "\\x4g",   "\\u00e",      "\\u00e:",     "\\U0001f99", "\\U00110000",
        "\\ud800", "\\udfff", "\\U0000d800", "\\N{BULLET}", "\\Uffffffff"};
    char source[64];
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        snprintf(source, sizeof source, "\n{{ '%s' }}", malformed[i]);
        expect(source, LF_INVALID, "line 2: a string holds a malformed escape");
    }
}

/* Strings side by side are one. The room for it doubles: grown by each of them it took the square of their number. */
static void strings_side_by_side_are_one(void **state)
{
    (void)state;
    enum { N = 200000 };
    struct lf_buf source;
    expect("{{ 'a' \"b\"'\\x63' }}", LF_OK, "abc");
    lf_buf_init(&source, 1 << 20);
    lf_buf_cstr(&source, "{{ (");
    for (int i = 0; i < N; i++) lf_buf_cstr(&source, "'a' ");
    lf_buf_cstr(&source, ")|length }}");
    expect(source.ptr, LF_OK, "200000");
    lf_buf_deinit(&source);
}

/* head, n zeros, tail. */
static void expect_zeros(const char *head, int n, const char *tail, enum lf_status status, const char *text)
{
    struct lf_buf source;
    lf_buf_init(&source, 4096);
    lf_buf_cstr(&source, head);
    for (int i = 0; i < n; i++) lf_buf_char(&source, '0');
    lf_buf_cstr(&source, tail);
    expect(source.ptr, status, text);
    lf_buf_deinit(&source);
}

static void numbers_are_read_whole_or_refused(void **state)
{
    (void)state;
    expect("{{ 0x1f }} {{ 0X_1F }} {{ 0o17 }} {{ 0b1_01 }} {{ 1_000 }} {{ 00 }} {{ 1_0.2_5 }} {{ 1e2 }} {{ 2E-1 }}",
           LF_OK, "31 31 15 5 1000 0 10.25 100.0 0.2");
    expect("{{ 9223372036854775807 }}{{ 0x7fffffffffffffff }}", LF_OK, "92233720368547758079223372036854775807");
    expect("{{ 9223372036854775808 }}", LF_UNSUPPORTED, "integers beyond 64 bits");
    expect("{{ 0x8000000000000000 }}", LF_UNSUPPORTED, "integers beyond 64 bits");
    expect_zeros("{{ 1", 399, " }}", LF_UNSUPPORTED, "integers beyond 64 bits");
    expect_zeros("{{ 1", 400, " }}", LF_UNSUPPORTED, "numbers of more than 400 letters");
    expect_zeros("{{ 0.", 390, "5e391 }}", LF_OK, "5.0"); /* 397 letters */
    expect_zeros("{{ 0.", 400, "5e401 }}", LF_UNSUPPORTED, "numbers of more than 400 letters");
    expect("{{ [1].0 }}{{ [[1, 2]].0.1 }}", LF_OK, "12");
}

static void lines_end_in_every_way(void **state)
{
    (void)state;
    expect("a\r\nb\rc\n\rd\r", LF_OK, "a\nb\nc\n\nd");
    expect("a\r\n\r\n", LF_OK, "a\n");
    expect("\r\n\r{{ ; }}", LF_INVALID, "line 3: ");
    expect("{% if 1 %}\r\nx{% endif %}", LF_OK, "x");
}

static void raw_text_and_white_space(void **state)
{
    (void)state;
    expect("{% raw %}{% endraw %}x", LF_OK, "x");
    expect("{% raw %}{{ a }}{% endfor %}{% endraw %}", LF_OK, "{{ a }}{% endfor %}");
    expect("a {%- raw -%} b {%- endraw -%} c", LF_OK, "abc");
    expect("a \xe3\x80\x80\xc2\xa0{{- 1 -}}\xe2\x80\x83 b", LF_OK, "a1b"); /* spaces beyond ASCII go as well */
    expect("\xc3\xa9{{- 1 -}}\xc3\xa9", LF_OK,
           "\xc3\xa9"
           "1\xc3\xa9");
    expect("a{# b #}c{#- d -#} e", LF_OK, "ace");
    expect("{{ {(): 1}[] }}", LF_OK, "1");
    expect("{", LF_OK, "{");
    expect("a{b{", LF_OK, "a{b{");
}

static void a_template_is_valid_utf8(void **state)
{
    (void)state;
    expect("a\xff", LF_INVALID, "the template is not valid UTF-8");
    expect("{{ '\xed\xa0\x80' }}", LF_INVALID, "the template is not valid UTF-8");
    expect_bytes("a\0b", 3, LF_OK, "a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_place_of_a_tag_takes_a_letter_that_the_language_lacks),
        cmocka_unit_test(a_template_that_ends_within_a_tag_or_a_block_is_refused),
        cmocka_unit_test(what_was_expected_is_said),
        cmocka_unit_test(names_of_filters_are_shown_up_to_a_bound),
        cmocka_unit_test(loop_is_no_target_within_a_loop),
        cmocka_unit_test(special_names_may_be_parameters),
        cmocka_unit_test(expressions_have_a_depth_wherever_they_stand),
        cmocka_unit_test(nesting_is_bounded_wherever_it_begins),
        cmocka_unit_test(so_many_parameters_and_arguments),
        cmocka_unit_test(many_names_are_told_apart),
        cmocka_unit_test(strings_are_unescaped_as_python_does),
        cmocka_unit_test(strings_side_by_side_are_one),
        cmocka_unit_test(numbers_are_read_whole_or_refused),
        cmocka_unit_test(lines_end_in_every_way),
        cmocka_unit_test(raw_text_and_white_space),
        cmocka_unit_test(a_template_is_valid_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
