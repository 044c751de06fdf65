/* Answers taken apart: each family's calls and reasoning, imitations, cut ones; the same whole and in any pieces. */
#include "tests/support/test.h"

#include "core/file.h"
#include "core/json.h"
#include "template/answer_format.h"
#include "tests/unit/template/answer_rig.h"

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
    check_with("gpt_oss", "", false, 4,
               "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b",
               "T(<|channel|>analysis<|message|>a<|end|>b)");
}

/* A NUL is a byte as any other: it does not match the end of what is looked for. */
static void a_nul_belongs_to_no_marker(void **state)
{
    static const char answer[] = "<think>\n\0a</think>\n\n\0<tool_call>\n\0<tool_call>\n<function=weather>\n"
                                 "<parameter=city>\n\0</parameter></function></tool_call>\0";
    static const char want[] = "R(\0a)T(\0<tool_call>\n\0)C(weather)A({\"city\": \"\\ufffd\"})ET(\0)";
    struct lf_answer_parser *p = open_parser("qwen3_xml", "", true, LF_N_ELEMS(tools));
    struct answer_parts parts;
    (void)state;
    answer_parts_of(&parts, p, lf_str_from(answer, sizeof(answer) - 1), NULL, NULL);
    assert_int_equal(parts.text.len, sizeof(want) - 1);
    assert_memory_equal(parts.text.ptr, want, sizeof(want) - 1);
    lf_buf_deinit(&parts.text);
    lf_answer_parser_destroy(p);
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

/* White space, ids, names of parameters, words and headers may be so long and no longer: one more byte, and the call is
 * none, or cut. */
static void markers_have_bounds(void **state)
{
    static const struct {
        const char *format, *head, *unit, *end;
        size_t most;
    } cases[] = {
        {"hermes", "<tool_call>", " ", "{\"name\": \"get\"}</tool_call>", LF_ANSWER_SPACE_N},
        {"mistral", "[TOOL_CALLS][{\"name\": \"get\"}", "\n", ",{\"name\": \"get\"}]", LF_ANSWER_SPACE_N},
        {"mistral_args", "[TOOL_CALLS]get[", "x", "ARGS]{}", 128 - 5},
        {"kimi_k2", "<|tool_calls_section_begin|><|tool_call_begin|>functions.get:", "7",
         "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>", 16},
        {"qwen3_xml", "<tool_call><function=get><parameter=", "x", ">1</parameter></function></tool_call>", 1024 - 1},
        {"qwen3_xml", "<tool_call><function=get><parameter=a>1</parameter>", " ", "</function></tool_call>",
         2 * LF_ANSWER_SPACE_N},
        {"gemma4", "<|tool_call>call:get{a:", "x", "}<tool_call|>", 1024},
        {"pythonic", "[get(a=", "x", ")]", 1024},
        {"pythonic", "[get(", "a", "=1)]", 256},
        {"pythonic", "[get(", " ", "a=1)]", LF_ANSWER_SPACE_N},
        {"pythonic", "[get(a='b'", " ", ")]", LF_ANSWER_SPACE_N},
        {"gpt_oss", "<|channel|>commentary to=functions.get ", "x", "<|message|>{}<|call|>", 512 - 39 - 11},
        {"gpt_oss", "<|channel|>commentary to=functions.get<|message|>", " ", "{}<|call|>",
         512 + LF_ANSWER_SPACE_N - 49},
    };
    (void)state;
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) {
        struct lf_answer_parser *p = open_parser(cases[i].format, "", true, LF_N_ELEMS(tools));
        size_t n_ends[2];
        for (size_t over = 0; over < 2; over++) {
            size_t len = strlen(cases[i].head) + cases[i].most + over + strlen(cases[i].end);
            struct lf_buf answer = repeated(cases[i].head, cases[i].unit, len, cases[i].end);
            struct answer_parts parts;
            answer_parts_of(&parts, p, lf_buf_view(&answer), NULL, NULL);
            n_ends[over] = parts.n_ends;
            lf_buf_deinit(&parts.text);
            lf_buf_deinit(&answer);
        }
        if (n_ends[1] + 1 != n_ends[0])
            fail_msg("%s %s: %zu, %zu", cases[i].format, cases[i].head, n_ends[0], n_ends[1]);
        lf_answer_parser_destroy(p);
    }
}

/* A value that would make the arguments nest deeper than a request's JSON may is a string. */
static void values_nest_as_deep_as_arguments_may(void **state)
{
    (void)state;
    for (int depth = LF_JSON_DEPTH - 1; depth <= LF_JSON_DEPTH; depth++) {
        struct lf_answer_parser *p = open_parser("qwen3_xml", "", true, LF_N_ELEMS(tools));
        struct lf_buf answer;
        struct answer_parts parts;
        lf_buf_init(&answer, 1 << 12);
        lf_buf_cstr(&answer, "<tool_call><function=weather><parameter=options>");
        for (int i = 0; i < depth; i++) lf_buf_char(&answer, '[');
        for (int i = 0; i < depth; i++) lf_buf_char(&answer, ']');
        lf_buf_cstr(&answer, "</parameter></function></tool_call>");
        answer_parts_of(&parts, p, lf_buf_view(&answer), NULL, NULL);
        bool is_string = lf_str_find(lf_buf_view(&parts.text), LF_STR("\"[[")) >= 0;
        assert_int_equal(is_string, depth == LF_JSON_DEPTH);
        lf_buf_deinit(&parts.text);
        lf_buf_deinit(&answer);
        lf_answer_parser_destroy(p);
    }
}

/* Arguments that come before the name are held, up to the last byte of the name. */
static void what_is_held_is_bounded(void **state)
{
    static const char head[] = "<tool_call>{\"arguments\":{\"a\":\"", end[] = "\"},\"name\":\"get";
    (void)state;
    for (size_t over = 0; over < 2; over++) {
        struct lf_answer_parser *p = open_parser("hermes", "", true, LF_N_ELEMS(tools));
        struct lf_buf answer = repeated(head, "x", LF_ANSWER_HELD_BYTES - 1 + over, end);
        struct answer_parts parts;
        assert_int_equal(answer.len, LF_ANSWER_HELD_BYTES - 1 + over);
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

static bool is_utf8 = true;

static void take_whole_code_points(void *ctx, enum lf_answer_kind kind, struct lf_str bytes)
{
    (void)kind;
    is_utf8 = is_utf8 && lf_utf8_valid(bytes);
    *(size_t *)ctx += bytes.len;
}

/* However long a piece is: what comes out of one is cut between code points. */
static void parts_are_cut_between_code_points(void **state)
{
    static const char *const units[] = {"é", "中", "🦙", "a🦙", "<tool_é"};
    (void)state;
    for (size_t u = 0; u < LF_N_ELEMS(units); u++) {
        struct lf_answer_parser *p = open_parser("hermes", "", true, LF_N_ELEMS(tools));
        struct lf_buf answer = repeated("x", units[u], 5000, "");
        size_t n = 0;
        struct lf_answer_sink sink = {take_whole_code_points, &n};
        assert_int_equal(lf_answer_parser_push(p, lf_buf_view(&answer), false, &sink), LF_OK);
        assert_true(is_utf8);
        assert_int_equal(n, answer.len);
        lf_buf_deinit(&answer);
        lf_answer_parser_destroy(p);
    }
}

/* A value that is no string by its schema is held to its end; one that is too large goes out as what it may be. */
static void large_values_go_out_as_they_come(void **state)
{
    static const struct {
        const char *head, *unit, *end; /* of the value */
        bool is_json, ends;
    } cases[] = {{"[", "1, ", "2]\n", true, true},  {"", "words ", "\n", false, true},
                 {"[", "1,\n", "\n2]", true, true}, {"", "</par\n", "\n\n", false, true},
                 {"[", "1, ", "x]", true, false},   {"[", "1, ", "2", true, false}};
    (void)state;
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) {
        struct lf_answer_parser *p = open_parser("qwen3_xml", "", true, LF_N_ELEMS(tools));
        struct lf_buf answer = repeated("<tool_call><function=weather><parameter=days>\n", "", 0, "");
        struct lf_buf value = repeated(cases[i].head, cases[i].unit, 2 * LF_ANSWER_HELD_BYTES, cases[i].end);
        struct answer_parts parts;
        lf_buf_str(&answer, lf_buf_view(&value));
        lf_buf_cstr(&answer, "</parameter></function></tool_call>");
        for (size_t most = 1; most < 5000; most = most * 7 + 1) {
            answer_parts_of(&parts, p, lf_buf_view(&answer), cut_anywhere, &most);
            assert_int_equal(parts.n_ends, cases[i].ends);
            assert_non_null(strstr(parts.text.ptr, cases[i].is_json ? "{\"days\": [1," : "{\"days\": \""));
            lf_buf_deinit(&parts.text);
        }
        lf_buf_deinit(&value);
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
                                        "<tool_call>\n\n",
                                        "<tool_call>\n<function=weather>\n<parameter=days>\n",
                                        "[TOOL_CALLS]get[a",
                                        "<|channel|>",
                                        "<tool_call>weather<arg_key>",
                                        "<|tool_call>call:get{a:<|\"|>"};
    (void)state;
    for (int i = 0; i < lf_answer_n_formats; i++) {
        struct lf_answer_parser *p = open_parser(lf_answer_formats[i].name, "", true, LF_N_ELEMS(tools));
        for (size_t u = 0; u < LF_N_ELEMS(units); u++) {
            struct lf_buf answer = repeated("", units[u], 1 << 17, "");
            struct answer_parts parts;
            double began = cpu_seconds();
            answer_parts_of(&parts, p, lf_buf_view(&answer), NULL, NULL);
            assert_true(cpu_seconds() - began < 0.2 * SLOWNESS);
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
    const struct lf_answer_format *hermes = lf_answer_format_by_name(LF_STR("hermes"));
    assert_true(lf_answer_format_shows_reasoning(hermes, LF_STR("{{ '<think>' }}")));
    assert_true(lf_answer_format_shows_reasoning(hermes, LF_STR("split('</think>')")));
    assert_false(lf_answer_format_shows_reasoning(hermes, LF_STR("<tool_call>{\"name\": , \"arguments\": }")));
    assert_true(lf_answer_format_shows_reasoning(lf_answer_format_by_name(LF_STR("gpt_oss")), LF_STR("")));
    assert_false(lf_answer_format_shows_reasoning(lf_answer_format_by_name(LF_STR("plain")), LF_STR("<think>")));
    assert_false(lf_answer_format_has_reasoning(lf_answer_format_by_name(LF_STR("plain"))));
    assert_true(lf_answer_format_has_tools(lf_answer_format_by_name(LF_STR("hermes"))));
    assert_true(lf_answer_format_has_reasoning(lf_answer_format_by_name(LF_STR("think"))));
}

/* Templates of our own, as short as they can be with the markers of each family. */
static void a_template_shows_its_format(void **state)
{
    static const struct {
        const char *format, *source;
    } cases[] = {
        {"gpt_oss", "{{'<|start|>assistant<|channel|>analysis<|message|>' ~ m.thinking ~ '<|end|>'}}"},
        {"lfm2", "{{'<|tool_call_start|>[' ~ t.name ~ '(' ~ ']<|tool_call_end|>'}}</think>"},
        {"pythonic", "<|start_header_id|> \"parameters\": [func_name1(params_name1=params_value1, params_name2)]"},
        {"gemma4", "{{'<|tool_call>call:' ~ t.name ~ '{'}}{{'}<tool_call|>'}}{{'<|channel>thought\\n<channel|>'}}"},
        {"qwen3_xml",
         "{{'<think>\\n</think><tool_call>\\n<function=' ~ t.name ~ '>\\n<parameter=' ~ k ~ '>\\n'}} \"arguments\""},
        {"glm",
         "<think></think>{{'<tool_call>' ~ t.name}}<arg_key>{{k}}</arg_key><arg_value>{{v}}</arg_value></tool_call>"},
        {"minimax_m2", "{{'<minimax:tool_call>\\n<invoke name=\"'}}<think></think>"},
        {"deepseek_v4", "{%- set d = '｜DSML｜' -%}{{'<' ~ d ~ 'tool_calls>'}}<think></think>"},
        {"deepseek_r1",
         "{{'<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>' ~ n ~ '\\n```json\\n'}}"},
        {"deepseek_v31", "{{'<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' ~ n ~ '<｜tool▁sep｜>'}}</think>"},
        {"kimi_k2", "<|tool_calls_section_begin|>{{'<|tool_call_begin|>functions.' ~ n}}"},
        {"mistral_args", "{{'[TOOL_CALLS]' ~ n ~ '[ARGS]' ~ a|tojson}}"},
        {"apertus", "{{'<|tools_prefix|>[' ~ c ~ ']<|tools_suffix|>'}}"},
        {"mistral", "{{'[TOOL_CALLS][' ~ c ~ ']'}}"},
        {"nemotron", "<think></think>{{'<TOOLCALL>[' ~ c ~ ']</TOOLCALL>'}}"},
        {"command", "<|START_ACTION|>[{\"tool_name\": {{n}}, \"parameters\": {{a}}}]<|END_ACTION|>"},
        {"granite", "respond with <|tool_call|> followed by a JSON list of tools"},
        {"gigachat", "{{'<|function_call|>{\"name\": ' ~ n ~ ', \"arguments\": ' ~ a}}"},
        {"hermes", "{{'<tool_call>\\n{\"name\": \"' ~ n ~ '\", \"arguments\": ' ~ a ~ '}\\n</tool_call>'}}</think>"},
        {"hermes", "{{\"<tool_call>{\\\"name\\\": <name>, \\\"arguments\\\": <args>}</tool_call>\"}}"},
        {"llama3", "<|start_header_id|>assistant<|end_header_id|>{{'{\"name\": \"' ~ n ~ '\", \"parameters\": ' ~ a}}"},
        {"think", "{{content.split('</think>')[-1]}}"},
        {"plain", "{% for m in messages %}{{m.content}}{% endfor %}"},
        {"plain", "<|start_header_id|>{{m.role}}<|end_header_id|>"},
        {"plain", ""},
    };
    (void)state;
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) {
        const char *name = lf_answer_format_name(lf_answer_format_of_template(lf_str_c(cases[i].source)));
        if (strcmp(name, cases[i].format) != 0) fail_msg("%s: %s", name, cases[i].source);
    }
}

static void published_templates_show_theirs(void **state)
{
    static const struct {
        const char *file, *format;
    } cases[] = {
        {"Apertus-8B-Instruct", "apertus"},
        {"Bielik-11B-v3.0-Instruct", "hermes"},
        {"Cohere2MoE", "command"},
        {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", "command"},
        {"GLM-4.7-Flash", "glm"},
        {"GigaChat3.1-10B-A1.8B", "gigachat"},
        {"Kimi-K2-Instruct", "kimi_k2"},
        {"Kimi-K3", "plain"},
        {"LFM2.5-8B-A1B", "lfm2"},
        {"MiMo-VL", "hermes"},
        {"MiniMax-M2", "minimax_m2"},
        {"Mistral-Small-3.2-24B-Instruct-2506", "mistral_args"},
        {"NVIDIA-Nemotron-Nano-v2", "nemotron"},
        {"Qwen-Qwen2.5-7B-Instruct", "hermes"},
        {"Qwen3-Coder", "qwen3_xml"},
        {"Reka-Edge", "hermes"},
        {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "deepseek_r1"},
        {"deepseek-ai-DeepSeek-V3.1", "deepseek_v31"},
        {"deepseek-ai-DeepSeek-V4-Flash-0731", "deepseek_v4"},
        {"google-gemma-4-31B-it-interleaved", "gemma4"},
        {"ibm-granite-granite-3.3-2B-Instruct", "granite"},
        {"ibm-granite-granite-4.1", "hermes"},
        {"llama-cpp-rwkv-world", "think"},
        {"meetkai-functionary-medium-v3.2", "plain"},
        {"meta-llama-Llama-3.2-3B-Instruct", "llama3"},
        {"microsoft-Phi-3.5-mini-instruct", "plain"},
        {"mistralai-Mistral-Nemo-Instruct-2407", "mistral"},
        {"muse-glimmer", "plain"},
        {"openbmb-MiniCPM5-1B", "think"},
        {"poolside-Laguna-XS-2.1", "glm"},
        {"unsloth-mistral-Devstral-Small-2507", "mistral_args"},
    };
    (void)state;
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) {
        char path[512];
        struct lf_buf source;
        snprintf(path, sizeof(path), "%s/chat_templates/%s.jinja", test_assets(), cases[i].file);
        lf_buf_init(&source, LF_TEMPLATE_SOURCE_BYTES);
        if (lf_file_read(&source, path, LF_TEMPLATE_SOURCE_BYTES, NULL) != LF_OK) skip();
        assert_string_equal(lf_answer_format_name(lf_answer_format_of_template(lf_buf_view(&source))), cases[i].format);
        lf_buf_deinit(&source);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_answers_are_text),
        cmocka_unit_test(reasoning_is_split_off),
        cmocka_unit_test(hermes_calls),
        cmocka_unit_test(without_tools_a_call_is_text),
        cmocka_unit_test(reasoning_that_is_not_split_off_is_text_with_its_markers),
        cmocka_unit_test(a_nul_belongs_to_no_marker),
        cmocka_unit_test(markers_have_bounds),
        cmocka_unit_test(values_nest_as_deep_as_arguments_may),
        cmocka_unit_test(what_is_held_is_bounded),
        cmocka_unit_test(arguments_nest_as_deep_as_json_may),
        cmocka_unit_test(parts_are_cut_between_code_points),
        cmocka_unit_test(large_values_go_out_as_they_come),
        cmocka_unit_test(answers_take_linear_time),
        cmocka_unit_test(a_template_shows_its_format),
        cmocka_unit_test(published_templates_show_theirs),
        cmocka_unit_test(formats_have_names_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
