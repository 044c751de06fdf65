/* server/http/api/messages.c: what is refused, and the form in which templates get the rest. */
#include "tests/support/test.h"

#include "server/http/api/dialect.h"
#include "server/http/api/messages.h"

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

/* How a template sees a message: role and content, "-" where it is as in the document. */
static void check_read(const char *text, bool keep_developer, const char *want)
{
    struct doc d;
    struct lf_api_err err;
    struct lf_arena arena;
    struct lf_buf out;
    const struct lf_chat_message *messages;
    size_t n;
    struct lf_json_value list = open_doc(&d, text);
    lf_arena_init(&arena, 4096, 1 << 20);
    lf_buf_init(&out, 1 << 20);
    assert_int_equal(lf_messages_read(&messages, &n, list, keep_developer, &arena, &err), LF_OK);
    assert_int_equal(n, lf_json_len(list));
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(lf_json_type(messages[i].more), LF_JSON_OBJECT);
        lf_buf_str(&out, messages[i].role.ptr ? messages[i].role : LF_STR("-"));
        lf_buf_cstr(&out, ":");
        lf_buf_str(&out, messages[i].has_content ? messages[i].content : LF_STR("-"));
        lf_buf_cstr(&out, ";");
    }
    assert_string_equal(out.ptr, want);
    lf_buf_deinit(&out);
    lf_arena_deinit(&arena);
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
               "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":1}]},"
               "{\"role\":\"assistant\",\"function_call\":{}},{\"role\":\"tool\",\"content\":\"4\"}]",
               false, "-:-;-:-;-:-;-:-;-:-;");
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
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct doc d;
        struct lf_api_err err;
        struct lf_arena arena;
        const struct lf_chat_message *messages;
        size_t n;
        lf_arena_init(&arena, 4096, 1 << 20);
        assert_int_equal(lf_messages_read(&messages, &n, open_doc(&d, cases[i]), true, &arena, &err), LF_INVALID);
        assert_int_equal(err.status, 400);
        assert_string_equal(err.param, "messages[0].content");
        assert_non_null(strstr(err.message, "messages[0].content: expected a string or an array of text parts"));
        lf_arena_deinit(&arena);
        close_doc(&d);
    }
}

static void no_memory_is_no_fault_of_the_message(void **state)
{
    (void)state;
    struct doc d;
    struct lf_api_err err;
    struct lf_arena arena;
    const struct lf_chat_message *messages;
    size_t n;
    struct lf_json_value list =
        open_doc(&d, "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"0123456789\"}]}]");
    for (size_t ceiling = 0; ceiling < 256; ceiling += 8) {
        lf_arena_init(&arena, 4096, ceiling);
        if (lf_messages_read(&messages, &n, list, true, &arena, &err) != LF_OK) assert_int_equal(err.status, 503);
        lf_arena_deinit(&arena);
    }
    close_doc(&d);
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
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct doc d;
        struct lf_api_err err;
        struct lf_arena arena;
        const struct lf_chat_message *messages;
        size_t n;
        lf_arena_init(&arena, 4096, 1 << 20);
        assert_int_equal(lf_messages_read(&messages, &n, open_doc(&d, cases[i].text), true, &arena, &err), LF_INVALID);
        assert_string_equal(err.param, cases[i].param);
        lf_arena_deinit(&arena);
        close_doc(&d);
    }
}

/* Anthropic's form has the system prompt beside the messages: it becomes the first of them. */
static void the_system_prompt_comes_first(void **state)
{
    (void)state;
    static const char *const systems[] = {"\"be brief\"", "[{\"type\":\"text\",\"text\":\"be brief\"}]"};
    for (size_t i = 0; i < 2; i++) {
        char text[256];
        struct doc d;
        struct lf_ask ask;
        struct lf_api_err err;
        const struct lf_ask_limits limits = {.max_choices = 1, .n_vocab = 100};
        snprintf(text, sizeof text,
                 "{\"max_tokens\":5,\"system\":%s,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}", systems[i]);
        (void)open_doc(&d, text);
        assert_int_equal(lf_dialect_messages.parse(&ask, &d.json, &limits, &err), LF_OK);
        assert_int_equal(ask.n_messages, 2);
        assert_true(lf_str_eq(ask.messages[0].role, LF_STR("system")) && ask.messages[0].has_content);
        assert_true(lf_str_eq(ask.messages[0].content, LF_STR("be brief")));
        assert_true(!ask.messages[1].role.ptr && !ask.messages[1].has_content); /* as it is in the document */
        assert_true(lf_json_string_is(lf_json_get(ask.messages[1].more, "content"), "hi"));
        assert_int_equal(lf_json_type(ask.prompt), LF_JSON_NONE);
        lf_ask_deinit(&ask);
        close_doc(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_become_one_text),
        cmocka_unit_test(a_developer_is_a_system_to_templates_that_know_no_developer),
        cmocka_unit_test(what_templates_know_stays_as_it_came),
        cmocka_unit_test(a_message_without_content_is_refused_by_name),
        cmocka_unit_test(no_memory_is_no_fault_of_the_message),
        cmocka_unit_test(refusals_say_which_message),
        cmocka_unit_test(the_system_prompt_comes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
