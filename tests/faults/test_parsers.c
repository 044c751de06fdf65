/* The allocation sweep over what reads bytes of others: JSON, requests, templates, settings, keys. */
#include "server/config.h"
#include "server/http/conn/auth.h"
#include "server/http/api/messages.h"
#include "server/http/api/openai_request.h"
#include "server/http/api/prompts.h"
#include "tests/faults/sweep.h"
#include "tests/support/temp_dir.h"
#include "tests/support/chat_messages.h"
#include "template/answer_format.h"
#include "template/chat_template.h"

static enum lf_status read_json(const void *ctx)
{
    struct lf_json doc = {0};
    struct lf_buf text;
    struct lf_err err;
    lf_buf_init(&text, 1 << 20);
    enum lf_status status = lf_json_parse(&doc, lf_str_c(ctx), &lf_json_limits_request, &err);
    for (uint32_t i = 0; status == LF_OK && i < doc.n_nodes; i++) {
        struct lf_json_value v = {.json = &doc, .idx = i};
        if (lf_json_type(v) == LF_JSON_STRING && !lf_json_string(v, &text)) status = text.status;
    }
    lf_json_deinit(&doc);
    lf_buf_deinit(&text);
    return status;
}

/* What is wrong with it is found, unless there is no memory to look. */
static enum lf_status read_refused_json(const void *ctx)
{
    struct lf_json doc = {0};
    struct lf_err err = {0};
    enum lf_status status = lf_json_parse(&doc, lf_str_c(ctx), &lf_json_limits_request, &err);
    if (status == LF_OK) return LF_CORRUPT; /* which the sweep refuses */
    return status == LF_INVALID && strstr(err.message, "a name appears twice") ? LF_OK : status;
}

static void json_parse_and_read(void **state)
{
    (void)state;
    sweep("JSON with strings and numbers", read_json, "{\"a\":[1,\"\\u00e9x\",{\"b\":\"c\"},2.5e3],\"d\":null}", 2);
    sweep("JSON of nothing", read_json, "\"\"", 1);
    sweep("JSON with escaped names", read_json, "{\"\\u0061\":1,\"\\u0062\":2,\"c\":3}", 3);
    sweep("JSON with a name twice", read_refused_json, "{\"\\u0061\":1,\"b\":2,\"a\":3}", 3);
}

/* ---- answers ---- */

struct an_answer {
    const char *format, *answer;
    size_t n_calls;
};

static const char weather_schema[] =
    "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"},\"unit\":{\"enum\":"
    "[\"C\",\"F\"]}},\"required\":[\"city\"]}";

static void count_calls(void *ctx, enum lf_answer_kind kind, struct lf_str bytes)
{
    (void)bytes;
    *(size_t *)ctx += kind == LF_ANSWER_CALL_END;
}

static enum lf_status take_apart(const struct an_answer *a, const struct lf_tool *tool)
{
    size_t n = 0;
    struct lf_answer_sink sink = {count_calls, &n};
    struct lf_answer_parser *p = NULL;
    struct lf_answer_parser_params params = {
        .format = lf_answer_format_by_name(lf_str_c(a->format)), .reasoning = true, .tools = tool, .n_tools = 1};
    enum lf_status status = lf_answer_parser_create(&p, &params);
    if (status == LF_OK) status = lf_answer_parser_push(p, lf_str_c(a->answer), false, &sink);
    if (status == LF_OK) status = lf_answer_parser_flush(p, &sink);
    lf_answer_parser_destroy(p);
    return status == LF_OK && n != a->n_calls ? LF_CORRUPT : status;
}

/* The tool, an answer with calls of it, and the grammar of such answers. */
static enum lf_status read_answer(const void *ctx)
{
    const struct an_answer *a = ctx;
    struct lf_json schema = {0};
    struct lf_arena arena;
    struct lf_tool tool;
    struct lf_grammar *grammar = NULL;
    struct lf_answer_rules rules = {
        .tools = &tool, .n_tools = 1, .choice = LF_TOOL_CHOICE_AUTO, .parallel = true, .reasoning = true};
    lf_arena_init(&arena, 1024, 1 << 20);
    enum lf_status status = lf_json_parse(&schema, lf_str_c(weather_schema), &lf_json_limits_request, NULL);
    if (status == LF_OK) status = lf_tool_init(&tool, LF_STR("weather"), lf_json_root(&schema), &arena);
    if (status == LF_OK) {
        tool.strict = true;
        status = take_apart(a, &tool);
    }
    if (status == LF_OK)
        status = lf_answer_format_grammar(&grammar, lf_answer_format_by_name(lf_str_c(a->format)), &rules, NULL, NULL);
    lf_grammar_unref(grammar);
    lf_arena_deinit(&arena);
    lf_json_deinit(&schema);
    return status;
}

static void answers(void **state)
{
    static const struct an_answer hermes = {
        "hermes", "<think>a</think><tool_call>{\"arguments\": {\"city\": \"Rome\"}, \"name\": \"weather\"}</tool_call>",
        1};
    static const struct an_answer xml = {
        "qwen3_xml", "<tool_call><function=weather><parameter=unit>C</parameter></function></tool_call>", 1};
    (void)state;
    sweep("an answer with a call in JSON", read_answer, &hermes, 3);
    sweep("an answer with a call's parameters", read_answer, &xml, 3);
}

/* ---- requests ---- */

struct request {
    enum lf_ask_kind kind;
    const char *body;
};

static struct lf_prompt_source source = {.ctx = 512};

static enum lf_status status_of(enum lf_status status, const struct lf_api_err *err)
{
    return status == LF_INVALID && err->status == 503 ? LF_NO_MEMORY : status;
}

static enum lf_status read_request(const void *ctx)
{
    const struct request *r = ctx;
    const struct lf_ask_limits limits = {.max_choices = 4, .n_vocab = lf_tokenizer_n_vocab(source.tok)};
    struct lf_json body = {0};
    struct lf_ask ask;
    struct lf_prompts prompts = {0};
    struct lf_api_err err = {0};
    enum lf_status status = lf_json_parse(&body, lf_str_c(r->body), &lf_json_limits_request, NULL);
    if (status != LF_OK) return status;
    status = status_of(lf_ask_read(&ask, r->kind, &body, &limits, &err), &err);
    if (status == LF_OK && r->kind != LF_ASK_DETOKENIZE)
        status = status_of(lf_prompts_read(&prompts, &ask, &source, &err), &err);
    lf_prompts_deinit(&prompts);
    lf_ask_deinit(&ask);
    lf_json_deinit(&body);
    return status;
}

static void requests_of_every_kind(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct request request;
    } cases[] = {
        {"completion of a text",
         {LF_ASK_COMPLETION, "{\"prompt\":\"the king\",\"stop\":[\"a\",\"b\"],\"logit_bias\":{\"5\":1},\"seed\":1}"}},
        {"completion of many texts", {LF_ASK_COMPLETION, "{\"prompt\":[\"the\",\"king\",\"\\u00e9\"]}"}},
        {"completion of ids", {LF_ASK_COMPLETION, "{\"prompt\":[[1,2,3],[4]],\"stop_token_ids\":[7]}"}},
        {"chat", {LF_ASK_CHAT, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"a <s> b\"}]}"}},
        {"chat of parts",
         {LF_ASK_CHAT, "{\"messages\":[{\"role\":\"developer\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}],"
                       "\"cache_salt\":\"s\",\"chat_template_kwargs\":{\"thinking\":\"no\"}}"}},
        {"tokenize", {LF_ASK_TOKENIZE, "{\"content\":\"the king\",\"add_special_tokens\":false}"}},
        {"detokenize", {LF_ASK_DETOKENIZE, "{\"tokens\":[1,2,3],\"model\":\"m\"}"}},
    };
    struct lf_tokenizer *tok = NULL;
    struct lf_chat_template *chat = NULL;
    assert_int_equal(lf_tokenizer_open(&tok, "tests/golden/tokenizer/sp-bpe", NULL), LF_OK);
    assert_int_equal(lf_chat_template_create(&chat,
                                             LF_STR("{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content | "
                                                    "trim }}{{ thinking }}{% endfor %}"),
                                             NULL),
                     LF_OK);
    source.tok = tok;
    source.chat = chat;
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) sweep(cases[i].name, read_request, &cases[i].request, 2);
    lf_chat_template_destroy(chat);
    lf_tokenizer_close(tok);
}

static enum lf_status write_refusal(const void *ctx)
{
    struct lf_reply reply;
    const struct lf_api_err *err = ctx;
    lf_reply_init(&reply);
    lf_reply_error(&reply, err);
    enum lf_status status = reply.body.status;
    lf_reply_deinit(&reply);
    return status;
}

static void refusals(void **state)
{
    (void)state;
    struct lf_api_err err;
    assert_int_equal(lf_refuse(&err, 400, "n", "invalid_value", "n: expected another, got %d", 7), LF_INVALID);
    sweep("a refusal as JSON", write_refusal, &err, 1);
}

/* ---- templates ---- */

static enum lf_status render(const void *ctx)
{
    struct lf_chat_template *t = NULL;
    struct lf_chat_text out = {0};
    struct lf_json request = {0};
    struct lf_err err = {0};
    static const char text[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\\n\"},{\"role\":\"assistant\","
                               "\"content\":\"a b\"}],\"extra\":{\"x\":[3,\"b\",{\"k\":\"v\"}]}}";
    enum lf_status status = lf_json_parse(&request, lf_str_c(text), &lf_json_limits_request, NULL);
    if (status == LF_OK) status = lf_chat_template_create(&t, lf_str_c(ctx), &err);
    if (status == LF_OK) {
        struct lf_json_value root = lf_json_root(&request);
        const struct lf_chat_render_params p = {CHAT_MESSAGES(lf_json_get(root, "messages")),
                                                .extra = lf_json_get(root, "extra"), .bos_token = LF_STR("<s>")};
        status = lf_chat_template_render(t, &out, &p, &err);
    }
    lf_chat_text_deinit(&out);
    lf_chat_template_destroy(t);
    lf_json_deinit(&request);
    return status;
}

static void templates(void **state)
{
    (void)state;
    static const struct {
        const char *name, *source;
    } cases[] = {
        {"template: text", "plain"},
        {"template: messages",
         "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m['content'] | trim }}{% endfor %}"},
        {"template: macro and namespace",
         "{% macro f(a, b=2) %}{{ a * b }}{% endmacro %}{% set ns = namespace(n=0) %}{% for x in range(40) %}"
         "{% set ns.n = ns.n + x %}{% endfor %}{{ f(ns.n) }}"},
        {"template: call", "{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}x{% endcall %}"},
        {"template: filters",
         "{{ x | map('string') | join(',') }}{{ messages | tojson(indent=2) }}{{ 'b,a'.split(',') | "
         "sort | first | upper }}{{ messages | selectattr('role', 'equalto', 'user') | list | length }}"},
        {"template: texts", "{{ 'x' * 5000 }}{{ 'abc'[::-1] ~ 'é'.upper() }}{{ '%s-%d' | format('a', 3) }}"},
        {"template: containers",
         "{% set d = {'k': [1, (2, 3)]} %}{% for k, v in d.items() %}{{ k }}{{ v[-1][0] }}{% endfor %}"
         "{{ (messages + [d])[1:] | length }}"},
    };
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) sweep(cases[i].name, render, cases[i].source, 3);
}

/* Every statement and every kind of expression, so that a comment before them moves them through the parser's blocks.
 */
static const char grammar[] =
    "x{% if a == 1 or not b and c in d %}x{% elif e is not none %}y{% else %}z{% endif %}"
    "{% for k, (v, w) in d.items() if v is string %}{% break %}{% else %}n{% endfor %}"
    "{% set a, b = 1, 2 %}{% set ns.x = 3 %}{% set t | upper | trim %}q{% endset %}"
    "{% macro m(a, b=2, c=[1]) %}{{ a }}{{ caller() }}{{ varargs }}{% endmacro %}"
    "{% call(x, y=1) m(1, c=3, *[2], **{'k': 4}) %}{{ x }}{% endcall %}"
    "{% filter upper | replace('a', 'b') %}abc{% endfilter %}{% with a = 1, b = a + 2 %}{{ b }}{% endwith %}"
    "{% generation %}g{% endgeneration %}{% print a, b %}"
    "{{ (1, 2)[0:1:2] }}{{ x[1, 2] }}{{ x.0.y().z }}{{ {1: -2, 'a': 'b' 'c' } }}{{ () }}"
    "{{ +1 ~ 3 * 4 ~ 'e' }}{{ 1 < 2 <= 3 not in [7] }}{{ a if b else c if d }}"
    "{{ x is divisibleby(3) }}{{ x is divisibleby 3 }}{{ x is not defined }}{{ x is sameas x.y[0] }}"
    "{{ x | default(1.5, true) | trim }}";

/* No piece of a template is smaller. */
enum { PAD_BYTES = 32 };

/* So many spaces before it that a block of 32 KiB ends PAD_BYTES earlier in it for each i. */
static void pad_template(void *ctx, int i)
{
    struct lf_buf *text = ctx;
    lf_buf_clear(text);
    lf_buf_cstr(text, "{#");
    for (int k = 0; k < PAD_BYTES * i; k++) lf_buf_char(text, ' ');
    lf_buf_cstr(text, "#}");
    lf_buf_cstr(text, grammar);
}

static enum lf_status parse_template(const void *ctx)
{
    struct lf_chat_template *t = NULL;
    struct lf_err err = {0};
    enum lf_status status = lf_chat_template_create(&t, lf_buf_view(ctx), &err);
    lf_chat_template_destroy(t);
    return status;
}

static void any_node_of_a_template_is_the_last_there_is_memory_for(void **state)
{
    (void)state;
    struct lf_buf text;
    lf_buf_init(&text, 1 << 20);
    sweep_variants("template: every node", parse_template, pad_template, &text, 32 * 1024 / PAD_BYTES);
    lf_buf_deinit(&text);
}

/* What is made while it renders lies in chunks of its own. */
struct rendering {
    struct lf_chat_template *t;
    struct lf_json messages;
    struct lf_buf text, want; /* the messages, and what comes of them */
};

enum { RENDER_CHUNK_BYTES = 64 * 1024, RENDER_PAD_BYTES = 16 };

/* A message with so long a member that no template names that a chunk ends RENDER_PAD_BYTES earlier for each i. The
 * escape makes a copy of it. */
static void pad_message(void *ctx, int i)
{
    struct rendering *r = ctx;
    lf_json_deinit(&r->messages);
    lf_buf_clear(&r->text);
    lf_buf_cstr(&r->text, "[{\"role\":\"user\",\"content\":\"Hi\",\"pad\":\"\\n");
    for (int k = 0; k < RENDER_PAD_BYTES * i; k++) lf_buf_char(&r->text, ' ');
    lf_buf_cstr(&r->text, "\"},{\"role\":\"assistant\",\"content\":\"a b\",\"reasoning\":\"why\"}]");
    assert_int_equal(lf_json_parse(&r->messages, lf_buf_view(&r->text), &lf_json_limits_request, NULL), LF_OK);
}

/* What does without the memory says the same. */
static enum lf_status render_padded(const void *ctx)
{
    const struct rendering *r = ctx;
    struct lf_chat_text out = {0};
    struct lf_err err = {0};
    const struct lf_chat_render_params p = {CHAT_MESSAGES(lf_json_root(&r->messages)), .bos_token = LF_STR("<s>")};
    enum lf_status status = lf_chat_template_render(r->t, &out, &p, &err);
    bool same = status != LF_OK || lf_str_eq(lf_buf_view(&out.text), lf_buf_view(&r->want));
    lf_chat_text_deinit(&out);
    return same ? status : LF_CORRUPT;
}

static void any_piece_of_a_render_is_the_last_there_is_memory_for(void **state)
{
    (void)state;
    static const char everything[] =
        "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ m.thinking }}{{ m.reasoning_content }}"
        "{% endfor %}{{ 'x'.center(4) }}{{ 'x'.ljust(3, '.') }}{{ 'a,b,c'.rsplit(',', 1) }}{{ 'a-b'.partition('-') }}"
        "{{ '%5s|%-3d|%r' % ('a', 7, [1.5]) }}{{ '{:>4}{}'.format('b', 2) }}{{ 'a b'|title|replace('A', 'c') }}"
        "{{ {'k': (1, 2), 3: none}|tojson(indent=1) }}{{ [3, 1, 2]|sort|map('string')|join('-') }}"
        "{{ {'b': 1, 'a': 2}|dictsort }}{{ 'q\nr'|indent }}{{ 'x' * 3 ~ 'abc'[::-1] }}{{ [1] + [2] * 2 }}";
    static const char want[] =
        "<s><user>Hi<assistant>a bwhywhy x  x..['a,b', 'c']('a', '-', 'b')    a|7  |[1.5]   b2c B"
        "{\n \"k\": [\n  1,\n  2\n ],\n \"3\": null\n}1-2-3[('a', 2), ('b', 1)]q\n    r"
        "xxxcba[1, 2, 2]";
    struct rendering r = {0};
    struct lf_err err = {0};
    lf_buf_init(&r.text, 1 << 20);
    lf_buf_init(&r.want, 1 << 20);
    lf_buf_cstr(&r.want, want);
    assert_int_equal(lf_chat_template_create(&r.t, lf_str_c(everything), &err), LF_OK);
    sweep_variants("template: every piece of a render", render_padded, pad_message, &r,
                   RENDER_CHUNK_BYTES / RENDER_PAD_BYTES);
    lf_chat_template_destroy(r.t);
    lf_json_deinit(&r.messages);
    lf_buf_deinit(&r.text);
    lf_buf_deinit(&r.want);
}

/* ---- settings and keys ---- */

static enum lf_status read_config(const void *ctx)
{
    char *const argv[] = {(char[]){"--model"}, (char[]){"m"}, (char[]){"--cors-origin=a,b"}, (char[]){"--ctx=4K"},
                          NULL};
    char config_env[600];
    char *const env[] = {config_env, (char[]){"LONGFLASH_QUEUE=9"}, NULL};
    struct lf_config config = {0};
    struct lf_err err;
    snprintf(config_env, sizeof config_env, "LONGFLASH_CONFIG=%s", (const char *)ctx);
    enum lf_status status = lf_config_read(&config, LF_COMMAND_SERVE, 4, argv, env, &err);
    lf_config_deinit(&config);
    return status;
}

static enum lf_status read_keys(const void *ctx)
{
    struct lf_keys keys = {0};
    struct lf_err err;
    enum lf_status status = lf_keys_init(&keys, ctx, "one,two", &err);
    if (status == LF_OK) status = lf_keys_reload(&keys, &err);
    lf_keys_deinit(&keys);
    return status;
}

static void settings_and_keys(void **state)
{
    (void)state;
    sweep("settings", read_config, "configs/demo.json", 4);
    sweep("keys", read_keys, NULL, 2);
    struct temp_dir dir = temp_dir_make();
    char path[512];
    temp_dir_write_text(&dir, "keys", "# ours\nthree\nfour\n");
    temp_dir_path(&dir, "keys", path);
    sweep("keys of a file", read_keys, path, 3);
    temp_dir_remove(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_parse_and_read),
        cmocka_unit_test(answers),
        cmocka_unit_test(requests_of_every_kind),
        cmocka_unit_test(refusals),
        cmocka_unit_test(templates),
        cmocka_unit_test(settings_and_keys),
        cmocka_unit_test(any_node_of_a_template_is_the_last_there_is_memory_for),
        cmocka_unit_test(any_piece_of_a_render_is_the_last_there_is_memory_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
