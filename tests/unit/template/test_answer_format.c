/* Answers taken apart: each family's calls and reasoning, imitations, cut ones; the same whole and in any pieces. */
#include "tests/support/test.h"

#include "core/json.h"
#include "template/answer_format.h"
#include "tests/support/answer_parts.h"

/* -- The tools of all cases -- */

#define TEXT(s)                                                                                                        \
    {                                                                                                                  \
        s, sizeof(s) - 1                                                                                               \
    }
static const struct lf_tool_parameter weather_parameters[] = {
    {TEXT("city"), true}, {TEXT("days"), false}, {TEXT("options"), false}, {TEXT("note"), true}};
static const struct lf_tool tools[] = {
    {.name = TEXT("get_time")},
    {.name = TEXT("weather"), .parameters = weather_parameters, .n_parameters = 4},
    {.name = TEXT("get")},
    {.name = TEXT("weather_today"), .parameters = weather_parameters, .n_parameters = 4}};

/* -- Running one -- */

struct answer_case {
    const char *format, *prompt_end, *answer, *parts;
};

static uint64_t seed = 20261123;

static size_t random_below(size_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(seed >> 33) % n;
}

static size_t cut_bytes(void *ctx, struct lf_str answer, size_t at)
{
    (void)ctx, (void)answer, (void)at;
    return 1;
}

static size_t cut_anywhere(void *ctx, struct lf_str answer, size_t at)
{
    (void)answer, (void)at;
    return 1 + random_below(*(size_t *)ctx);
}

static struct lf_answer_parser *open_parser(const char *format, const char *prompt_end, bool reasoning, size_t n_tools)
{
    struct lf_answer_parser *p = NULL;
    struct lf_answer_parser_params params = {.format = lf_answer_format_by_name(lf_str_c(format)),
                                             .reasoning = reasoning,
                                             .prompt_end = lf_str_c(prompt_end),
                                             .tools = tools,
                                             .n_tools = n_tools};
    assert_non_null(params.format);
    assert_int_equal(lf_answer_parser_create(&p, &params), LF_OK);
    return p;
}

/* The same answer with each marker that may be a control token given as one. */
static void parts_with_controls(struct answer_parts *parts, struct lf_answer_parser *p, struct lf_str answer)
{
    struct lf_answer_sink sink = {answer_parts_take, parts};
    answer_parts_init(parts);
    lf_answer_parser_restart(p);
    for (size_t at = 0, n; at < answer.len; at += n) {
        const char *const *control = p->format->controls;
        struct lf_str rest = lf_str_from(answer.ptr + at, answer.len - at);
        while (*control && !lf_str_starts(rest, lf_str_c(*control))) control++;
        n = *control ? strlen(*control) : 1;
        assert_int_equal(lf_answer_parser_push(p, lf_str_from(rest.ptr, n), *control != NULL, &sink), LF_OK);
    }
    assert_int_equal(lf_answer_parser_push(p, LF_STR("<|nobody_knows|>"), true, &sink), LF_OK);
    assert_int_equal(lf_answer_parser_flush(p, &sink), LF_OK);
    answer_parts_close(parts);
}

static void expect(struct answer_parts *parts, const char *want, const char *how, const struct answer_case *c)
{
    if (!lf_str_eq(lf_buf_view(&parts->text), lf_str_c(want)))
        fail_msg("%s, %s: %s\n  gives %s\n   want %s", c->format, how, c->answer, parts->text.ptr, want);
    lf_buf_deinit(&parts->text);
}

static void run_case(const struct answer_case *c)
{
    struct lf_answer_parser *p = open_parser(c->format, c->prompt_end ? c->prompt_end : "", true, LF_N_ELEMS(tools));
    struct lf_str answer = lf_str_c(c->answer);
    struct answer_parts parts;
    answer_parts_of(&parts, p, answer, NULL, NULL);
    expect(&parts, c->parts, "whole", c);
    answer_parts_of(&parts, p, answer, cut_bytes, NULL);
    expect(&parts, c->parts, "byte by byte", c);
    for (size_t most = 2; most < 40; most += 1 + most / 3) {
        answer_parts_of(&parts, p, answer, cut_anywhere, &most);
        expect(&parts, c->parts, "in pieces", c);
    }
    parts_with_controls(&parts, p, answer);
    expect(&parts, c->parts, "with control tokens", c);
    lf_answer_parser_destroy(p);
}

static void run_cases(const struct answer_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) run_case(&cases[i]);
}

/* -- Formats -- */

static void plain_answers_are_text(void **state)
{
    static const struct answer_case cases[] = {
        {"plain", NULL, "<think>\nno</think><tool_call>{\"name\": \"get\"}</tool_call>\n",
         "T(<think>\nno</think><tool_call>{\"name\": \"get\"}</tool_call>\n)"},
        {"plain", "<think>\n", "x", "T(x)"},
        {"plain", NULL, "", ""},
    };
    (void)state;
    run_cases(cases, LF_N_ELEMS(cases));
}

static void reasoning_is_split_off(void **state)
{
    static const struct answer_case cases[] = {
        {"think", NULL, "<think>\nWhy?\n\nSo.\n</think>\n\nYes.\n", "R(Why?\n\nSo.)T(Yes.\n)"},
        {"think", NULL, "\n<think>a</think>b", "R(a)T(b)"},
        {"think", NULL, "<think>\n\n</think>\n\nYes", "T(Yes)"},
        {"think", "…<think>\n", "a\n</think>\n\n\nb", "R(a)T(\nb)"},
        {"think", "<think>", "\na</thin</think>b", "R(a</thin)T(b)"},
        {"think", "<think>\n\n</think>\n\n", "b <think>c</think>", "T(b <think>c</think>)"},
        {"think", "<think></think>", "\n\nb", "T(b)"},
        {"think", "</think>\n", "\nb", "T(b)"},
        {"think", "<think>\n", "never ends\n", "R(never ends\n)"},
        {"think", NULL, "a <think>b</think>", "T(a <think>b</think>)"},
        {"think", NULL, "<thi", "T(<thi)"},
        {"think", NULL, "<<think>b</think>", "T(<<think>b</think>)"},
        {"think", "<think>\n", "é</think>ü<", "R(é)T(ü<)"},
    };
    (void)state;
    run_cases(cases, LF_N_ELEMS(cases));
}

#define ROME "{\"city\": \"Rome\"}"

static void hermes_calls(void **state)
{
    static const struct answer_case cases[] = {
        {"hermes", NULL, "<tool_call>\n{\"name\": \"weather\", \"arguments\": " ROME "}\n</tool_call>",
         "C(weather)A(" ROME ")E"},
        {"hermes", NULL,
         "<think>\nrain?\n</think>\n\nI look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": " ROME
         "}\n</tool_call>\n<tool_call>\n{\"name\": \"get_time\", \"arguments\": {}}\n</tool_call>\nDone.",
         "R(rain?)T(I look.)C(weather)A(" ROME ")EC(get_time)A({})ET(Done.)"},
        {"hermes", "<think>\n", "a <tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_call>\n</think>\n\nb",
         "R(a <tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_call>)T(b)"},
        /* members in another order, others beside them, none */
        {"hermes", NULL, "<tool_call>{\"arguments\": " ROME ", \"name\": \"weather\"}</tool_call>",
         "C(weather)A(" ROME ")E"},
        {"hermes", NULL,
         "<tool_call>{\"id\": [1, {\"name\": 2}], \"name\":\"get\", "
         "\"parameters\":{\"a\":{\"b\":[]}},\"x\":null}</tool_call>",
         "C(get)A({\"a\":{\"b\":[]}})E"},
        {"hermes", NULL, "<tool_call>{\"name\": \"get\"}</tool_call>", "C(get)A({})E"},
        /* more than one between the markers, or no marker behind */
        {"hermes", NULL,
         "<tool_call>{\"name\":\"get\",\"arguments\":{}}\n{\"name\":\"get_time\",\"arguments\":{\"z\":1}}</tool_call>",
         "C(get)A({})EC(get_time)A({\"z\":1})E"},
        {"hermes", NULL, "<tool_call>{\"name\":\"get\",\"arguments\":{}} and so on", "C(get)A({})ET( and so on)"},
        /* strings keep what they hold */
        {"hermes", NULL,
         "<tool_call>{\"name\": \"weather\", \"arguments\": {\"note\": \"</tool_call> } \\\" \\\\ \\u00e9 "
         "\\ud83d\\ude00 é\"}}</tool_call>",
         "C(weather)A({\"note\": \"</tool_call> } \\\" \\\\ \\u00e9 \\ud83d\\ude00 é\"})E"},
        /* imitations */
        {"hermes", NULL, "<tool_call>{\"name\": \"nobody\", \"arguments\": {}}</tool_call>",
         "T(<tool_call>{\"name\": \"nobody\", \"arguments\": {}}</tool_call>)"},
        {"hermes", NULL, "<tool_call>{\"name\": \"weath\", \"arguments\": {}}</tool_call>",
         "T(<tool_call>{\"name\": \"weath\", \"arguments\": {}}</tool_call>)"},
        {"hermes", NULL, "Write\n<tool_call>…</tool_call>\n", "T(Write\n<tool_call>…</tool_call>\n)"},
        {"hermes", NULL, "<tool_<tool_call><tool_call>{\"name\":\"get\",\"arguments\":{}}</tool_call>",
         "T(<tool_<tool_call>)C(get)A({})E"},
        {"hermes", NULL, "<tool_call>{\"name\": \"n<tool_call>{\"name\":\"get\",\"arguments\":{}}</tool_call>",
         "T(<tool_call>{\"name\": \"n)C(get)A({})E"},
        {"hermes", NULL, "<tool_call>{\"arguments\": {}, \"x\": 1}</tool_call>",
         "T(<tool_call>{\"arguments\": {}, \"x\": 1}</tool_call>)"},
        {"hermes", NULL, "<tool_call>{\"name\": \"get\", \"arguments\": [1]}</tool_call>",
         "T(<tool_call>{\"name\": \"get\", \"arguments\": [1]}</tool_call>)"},
        {"hermes", NULL, "<tool_call>{\"name\": 5}", "T(<tool_call>{\"name\": 5})"},
        {"hermes", NULL, "{\"name\": \"get\", \"arguments\": {}}", "T({\"name\": \"get\", \"arguments\": {}})"},
        /* what is no JSON ends a call that is certain */
        {"hermes", NULL, "<tool_call>{\"name\": \"get\", \"arguments\": {\"a\": oops}}</tool_call>",
         "C(get)A({\"a\": )T(oops}}</tool_call>)"},
        {"hermes", NULL, "<tool_call>{\"name\": \"get\", \"arguments\": {\"a\": 1}, 7</tool_call>",
         "C(get)A({\"a\": 1})ET(, 7</tool_call>)"},
        /* cut */
        {"hermes", NULL, "a\n<tool_call>\n{\"name\": \"wea", "T(a\n<tool_call>\n{\"name\": \"wea)"},
        {"hermes", NULL, "a\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Ro",
         "T(a)C(weather)A({\"city\": \"Ro)"},
        {"hermes", NULL, "a\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}",
         "T(a)C(weather)A({\"city\": \"Rome\"})E"},
        {"hermes", NULL, "<tool_call>{\"name\": \"weather\", \"arguments\": {}}\n</tool_", "C(weather)A({})E"},
        {"hermes", NULL, "a\n", "T(a\n)"},
        {"hermes", NULL, "a\n\n\n<tool_call>{\"name\":\"get\"}</tool_call>", "T(a\n\n)C(get)A({})E"},
    };
    (void)state;
    run_cases(cases, LF_N_ELEMS(cases));
}

/* -- What a parser is told -- */

static void check_with(const char *format, const char *prompt_end, bool reasoning, size_t n_tools, const char *answer,
                       const char *want)
{
    struct answer_case c = {format, prompt_end, answer, want};
    struct lf_answer_parser *p = open_parser(format, prompt_end, reasoning, n_tools);
    struct answer_parts parts;
    answer_parts_of(&parts, p, lf_str_c(answer), NULL, NULL);
    expect(&parts, want, "whole", &c);
    answer_parts_of(&parts, p, lf_str_c(answer), cut_bytes, NULL);
    expect(&parts, want, "byte by byte", &c);
    lf_answer_parser_destroy(p);
}

static void without_tools_a_call_is_text(void **state)
{
    (void)state;
    check_with("hermes", "", true, 0, "<think>a</think>\n<tool_call>{\"name\": \"get\"}</tool_call>",
               "R(a)T(<tool_call>{\"name\": \"get\"}</tool_call>)");
}

static void reasoning_that_is_not_split_off_is_text_with_its_markers(void **state)
{
    static const char call[] = "<tool_call>{\"name\": \"get\"}</tool_call>";
    char answer[200], want[200];
    (void)state;
    snprintf(answer, sizeof(answer), "<think>\na %s\n</think>\n\nb\n%s\n", call, call);
    snprintf(want, sizeof(want), "T(<think>\na %s\n</think>\n\nb)C(get)A({})E", call);
    check_with("hermes", "", false, 4, answer, want);
    check_with("hermes", "<think>\n", false, 4, "a\n</think>\n\nb", "T(a\n</think>\n\nb)");
}

/* -- Bounds -- */

static struct lf_buf repeated(const char *head, const char *unit, size_t bytes, const char *end)
{
    struct lf_buf text;
    lf_buf_init(&text, 1 << 28);
    lf_buf_cstr(&text, head);
    while (*unit && text.len + strlen(unit) + strlen(end) <= bytes) lf_buf_cstr(&text, unit);
    lf_buf_cstr(&text, end);
    return text;
}

/* Arguments that come before the name are held, up to the last byte of the name. */
static void what_is_held_is_bounded(void **state)
{
    static const char head[] = "<tool_call>{\"arguments\":{\"a\":\"", end[] = "\"},\"name\":\"get";
    (void)state;
    for (size_t over = 0; over < 2; over++) {
        struct lf_answer_parser *p = open_parser("hermes", "", true, LF_N_ELEMS(tools));
        struct lf_buf answer = repeated(head, "x", LF_ANSWER_HELD_BYTES + over, end);
        struct answer_parts parts;
        assert_int_equal(answer.len, LF_ANSWER_HELD_BYTES + over);
        lf_buf_char(&answer, '"');
        answer_parts_of(&parts, p, lf_buf_view(&answer), NULL, NULL);
        assert_int_equal(parts.n_ends, over ? 0 : 1);
        if (over) assert_int_equal(parts.text.len, answer.len + 3); /* T() */
        lf_buf_deinit(&parts.text);
        lf_buf_deinit(&answer);
        lf_answer_parser_destroy(p);
    }
}

/* The objects of the arguments and of the call around them count. */
static void arguments_nest_as_deep_as_json_may(void **state)
{
    (void)state;
    for (size_t depth = LF_JSON_DEPTH - 1; depth <= LF_JSON_DEPTH + 1; depth++) {
        struct lf_answer_parser *p = open_parser("hermes", "", true, LF_N_ELEMS(tools));
        struct lf_buf answer = repeated("<tool_call>{\"name\":\"get\",\"arguments\":{\"a\":", "", 0, "");
        struct answer_parts parts;
        for (size_t i = 2; i < depth; i++) lf_buf_char(&answer, '[');
        for (size_t i = 2; i < depth; i++) lf_buf_char(&answer, ']');
        lf_buf_cstr(&answer, "}}</tool_call>");
        answer_parts_of(&parts, p, lf_buf_view(&answer), NULL, NULL);
        assert_int_equal(parts.n_calls, 1);
        assert_int_equal(parts.n_ends, depth <= LF_JSON_DEPTH);
        lf_buf_deinit(&parts.text);
        lf_buf_deinit(&answer);
        lf_answer_parser_destroy(p);
    }
}

/* Twice the answer takes twice the time, whatever it imitates. */
static void answers_take_linear_time(void **state)
{
    static const char *const units[] = {"<tool_call>",
                                        "<tool_call>{\"",
                                        "<",
                                        "\n",
                                        "<tool_call>{\"name\": \"weather",
                                        "{",
                                        "<tool_call>{\"arguments\":{\"a\":\"<tool_call>{\"",
                                        "<tool_call>\n\n"};
    (void)state;
    for (int i = 0; i < lf_answer_n_formats; i++) {
        struct lf_answer_parser *p = open_parser(lf_answer_formats[i].name, "", true, LF_N_ELEMS(tools));
        for (size_t u = 0; u < LF_N_ELEMS(units); u++) {
            struct lf_buf answer = repeated("", units[u], 1 << 20, "");
            struct answer_parts parts;
            double began = cpu_seconds();
            answer_parts_of(&parts, p, lf_buf_view(&answer), NULL, NULL);
            assert_true(cpu_seconds() - began < 1.0 * SLOWNESS);
            lf_buf_deinit(&parts.text);
            lf_buf_deinit(&answer);
        }
        lf_answer_parser_destroy(p);
    }
}

/* -- The table -- */

static void formats_have_names_of_their_own(void **state)
{
    (void)state;
    int n = 0;
    for (const struct lf_answer_format *f; (f = lf_answer_format_at(n)) != NULL; n++)
        assert_ptr_equal(lf_answer_format_by_name(lf_str_c(lf_answer_format_name(f))), f);
    assert_int_equal(n, lf_answer_n_formats);
    assert_null(lf_answer_format_at(-1));
    assert_null(lf_answer_format_by_name(LF_STR("")));
    assert_null(lf_answer_format_by_name(LF_STR("Hermes")));
    assert_false(lf_answer_format_has_tools(lf_answer_format_by_name(LF_STR("plain"))));
    assert_false(lf_answer_format_has_reasoning(lf_answer_format_by_name(LF_STR("plain"))));
    assert_true(lf_answer_format_has_tools(lf_answer_format_by_name(LF_STR("hermes"))));
    assert_true(lf_answer_format_has_reasoning(lf_answer_format_by_name(LF_STR("think"))));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_answers_are_text),
        cmocka_unit_test(reasoning_is_split_off),
        cmocka_unit_test(hermes_calls),
        cmocka_unit_test(without_tools_a_call_is_text),
        cmocka_unit_test(reasoning_that_is_not_split_off_is_text_with_its_markers),
        cmocka_unit_test(what_is_held_is_bounded),
        cmocka_unit_test(arguments_nest_as_deep_as_json_may),
        cmocka_unit_test(answers_take_linear_time),
        cmocka_unit_test(formats_have_names_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
