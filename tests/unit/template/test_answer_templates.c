/* Templates and the formats of answers that they show: what a template writes of an assistant's turn, the format reads
 * as that turn behind the prompt of the same template, and its grammar takes it as it stands. */
#include "tests/support/test.h"

#include "core/file.h"
#include "template/chat_template.h"
#include "tests/support/chat_messages.h"
#include "tests/unit/template/answer_words.h"

static const char schema[] =
    "{\"type\": \"object\", \"properties\": {\"text\": {\"type\": \"string\"}, \"maybe\": {\"anyOf\": [{\"type\": "
    "\"string\"}, {\"type\": \"null\"}]}, \"n\": {\"type\": \"integer\"}, \"ok\": {\"type\": \"boolean\"}, \"list\": "
    "{\"type\": \"array\", \"items\": {\"type\": \"number\"}}, \"o\": {\"type\": \"object\", \"properties\": {\"a\": "
    "{\"type\": \"string\"}}, \"additionalProperties\": false}}, \"required\": [\"text\"], \"additionalProperties\": "
    "false}";
#define CALL(arguments) "{\"type\": \"function\", \"function\": {\"name\": \"get\", \"arguments\": " arguments "}}"
#define ALL                                                                                                            \
    "{\"text\": \"5\", \"maybe\": \"null or\", \"n\": 5, \"ok\": true, \"list\": [1, 2.5], \"o\": {\"a\": \"b\"}}"

struct turn_case {
    const char *file, *format;
    const char *extra;        /* variables of the template */
    const char *turn, *parts; /* members of the message */
};

/* The source of a template in tests/golden/chat, and it. */
static struct lf_chat_template *open_template(struct lf_buf *source, const char *file)
{
    char path[256];
    struct lf_err err = {0};
    struct lf_chat_template *t = NULL;
    snprintf(path, sizeof path, "tests/golden/chat/templates/%s", file);
    lf_buf_init(source, LF_TEMPLATE_SOURCE_BYTES);
    if (lf_file_read(source, path, LF_TEMPLATE_SOURCE_BYTES, &err) != LF_OK) fail_msg("%s", err.message);
    if (lf_chat_template_create(&t, lf_buf_view(source), &err) != LF_OK) fail_msg("%s", err.message);
    return t;
}

/* The first n messages of a conversation, as a prompt where `opens`. */
static void render(struct lf_chat_text *out, const struct lf_chat_template *t, struct lf_json_value messages, size_t n,
                   struct lf_json_value extra, bool opens)
{
    struct lf_err err = {0};
    struct lf_chat_render_params p = {
        .messages = chat_messages_of(messages), .n_messages = n, .extra = extra, .add_generation_prompt = opens};
    if (lf_chat_template_render(t, out, &p, &err) != LF_OK) fail_msg("%s", err.message);
}

static void check_answer(const struct turn_case *c, const struct lf_answer_format *f, struct lf_str prompt_end,
                         struct lf_str answer, const struct lf_tool *tool)
{
    struct lf_answer_parser_params params = {
        .format = f, .reasoning = true, .prompt_end = prompt_end, .tools = tool, .n_tools = 1};
    struct lf_answer_rules rules = {.prompt_end = prompt_end,
                                    .reasoning = true,
                                    .tools = tool,
                                    .n_tools = 1,
                                    .choice = LF_TOOL_CHOICE_AUTO,
                                    .parallel = true};
    struct words *w = malloc(sizeof(*w));
    struct lf_answer_parser *p = NULL;
    struct lf_grammar *g = NULL;
    struct answer_parts parts;
    char *text = strndup(answer.ptr, answer.len);
    assert_non_null(w);
    assert_non_null(text);
    assert_int_equal(lf_answer_parser_create(&p, &params), LF_OK);
    answer_parts_of(&parts, p, answer, NULL, NULL);
    if (strcmp(parts.text.ptr, c->parts) != 0)
        fail_msg("%s: %s\ngives %s\n want %s", c->file, text, parts.text.ptr, c->parts);
    words_init(w, f);
    assert_int_equal(lf_answer_format_grammar(&g, f, &rules, NULL, NULL), LF_OK);
    check_takes(g, w->v, text, true, true);
    lf_grammar_unref(g);
    lf_vocabulary_destroy(w->v);
    lf_buf_deinit(&parts.text);
    lf_answer_parser_destroy(p);
    free(text);
    free(w);
}

static void check_turn(const struct turn_case *c, const struct lf_tool *tool)
{
    char conversation[2048];
    struct lf_json json, extra;
    struct lf_buf source;
    struct lf_chat_text prompt = {0}, whole = {0};
    struct lf_chat_template *t = open_template(&source, c->file);
    const struct lf_answer_format *f = lf_answer_format_of_template(lf_buf_view(&source));
    assert_string_equal(lf_answer_format_name(f), c->format);
    assert_true(lf_answer_format_shows_reasoning(f, lf_buf_view(&source)));
    snprintf(conversation, sizeof conversation,
             "[{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", %s}, {\"role\": \"tool\", "
             "\"content\": \"5\"}]",
             c->turn);
    assert_int_equal(lf_json_parse(&json, lf_str_c(conversation), &lf_json_limits_request, NULL), LF_OK);
    assert_int_equal(lf_json_parse(&extra, lf_str_c(c->extra), &lf_json_limits_request, NULL), LF_OK);
    render(&prompt, t, lf_json_root(&json), 1, lf_json_root(&extra), true);
    render(&whole, t, lf_json_root(&json), 3, lf_json_root(&extra), false);
    struct lf_str head = lf_buf_view(&prompt.text), rest = lf_buf_view(&whole.text);
    if (!lf_str_starts(rest, head)) fail_msg("%s:\n%s\ngoes on as\n%s", c->file, head.ptr, rest.ptr);
    rest = lf_str_from(rest.ptr + head.len, rest.len - head.len);
    rest.len = (size_t)lf_str_find(rest, LF_STR("<|im_end|>"));
    check_answer(c, f, head, rest, tool);
    lf_chat_text_deinit(&prompt);
    lf_chat_text_deinit(&whole);
    lf_chat_template_destroy(t);
    lf_buf_deinit(&source);
    lf_json_deinit(&json);
    lf_json_deinit(&extra);
}

static void what_a_template_writes_is_read_back(void **state)
{
    static const struct turn_case cases[] = {
        {"parameters.jinja", "qwen3_xml", "{}",
         "\"reasoning_content\": \"hm\", \"content\": \"I look.\", \"tool_calls\": [" CALL(ALL) "]",
         "R(hm)T(I look.)C(get)A(" ALL ")E"},
        {"parameters.jinja", "qwen3_xml", "{\"enable_thinking\": true}",
         "\"reasoning_content\": \"a\\n\\nb\", \"content\": \"\", \"tool_calls\": [" CALL(
             "{\"text\": \"\\nx\\n\", \"maybe\": null}") ", " CALL("{\"text\": \"\"}") "]",
         "R(a\n\nb)C(get)A({\"text\": \"\\nx\\n\", \"maybe\": null})EC(get)A({\"text\": \"\"})E"},
        {"parameters.jinja", "qwen3_xml", "{\"enable_thinking\": false}", "\"content\": \"No <tool> is needed.\"",
         "T(No <tool> is needed.)"},
        {"thinker.jinja", "hermes", "{}",
         "\"reasoning_content\": \"hm\", \"content\": \"I look.\", \"tool_calls\": [" CALL(ALL) ", " CALL(
             "{\"text\": \"\"}") "]",
         "R(hm)T(I look.)C(get)A(" ALL ")EC(get)A({\"text\": \"\"})E"},
        {"thinker.jinja", "hermes", "{}", "\"reasoning_content\": \"hm\", \"content\": \"Yes.\"", "R(hm)T(Yes.)"},
    };
    struct lf_arena arena;
    struct lf_json json;
    struct lf_tool tool;
    (void)state;
    lf_arena_init(&arena, 1024, 1 << 20);
    assert_int_equal(lf_json_parse(&json, lf_str_c(schema), &lf_json_limits_request, NULL), LF_OK);
    assert_int_equal(lf_tool_init(&tool, LF_STR("get"), lf_json_root(&json), &arena), LF_OK);
    tool.strict = true;
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) check_turn(&cases[i], &tool);
    lf_json_deinit(&json);
    lf_arena_deinit(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_a_template_writes_is_read_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
