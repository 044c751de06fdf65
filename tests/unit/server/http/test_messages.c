/* server/http/api/messages.c: what is refused, and the form in which templates get the rest. */
#include "tests/support/test.h"

#include "server/http/api/dialect.h"
#include "server/http/api/messages.h"
#include "server/http/api/openai_request.h"

struct doc {
    struct lf_json json;
    struct test_guarded text;
};

static struct lf_json_value open_doc(struct doc *d, const char *text)
{
    memset(d, 0, sizeof *d);
    d->text = test_guarded_copy(text, strlen(text));
    assert_int_equal(lf_json_parse(&d->json, lf_str_from(d->text.ptr, strlen(text)), &lf_json_limits_request, NULL),
                     LF_OK);
    return lf_json_root(&d->json);
}

static void close_doc(struct doc *d)
{
    lf_json_deinit(&d->json);
    test_guarded_free(&d->text);
}

/* A request in hand: what is known of the model, and what has been read. */
static struct lf_ask_limits limits;
static struct lf_ask ask;
static struct lf_api_err err;

static enum lf_status read_in(struct lf_json_value list)
{
    struct lf_reading r = {&ask, &limits, &err};
    memset(&err, 0, sizeof err);
    lf_ask_init(&ask, &limits);
    return lf_messages_read(&r, list);
}

static int setup(void **state)
{
    (void)state;
    limits = (struct lf_ask_limits){.max_choices = 1, .n_vocab = 100, .template = {.has_calls = true}};
    return 0;
}

/* How a template sees a message: role and content, "-" where it is as in the document. */
static void check_read(const char *text, bool keep_developer, const char *want)
{
    struct doc d;
    struct lf_buf out;
    struct lf_json_value list = open_doc(&d, text);
    limits.template.keep_developer = keep_developer;
    lf_buf_init(&out, 1 << 20);
    assert_int_equal(read_in(list), LF_OK);
    assert_int_equal(ask.n_messages, lf_json_len(list));
    for (size_t i = 0; i < ask.n_messages; i++) {
        const struct lf_chat_message *m = &ask.messages[i];
        assert_int_equal(lf_json_type(m->more), LF_JSON_OBJECT);
        lf_buf_str(&out, m->role.ptr ? m->role : LF_STR("-"));
        lf_buf_cstr(&out, ":");
        lf_buf_str(&out, m->has_content ? m->content : LF_STR("-"));
        lf_buf_cstr(&out, ";");
    }
    assert_string_equal(out.ptr, want);
    lf_buf_deinit(&out);
    lf_ask_deinit(&ask);
    close_doc(&d);
}

/* What is refused, and of which place. */
static void check_refused(const char *text, const char *param, const char *message)
{
    struct doc d;
    assert_int_equal(read_in(open_doc(&d, text)), LF_INVALID);
    assert_int_equal(err.status, 400);
    assert_string_equal(err.param, param);
    if (!strstr(err.message, message)) fail_msg("\"%s\" lacks \"%s\"", err.message, message);
    lf_ask_deinit(&ask);
    close_doc(&d);
}

static void parts_become_one_text(void **state)
{
    (void)state;
    check_read("[{\"role\":\"user\",\"name\":\"n\\n\",\"content\":[{\"type\":\"text\",\"text\":\"a\\\"b\"},"
               "{\"text\":\"\\u00e9\",\"type\":\"text\"}],\"x\":{\"y\":[1,null]}}]",
               false, "-:a\"b\n\xc3\xa9;");
    check_read("[{\"content\":[],\"role\":\"user\"}]", false, "-:;");
    check_read(
        "[{\"content\":[{\"type\":\"text\",\"text\":\"\"},{\"type\":\"text\",\"text\":\"\"}],\"role\":\"user\"}]",
        false, "-:\n;");
}

static void a_developer_is_a_system_to_templates_that_know_no_developer(void **state)
{
    (void)state;
    const char *text = "[{\"role\":\"developer\",\"content\":\"x\"},{\"role\":\"user\",\"content\":\"developer\"}]";
    check_read(text, false, "system:-;-:-;");
    check_read(text, true, "-:-;-:-;");
}

static void what_templates_know_stays_as_it_came(void **state)
{
    (void)state;
    check_read("[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"\"},"
               "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"function\":{\"name\":\"f\"}}]},"
               "{\"role\":\"assistant\",\"tool_calls\":[]},{\"role\":\"tool\",\"content\":\"4\"}]",
               false, "-:-;-:-;-:;-:;-:-;");
}

static void a_message_without_content_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "[{\"role\":\"user\",\"content\":null}]",         "[{\"role\":\"user\"}]",
        "[{\"role\":\"system\",\"content\":null}]",       "[{\"role\":\"tool\",\"content\":null}]",
        "[{\"role\":\"assistant\",\"content\":null}]",    "[{\"role\":\"assistant\"}]",
        "[{\"role\":\"assistant\",\"tool_calls\":null}]", "[{\"role\":\"user\",\"content\":null,\"tool_calls\":[{}]}]",
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_refused(cases[i], "messages[0].content",
                      "messages[0].content: expected a string or an array of text parts");
}

static void no_memory_is_no_fault_of_the_message(void **state)
{
    (void)state;
    struct doc d;
    struct lf_reading r = {&ask, &limits, &err};
    bool done = false;
    struct lf_json_value list = open_doc(
        &d, "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"0123456789\"}]},{\"role\":\"assistant\","
            "\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}}]}]");
    for (size_t ceiling = 0; !done; ceiling += 8) {
        assert_true(ceiling < 4096);
        lf_ask_init(&ask, &limits);
        lf_arena_deinit(&ask.arena);
        lf_arena_init(&ask.arena, 4096, ceiling);
        done = lf_messages_read(&r, list) == LF_OK;
        if (!done) assert_int_equal(err.status, 503);
        lf_ask_deinit(&ask);
    }
    close_doc(&d);
}

/* ---- calls ---- */

/* An assistant's message with this call. */
static const char *message_with(const char *call)
{
    static char text[1024];
    snprintf(text, sizeof text, "[{\"role\":\"assistant\",\"tool_calls\":[%s]}]", call);
    return text;
}

#define CALL(arguments) "{\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":" arguments "}}"

/* Templates get the arguments as a value, whether they came as one or as its text. */
static void arguments_become_values(void **state)
{
    (void)state;
    static const char *const objects[] = {CALL("\"{\\\"a\\\":[1,{}]}\""), CALL("{\"a\":[1,{}]}")};
    static const char *const none[] = {CALL("\"\""), CALL("\"{}\""), CALL("\" { } \"")};
    struct doc d;
    for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++) {
        assert_int_equal(read_in(open_doc(&d, message_with(objects[i]))), LF_OK);
        assert_int_equal(ask.messages[0].n_calls, 1);
        struct lf_json_value v = lf_json_get(ask.messages[0].calls[0].arguments, "a");
        assert_int_equal(lf_json_len(v), 2);
        assert_true(lf_json_string_is(lf_json_get(ask.messages[0].calls[0].more, "id"), "c"));
        assert_int_equal(ask.n_arguments, i == 0);
        lf_ask_drop_arguments(&ask);
        assert_int_equal(ask.n_arguments, 0);
        lf_ask_deinit(&ask);
        close_doc(&d);
    }
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        assert_int_equal(read_in(open_doc(&d, message_with(none[i]))), LF_OK);
        assert_int_equal(lf_json_len(ask.messages[0].calls[0].arguments), 0);
        lf_ask_deinit(&ask);
        close_doc(&d);
    }
}

static void calls_that_are_none_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *call, *member, *message;
    } cases[] = {
        {"1", "", "expected an object, got 1"},
        {"{\"type\":\"custom\"}", ".type", "expected function, got the string \"custom\""},
        {"{\"id\":5,\"function\":{\"name\":\"f\"}}", ".id", "expected a string"},
        {"{}", ".function", "expected an object, got nothing"},
        {"{\"function\":{\"name\":\"\"}}", ".function.name", "expected a string that is not empty"},
        {"{\"function\":{}}", ".function.name", "expected a string that is not empty"},
        {CALL("\"x\""), ".function.arguments", "expected the text of a JSON object, got the string \"x\": "},
        {CALL("\"[1]\""), ".function.arguments", "expected the text of a JSON object, got the string \"[1]\"."},
        {CALL("\"{\\\"a\\\":1,\\\"a\\\":2}\""), ".function.arguments", "expected the text of a JSON object"},
        {CALL("7"), ".function.arguments", "expected a string, got 7"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char param[64];
        snprintf(param, sizeof param, "messages[0].tool_calls[0]%s", cases[i].member);
        check_refused(message_with(cases[i].call), param, cases[i].message);
    }
    check_refused("[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":{}}]", "messages[0].tool_calls",
                  "expected an array");
    check_refused("[{\"role\":\"user\",\"content\":\"\",\"tool_calls\":[1]}]", "messages[0].tool_calls",
                  "in an assistant's message");
    check_refused("[{\"role\":\"assistant\",\"content\":\"\",\"function_call\":{}}]", "messages[0].function_call",
                  "here that is tool_calls");
    check_refused("[{\"role\":\"assistant\",\"content\":null,\"function_call\":{}}]", "messages[0].function_call",
                  "here that is tool_calls");
    check_refused("[{\"role\":\"assistant\",\"content\":\"\",\"audio\":{\"id\":\"a\"}}]", "messages[0].audio",
                  "only texts are understood");
    check_refused("[{\"role\":\"assistant\",\"content\":\"\",\"reasoning\":{}}]", "messages[0].reasoning",
                  "expected a string");
    limits.template.has_calls = false;
    check_refused(message_with(CALL("\"{}\"")), "messages[0].tool_calls", "chat template has no calls of tools");
}

static void a_message_has_so_many_calls_at_most(void **state)
{
    (void)state;
    for (int more = 0; more < 2; more++) {
        struct lf_buf text;
        struct doc d;
        lf_buf_init(&text, 1 << 20);
        lf_buf_cstr(&text, "[{\"role\":\"assistant\",\"tool_calls\":[");
        for (int i = 0; i < LF_MESSAGE_CALLS_N + more; i++) lf_buf_printf(&text, "%s" CALL("\"{}\""), i ? "," : "");
        lf_buf_cstr(&text, "]}]");
        enum lf_status status = read_in(open_doc(&d, text.ptr));
        assert_int_equal(status, more ? LF_INVALID : LF_OK);
        if (more) assert_string_equal(err.code, "too_many_tools");
        lf_ask_deinit(&ask);
        close_doc(&d);
        lf_buf_deinit(&text);
    }
}

/* Texts of arguments have together no more nodes than a body may have. */
static void arguments_are_bounded_together(void **state)
{
    (void)state;
    enum { ELEMENTS = 100000 };
    struct lf_buf text;
    struct doc d;
    lf_buf_init(&text, 1 << 22);
    lf_buf_cstr(&text, "[{\"role\":\"assistant\",\"tool_calls\":[");
    for (int call = 0; call < 3; call++) {
        lf_buf_printf(&text, "%s{\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":[\\\"\\\"", call ? "," : "");
        for (int i = 1; i < ELEMENTS; i++) lf_buf_cstr(&text, ",\\\"\\\"");
        lf_buf_cstr(&text, "]}\"}}");
    }
    lf_buf_cstr(&text, "]}]");
    assert_int_equal(read_in(open_doc(&d, text.ptr)), LF_INVALID);
    assert_string_equal(err.param, "messages[0].tool_calls[2].function.arguments");
    assert_int_equal(ask.n_arguments, 2);
    lf_ask_deinit(&ask);
    close_doc(&d);
    lf_buf_deinit(&text);
}

static void refusals_say_which_message(void **state)
{
    (void)state;
    static const struct {
        const char *text, *param;
    } cases[] = {
        {"[1]", "messages[0]"},
        {"[{\"role\":\"user\",\"content\":\"\"},[]]", "messages[1]"},
        {"[{\"role\":\"owl\",\"content\":\"\"}]", "messages[0].role"},
        {"[{\"content\":\"\"}]", "messages[0].role"},
        {"[{\"role\":\"user\"}]", "messages[0].content"},
        {"[{\"role\":\"user\",\"content\":{}}]", "messages[0].content"},
        {"[{\"role\":\"user\",\"content\":[\"x\"]}]", "messages[0].content"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]", "messages[0].content"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":1}]}]", "messages[0].content"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) check_refused(cases[i].text, cases[i].param, "");
}

/* Anthropic's form has the system prompt beside the messages: it becomes the first of them. */
static void the_system_prompt_comes_first(void **state)
{
    (void)state;
    static const char *const systems[] = {"\"be brief\"", "[{\"type\":\"text\",\"text\":\"be brief\"}]"};
    for (size_t i = 0; i < 2; i++) {
        char text[256];
        struct doc d;
        snprintf(text, sizeof text,
                 "{\"max_tokens\":5,\"system\":%s,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}", systems[i]);
        (void)open_doc(&d, text);
        assert_int_equal(lf_dialect_messages.parse(&ask, &d.json, &limits, &err), LF_OK);
        assert_int_equal(ask.n_messages, 2);
        assert_true(lf_str_eq(ask.messages[0].role, LF_STR("system")) && ask.messages[0].has_content);
        assert_true(lf_str_eq(ask.messages[0].content, LF_STR("be brief")));
        assert_true(lf_str_eq(ask.messages[1].role, LF_STR("user")));
        assert_true(lf_str_eq(ask.messages[1].content, LF_STR("hi")));
        assert_int_equal(lf_json_type(ask.prompt), LF_JSON_NONE);
        lf_ask_deinit(&ask);
        close_doc(&d);
    }
}

/* What chats of OpenAI's form have is known to /v1/messages too: it has it, or refuses it by name. */
static void every_field_of_chats_is_known_to_messages(void **state)
{
    (void)state;
    for (int i = 0; i < lf_openai_fields.n_fields; i++) {
        const struct lf_field *f = &lf_openai_fields.fields[i];
        char text[256];
        struct doc d;
        if (!(f->asks & LF_ASK_CHAT)) continue;
        bool is_needed = strcmp(f->name, "messages") == 0 || strcmp(f->name, "max_tokens") == 0;
        snprintf(text, sizeof text, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"max_tokens\":1%s%s%s}",
                 is_needed ? "" : ",\"", is_needed ? "" : f->name, is_needed ? "" : "\":null");
        (void)open_doc(&d, text);
        assert_int_equal(lf_dialect_messages.parse(&ask, &d.json, &limits, &err), LF_OK);
        if (ask.n_unknown) fail_msg("%s: /v1/messages ignores it", f->name);
        lf_ask_deinit(&ask);
        close_doc(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(parts_become_one_text, setup),
        cmocka_unit_test_setup(a_developer_is_a_system_to_templates_that_know_no_developer, setup),
        cmocka_unit_test_setup(what_templates_know_stays_as_it_came, setup),
        cmocka_unit_test_setup(a_message_without_content_is_refused_by_name, setup),
        cmocka_unit_test_setup(no_memory_is_no_fault_of_the_message, setup),
        cmocka_unit_test_setup(arguments_become_values, setup),
        cmocka_unit_test_setup(calls_that_are_none_are_refused, setup),
        cmocka_unit_test_setup(a_message_has_so_many_calls_at_most, setup),
        cmocka_unit_test_setup(arguments_are_bounded_together, setup),
        cmocka_unit_test_setup(refusals_say_which_message, setup),
        cmocka_unit_test_setup(the_system_prompt_comes_first, setup),
        cmocka_unit_test_setup(every_field_of_chats_is_known_to_messages, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
