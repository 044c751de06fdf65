/* What the tests of answers share: tools, and cases that are run whole, in pieces and with control tokens. */
#ifndef LF_TESTS_UNIT_TEMPLATE_ANSWER_RIG_H
#define LF_TESTS_UNIT_TEMPLATE_ANSWER_RIG_H

#include "template/answer_format.h"
#include "tests/support/answer_parts.h"
#include "tests/support/test.h"

#define ROME "{\"city\": \"Rome\"}"

/* -- The tools of all cases -- */

#define TEXT(s)                                                                                                        \
    {                                                                                                                  \
        s, sizeof(s) - 1                                                                                               \
    }
static const struct lf_tool_parameter weather_parameters[] = {{TEXT("city"), LF_TOOL_STRING},
                                                              {TEXT("days"), LF_TOOL_NUMBER},
                                                              {TEXT("options"), LF_TOOL_ANY},
                                                              {TEXT("note"), LF_TOOL_STRING}};
static const struct lf_tool_parameter every_type[] = {{TEXT("text"), LF_TOOL_STRING},
                                                      {TEXT("maybe"), LF_TOOL_STRING_OR_NULL},
                                                      {TEXT("either"), LF_TOOL_STRING | LF_TOOL_NUMBER},
                                                      {TEXT("n"), LF_TOOL_NUMBER},
                                                      {TEXT("ok"), LF_TOOL_BOOL},
                                                      {TEXT("list"), LF_TOOL_ARRAY | LF_TOOL_NULL},
                                                      {TEXT("any"), LF_TOOL_ANY}};
static const struct lf_tool tools[] = {
    {.name = TEXT("get_time")},
    {.name = TEXT("weather"), .parameters = weather_parameters, .n_parameters = 4},
    {.name = TEXT("get")},
    {.name = TEXT("weather_today"), .parameters = weather_parameters, .n_parameters = 4},
    {.name = TEXT("typed"), .parameters = every_type, .n_parameters = LF_N_ELEMS(every_type)}};

/* -- Running one -- */

struct answer_case {
    const char *format, *prompt_end, *answer, *parts;
};

static uint64_t seed = 20261123;

static inline size_t random_below(size_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(seed >> 33) % n;
}

static inline size_t cut_bytes(void *ctx, struct lf_str answer, size_t at)
{
    (void)ctx, (void)answer, (void)at;
    return 1;
}

static inline size_t cut_anywhere(void *ctx, struct lf_str answer, size_t at)
{
    (void)answer, (void)at;
    return 1 + random_below(*(size_t *)ctx);
}

static inline struct lf_answer_parser *open_parser(const char *format, const char *prompt_end, bool reasoning,
                                                   size_t n_tools)
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
static inline void parts_with_controls(struct answer_parts *parts, struct lf_answer_parser *p, struct lf_str answer)
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

static inline void expect(struct answer_parts *parts, const char *want, const char *how, const struct answer_case *c)
{
    if (!lf_str_eq(lf_buf_view(&parts->text), lf_str_c(want)))
        fail_msg("%s, %s: %s\n  gives %s\n   want %s", c->format, how, c->answer, parts->text.ptr, want);
    lf_buf_deinit(&parts->text);
}

static inline void run_case(const struct answer_case *c)
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

static inline void run_cases(const struct answer_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) run_case(&cases[i]);
}

#endif
