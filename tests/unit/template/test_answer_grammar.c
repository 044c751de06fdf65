/* Grammars of answers: what they let through, the parser of the same format reads back as calls whose arguments are
 * valid. Random answers over a vocabulary of bytes, the format's markers, and its control tokens. */
#include "tests/support/test.h"

#include "core/arena.h"
#include "core/json.h"
#include "core/mix.h"
#include "tests/unit/template/answer_words.h"

enum { STEPS_N = 1500, WALKS_N = SLOWNESS > 1 ? 6 : 30 };

/* ------------------------------------------------------------------------------------------------ tools */

static const char *const schemas[] = {
    "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\",\"minimum\":1},"
    "\"unit\":{\"enum\":[\"C\",\"F\"]}},\"required\":[\"city\",\"unit\"],\"additionalProperties\":false}",
    "{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}"};
static struct lf_arena arena;
static struct lf_json documents[2];
static struct lf_tool tools[2];

static void init_tools(bool strict)
{
    static const char *const names[] = {"weather", "get_time"};
    lf_arena_init(&arena, 1024, 1 << 20);
    for (size_t i = 0; i < LF_N_ELEMS(tools); i++) {
        assert_int_equal(lf_json_parse(&documents[i], lf_str_c(schemas[i]), &lf_json_limits_request, NULL), LF_OK);
        assert_int_equal(lf_tool_init(&tools[i], lf_str_c(names[i]), lf_json_root(&documents[i]), &arena), LF_OK);
        tools[i].strict = strict;
    }
}

static void deinit_tools(void)
{
    for (size_t i = 0; i < LF_N_ELEMS(tools); i++) lf_json_deinit(&documents[i]);
    lf_arena_deinit(&arena);
}

/* ------------------------------------------------------------------------------------------------ walks */

static uint64_t seed = 1;

static uint32_t random_below(uint32_t n)
{
    seed = lf_mix64(seed + 1);
    return (uint32_t)(seed % n);
}

/* One of the tokens [first, end) that are allowed, or -1. */
static int pick(const uint32_t *mask, int first, int end)
{
    int n = 0, found = -1;
    for (int token = first; token < end; token++)
        if ((mask[token / 32] >> token % 32 & 1) && random_below((uint32_t)++n) == 0) found = token;
    return found;
}

/* What ends things is preferred, else an answer would hardly ever end. */
static int choose(const struct words *w, const uint32_t *mask)
{
    static const char closing[] = "\"}]<>\n\n,";
    uint32_t how = random_below(8);
    int token = how < 3 ? pick(mask, 256, w->n) : -1;
    if (token < 0 && how < 6) {
        token = (uint8_t)closing[random_below(sizeof(closing) - 1)];
        if (!(mask[token / 32] >> token % 32 & 1)) token = -1;
    }
    if (token < 0) token = pick(mask, ' ', 127);
    return token < 0 ? pick(mask, 0, w->n) : token;
}

struct heard {
    struct answer_parts parts;
    struct lf_buf arguments;
    struct lf_str name;
    size_t n_text;
    bool is_strict;
};

/* city: a string; unit: C or F; days: an integer from 1 on; nothing else. */
static void check_weather(struct lf_json_value root)
{
    struct lf_json_value days = lf_json_get(root, "days"), unit = lf_json_get(root, "unit");
    int64_t n = 1;
    assert_int_equal(lf_json_type(lf_json_get(root, "city")), LF_JSON_STRING);
    assert_true(lf_json_string_is(unit, "C") || lf_json_string_is(unit, "F"));
    assert_true(lf_json_type(days) == LF_JSON_NONE || lf_json_int64(days, &n) || lf_json_raw(days).len > 18);
    assert_true(n >= 1);
    assert_int_equal(lf_json_len(root), lf_json_type(days) == LF_JSON_NONE ? 2 : 3);
}

static void check_arguments(const struct heard *h)
{
    struct lf_json json = {0};
    struct lf_err err = {0};
    enum lf_status status = lf_json_parse(&json, lf_buf_view(&h->arguments), &lf_json_limits_request, &err);
    if (status != LF_OK && (h->is_strict || !strstr(err.message, "twice")))
        fail_msg("%s: %s", err.message, h->arguments.ptr);
    if (status == LF_OK) assert_int_equal(lf_json_type(lf_json_root(&json)), LF_JSON_OBJECT);
    if (h->is_strict && lf_str_eq(h->name, LF_STR("weather"))) check_weather(lf_json_root(&json));
    if (h->is_strict && lf_str_eq(h->name, LF_STR("get_time"))) assert_int_equal(lf_json_len(lf_json_root(&json)), 0);
    lf_json_deinit(&json);
}

static void hear(void *ctx, enum lf_answer_kind kind, struct lf_str bytes)
{
    struct heard *h = ctx;
    answer_parts_take(&h->parts, kind, bytes);
    if (kind == LF_ANSWER_TEXT) h->n_text += bytes.len;
    if (kind == LF_ANSWER_CALL) {
        h->name = bytes;
        for (size_t i = 0; i < LF_N_ELEMS(tools); i++)
            if (lf_str_eq(bytes, tools[i].name)) h->name = tools[i].name;
        lf_buf_clear(&h->arguments);
    }
    if (kind == LF_ANSWER_ARGUMENTS) lf_buf_str(&h->arguments, bytes);
    if (kind == LF_ANSWER_CALL_END) check_arguments(h);
}

/* A random answer, read by the parser as it comes. True: it came to its end. */
static bool walk(const struct lf_grammar *g, struct words *w, struct lf_answer_parser *p, struct heard *h,
                 struct lf_buf *answer)
{
    struct lf_answer_sink sink = {hear, h};
    struct lf_matcher *m = NULL;
    uint32_t mask[(TOKENS_MAX + 31) / 32], n_allowed;
    bool ended = false;
    answer_parts_init(&h->parts);
    lf_answer_parser_restart(p);
    assert_int_equal(lf_matcher_create(&m, g, w->v, NULL), LF_OK);
    for (int step = 0; step < STEPS_N && !ended; step++) {
        assert_int_equal(lf_matcher_mask(m, mask, &n_allowed), LF_OK);
        if (n_allowed == 0) fail_msg("nothing may follow %s", answer->ptr);
        int token = choose(w, mask);
        assert_int_equal(lf_matcher_accept(m, token), LF_OK);
        ended = token == w->end;
        bool is_control = token >= 256 && token < 256 + w->n_controls;
        struct lf_str text = w->tokens[token];
        if (is_control) text = lf_str_from(text.ptr + 1, text.len - 1);
        lf_buf_str(answer, text);
        assert_int_equal(lf_answer_parser_push(p, text, is_control, &sink), LF_OK);
    }
    assert_int_equal(lf_answer_parser_flush(p, &sink), LF_OK);
    answer_parts_close(&h->parts);
    lf_matcher_destroy(m);
    return ended;
}

struct tally {
    size_t n_ended, n_calls, n_text, n_many;
};

static struct tally walk_all(const struct lf_answer_format *f, const struct lf_answer_rules *rules, bool is_strict)
{
    struct words *w = malloc(sizeof(*w));
    struct lf_grammar *g = NULL;
    struct lf_answer_parser *p = NULL;
    struct lf_err err = {0};
    struct tally tally = {0};
    struct lf_answer_parser_params params = {
        .format = f, .reasoning = true, .prompt_end = rules->prompt_end, .tools = tools, .n_tools = LF_N_ELEMS(tools)};
    assert_non_null(w);
    words_init(w, f);
    if (lf_answer_format_grammar(&g, f, rules, NULL, &err) != LF_OK) fail_msg("%s: %s", f->name, err.message);
    assert_non_null(g);
    assert_int_equal(lf_answer_parser_create(&p, &params), LF_OK);
    for (int i = 0; i < WALKS_N; i++) {
        struct heard h = {.is_strict = is_strict};
        struct lf_buf answer;
        lf_buf_init(&answer, 1 << 20);
        lf_buf_init(&h.arguments, 1 << 20);
        bool ended = walk(g, w, p, &h, &answer);
        bool is_required = rules->choice == LF_TOOL_CHOICE_REQUIRED;
        if (ended && (h.parts.n_calls != h.parts.n_ends || (is_required && (h.n_text || h.parts.n_calls == 0))))
            fail_msg("%s: %s\n gives %s", f->name, answer.ptr, h.parts.text.ptr);
        if (!rules->parallel) assert_true(h.parts.n_calls <= 1 || !is_required);
        tally.n_ended += ended;
        tally.n_calls += h.parts.n_ends;
        tally.n_text += h.n_text;
        tally.n_many += h.parts.n_ends > 1;
        lf_buf_deinit(&h.parts.text);
        lf_buf_deinit(&h.arguments);
        lf_buf_deinit(&answer);
    }
    lf_answer_parser_destroy(p);
    lf_grammar_unref(g);
    lf_vocabulary_destroy(w->v);
    free(w);
    return tally;
}

static void required_answers_are_calls(void **state)
{
    (void)state;
    for (int strict = 0; strict < 2; strict++) {
        init_tools(strict);
        for (int i = 0; i < lf_answer_n_formats; i++) {
            const struct lf_answer_format *f = &lf_answer_formats[i];
            struct lf_answer_rules rules = {
                .tools = tools, .n_tools = LF_N_ELEMS(tools), .choice = LF_TOOL_CHOICE_REQUIRED};
            if (!lf_answer_format_has_tools(f)) continue;
            size_t n_many = 0;
            for (int how = 0; how < 4; how++) {
                rules.parallel = how & 1;
                rules.reasoning = how & 2;
                struct tally tally = walk_all(f, &rules, strict);
                if (tally.n_ended < WALKS_N / 3) fail_msg("%s: %zu answers ended", f->name, tally.n_ended);
                assert_true(tally.n_calls >= tally.n_ended);
                if (!rules.parallel) assert_int_equal(tally.n_many, 0);
                n_many += tally.n_many;
            }
            /* a token that ends a call of gpt-oss ends the answer */
            if (n_many == 0 && !f->is_channels && SLOWNESS == 1) fail_msg("%s: never two calls", f->name);
        }
        deinit_tools();
    }
}

/* Text is free, calls are not; where only one may come there is text behind it. */
static void answers_may_be_text_and_calls(void **state)
{
    (void)state;
    for (int strict = 0; strict < 2; strict++) {
        init_tools(strict);
        for (int i = 0; i < lf_answer_n_formats; i++) {
            const struct lf_answer_format *f = &lf_answer_formats[i];
            struct lf_answer_rules rules = {
                .tools = tools, .n_tools = LF_N_ELEMS(tools), .choice = LF_TOOL_CHOICE_AUTO};
            size_t n_calls = 0, n_text = 0;
            if (!lf_answer_format_has_tools(f)) continue;
            for (int how = 0; how < 4; how++) {
                char prompt[64];
                snprintf(prompt, sizeof(prompt), "%s", f->think ? f->think : "");
                rules.parallel = rules.reasoning = how & 1;
                rules.prompt_end = how & 2 ? lf_str_c(prompt) : LF_STR("");
                struct tally tally = walk_all(f, &rules, strict);
                n_calls += tally.n_calls;
                n_text += tally.n_text;
            }
            if (n_calls == 0 || n_text == 0) fail_msg("%s: %zu calls, %zu bytes", f->name, n_calls, n_text);
        }
        deinit_tools();
    }
}

/* Once the prompt has closed its reasoning there is no more, and where it has opened some that comes first. */
static void reasoning_goes_on_from_the_prompt(void **state)
{
    struct words *w = malloc(sizeof(*w));
    const struct lf_answer_format *f = lf_answer_format_by_name(LF_STR("hermes"));
    static const struct {
        const char *prompt_end;
        bool may_begin, call_may_begin;
    } cases[] = {{"", true, true}, {"<think>\n\n</think>\n\n", false, true}, {"<think>\n", true, true}};
    (void)state;
    assert_non_null(w);
    words_init(w, f);
    init_tools(false);
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) {
        struct lf_answer_rules rules = {.prompt_end = lf_str_c(cases[i].prompt_end),
                                        .reasoning = true,
                                        .tools = tools,
                                        .n_tools = LF_N_ELEMS(tools),
                                        .choice = LF_TOOL_CHOICE_REQUIRED};
        struct lf_grammar *g = NULL;
        assert_int_equal(lf_answer_format_grammar(&g, f, &rules, NULL, NULL), LF_OK);
        check_takes(g, w->v, "<think>", cases[i].may_begin, false);
        check_takes(g, w->v, "<tool_call>", cases[i].call_may_begin, false);
        lf_grammar_unref(g);
    }
    deinit_tools();
    lf_vocabulary_destroy(w->v);
    free(w);
}

/* Reasoning of Qwen3.5 that is not closed: a call in it is constrained, and what may follow it is what follows any. */
static void a_call_in_open_reasoning_is_constrained(void **state)
{
#define CALL(what) "<tool_call>\n<function=" what ">\n</function>\n</tool_call>"
    static const struct {
        const char *text;
        bool begins[2], whole; /* AUTO, REQUIRED */
    } cases[] = {
        {"a </thin", {true, true}, false},
        {"a\n" CALL("get_time"), {true, true}, true},
        {CALL("get_time") "\n" CALL("get_time"), {true, true}, true},
        {"a\n</think>\n\n" CALL("get_time"), {true, true}, true},
        {"a\n</think>\n\nText.", {true, false}, true},
        {"a\n" CALL("get_time") "\nText.", {true, false}, true},
        {"a\n" CALL("get_time") "\n</think>\nText.", {true, false}, true},
        {"a\n<tool_call>\n<function=weather_of", {false, false}, false},
        {"a <tool_call> tag</think>", {false, false}, false},
        {"a\n<tool_call>\n<function=weather>\n</function>", {false, false}, false}, /* city is required */
    };
#undef CALL
    struct words *w = malloc(sizeof(*w));
    const struct lf_answer_format *f = lf_answer_format_by_name(LF_STR("qwen3_xml"));
    (void)state;
    assert_non_null(w);
    words_init(w, f);
    init_tools(true);
    for (int i = 0; i < 4; i++) {
        bool is_required = i & 1;
        const char *prompt = i & 2 ? "<think>\n" : "";
        struct lf_answer_rules rules = {.prompt_end = lf_str_c(prompt),
                                        .reasoning = true,
                                        .tools = tools,
                                        .n_tools = LF_N_ELEMS(tools),
                                        .choice = is_required ? LF_TOOL_CHOICE_REQUIRED : LF_TOOL_CHOICE_AUTO,
                                        .parallel = true};
        struct lf_grammar *g = NULL;
        assert_int_equal(lf_answer_format_grammar(&g, f, &rules, NULL, NULL), LF_OK);
        for (size_t k = 0; k < LF_N_ELEMS(cases); k++) {
            char text[256];
            snprintf(text, sizeof text, "%s%s", *prompt ? "" : "<think>\n", cases[k].text);
            if (!*prompt && !is_required) continue; /* text may begin as anything */
            check_takes(g, w->v, text, cases[k].begins[is_required], cases[k].whole);
        }
        lf_grammar_unref(g);
    }
    deinit_tools();
    lf_vocabulary_destroy(w->v);
    free(w);
}

/* Where calls stand one behind the other, each in its own markers, there may be any number of them. */
static void required_calls_have_no_end(void **state)
{
    static const char call[] = "<tool_call>\n{\"name\": \"get_time\", \"arguments\": {}}\n</tool_call>\n";
    struct words *w = malloc(sizeof(*w));
    const struct lf_answer_format *f = lf_answer_format_by_name(LF_STR("hermes"));
    struct lf_answer_rules rules = {
        .tools = tools, .n_tools = LF_N_ELEMS(tools), .choice = LF_TOOL_CHOICE_REQUIRED, .parallel = true};
    struct lf_grammar *g = NULL;
    struct lf_buf text;
    (void)state;
    assert_non_null(w);
    words_init(w, f);
    init_tools(false);
    assert_int_equal(lf_answer_format_grammar(&g, f, &rules, NULL, NULL), LF_OK);
    lf_buf_init(&text, 1 << 16);
    for (int n = 1; n <= 50; n++) {
        lf_buf_clear(&text);
        for (int i = 0; i < n; i++) lf_buf_cstr(&text, call);
        text.len--; /* the last newline is not a call's */
        lf_buf_char(&text, 0);
        assert_int_equal(text.status, LF_OK);
        check_takes(g, w->v, text.ptr, true, true);
    }
    lf_buf_deinit(&text);
    lf_grammar_unref(g);
    deinit_tools();
    lf_vocabulary_destroy(w->v);
    free(w);
}

/* The control token of that text; -1: there is none. */
static int control_token(const struct words *w, const char *text)
{
    for (int i = 256; i < w->n; i++)
        if (w->tokens[i].len == strlen(text) + 1 && w->tokens[i].ptr[0] == LF_GRAMMAR_CONTROL &&
            memcmp(w->tokens[i].ptr + 1, text, strlen(text)) == 0)
            return i;
    return -1;
}

/* DeepSeek's markers have a control token in them, with which they are written; or as text. */
static void a_marker_is_taken_with_the_control_token_in_it(void **state)
{
    static const char dsml[] = "｜DSML｜", answer[] = "a <b><｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_time\">\n";
    struct words *w = malloc(sizeof(*w));
    const struct lf_answer_format *f = lf_answer_format_by_name(LF_STR("deepseek_v4"));
    struct lf_answer_rules rules = {.tools = tools, .n_tools = LF_N_ELEMS(tools), .choice = LF_TOOL_CHOICE_AUTO};
    struct lf_grammar *g = NULL;
    (void)state;
    assert_non_null(w);
    words_init(w, f);
    init_tools(false);
    assert_int_equal(lf_answer_format_grammar(&g, f, &rules, NULL, NULL), LF_OK);
    check_takes(g, w->v, answer, true, false);
    struct lf_matcher *m = NULL;
    int token = control_token(w, dsml);
    assert_true(token >= 0);
    assert_int_equal(lf_matcher_create(&m, g, w->v, NULL), LF_OK);
    for (const char *p = answer; *p;) {
        bool is_token = strncmp(p, dsml, strlen(dsml)) == 0;
        if (lf_matcher_accept(m, is_token ? token : (uint8_t)*p) != LF_OK) fail_msg("at %s", p);
        p += is_token ? strlen(dsml) : 1;
    }
    assert_false(lf_matcher_is_complete(m));
    lf_matcher_destroy(m);
    lf_grammar_unref(g);
    deinit_tools();
    lf_vocabulary_destroy(w->v);
    free(w);
}

/* Llama's calls have no marker: where a tool is strict, what begins as a call is one, and all other text is free. */
struct bare_case {
    const char *text;
    bool begins[2], whole; /* not strict, strict */
};

static void check_bare(const char *format, const struct bare_case *cases, size_t n)
{
    struct words *w = malloc(sizeof(*w));
    const struct lf_answer_format *f = lf_answer_format_by_name(lf_str_c(format));
    assert_non_null(w);
    words_init(w, f);
    for (int strict = 0; strict < 2; strict++) {
        struct lf_answer_rules rules = {.tools = tools, .n_tools = LF_N_ELEMS(tools), .choice = LF_TOOL_CHOICE_AUTO};
        struct lf_grammar *g = NULL;
        init_tools(strict);
        assert_int_equal(lf_answer_format_grammar(&g, f, &rules, NULL, NULL), LF_OK);
        for (size_t i = 0; i < n; i++) check_takes(g, w->v, cases[i].text, cases[i].begins[strict], cases[i].whole);
        lf_grammar_unref(g);
        deinit_tools();
    }
    lf_vocabulary_destroy(w->v);
    free(w);
}

static void a_bare_call_of_a_strict_tool_is_constrained(void **state)
{
    static const struct bare_case objects[] = {
        {"", {true, true}, true},
        {"Rome.", {true, true}, true},
        {"{\"answer\": {}}", {true, true}, true},
        {"{\"na", {true, true}, true},
        {"{\"name\": 5", {true, true}, true},
        {"<b>", {true, true}, true},
        {"{\"name\": \"get_time\", \"parameters\": {}}", {true, true}, true},
        {"{\"name\": \"Ada", {true, false}, true},
        {"{\"name\": \"weather\", \"parameters\": {\"days\"", {true, false}, true},
        {"<|python_tag|>{\"name\": \"weather\", \"parameters\": {\"city\"", {true, true}, false},
        {"<|python_tag|>print", {false, false}, false},
    };
    static const struct bare_case lists[] = {
        {"", {true, true}, true},
        {"[", {true, true}, true},
        {"[1] says", {true, true}, true},
        {"<b> [get_time(", {true, true}, true},
        {"[get_time()]", {true, true}, true},
        {"[Ada]", {true, false}, true},
        {"[get_time(a=1)]", {true, false}, true},
        {"<|python_start|>[weather(city=", {true, true}, false},
        {"<|python_start|>[rain(", {false, false}, false},
    };
    (void)state;
    check_bare("llama3", objects, LF_N_ELEMS(objects));
    check_bare("pythonic", lists, LF_N_ELEMS(lists));
}

/* Templates write them with a space behind the comma, models with and without. */
static void a_space_may_stand_between_calls_of_a_list(void **state)
{
    static const char *const formats[][3] = {{"mistral", "[TOOL_CALLS][", "]"},
                                             {"nemotron", "<TOOLCALL>[", "]</TOOLCALL>"},
                                             {"granite", "<|tool_call|>[", "]"}};
    static const char *const between[] = {",", ", ", ",  "};
    static const char call[] = "{\"name\": \"get_time\", \"arguments\": {}}";
    (void)state;
    for (size_t i = 0; i < LF_N_ELEMS(formats); i++) {
        struct words *w = malloc(sizeof(*w));
        const struct lf_answer_format *f = lf_answer_format_by_name(lf_str_c(formats[i][0]));
        struct lf_answer_rules rules = {
            .tools = tools, .n_tools = LF_N_ELEMS(tools), .choice = LF_TOOL_CHOICE_REQUIRED, .parallel = true};
        struct lf_grammar *g = NULL;
        assert_non_null(w);
        words_init(w, f);
        init_tools(true);
        assert_int_equal(lf_answer_format_grammar(&g, f, &rules, NULL, NULL), LF_OK);
        for (size_t k = 0; k < LF_N_ELEMS(between); k++) {
            char text[256];
            snprintf(text, sizeof text, "%s%s%s%s%s", formats[i][1], call, between[k], call, formats[i][2]);
            check_takes(g, w->v, text, k < 2, k < 2);
        }
        lf_grammar_unref(g);
        deinit_tools();
        lf_vocabulary_destroy(w->v);
        free(w);
    }
}

/* With a format for text the answer is calls, or text of that format. */
static void text_may_have_a_format(void **state)
{
    const struct lf_grammar_part content = {.kind = LF_PART_SCHEMA};
    (void)state;
    init_tools(false);
    for (int i = 0; i < lf_answer_n_formats; i++) {
        const struct lf_answer_format *f = &lf_answer_formats[i];
        struct lf_answer_rules rules = {
            .tools = tools, .n_tools = LF_N_ELEMS(tools), .reasoning = true, .content = &content};
        for (int choice = LF_TOOL_CHOICE_NONE; choice <= LF_TOOL_CHOICE_AUTO; choice++) {
            rules.choice = (enum lf_tool_choice)choice;
            struct tally tally = walk_all(f, &rules, false);
            if (tally.n_ended == 0) fail_msg("%s: no answer ended", f->name);
            if (choice == LF_TOOL_CHOICE_NONE) assert_int_equal(tally.n_calls, 0);
            if (choice == LF_TOOL_CHOICE_NONE) assert_true(tally.n_text >= 2 * tally.n_ended);
        }
    }
    deinit_tools();
}

static void where_anything_may_come_there_is_no_grammar(void **state)
{
    struct lf_answer_rules rules = {.reasoning = true, .choice = LF_TOOL_CHOICE_AUTO};
    (void)state;
    init_tools(true);
    for (int i = 0; i < lf_answer_n_formats; i++) {
        struct lf_grammar *g = (struct lf_grammar *)&rules;
        rules.choice = LF_TOOL_CHOICE_AUTO;
        rules.n_tools = 0;
        assert_int_equal(lf_answer_format_grammar(&g, &lf_answer_formats[i], &rules, NULL, NULL), LF_OK);
        assert_null(g);
        rules.tools = tools;
        rules.n_tools = 2;
        rules.choice = LF_TOOL_CHOICE_NONE;
        g = (struct lf_grammar *)&rules;
        assert_int_equal(lf_answer_format_grammar(&g, &lf_answer_formats[i], &rules, NULL, NULL), LF_OK);
        assert_null(g);
    }
    deinit_tools();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(required_answers_are_calls),
        cmocka_unit_test(reasoning_goes_on_from_the_prompt),
        cmocka_unit_test(a_call_in_open_reasoning_is_constrained),
        cmocka_unit_test(required_calls_have_no_end),
        cmocka_unit_test(a_marker_is_taken_with_the_control_token_in_it),
        cmocka_unit_test(answers_may_be_text_and_calls),
        cmocka_unit_test(a_bare_call_of_a_strict_tool_is_constrained),
        cmocka_unit_test(a_space_may_stand_between_calls_of_a_list),
        cmocka_unit_test(text_may_have_a_format),
        cmocka_unit_test(where_anything_may_come_there_is_no_grammar),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
