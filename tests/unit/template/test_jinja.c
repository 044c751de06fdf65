/* The template language: small templates against what Jinja2 renders, limits at and past the mark, and messages. */
#include "tests/support/test.h"

#include <pthread.h>
#include <time.h>

#include "core/file.h"
#include "core/json.h"
#include "tests/support/chat_messages.h"
#include "template/chat_template.h"

static enum lf_status render(struct lf_str source, struct lf_json_value variables, int64_t now,
                             struct lf_chat_text *out, struct lf_err *err)
{
    struct lf_json messages;
    assert_int_equal(lf_json_parse(&messages, LF_STR("[]"), &lf_json_limits_request, err), LF_OK);
    struct lf_chat_render_params p = {CHAT_MESSAGES(lf_json_root(&messages)), .extra = variables, .now_unix_s = now};
    struct lf_chat_template *t = NULL;
    enum lf_status status = lf_chat_template_create(&t, source, err);
    if (status == LF_OK) status = lf_chat_template_render(t, out, &p, err);
    lf_chat_template_destroy(t);
    lf_json_deinit(&messages);
    return status;
}

/* -- Against Jinja2 -- */

static void read_json(const char *path, struct lf_buf *text, struct lf_json *json)
{
    struct lf_err err = {0};
    lf_buf_init(text, LF_JSON_FILE_BYTES);
    if (lf_file_read(text, path, LF_JSON_FILE_BYTES, &err) != LF_OK ||
        lf_json_parse(json, lf_buf_view(text), &lf_json_limits_file, &err) != LF_OK) {
        fail_msg("%s: %s", path, err.message);
    }
}

static bool matches(struct lf_json_value expected, enum lf_status status, const struct lf_chat_text *text)
{
    if (lf_json_type(expected) == LF_JSON_NULL) return status != LF_OK;
    struct lf_buf want;
    lf_buf_init(&want, LF_JSON_FILE_BYTES);
    assert_true(lf_json_string(expected, &want));
    bool same = status == LF_OK && lf_str_eq(lf_buf_view(&want), lf_buf_view(&text->text));
    lf_buf_deinit(&want);
    return same;
}

static void every_case_renders_as_jinja2_does(void **state)
{
    (void)state;
    struct lf_buf text;
    struct lf_json json;
    int64_t now;
    uint32_t n = 0, n_wrong = 0;
    read_json("tests/golden/chat/cases.json", &text, &json);
    struct lf_json_value root = lf_json_root(&json), cases = lf_json_get(root, "cases");
    assert_true(lf_json_int64(lf_json_get(root, "now"), &now));
    for (struct lf_json_value it = lf_json_first(cases); lf_json_more(cases, it); it = lf_json_next(cases, it), n++) {
        struct lf_buf source;
        struct lf_chat_text out = {0};
        struct lf_err err = {0};
        lf_buf_init(&source, LF_JSON_FILE_BYTES);
        assert_true(lf_json_string(lf_json_get(it, "template"), &source));
        enum lf_status status = render(lf_buf_view(&source), lf_json_get(root, "variables"), now, &out, &err);
        if (!matches(lf_json_get(it, "expected"), status, &out)) {
            n_wrong++;
            print_message("template: %s\nours:     %s%s\n", source.ptr, status == LF_OK ? out.text.ptr : "",
                          err.message);
        }
        lf_chat_text_deinit(&out);
        lf_buf_deinit(&source);
    }
    print_message("%u templates\n", n);
    assert_true(n >= 400);
    assert_int_equal(n_wrong, 0);
    lf_json_deinit(&json);
    lf_buf_deinit(&text);
}

/* -- Limits and messages -- */

/* Renders without variables; the text, or the message in its place, is left in got. */
static enum lf_status outcome(const char *source, size_t len, char got[LF_ERR_MESSAGE_BYTES])
{
    struct lf_chat_text out = {0};
    struct lf_err err = {0};
    enum lf_status status = render(lf_str_from(source, len), (struct lf_json_value){0}, 0, &out, &err);
    snprintf(got, LF_ERR_MESSAGE_BYTES, "%s", status == LF_OK ? (out.text.ptr ? out.text.ptr : "") : err.message);
    lf_chat_text_deinit(&out);
    return status;
}

static void expect(const char *source, enum lf_status status, const char *part)
{
    char got[LF_ERR_MESSAGE_BYTES];
    enum lf_status is = outcome(source, strlen(source), got);
    if (is != status || !strstr(got, part)) fail_msg("%.100s: %s: %s", source, lf_status_name(is), got);
}

static void messages_say_the_line_and_what_was_expected(void **state)
{
    (void)state;
    expect("a\n{{ 1 + }}", LF_INVALID, "line 2: expected an expression, found '}}'");
    expect("{% if 1 %}\n\nx", LF_INVALID, "line 3: expected 'elif' or 'else' or 'endif', found end of template");
    expect("{% for x on y %}", LF_INVALID, "line 1: expected 'in', found 'on'");
    expect("\n\n{{ (1] }}", LF_INVALID, "line 3: expected ')', found ']'");
    expect("{% nosuch %}", LF_INVALID, "expected the name of a statement, found 'nosuch'");
    expect("{{ 'a }}", LF_INVALID, "a string is not closed: expected '");
    expect("\n{{ x|nosuch }}", LF_INVALID, "line 2: there is no filter 'nosuch'");
    expect("{{ 1|nosuch(\nrange(1)) }}", LF_INVALID, "line 1: there is no filter 'nosuch'"); /* not its argument's */
    expect("{{ 1|a.bc }}", LF_INVALID, "line 1: there is no filter 'a.bc'");
    expect("{{ 'abcd' * 4611686018427387905 }}", LF_LIMIT, "grows beyond"); /* 2^64 and four bytes */
    expect("\n{{ x is nosuch }}", LF_INVALID, "line 2: there is no test 'nosuch'");
    expect("{{ 1 }}\n{{ x.y }}", LF_INVALID, "line 2: 'x' is undefined");
    expect("{% set d = {} %}\n{{ d.x.y }}", LF_INVALID, "line 2: 'dict object' has no attribute 'x'");
    expect("{{ [].append(1) }}", LF_INVALID, "'append' of a 'list' is not safe");
    expect("{{ raise_exception('No system role: ' ~ 1) }}", LF_INVALID, "No system role: 1");
    expect("{{ 'x'|replace('a') }}", LF_INVALID, "replace: missing argument: 'new'");
    expect("{{ 'x'|indent(wide=2) }}", LF_INVALID, "indent: no such argument: 'wide'");
}

static void small_things_come_out_as_they_should(void **state)
{
    (void)state;
    expect("[{{ '%5s' % 'a' }}]", LF_OK, "[    a]");
    expect("[{{ '{:5}'.format('a') }}]", LF_OK, "[a    ]");
    expect("[{{ strftime_now('%T %D') }}]", LF_OK, "[00:00:00 01/01/70]");
    expect("{% with %}{% set a = 1 %}{% endwith %}[{{ a is defined }}]", LF_OK, "[False]");
    expect("{% filter upper %}{% set a = 1 %}x{% endfilter %}[{{ a is defined }}]", LF_OK, "X[False]");
    expect("{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}{% set a = 1 %}x{% endcall %}[{{ a is defined }}]",
           LF_OK, "x[False]");
    expect("{% set a = 1 2 %}x", LF_INVALID, "line 1: expected '%}', found number");
    expect("{% if 1 2 %}x{% endif %}", LF_INVALID, "line 1: expected '%}', found number");
}

static void what_is_not_implemented_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const statements[] = {"include", "import", "from", "extends", "block", "autoescape"};
    char source[64], part[64];
    for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++) {
        snprintf(source, sizeof(source), "{%% %s 'x' %%}", statements[i]);
        snprintf(part, sizeof(part), "the statement '%s' is not implemented", statements[i]);
        expect(source, LF_UNSUPPORTED, part);
    }
    expect("{% for x in y recursive %}{% endfor %}", LF_UNSUPPORTED, "recursive loops");
    expect("{{ {}.items() == {}.items() }}", LF_UNSUPPORTED, "comparing keys()");
    expect("{{ [1]|random }}", LF_UNSUPPORTED, "the filter 'random'");
    static const char *const methods[] = {"encode",    "expandtabs",  "format_map", "isdecimal", "isidentifier",
                                          "isnumeric", "isprintable", "istitle",    "maketrans", "translate"};
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) { /* whatever they are called with */
        snprintf(source, sizeof(source), "{{ 'a'.%s() }}", methods[i]);
        expect(source, LF_UNSUPPORTED, "this method");
        snprintf(source, sizeof(source), "{{ 'a'.%s(1, x=2) }}", methods[i]);
        expect(source, LF_UNSUPPORTED, "this method");
    }
    expect("{{ 9223372036854775807 + 1 }}", LF_UNSUPPORTED, "64 bits");
}

/* n times piece, between head and tail. Owned by the caller. */
static char *repeated(const char *head, const char *piece, size_t n, const char *middle, const char *closing,
                      const char *tail)
{
    struct lf_buf buf;
    lf_buf_init(&buf, 64 * 1024 * 1024);
    lf_buf_cstr(&buf, head);
    for (size_t i = 0; i < n; i++) lf_buf_cstr(&buf, piece);
    lf_buf_cstr(&buf, middle);
    for (size_t i = 0; i < n; i++) lf_buf_cstr(&buf, closing);
    lf_buf_cstr(&buf, tail);
    assert_int_equal(buf.status, LF_OK);
    return buf.ptr;
}

static void expect_repeated(const char *head, const char *piece, size_t n, const char *middle, const char *closing,
                            const char *tail, enum lf_status status, const char *part)
{
    char *source = repeated(head, piece, n, middle, closing, tail);
    expect(source, status, part);
    free(source);
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    enum { DEPTH = LF_TEMPLATE_DEPTH };
    expect_repeated("{{ ", "[", DEPTH - 1, "1", "]", " }}", LF_OK, "[[[");
    expect_repeated("{{ ", "[", DEPTH, "1", "]", " }}", LF_LIMIT, "deeper than 128");
    expect_repeated("", "{% if 1 %}", DEPTH, "in", "{% endif %}", "", LF_OK, "in");
    expect_repeated("", "{% if 1 %}", DEPTH + 1, "in", "{% endif %}", "", LF_LIMIT, "deeper than 128");
    expect_repeated("{{ ", "not ", DEPTH - 1, "1", "", " }}", LF_OK, "False");
    expect_repeated("{{ ", "not ", DEPTH, "1", "", " }}", LF_LIMIT, "deeper than 128");
    expect_repeated("{{ ", "(", 100000, "1", ")", " }}", LF_LIMIT, "deeper than 128");
    expect_repeated("{{ 1", "+1", 4 * DEPTH, "", "", " }}", LF_OK, "513");
    expect_repeated("{{ 1", "+1", 4 * DEPTH + 1, "", "", " }}", LF_LIMIT, "deeper than 512");
    expect_repeated("{{ x", "|trim", 100000, "", "", " }}", LF_LIMIT, "deeper than 512");
    expect_repeated("{{ 'a'", " ~ 'a'", 10000, "", "", " }}", LF_OK, "aaaa");
    expect_repeated("{% if 0 %}", "{% elif 0 %}", 10000, "{% else %}", "", "last{% endif %}", LF_OK, "last");
    expect("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", LF_LIMIT, "nest deeper than 1024");
    expect("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}", LF_LIMIT, "nest deeper than 1024");
    expect("{% set ns = namespace() %}{% set ns.me = ns %}{{ '%s' % ns }}", LF_LIMIT, "nest deeper than 1024");
    expect(
        "{% set ns = namespace(x=1) %}{% for i in range(5000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x|tojson }}",
        LF_LIMIT, "nest deeper than 1024");
    expect("{% set ns = namespace(x='a') %}{% for i in range(5000) %}{% set ns.x = ns.x|map('string') %}{% endfor %}"
           "{{ ns.x|list }}",
           LF_LIMIT, "nest deeper than 1024");
}

static void sources_and_lists_are_bounded(void **state)
{
    (void)state;
    expect_repeated("", "x", LF_TEMPLATE_SOURCE_BYTES, "", "", "", LF_OK, "xxx");
    expect_repeated("", "x", LF_TEMPLATE_SOURCE_BYTES + 1, "", "", "", LF_LIMIT, "more than 1048576");
    expect_repeated("{{ dict(", "**{},", 1, "", "", ") }}", LF_OK, "{}");
    expect_repeated("{% macro m(a", ",a", 1, "", "", ") %}{% endmacro %}", LF_INVALID, "not yet a parameter");
    expect_repeated("{{ [1]|select(", "1,", 257, "", "", ")|list }}", LF_LIMIT, "more than 256 arguments");
    expect("{{ range(1000000)|length }}", LF_OK, "1000000");
    expect("{{ range(1000001)|length }}", LF_LIMIT, "more than 1000000 elements");
}

/* Each of these would take hours or gigabytes; each is refused within a second or so. */
static void hostile_templates_are_refused_in_time(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__)
    print_message("skipped: one thread, and minutes under this sanitizer\n");
    skip();
#endif
    static const char *const sources[] = {
        "{% for a in range(1000) %}{% for b in range(1000) %}{% for c in range(1000) %}{% endfor %}{% endfor %}{% "
        "endfor %}",
        "{% set ns = namespace(s='a') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{{ 'a' * 10**9 }}",
        "{{ [1] * 10**9 }}",
        "{{ '%999999999d' % 1 }}",
        "{{ '{:>999999999}'.format(1) }}",
        "{{ 'a'.center(10**12) }}",
        "{{ 'a\nb'|indent(10**9) }}",
        "{{ [[1]]|tojson(indent=10**9) }}",
        "{{ range(1000000)|join('x' * 1000) }}",
        "{% set s = 'a' * 8000000 %}{% for i in range(100000) %}{% set x = 'b' in s %}{% endfor %}",
        "{% set s = 'a' * 8000000 %}{% for i in range(100000) %}{% set x = s[::-1] %}{% endfor %}",
#if !defined(__SANITIZE_ADDRESS__) /* there each search checks that all of the text may be read */
        "{% set s = 'a' * 8000000 %}{% for i in range(100000) %}{% set x = s.replace('a', '') %}{% endfor %}",
#endif
        "{% set s = 'é' * 2000000 %}{% for i in range(100000) %}{% set x = s|wordcount %}{% endfor %}",
        "{% set s = 'a' * 100000 %}{{ s.strip('b' * 100000 ~ 'a') }}",
        "{% macro m(n) %}{% if n %}{{ m(n-1) }}{{ m(n-1) }}{% endif %}{% endmacro %}{{ m(60) }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=(1,)) %}{% for i in range(60) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ ns.x in "
        "{} }}",
        "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}"
        "{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
        "{{ [1]|slice(10**9)|list|length }}",
        "{{ [1]|batch(10**9, 0)|list|length }}",
        "{{ range(1000000)|sort|length }}",
    };
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        char got[LF_ERR_MESSAGE_BYTES];
        struct timespec begin, end;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
        enum lf_status status = outcome(sources[i], strlen(sources[i]), got);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
        if (status != LF_LIMIT) fail_msg("%s: %s: %s", sources[i], lf_status_name(status), got);
        assert_true(end.tv_sec - begin.tv_sec < 20); /* a second in a release build; sanitizers are slow */
    }
}

static void reading_stops_at_the_end_of_the_source(void **state)
{
    (void)state;
    static const char source[] =
        "{%- set a = 'x\\u00e9' ~ 1.5e3 %}{{ (a|replace('x', \"y\"))[1:] -}} {# c #}{% raw %}{{ r }}{% endraw %}"
        "{% for i in [1, 0x1f] if i is odd %}{{ loop.index }}{% else %}{% endfor %}";
    for (size_t len = 0; len < sizeof(source); len++) {
        struct test_guarded g = test_guarded_copy(source, len);
        char got[LF_ERR_MESSAGE_BYTES];
        (void)outcome(g.ptr, len, got);
        test_guarded_free(&g);
    }
    expect(source, LF_OK, "é1500.0{{ r }}12");
}

static void *render_deep(void *arg)
{
    char got[LF_ERR_MESSAGE_BYTES];
    const char *source = arg;
    assert_int_equal(outcome(source, strlen(source), got), LF_LIMIT);
    return NULL;
}

static void a_render_needs_no_more_stack_than_a_thread_has(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(LF_DEBUG)
    print_message("skipped: frames are larger in this build\n");
    skip();
#endif
    static char source[] = "{% macro m() %}{% call m() %}{% filter upper %}{% set x %}{{ [m()]|join ~ '' }}{% endset %}"
                           "{% endfilter %}{% endcall %}{{ caller() }}{% endmacro %}{{ m() }}";
    pthread_attr_t attr;
    pthread_t thread;
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, LF_STACK_BYTES), 0);
    assert_int_equal(pthread_create(&thread, &attr, render_deep, source), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attr);
}

/* Statements without an expression have their price too: here they are all that the loops do. */
static void statements_are_paid_for(void **state)
{
    (void)state;
    struct lf_buf source;
    lf_buf_init(&source, 4096);
    lf_buf_cstr(&source, "{% set r = range(250) %}{% for i in r %}{% for k in r %}");
    for (int i = 0; i < 20; i++) lf_buf_cstr(&source, "x{# #}"); /* each x is a statement of its own */
    lf_buf_cstr(&source, "{% endfor %}{% endfor %}");
    expect(source.ptr, LF_LIMIT, "the template takes more than 1000000 steps");
    lf_buf_deinit(&source);
}

/* A character costs four for each byte of the set that it is looked for in, also where the first one is it. */
static void stripping_pays_for_every_character_of_the_set(void **state)
{
    (void)state;
    static const char form[] = "{%% set s = 'a' * %d %%}{{ s.strip('a' ~ 'b' * 999)|length }}";
    enum { FITS = LF_TEMPLATE_STEPS / 1000 * 1024 / 4 }; /* of a budget of 1024 a step, 4 × 1000 a character */
    char source[128];
    (void)snprintf(source, sizeof source, form, FITS / 100 * 99);
    expect(source, LF_OK, "0");
    (void)snprintf(source, sizeof source, form, FITS + 1);
    expect(source, LF_LIMIT, "the template takes more than 1000000 steps");
}

/* Comparing values that hold one another is as deep as they are. */
static void equality_counts_depth(void **state)
{
    (void)state;
    static const char *const wraps[][2] = {{"[", "]"}, {"{'k': ", "}"}};
    static const char form[] =
        "{%% set n = namespace(a=[], b=[]) %%}{%% for i in range(%d) %%}{%% set n.a = %sn.a%s %%}"
        "{%% set n.b = %sn.b%s %%}{%% endfor %%}{{ n.a == n.b }}";
    char source[256];
    for (size_t i = 0; i < sizeof wraps / sizeof *wraps; i++) {
        const char *begin = wraps[i][0], *end = wraps[i][1];
        (void)snprintf(source, sizeof source, form, 900, begin, end, begin, end);
        expect(source, LF_OK, "True");
        (void)snprintf(source, sizeof source, form, 1100, begin, end, begin, end);
        expect(source, LF_LIMIT, "nest deeper than 1024");
    }
}

/* -- Integers at their ends -- */

/* What a template of a few bytes renders: its text, or "!" and the status. */
static void render_short(const char *source, char *out, size_t out_bytes)
{
    struct lf_json none;
    struct lf_chat_text text = {0};
    struct lf_err err = {0};
    assert_int_equal(lf_json_parse(&none, LF_STR("{}"), &lf_json_limits_request, NULL), LF_OK);
    enum lf_status status = render(lf_str_c(source), lf_json_root(&none), 0, &text, &err);
    if (status == LF_OK)
        (void)snprintf(out, out_bytes, "%.*s", (int)text.text.len, lf_buf_view(&text.text).ptr);
    else
        (void)snprintf(out, out_bytes, "!%s", lf_status_name(status));
    lf_chat_text_deinit(&text);
    lf_json_deinit(&none);
}

#define MIN "(-9223372036854775807-1)"
#define MAX "9223372036854775807"

static void integers_at_their_ends_give_what_python_gives(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{{ 'a,b'.split(',', " MIN ") }}", "['a', 'b']"},
        {"{{ 'a,b'.rsplit(',', " MIN ") }}", "['a', 'b']"},
        {"{{ 'a b'.split(none, " MAX ") }}", "['a', 'b']"},
        {"{{ 'aa'.replace('a', 'b', " MIN ") }}", "bb"},
        {"{{ 'aa'.replace('', '-', " MIN ") }}", "-a-a-"},
        {"{{ 'aa'|replace('a', 'b', " MIN ") }}", "bb"},
        {"{{ 'x'.center(" MIN ") }}", "x"},
        {"{{ 'x'|center(" MIN ") }}", "x"},
        {"{{ 'x'.ljust(" MIN ") }}{{ 'x'.rjust(" MIN ") }}{{ '-x'.zfill(" MIN ") }}", "xx-x"},
        {"{{ 'x'|indent(" MIN ", true) }}", "x"},
        {"{{ " MIN " // -1 }}", "!unsupported"},
        {"{{ " MIN " % -1 }}", "0"},
        {"{{ " MIN " % 3 }}", "1"},
        {"{{ " MAX " % -3 }}", "-2"},
        {"{{ -7 % 3 }}{{ 7 % -3 }}{{ -6 % 3 }}", "2-20"},
        {"{{ " MIN " // 3 }}", "-3074457345618258603"},
        {"{{ -" MIN " }}", "!unsupported"},
        {"{{ " MIN "|abs }}", "!unsupported"},
        {"{{ " MAX " + 1 }}", "!unsupported"},
        {"{{ " MIN " * -1 }}", "!unsupported"},
        {"{{ 2 ** 62 }}", "4611686018427387904"},
        {"{{ 2 ** 63 }}", "!unsupported"},
        {"{{ [" MAX ", 1]|sum }}", "!unsupported"},
        {"{{ " MAX "|round(-1) }}", "!unsupported"},
        {"{{ " MIN "|round(-1) }}", "!unsupported"},
        {"{{ 15|round(-1) }}{{ -25|round(-1) }}", "20-20"},
        {"{{ " MAX "|round(" MIN ") }}", "0"},
        {"{{ 1.5|round(" MIN ") }}", "0.0"},
        {"{{ 1.5|round(" MAX ") }}", "1.5"},
        {"{{ 'abc'[" MIN ":" MAX "] }}", "abc"},
        {"{{ 'abc'[::" MIN "] }}", "c"},
        {"{{ 'abc'[" MIN "] is undefined }}", "True"},
        {"{{ [1, 2][" MIN ":" MAX ":" MAX "] }}", "[1]"},
        {"{{ range(10)[::2147483647][::2147483647][::2147483647]|list }}", "!unsupported"},
        {"{{ range(10)[::" MIN "][::" MIN "][::" MIN "]|list }}", "!unsupported"},
        {"{{ range(" MIN ") }}", "!limit"},
        {"{{ 'abc'.find('c', " MIN ", " MAX ") }}", "2"},
        {"{{ [1].index(1, " MIN ", " MAX ") }}", "0"},
        {"{{ 'x' * " MIN " }}{{ [1] * " MIN " }}", "[]"},
        {"{{ 'x' * " MAX " }}", "!limit"},
        {"{{ '%*d' % (" MIN ", 1) }}", "!limit"},
        {"{{ '%.*s' % (" MIN ", 'ab') }}", "ab"},
        {"{{ '%d %x' % (" MIN ", " MAX ") }}", "-9223372036854775808 7fffffffffffffff"},
        {"{{ [1, 2]|batch(" MIN ")|list }}", "[[1, 2]]"},
        {"{{ [1, 2]|slice(" MIN ")|list }}", "[]"},
        {"{{ 'abc'|truncate(" MIN ") }}", "!invalid"},
        {"{{ 'abc'|truncate(3, false, '', " MAX ") }}", "abc"},
        {"{{ [1]|tojson(indent=" MIN ") }}", "[\n1\n]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char got[256];
        render_short(cases[i][0], got, sizeof got);
        if (strcmp(got, cases[i][1]) != 0) print_message("%s\nwant %s\ngot  %s\n", cases[i][0], cases[i][1], got);
        assert_string_equal(got, cases[i][1]);
    }
}

/* Every operation with every pair of ends: nothing is compared, the sanitizers watch. */
static void integers_of_any_size_do_no_harm(void **state)
{
    (void)state;
    static const char *const numbers[] = {MIN,
                                          MAX,
                                          "0",
                                          "1",
                                          "-1",
                                          "2147483648",
                                          "-2147483648",
                                          "4611686018427387904",
                                          "1e308",
                                          "-1.5",
                                          "18446744073709551615"};
    static const char *const forms[] = {"%s + %s",
                                        "%s - %s",
                                        "%s * %s",
                                        "%s / %s",
                                        "%s // %s",
                                        "%s %% %s",
                                        "%s ** %s",
                                        "-%s + -%s",
                                        "%s < %s",
                                        "%s == %s",
                                        "(%s)|round(%s)",
                                        "(%s)|round(%s, 'ceil')",
                                        "(%s)|abs + %s",
                                        "[%s, %s]|sum",
                                        "[%s, %s]|max",
                                        "'abcdef'[%s:%s]",
                                        "'a\xc3\xa9z'[%s:%s]",
                                        "'abcdef'[%s::%s]",
                                        "[1, 2, 3][%s:%s]",
                                        "[1, 2, 3][::%s][::%s]",
                                        "range(5)[::%s][::%s]|list",
                                        "range(5)[%s:%s]|list",
                                        "range(%s, %s)|length",
                                        "'a,b,c'.split(',', %s)[%s]",
                                        "'a b c'.rsplit(none, %s)[%s]",
                                        "'aaa'.replace('a', 'b', %s)[%s]",
                                        "'aaa'.replace('', 'b', %s)[%s]",
                                        "'abc'.find('b', %s, %s)",
                                        "'abc'.count('', %s, %s)",
                                        "'abc'.rfind('c', %s, %s)",
                                        "[1].index(1, %s, %s)",
                                        "'%%*d' %% (%s, %s)",
                                        "'%%.*f' %% (%s, %s)",
                                        "'%%.*s' %% (%s, %s)",
                                        "'%%c%%x' %% (%s, %s)",
                                        "'{:d}{:>5}'.format(%s, %s)",
                                        "'x'.center(%s)|center(%s)",
                                        "'x'.ljust(%s).rjust(%s)",
                                        "'-1'.zfill(%s).zfill(%s)",
                                        "'x'|indent(%s)|indent(%s, true)",
                                        "'a b c d'|truncate(%s, true, '', %s)",
                                        "[1, 2, 3]|batch(%s, %s)|list",
                                        "[1, 2, 3]|slice(%s, %s)|list",
                                        "(%s)|int(%s)",
                                        "('%s'|int(0, %s))",
                                        "{%s: 1, %s: 2}",
                                        "[%s, %s]|tojson(indent=%s)",
                                        "(%s is divisibleby %s)",
                                        "(%s is odd) ~ (%s is even)",
                                        "[%s, %s]|sort",
                                        "[%s, %s]|unique|list",
                                        "(%s)|filesizeformat ~ %s",
                                        "'x' * %s ~ [1] * %s",
                                        "(%s, %s) * 2"};
    size_t n = sizeof numbers / sizeof numbers[0], n_ok = 0;
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
        for (size_t k = 0; k < n * n; k++) {
            char expression[256], source[300], got[64];
            const char *a = numbers[k / n], *b = numbers[k % n];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            (void)snprintf(expression, sizeof expression, forms[f], a, b, "1");
#pragma GCC diagnostic pop
            (void)snprintf(source, sizeof source, "{{ %s }}", expression);
            render_short(source, got, sizeof got);
            n_ok += got[0] != '!';
        }
    }
    assert_true(n_ok > 1000);
}

int main(void)
{
    setenv("TZ", "UTC", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_renders_as_jinja2_does),
        cmocka_unit_test(messages_say_the_line_and_what_was_expected),
        cmocka_unit_test(small_things_come_out_as_they_should),
        cmocka_unit_test(what_is_not_implemented_is_refused_by_name),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(sources_and_lists_are_bounded),
        cmocka_unit_test(hostile_templates_are_refused_in_time),
        cmocka_unit_test(reading_stops_at_the_end_of_the_source),
        cmocka_unit_test(a_render_needs_no_more_stack_than_a_thread_has),
        cmocka_unit_test(statements_are_paid_for),
        cmocka_unit_test(stripping_pays_for_every_character_of_the_set),
        cmocka_unit_test(equality_counts_depth),
        cmocka_unit_test(integers_at_their_ends_give_what_python_gives),
        cmocka_unit_test(integers_of_any_size_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
