/* Chat templates: whole conversations against Jinja2, what the request's variables become, and the user's spans. */
#include "tests/support/test.h"

#include <pthread.h>

#include "core/file.h"
#include "core/json.h"
#include "tests/support/chat_messages.h"
#include "template/chat_template.h"

static struct lf_json parse(struct lf_str text)
{
    struct lf_json json;
    struct lf_err err = {0};
    if (lf_json_parse(&json, text, &lf_json_limits_file, &err) != LF_OK) fail_msg("%s", err.message);
    return json;
}

static struct lf_buf read_file(const char *path)
{
    struct lf_buf text;
    struct lf_err err = {0};
    lf_buf_init(&text, LF_JSON_FILE_BYTES);
    if (lf_file_read(&text, path, LF_JSON_FILE_BYTES, &err) != LF_OK) fail_msg("%s", err.message);
    return text;
}

static struct lf_buf string_of(struct lf_json_value v)
{
    struct lf_buf buf;
    lf_buf_init(&buf, LF_JSON_FILE_BYTES);
    assert_true(lf_json_string(v, &buf));
    return buf;
}

static struct lf_chat_template *open_template(const char *dir, const char *name)
{
    char path[512];
    struct lf_err err = {0};
    struct lf_chat_template *t = NULL;
    assert_int_equal(lf_path_join(path, sizeof(path), dir, name), LF_OK);
    struct lf_buf source = read_file(path);
    if (lf_chat_template_create(&t, lf_buf_view(&source), &err) != LF_OK) fail_msg("%s: %s", name, err.message);
    lf_buf_deinit(&source);
    return t;
}

/* -- Whole conversations -- */

/* Whether t renders p to `expected` (null: not at all). */
static bool renders_to(const struct lf_chat_template *t, const struct lf_chat_render_params *p,
                       struct lf_json_value expected, const char *what)
{
    struct lf_chat_text out = {0};
    struct lf_err err = {0};
    enum lf_status status = lf_chat_template_render(t, &out, p, &err);
    bool fails = lf_json_type(expected) == LF_JSON_NULL, same = fails && status != LF_OK;
    if (!fails && status == LF_OK) {
        struct lf_buf want = string_of(expected);
        same = lf_str_eq(lf_buf_view(&want), lf_buf_view(&out.text));
        lf_buf_deinit(&want);
    }
    if (!same) print_message("%s: %s%s\n", what, status == LF_OK ? out.text.ptr : "", err.message);
    lf_chat_text_deinit(&out);
    return same;
}

static void conversations_render_as_jinja2_does(void **state)
{
    (void)state;
    struct lf_buf text = read_file("tests/golden/chat/templates.json");
    struct lf_json json = parse(lf_buf_view(&text));
    struct lf_json_value root = lf_json_root(&json), cases = lf_json_get(root, "cases");
    uint32_t n = 0, n_wrong = 0;
    for (struct lf_json_value it = lf_json_first(cases); lf_json_more(cases, it); it = lf_json_next(cases, it), n++) {
        struct lf_buf name = string_of(lf_json_get(it, "template")), title = string_of(lf_json_get(it, "conversation"));
        struct lf_chat_template *t = open_template("tests/golden/chat/templates", name.ptr);
        struct lf_chat_render_params p = {CHAT_MESSAGES(lf_json_get(lf_json_get(root, "conversations"), title.ptr)),
                                          .extra = lf_json_get(it, "extra"), .bos_token = LF_STR("<s>"),
                                          .eos_token = LF_STR("</s>")};
        bool with_tools = false;
        assert_true(lf_json_bool(lf_json_get(it, "tools"), &with_tools));
        assert_true(lf_json_bool(lf_json_get(it, "add_generation_prompt"), &p.add_generation_prompt));
        assert_true(lf_json_int64(lf_json_get(root, "now"), &p.now_unix_s));
        if (with_tools) p.tools = lf_json_get(root, "tools");
        n_wrong += !renders_to(t, &p, lf_json_get(it, "expected"), title.ptr);
        lf_chat_template_destroy(t);
        lf_buf_deinit(&name);
        lf_buf_deinit(&title);
    }
    assert_true(n >= 100);
    assert_int_equal(n_wrong, 0);
    lf_json_deinit(&json);
    lf_buf_deinit(&text);
}

/* Optional material: templates of published models. */
static void published_templates_render_as_jinja2_does(void **state)
{
    (void)state;
    enum { NOON_OF_2024_07_26 = 1721995200 };
    char dir[400], path[512];
    snprintf(dir, sizeof(dir), "%s/chat_templates", test_assets());
    snprintf(path, sizeof(path), "%s/goldens.json", dir);
    FILE *file = fopen(path, "rb");
    if (!file) {
        print_message("skipped: no %s\n", path);
        skip();
    }
    fclose(file);
    struct lf_buf text = read_file(path);
    struct lf_json json = parse(lf_buf_view(&text));
    struct lf_json_value root = lf_json_root(&json), cases = lf_json_get(root, "cases");
    uint32_t n = 0, n_wrong = 0;
    for (struct lf_json_value it = lf_json_first(cases); lf_json_more(cases, it); it = lf_json_next(cases, it), n++) {
        struct lf_buf name = string_of(lf_json_get(it, "template")), title = string_of(lf_json_get(it, "context"));
        struct lf_json_value context = lf_json_get(lf_json_get(root, "contexts"), title.ptr);
        struct lf_buf bos = string_of(lf_json_get(context, "bos_token")),
                      eos = string_of(lf_json_get(context, "eos_token"));
        struct lf_chat_template *t = open_template(dir, name.ptr);
        struct lf_chat_render_params p = {CHAT_MESSAGES(lf_json_get(context, "messages")),
                                          .bos_token = lf_buf_view(&bos), .eos_token = lf_buf_view(&eos),
                                          .now_unix_s = NOON_OF_2024_07_26};
        assert_true(lf_json_bool(lf_json_get(context, "add_generation_prompt"), &p.add_generation_prompt));
        n_wrong += !renders_to(t, &p, lf_json_get(it, "expected"), name.ptr);
        lf_chat_template_destroy(t);
        lf_buf_deinit(&bos);
        lf_buf_deinit(&eos);
        lf_buf_deinit(&name);
        lf_buf_deinit(&title);
    }
    print_message("%u renders\n", n);
    assert_int_equal(n_wrong, 0);
    lf_json_deinit(&json);
    lf_buf_deinit(&text);
}

/* -- One render -- */

/* The text, with every stretch of the user's set in ⟦⟧; a failure gives its message. Owned by the caller. */
static struct lf_buf marked(const char *source, const char *messages, const char *extra)
{
    struct lf_json messages_json = parse(lf_str_c(messages)), extra_json = parse(lf_str_c(extra));
    struct lf_chat_render_params p = {CHAT_MESSAGES(lf_json_root(&messages_json)), .extra = lf_json_root(&extra_json),
                                      .bos_token = LF_STR("<s>")};
    struct lf_chat_template *t = NULL;
    struct lf_chat_text text = {0};
    struct lf_err err = {0};
    struct lf_buf out;
    lf_buf_init(&out, 1024 * 1024);
    enum lf_status status = lf_chat_template_create(&t, lf_str_c(source), &err);
    if (status == LF_OK) status = lf_chat_template_render(t, &text, &p, &err);
    if (status != LF_OK) lf_buf_cstr(&out, err.message);
    size_t at = 0;
    for (size_t i = 0; i < text.n_user_spans; i++) {
        struct lf_text_span span = text.user_spans[i];
        assert_true(span.len > 0 && span.first >= at && span.first + span.len <= text.text.len);
        lf_buf_append(&out, text.text.ptr + at, span.first - at);
        lf_buf_cstr(&out, "⟦");
        lf_buf_append(&out, text.text.ptr + span.first, span.len);
        lf_buf_cstr(&out, "⟧");
        at = span.first + span.len;
    }
    if (text.text.len) lf_buf_append(&out, text.text.ptr + at, text.text.len - at);
    if (!out.ptr) lf_buf_cstr(&out, "");
    lf_chat_text_deinit(&text);
    lf_chat_template_destroy(t);
    lf_json_deinit(&messages_json);
    lf_json_deinit(&extra_json);
    return out;
}

static const char conversation[] = "[{\"role\":\"user\",\"content\":\" Hi, <s> \\\"x\\\"\\n\"},"
                                   "{\"role\":\"assistant\",\"content\":\"Ünder\",\"n\":5,\"ok\":true,\"nil\":null}]";

static void expect_marked(const char *source, const char *want)
{
    struct lf_buf got = marked(source, conversation, "{\"who\":\"Ann\",\"n\":7}");
    assert_string_equal(got.ptr, want);
    lf_buf_deinit(&got);
}

static void the_users_bytes_are_marked_through_every_operation(void **state)
{
    (void)state;
    expect_marked("{{ bos_token }}{{ messages[0].content }}|", "<s>⟦ Hi, <s> \"x\"\n⟧|");
    expect_marked("{{ '<u>' + messages[1].content + '</u>' }}", "<u>⟦Ünder⟧</u>");
    expect_marked("{{ '<u>' ~ messages[1].role ~ who }}", "<u>⟦assistantAnn⟧");
    expect_marked("{{ messages[0].content|trim }}{{ messages[0].content.strip() }}", "⟦Hi, <s> \"x\"Hi, <s> \"x\"⟧");
    expect_marked("{{ ('[' ~ messages[1].content ~ ']')[0:3] }}", "[⟦Ün⟧");
    expect_marked("{{ ('[' ~ messages[1].content ~ ']')[::-1] }}", "]⟦rednÜ⟧[");
    expect_marked("{{ messages[1].content.split('n')|join('-') }}", "⟦Ü⟧-⟦der⟧");
    expect_marked("{{ ('a' ~ messages[1].content)|upper }}{{ (messages[1].content ~ 'A')|lower }}", "A⟦ÜNDERünder⟧a");
    expect_marked("{{ messages[1].content|replace('n', 'N') }}{{ 'xyz'|replace('y', who) }}", "⟦Ü⟧N⟦der⟧x⟦Ann⟧z");
    expect_marked("{% set x %}<{{ who }}>{% endset %}{{ x }}{{ x|length }}", "<⟦Ann⟧>5");
    expect_marked("{% macro m(a) %}({{ a }}){% endmacro %}{{ m(who) }}", "(⟦Ann⟧)");
    expect_marked("{{ '%s-%s' % (who, 'b') }}{{ '{}+{}'.format('c', who) }}", "⟦Ann⟧-bc+⟦Ann⟧");
    expect_marked("{{ [who, 'b'] }}{{ {'k': who} }}", "['⟦Ann⟧', 'b']{'k': '⟦Ann⟧'}");
    expect_marked("{{ who|indent(2, true) }}{{ (who ~ '\n' ~ who)|indent(1) }}", "  ⟦AnnAnn⟧\n ⟦Ann⟧");
    expect_marked("{{ who|e }}{{ messages[0].content|trim|e }}", "⟦AnnHi, &lt;s&gt; &#34;x&#34;⟧");
    expect_marked("{{ who|first }}{{ who|list }}{{ who[1] }}", "⟦A⟧['⟦A⟧', '⟦n⟧', '⟦n⟧']⟦n⟧");
    expect_marked("{{ messages[1].n }}{{ n + 1 }}{{ messages|length }}{{ messages[1].ok }}{{ messages[1].nil }}",
                  "⟦58⟧2⟦TrueNone⟧");
    expect_marked("{{ who if who else 'nobody' }}{{ nobody|default(who) }}{{ who|center(5) }}", "⟦AnnAnn⟧ ⟦Ann⟧ ");
    expect_marked("{{ (who ~ '<s>')|title }}{{ who.title() }}", "⟦Ann⟧<S>⟦Ann⟧");
}

static void punctuation_of_json_is_the_templates(void **state)
{
    (void)state;
    expect_marked("{{ messages[0]|tojson }}", "{\"⟦role⟧\": \"⟦user⟧\", \"⟦content⟧\": \"⟦ Hi, <s> \\\"x\\\"\\n⟧\"}");
    expect_marked("{{ [who, 1, {'k': n}]|tojson }}", "[\"⟦Ann⟧\", 1, {\"k\": ⟦7⟧}]");
    expect_marked("{{ {'a': [who]}|tojson(indent=1) }}", "{\n \"a\": [\n  \"⟦Ann⟧\"\n ]\n}");
}

/* Greek letters stand in the conversation only: each of their bytes must be the user's, through every template. */
static void no_byte_of_the_user_passes_unmarked(void **state)
{
    (void)state;
    static const char *const names[] = {"headers.jinja", "marks.jinja", "brackets.jinja", "lines.jinja"};
    static const char messages[] =
        "[{\"role\":\"system\",\"content\":\"Αλφα βητα\"},{\"role\":\"user\",\"content\":\"Γαμμα\\nδελτα\"},"
        "{\"role\":\"assistant\",\"content\":\"<think>εψιλον</think>ζητα\"},{\"role\":\"user\",\"content\":\" ητα \"}]";
    static const char tools[] = "[{\"type\":\"function\",\"function\":{\"name\":\"θητα\",\"parameters\":{\"ιωτα\":"
                                "[\"καππα\",{\"λ\":\"μ\\\"ν\"}]}}}]";
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct lf_chat_template *t = open_template("tests/golden/chat/templates", names[i]);
        struct lf_json messages_json = parse(lf_str_c(messages)), tools_json = parse(lf_str_c(tools));
        struct lf_chat_render_params p = {CHAT_MESSAGES(lf_json_root(&messages_json)),
                                          .tools = lf_json_root(&tools_json), .bos_token = LF_STR("<s>"),
                                          .eos_token = LF_STR("</s>")};
        struct lf_chat_text text = {0};
        struct lf_err err = {0};
        if (lf_chat_template_render(t, &text, &p, &err) != LF_OK) fail_msg("%s: %s", names[i], err.message);
        size_t span = 0, n_greek = 0;
        for (size_t at = 0; at < text.text.len; at++) {
            unsigned char c = (unsigned char)text.text.ptr[at];
            while (span < text.n_user_spans && text.user_spans[span].first + text.user_spans[span].len <= at) span++;
            bool user = span < text.n_user_spans && text.user_spans[span].first <= at;
            if (c >= 0x80 && !user) fail_msg("%s: byte %zu is not marked", names[i], at);
            if (c == '|' && user) fail_msg("%s: byte %zu is marked", names[i], at);
            n_greek += c >= 0x80;
        }
        assert_true(n_greek > 20);
        lf_chat_text_deinit(&text);
        lf_chat_template_destroy(t);
        lf_json_deinit(&messages_json);
        lf_json_deinit(&tools_json);
    }
}

static void variables_are_those_of_transformers(void **state)
{
    (void)state;
    struct lf_buf got = marked("{{ tools is none }}{{ documents is none }}{{ eos_token is defined }}"
                               "{{ add_generation_prompt }}{{ x }}{{ big }} {{ f }} {{ e }}",
                               "[]", "{\"x\":1,\"big\":123456789012345678901,\"f\":1.0,\"e\":1e2}");
    assert_string_equal(got.ptr, "TrueTrueFalseFalse⟦1123456789012345678901⟧ ⟦1.0⟧ ⟦100.0⟧");
    lf_buf_deinit(&got);
    got = marked("x", "[]", "{\"tools\":[]}");
    assert_non_null(strstr(got.ptr, "cannot be called 'tools'"));
    lf_buf_deinit(&got);
}

static void parameters_of_another_kind_are_refused(void **state)
{
    (void)state;
    static const char *const cases[][3] = {{"[]", "[1]", "template variables: expected an object, found an array"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lf_buf got = marked("x", cases[i][0], cases[i][1]);
        assert_string_equal(got.ptr, cases[i][2]);
        lf_buf_deinit(&got);
    }
}

static void reasoning_is_given_under_every_name(void **state)
{
    (void)state;
    struct lf_buf got = marked("{% for m in messages %}{{ m.thinking }},{{ m.reasoning_content }};{% endfor %}",
                               "[{\"reasoning\":\"a\"},{\"thinking\":\"b\"},{\"reasoning_content\":\"c\"},{\"x\":1},"
                               "{\"reasoning\":null}]",
                               "{}");
    assert_string_equal(got.ptr, "⟦a⟧,⟦a⟧;⟦b⟧,⟦b⟧;⟦c⟧,⟦c⟧;,;,;");
    lf_buf_deinit(&got);
}

static void a_template_may_be_rendered_many_times(void **state)
{
    (void)state;
    struct lf_chat_template *t = NULL;
    struct lf_err err = {0};
    struct lf_json json = parse(lf_str_c(conversation));
    struct lf_chat_render_params p = {CHAT_MESSAGES(lf_json_root(&json))};
    assert_int_equal(lf_chat_template_create(&t,
                                             LF_STR("{% set ns = namespace(s='a' ~ 'b') %}{% for m in messages %}"
                                                    "{% set ns.s = ns.s + m.role + '.' %}{% endfor %}{{ ns.s }}"),
                                             &err),
                     LF_OK);
    for (int i = 0; i < 3; i++) {
        struct lf_chat_text text = {0};
        assert_int_equal(lf_chat_template_render(t, &text, &p, &err), LF_OK);
        assert_string_equal(text.text.ptr, "abuser.assistant.");
        lf_chat_text_deinit(&text);
    }
    lf_chat_template_destroy(t);
    lf_json_deinit(&json);
}

struct shared {
    const struct lf_chat_template *t;
    const struct lf_json *messages;
};

static void *render_often(void *arg)
{
    const struct shared *shared = arg;
    size_t n_wrong = 0;
    for (int i = 0; i < 200; i++) {
        struct lf_chat_render_params p = {CHAT_MESSAGES(lf_json_root(shared->messages)),
                                          .add_generation_prompt = i % 2};
        struct lf_chat_text text = {0};
        struct lf_err err;
        enum lf_status status = lf_chat_template_render(shared->t, &text, &p, &err);
        n_wrong += status != LF_OK || text.text.len != (i % 2 ? 69u : 51u);
        lf_chat_text_deinit(&text);
    }
    return n_wrong ? arg : NULL;
}

static void threads_may_share_a_template(void **state)
{
    (void)state;
    pthread_t threads[4];
    struct lf_json json =
        parse(LF_STR("[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"user\",\"content\":\"there\"}]"));
    struct lf_chat_template *t = open_template("tests/golden/chat/templates", "marks.jinja");
    struct shared shared = {t, &json};
    for (size_t i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, render_often, &shared), 0);
    for (size_t i = 0; i < 4; i++) {
        void *wrong;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    lf_chat_template_destroy(t);
    lf_json_deinit(&json);
}

/* Long texts must cost what they weigh: a copy or two, not a step a byte. */
static void a_long_conversation_stays_within_the_budget(void **state)
{
    (void)state;
    struct lf_buf messages;
    lf_buf_init(&messages, LF_BODY_BYTES);
    lf_buf_cstr(&messages, "[");
    for (int i = 0; i < LF_MESSAGES_N; i++) {
        lf_buf_printf(&messages, "%s{\"role\":\"%s\",\"content\":\"", i ? "," : "", i % 2 ? "assistant" : "user");
        for (int k = 0; k < 60; k++) lf_buf_cstr(&messages, "A sentence of a long document that goes on. ");
        lf_buf_cstr(&messages, "\"}");
    }
    lf_buf_cstr(&messages, "]");
    assert_int_equal(messages.status, LF_OK);
    struct lf_json json = parse(lf_buf_view(&messages));
    static const char *const names[] = {"headers.jinja", "marks.jinja", "brackets.jinja", "lines.jinja"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct lf_chat_template *t = open_template("tests/golden/chat/templates", names[i]);
        struct lf_chat_render_params p = {CHAT_MESSAGES(lf_json_root(&json)), .bos_token = LF_STR("<s>"),
                                          .eos_token = LF_STR("</s>")};
        struct lf_chat_text text = {0};
        struct lf_err err = {0};
        if (lf_chat_template_render(t, &text, &p, &err) != LF_OK) fail_msg("%s: %s", names[i], err.message);
        assert_true(text.text.len > 5000000);
        lf_chat_text_deinit(&text);
        lf_chat_template_destroy(t);
    }
    lf_json_deinit(&json);
    lf_buf_deinit(&messages);
}

static void output_is_bounded(void **state)
{
    (void)state;
    struct lf_buf source, got;
    char number[32];
    lf_buf_init(&source, 1024);
    for (int past = 0; past <= 1; past++) {
        lf_buf_clear(&source);
        lf_buf_cstr(&source, "{{ 'x' * ");
        snprintf(number, sizeof(number), "%d", LF_TEMPLATE_OUTPUT_BYTES - 1 + past);
        lf_buf_cstr(&source, number);
        lf_buf_cstr(&source, " }}y");
        struct lf_chat_template *t = NULL;
        struct lf_chat_text text = {0};
        struct lf_err err = {0};
        struct lf_json json = parse(LF_STR("[]"));
        struct lf_chat_render_params p = {CHAT_MESSAGES(lf_json_root(&json))};
        assert_int_equal(lf_chat_template_create(&t, lf_buf_view(&source), &err), LF_OK);
        assert_int_equal(lf_chat_template_render(t, &text, &p, &err), past ? LF_LIMIT : LF_OK);
        assert_int_equal(text.text.len, past ? 0 : LF_TEMPLATE_OUTPUT_BYTES);
        lf_chat_text_deinit(&text);
        lf_chat_template_destroy(t);
        lf_json_deinit(&json);
    }
    got = marked("", "[]", "{}");
    assert_string_equal(got.ptr, "");
    lf_buf_deinit(&got);
    lf_buf_deinit(&source);
}

int main(void)
{
    setenv("TZ", "UTC", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversations_render_as_jinja2_does),
        cmocka_unit_test(published_templates_render_as_jinja2_does),
        cmocka_unit_test(the_users_bytes_are_marked_through_every_operation),
        cmocka_unit_test(punctuation_of_json_is_the_templates),
        cmocka_unit_test(no_byte_of_the_user_passes_unmarked),
        cmocka_unit_test(variables_are_those_of_transformers),
        cmocka_unit_test(parameters_of_another_kind_are_refused),
        cmocka_unit_test(reasoning_is_given_under_every_name),
        cmocka_unit_test(a_template_may_be_rendered_many_times),
        cmocka_unit_test(threads_may_share_a_template),
        cmocka_unit_test(a_long_conversation_stays_within_the_budget),
        cmocka_unit_test(output_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
