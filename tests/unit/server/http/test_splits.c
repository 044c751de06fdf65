/* A stream adds up to the whole answer, byte for byte, wherever the model's tokens end: random splits of answers that
 * reason, talk and call tools, in both dialects that know these, with several choices, stop strings and
 * log-probabilities. */
#include <stdlib.h>

#include "core/check.h"
#include "core/json.h"
#include "core/mix.h"
#include "server/http/api/stream.h"
#include "server/http/api/whole.h"
#include "tests/support/fake_tokenizer.h"
#include "tests/unit/server/http/generation_rig.h"

enum { ROUNDS = 150, FIRST_ADDED = 256 + 19, CHOICES = 2 };

/* ---- random tokens ---- */

static const struct {
    const char *text;
    bool is_control;
} added[] = {
    {"<tool_call>", true},   {"</tool_call>", true}, {"<think>", true},   {"</think>", true},  {"<tool", false},
    {"_call>\n", false},     {"{\"name\"", false},   {": {\"", false},    {"\"}}\n</", false}, {"</th", false},
    {"\xE6\x97\xA5", false}, {"ink>\n\n", false},    {" me look", false}, {"\\u00d8", false},
};

static uint64_t n_drawn;

static uint32_t draw(uint32_t n)
{
    return (uint32_t)(lf_random64(0x5eed, n_drawn++) % n);
}

static int setup(void **state)
{
    (void)state;
    for (size_t i = 0; i < LF_N_ELEMS(added); i++) assert_true(fake_tokenizer_add(added[i].text, added[i].is_control));
    assert_int_equal(lf_tokenizer_n_vocab(fake_tokenizer()), FIRST_ADDED + (int)LF_N_ELEMS(added));
    return 0;
}

/* The next token of a text: one of those added that stand there, or its byte. */
static int32_t next_token(const char *text, bool in_bytes, size_t *len)
{
    int32_t id = (unsigned char)text[0];
    *len = 1;
    for (size_t i = 0; i < LF_N_ELEMS(added) && !in_bytes; i++) {
        size_t n = strlen(added[i].text);
        if (strncmp(text, added[i].text, n) != 0 || draw(2)) continue;
        id = FIRST_ADDED + (int32_t)i;
        *len = n;
    }
    return id;
}

/* ---- what a client makes of an answer ---- */

enum { PARTS_N = 12, PART_BYTES = 512 };
struct got {
    struct part {
        char kind[24], name[32], id[16], text[PART_BYTES];
    } parts[PARTS_N];
    int n;
    char finish[32];
    int n_logprobs;
};

static struct part *part_of(struct got *g, const char *kind, int idx)
{
    int n = 0;
    for (int i = 0; i < g->n; i++)
        if (strcmp(g->parts[i].kind, kind) == 0 && n++ == idx) return &g->parts[i];
    assert_true(g->n < PARTS_N && n == idx);
    struct part *p = &g->parts[g->n++];
    snprintf(p->kind, sizeof p->kind, "%s", kind);
    return p;
}

static void append(char *to, size_t size, struct lf_json_value v)
{
    struct lf_buf text;
    if (lf_json_type(v) != LF_JSON_STRING) return;
    lf_buf_init(&text, PART_BYTES);
    assert_true(lf_json_string(v, &text));
    assert_true(strlen(to) + text.len < size);
    if (text.len) strcat(to, text.ptr);
    lf_buf_deinit(&text);
}

static void add_member(struct got *g, struct lf_json_value message, const char *name)
{
    struct lf_json_value v = lf_json_get(message, name);
    if (lf_json_type(v) == LF_JSON_STRING && lf_json_raw(v).len) append(part_of(g, name, 0)->text, PART_BYTES, v);
}

/* A delta, or a message. */
static void add_message(struct got *g, struct lf_json_value message)
{
    struct lf_json_value calls = lf_json_get(message, "tool_calls");
    int i = 0;
    add_member(g, message, "content");
    add_member(g, message, "reasoning_content");
    add_member(g, message, "reasoning");
    for (struct lf_json_value it = lf_json_first(calls); lf_json_more(calls, it); it = lf_json_next(calls, it), i++) {
        int64_t idx = i;
        (void)lf_json_int64(lf_json_get(it, "index"), &idx);
        struct part *p = part_of(g, "call", (int)idx);
        append(p->id, sizeof p->id, lf_json_get(it, "id"));
        append(p->name, sizeof p->name, lf_json_get(lf_json_get(it, "function"), "name"));
        append(p->text, PART_BYTES, lf_json_get(lf_json_get(it, "function"), "arguments"));
    }
}

static void add_choice(struct got *g, struct lf_json_value choice)
{
    add_message(g, lf_json_get(choice, "delta"));
    add_message(g, lf_json_get(choice, "message"));
    append(g->finish, sizeof g->finish, lf_json_get(choice, "finish_reason"));
    g->n_logprobs += (int)lf_json_len(lf_json_get(lf_json_get(choice, "logprobs"), "content"));
}

static void add_block(struct got *g, struct lf_json_value block, bool whole)
{
    static const struct {
        const char *type, *member;
    } kinds[] = {{"text", "text"}, {"thinking", "thinking"}, {"tool_use", "name"}};
    for (size_t i = 0; i < LF_N_ELEMS(kinds); i++) {
        if (!lf_json_string_is(lf_json_get(block, "type"), kinds[i].type)) continue;
        struct part *p = &g->parts[g->n++];
        assert_true(g->n < PARTS_N);
        snprintf(p->kind, sizeof p->kind, "%s", kinds[i].type);
        append(i == 2 ? p->name : p->text, i == 2 ? sizeof p->name : PART_BYTES, lf_json_get(block, kinds[i].member));
        append(p->id, sizeof p->id, lf_json_get(block, "id"));
        append(p->id, sizeof p->id, lf_json_get(block, "signature"));
        struct lf_str input = lf_json_raw(lf_json_get(block, "input"));
        if (whole && input.len) snprintf(p->text, PART_BYTES, "%.*s", (int)input.len, input.ptr);
    }
}

static void add_event(struct got *g, struct lf_json_value e)
{
    static const char *const members[] = {"text", "thinking", "partial_json"};
    struct lf_json_value delta = lf_json_get(e, "delta"), content = lf_json_get(e, "content");
    if (lf_json_string_is(lf_json_get(e, "type"), "content_block_start"))
        add_block(g, lf_json_get(e, "content_block"), false);
    for (struct lf_json_value it = lf_json_first(content); lf_json_more(content, it); it = lf_json_next(content, it))
        add_block(g, it, true);
    append(g->finish, sizeof g->finish, lf_json_get(e, "stop_reason"));
    append(g->finish, sizeof g->finish, lf_json_get(delta, "stop_reason"));
    if (g->n == 0) return;
    struct part *p = &g->parts[g->n - 1];
    for (size_t i = 0; i < LF_N_ELEMS(members); i++) append(p->text, PART_BYTES, lf_json_get(delta, members[i]));
    append(p->id, sizeof p->id, lf_json_get(delta, "signature"));
}

/* One JSON text: an event, or a whole answer. */
static void add_text(struct got got[CHOICES], const char *text, size_t len)
{
    struct lf_json json;
    assert_int_equal(lf_json_parse(&json, lf_str_from(text, len), &lf_json_limits_request, NULL), LF_OK);
    struct lf_json_value root = lf_json_root(&json), choices = lf_json_get(root, "choices");
    if (lf_json_type(choices) != LF_JSON_ARRAY) add_event(&got[0], root);
    for (struct lf_json_value it = lf_json_first(choices); lf_json_more(choices, it); it = lf_json_next(choices, it)) {
        int64_t idx = 0;
        assert_true(lf_json_int64(lf_json_get(it, "index"), &idx));
        add_choice(&got[idx], it);
    }
    lf_json_deinit(&json);
}

static void add_events(struct got got[CHOICES], const char *text)
{
    for (const char *at = text; (at = strstr(at, "data: ")); at++) {
        const char *end = strchr(at, '\n');
        assert_non_null(end);
        if (strncmp(at, "data: [DONE]", 12) != 0) add_text(got, at + 6, (size_t)(end - at) - 6);
    }
}

/* ---- answers ---- */

struct answer_case {
    const char *text;
    const char *stop; /* NULL: none */
    enum lf_finish finish;
};

static const struct answer_case cases[] = {
    {"<think>\nhm \xE6\x97\xA5?\n</think>\n\nLet me look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": "
     "{\"city\": "
     "\"\\u00d8slo }\", \"n\": [1, {}]}}\n</tool_call>",
     NULL, LF_FINISH_STOP},
    {"<tool_call>\n{\"name\": \"a\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"weather\", "
     "\"arguments\": "
     "{\"city\": \"Rome\"}}\n</tool_call>",
     NULL, LF_FINISH_STOP},
    {"no <tool_call>\n{\"name\": \"owl\"} and </think> \xE6\x97\xA5", NULL, LF_FINISH_STOP},
    {"<think>\nso it goes", NULL, LF_FINISH_LENGTH},
    {"<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Ro", NULL, LF_FINISH_LENGTH},
    {"<think>\na\n</think>\n\nLet me look END<tool_call>", "END", LF_FINISH_STOP},
    {"<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"RENDome\"}}\n</tool_call>", "END",
     LF_FINISH_STOP},
    {"", NULL, LF_FINISH_STOP},
};

/* A generation of so many choices, in which the engine will say this. */
static void ask_for_answers(const struct lf_dialect *dialect, const struct answer_case *c, int n, bool logprobs)
{
    static struct lf_tool tools[] = {{.name = {"weather", 7}}, {.name = {"a", 1}}};
    puppet_reset(&engine);
    ask_for(dialect, n, "abc");
    ask.ask.tools = tools;
    ask.ask.n_tools = LF_N_ELEMS(tools);
    ask.ask.tool_choice = LF_TOOL_CHOICE_AUTO;
    if (logprobs) ask.ask.logprobs = 0;
    if (c->stop) stop_at(lf_str_c(c->stop));
    ask.params.format = lf_answer_format_by_name(LF_STR("hermes"));
    ask.params.reasoning = true;
    start();
}

/* Every choice says it in tokens of its own; between is called every now and then. */
static void say_it(const struct answer_case *c, int n, bool in_bytes, void (*between)(struct got *), struct got *got)
{
    for (int i = 0; i < n; i++) {
        for (size_t at = 0, len; c->text[at]; at += len) {
            puppet_say_id(&engine.requests[i], next_token(c->text + at, in_bytes, &len));
            if (draw(8) == 0) between(got);
        }
        puppet_end(&engine.requests[i], c->finish, LF_OK);
    }
}

static void read_window(struct got *got)
{
    enum lf_fill state = fill_window();
    if (window.len && state != LF_FILL_WAIT) add_events(got, window.ptr);
}

static void look(struct got *got)
{
    struct lf_reply reply;
    (void)got;
    lf_reply_init(&reply);
    (void)answer->begin(answer, &reply);
    lf_reply_deinit(&reply);
}

static void stream_it(struct got *got, const struct lf_dialect *dialect, const struct answer_case *c, int n,
                      bool logprobs)
{
    enum lf_fill state;
    ask_for_answers(dialect, c, n, logprobs);
    assert_int_equal(lf_stream_create(&answer, gen, LF_KEEP_ALIVE_OFF, 1000), LF_OK);
    say_it(c, n, false, read_window, got);
    do {
        state = fill_window();
        if (window.len) add_events(got, window.ptr);
    } while (state == LF_FILL_SOME);
    end_answer();
}

static void send_whole(struct got *got, const struct lf_dialect *dialect, const struct answer_case *c, int n,
                       bool in_bytes, bool logprobs)
{
    struct lf_reply reply;
    struct lf_buf all;
    enum lf_fill state;
    ask_for_answers(dialect, c, n, logprobs);
    assert_int_equal(lf_whole_create(&answer, gen), LF_OK);
    say_it(c, n, in_bytes, look, got);
    lf_reply_init(&reply);
    assert_true(answer->begin(answer, &reply));
    lf_buf_init(&all, 1 << 20);
    do {
        state = fill_window();
        lf_buf_str(&all, lf_buf_view(&window));
    } while (state == LF_FILL_SOME);
    add_text(got, all.ptr, all.len);
    lf_buf_deinit(&all);
    lf_reply_deinit(&reply);
    end_answer();
}

/* ---- comparing ---- */

static struct part *find_part(struct got *g, const struct part *like)
{
    for (int i = 0; i < g->n; i++)
        if (strcmp(g->parts[i].kind, like->kind) == 0 && strcmp(g->parts[i].name, like->name) == 0 &&
            strcmp(g->parts[i].id, like->id) == 0)
            return &g->parts[i];
    return NULL;
}

/* cut: the last call of a message has no input where the answer is whole, and in a stream what there was of it. */
static void compare(struct got *a, struct got *b, bool cut)
{
    assert_string_equal(a->finish, b->finish);
    assert_int_equal(a->n, b->n);
    for (int i = 0; i < a->n; i++) {
        const struct part *p = find_part(b, &a->parts[i]);
        if (!p) fail_msg("no part %s %s %s", a->parts[i].kind, a->parts[i].name, a->parts[i].id);
        if (!(cut && strcmp(p->kind, "tool_use") == 0)) assert_string_equal(p->text, a->parts[i].text);
    }
}

static void check_dialect(const struct lf_dialect *dialect, int n, bool logprobs)
{
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) {
        static struct got first[CHOICES];
        bool cut = cases[i].finish == LF_FINISH_LENGTH || cases[i].stop;
        memset(first, 0, sizeof first);
        send_whole(first, dialect, &cases[i], n, true, logprobs);
        for (int round = 0; round < ROUNDS; round++) {
            struct got streamed[CHOICES] = {0}, whole[CHOICES] = {0};
            stream_it(streamed, dialect, &cases[i], n, logprobs);
            send_whole(whole, dialect, &cases[i], n, false, logprobs);
            for (int k = 0; k < n; k++) {
                compare(&whole[k], &streamed[k], cut);
                compare(&first[k], &whole[k], false);
                if (logprobs && cases[i].text[0]) assert_true(whole[k].n_logprobs > 0);
            }
        }
    }
}

static void chats(void **state)
{
    (void)state;
    check_dialect(&lf_dialect_chat, 1, false);
    check_dialect(&lf_dialect_chat, CHOICES, true);
}

static void messages(void **state)
{
    (void)state;
    check_dialect(&lf_dialect_messages, 1, false);
}

/* What the comparison stands on: the parts are there. */
static void the_first_answer_has_all_kinds(void **state)
{
    (void)state;
    struct got got[CHOICES] = {0};
    send_whole(got, &lf_dialect_chat, &cases[0], 1, false, false);
    assert_int_equal(got[0].n, 4);
    assert_string_equal(part_of(&got[0], "reasoning_content", 0)->text, "hm \xE6\x97\xA5?");
    assert_string_equal(part_of(&got[0], "reasoning", 0)->text, "hm \xE6\x97\xA5?");
    assert_string_equal(part_of(&got[0], "call", 0)->name, "weather");
    assert_int_equal(strlen(part_of(&got[0], "call", 0)->id), 9);
    assert_string_equal(got[0].finish, "tool_calls");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_answer_has_all_kinds),
        cmocka_unit_test(chats),
        cmocka_unit_test(messages),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
