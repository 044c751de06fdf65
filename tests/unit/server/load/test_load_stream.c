/* What load takes for a stream of each dialect, and what it does not. */
#include "tests/support/test.h"

#include "core/check.h"
#include "server/load/load_stream.h"

/* Feeds the lines; how many brought a part of the answer. */
static int feed_more(struct lf_load_stream *s, const char *text)
{
    int n_parts = 0;
    while (*text) {
        size_t len = strcspn(text, "\n");
        n_parts += lf_load_stream_line(s, lf_str_from(text, len));
        text += len + (text[len] == '\n');
    }
    return n_parts;
}

static int feed(struct lf_load_stream *s, enum lf_load_dialect dialect, const char *text)
{
    lf_load_stream_init(s, dialect, NULL);
    return feed_more(s, text);
}

#define COMPLETION_END                                                                                                 \
    "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n"                                           \
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2,"                                    \
    "\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\ndata: [DONE]\n\n"
#define CHAT_DELTA(delta, finish)                                                                                      \
    "data: {\"choices\":[{\"index\":0,\"delta\":" delta ",\"finish_reason\":" finish "}]}\n\n"
#define CHAT_END                                                                                                       \
    CHAT_DELTA("{}", "\"stop\"")                                                                                       \
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n"
#define EVENT(name, more)  "event: " name "\ndata: {\"type\":\"" name "\"" more "}\n\n"
#define MESSAGE_START(use) EVENT("message_start", ",\"message\":{\"usage\":" use "}")
#define START              MESSAGE_START("{\"input_tokens\":7,\"output_tokens\":0}")
#define TEXT_DELTA         EVENT("content_block_delta", ",\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}")
#define MESSAGE_DELTA(use) EVENT("message_delta", ",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":" use)
#define STOP               EVENT("message_stop", "")

static void a_completion_counts_every_event_with_a_choice(void **state)
{
    (void)state;
    struct lf_load_stream s;
    int n = feed(&s, LF_LOAD_COMPLETIONS,
                 ": keep-alive\n\ndata: {\"choices\":[{\"text\":\"a\"}]}\r\n\r\n"
                 "data:{\"choices\":[{\"text\":\"b\",\"finish_reason\":null}]}\n\n" COMPLETION_END);
    assert_int_equal(n, 3);
    assert_null(lf_load_stream_end(&s));
    assert_int_equal(s.n_tokens, 2);
    assert_int_equal(s.n_prompt, 9);
    assert_int_equal(s.n_cached, 4);
}

/* The first event of a chat says only the role, the last one only why: neither is a token's. */
static void a_chat_counts_the_deltas_that_say_something(void **state)
{
    (void)state;
    struct lf_load_stream s;
    int n = feed(&s, LF_LOAD_CHAT,
                 CHAT_DELTA("{\"role\":\"assistant\",\"content\":\"\"}", "null")
                     CHAT_DELTA("{\"reasoning_content\":\"hm\"}", "null") CHAT_DELTA("{\"content\":\"a\"}", "null")
                         CHAT_DELTA("{\"tool_calls\":[{\"index\":0}]}", "null")
                             CHAT_DELTA("{\"content\":null,\"tool_calls\":[]}", "null") CHAT_END);
    assert_int_equal(n, 3);
    assert_null(lf_load_stream_end(&s));
    assert_int_equal(s.n_tokens, 3);
    assert_int_equal(s.n_prompt, 5);
    assert_int_equal(s.n_cached, 0);
}

/* The first event's input counts what is found to be cached later; the last one corrects it. */
static void messages_count_what_comes_from_the_cache_beside_the_input(void **state)
{
    (void)state;
    struct lf_load_stream s;
    int n = feed(&s, LF_LOAD_MESSAGES,
                 START EVENT("content_block_start", ",\"index\":0") EVENT("ping", "")
                     TEXT_DELTA TEXT_DELTA EVENT("content_block_stop", ",\"index\":0")
                         MESSAGE_DELTA("{\"input_tokens\":3,\"cache_read_input_tokens\":4,\"output_tokens\":2}") STOP);
    assert_int_equal(n, 2);
    assert_null(lf_load_stream_end(&s));
    assert_int_equal(s.n_tokens, 2);
    assert_int_equal(s.n_prompt, 7);
    assert_int_equal(s.n_cached, 4);
    (void)feed(&s, LF_LOAD_MESSAGES, START TEXT_DELTA MESSAGE_DELTA("{\"output_tokens\":1}") STOP);
    assert_null(lf_load_stream_end(&s));
    assert_int_equal(s.n_prompt, 7);
    assert_int_equal(s.n_tokens, 1);
}

#define NUMBERED(n, type, more) EVENT(type, ",\"sequence_number\":" #n more)
#define CREATED                 NUMBERED(0, "response.created", ",\"response\":{\"error\":null,\"usage\":null}")
#define RESPONSE_END(n, how)                                                                                           \
    NUMBERED(                                                                                                          \
        n, "response." how,                                                                                            \
        ",\"response\":{\"error\":null,\"usage\":{\"input_tokens\":7,\"input_tokens_details\":{\"cached_tokens\":4},"  \
        "\"output_tokens\":2}}")

static void responses_count_the_deltas_of_all_items(void **state)
{
    (void)state;
    struct lf_load_stream s;
    for (int cut = 0; cut < 2; cut++) {
        struct lf_buf text;
        lf_buf_init(&text, 100);
        int n = 0;
        lf_load_stream_init(&s, LF_LOAD_RESPONSES, &text);
        const char *parts[] = {CREATED,
                               NUMBERED(1, "response.reasoning_text.delta", ",\"delta\":\"hm\""),
                               NUMBERED(2, "response.output_text.delta", ",\"delta\":\"yes\""),
                               NUMBERED(3, "response.output_text.done", ",\"text\":\"yes\""),
                               NUMBERED(4, "response.function_call_arguments.delta", ",\"delta\":\"{}\""),
                               cut ? RESPONSE_END(5, "incomplete") : RESPONSE_END(5, "completed")};
        for (size_t i = 0; i < LF_N_ELEMS(parts); i++) n += feed_more(&s, parts[i]);
        assert_int_equal(n, 3);
        assert_null(lf_load_stream_end(&s));
        assert_int_equal(s.n_tokens, 2);
        assert_int_equal(s.n_prompt, 7);
        assert_int_equal(s.n_cached, 4);
        assert_int_equal(s.cut, cut);
        assert_string_equal(text.ptr, "yes");
        lf_buf_deinit(&text);
    }
}

static void what_does_not_belong_into_a_stream_is_named(void **state)
{
    (void)state;
    static const struct {
        enum lf_load_dialect dialect;
        const char *text, *wrong;
    } cases[] = {
        {LF_LOAD_COMPLETIONS, "", "broke off"},
        {LF_LOAD_COMPLETIONS, "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\n", "broke off"},
        {LF_LOAD_COMPLETIONS, "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
         "without usage"},
        {LF_LOAD_COMPLETIONS,
         "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n",
         "without a reason"},
        {LF_LOAD_COMPLETIONS, "id: 1\n" COMPLETION_END, "neither data"},
        {LF_LOAD_COMPLETIONS, "event: x\n" COMPLETION_END, "with a name"},
        {LF_LOAD_COMPLETIONS, "data: {\"choices\":[\n\n" COMPLETION_END, "no JSON object"},
        {LF_LOAD_COMPLETIONS, "data: []\n\n" COMPLETION_END, "no JSON object"},
        {LF_LOAD_COMPLETIONS, "data: {}\n\n" COMPLETION_END, "without choices"},
        {LF_LOAD_COMPLETIONS, CHAT_DELTA("{\"content\":\"a\"}", "null") COMPLETION_END, "without text"},
        {LF_LOAD_COMPLETIONS, COMPLETION_END "data: {\"choices\":[]}\n\n", "behind the last"},
        {LF_LOAD_COMPLETIONS, COMPLETION_END "data: [DONE]\n\n", "behind the last"},
        {LF_LOAD_COMPLETIONS,
         "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\n"
         "data: {\"choices\":[{\"text\":\"\"}]}\n\n",
         "behind its finish_reason"},
        {LF_LOAD_COMPLETIONS, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\n",
         "without completion_tokens"},
        {LF_LOAD_COMPLETIONS, "data: {\"choices\":[],\"usage\":{\"completion_tokens\":1,\"prompt_tokens\":-1}}\n\n",
         "without prompt_tokens"},
        {LF_LOAD_COMPLETIONS, "data: {\"error\":{\"message\":\"hot\"}}\n\n", "broke off: hot"},
        {LF_LOAD_COMPLETIONS, "data: {\"error\":{}}\n\n", "broke off: an error"},
        {LF_LOAD_CHAT, COMPLETION_END, "without delta"},
        {LF_LOAD_CHAT, "event: x\n" CHAT_END, "with a name"},
        {LF_LOAD_RESPONSES, NUMBERED(0, "response.in_progress", ""), "before response.created"},
        {LF_LOAD_RESPONSES, CREATED NUMBERED(1, "response.created", ""), "a second response.created"},
        {LF_LOAD_RESPONSES, CREATED NUMBERED(2, "response.in_progress", ""), "sequence_number is not 1"},
        {LF_LOAD_RESPONSES, CREATED EVENT("response.in_progress", ""), "sequence_number is not 1"},
        {LF_LOAD_RESPONSES, CREATED NUMBERED(1, "response.output_text.delta", ""), "a delta that is no text"},
        {LF_LOAD_RESPONSES, CREATED NUMBERED(1, "response.completed", ",\"response\":{}"), "an event without usage"},
        {LF_LOAD_RESPONSES, CREATED NUMBERED(1, "response.failed", ",\"response\":{\"error\":{\"message\":\"full\"}}"),
         "broke off: full"},
        {LF_LOAD_RESPONSES, CREATED RESPONSE_END(1, "completed") RESPONSE_END(2, "completed"), "behind the last"},
        {LF_LOAD_RESPONSES, CREATED "data: [DONE]\n\n", "no JSON object"},
        {LF_LOAD_RESPONSES, CREATED, "broke off"},
        {LF_LOAD_MESSAGES, TEXT_DELTA, "before message_start"},
        {LF_LOAD_MESSAGES, START START, "a second message_start"},
        {LF_LOAD_MESSAGES, "event: ping\ndata: {\"type\":\"pong\"}\n\n", "another type than its event, ping"},
        {LF_LOAD_MESSAGES, "data: {\"type\":\"ping\"}\n\n", "another type than its event"},
        {LF_LOAD_MESSAGES, START TEXT_DELTA STOP, "without a reason"},
        {LF_LOAD_MESSAGES, START MESSAGE_DELTA("{\"output_tokens\":1}"), "broke off"},
        {LF_LOAD_MESSAGES, START MESSAGE_DELTA("{\"output_tokens\":1}") STOP TEXT_DELTA, "behind the last"},
        {LF_LOAD_MESSAGES, START MESSAGE_DELTA("{}") STOP, "without output_tokens"},
        {LF_LOAD_MESSAGES, START MESSAGE_DELTA("0") STOP, "an event without usage"},
        {LF_LOAD_MESSAGES, MESSAGE_START("{\"output_tokens\":0}"), "without input_tokens"},
        {LF_LOAD_MESSAGES, START EVENT("content_block_delta", ""), "without delta"},
        {LF_LOAD_MESSAGES, START EVENT("error", ",\"error\":{\"message\":\"full\"}"), "broke off: full"},
        {LF_LOAD_MESSAGES, "data: [DONE]\n\n", "no JSON object"},
        {LF_LOAD_MESSAGES, "event: \n", "name of 0 bytes"},
    };
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) {
        struct lf_load_stream s;
        (void)feed(&s, cases[i].dialect, cases[i].text);
        const char *wrong = lf_load_stream_end(&s);
        if (!wrong || !strstr(wrong, cases[i].wrong)) fail_msg("case %zu: %s", i, wrong ? wrong : "nothing");
    }
}

#define DOCUMENT(state, tokens) "data: {\"object\":\"document\",\"state\":\"" state "\"" tokens "}\n\n"
#define READY                   DOCUMENT("ready", ",\"tokens\":7")

static void a_document_is_read_until_it_is_ready(void **state)
{
    (void)state;
    static const struct {
        const char *text, *wrong;
    } cases[] = {
        {DOCUMENT("reading", ",\"tokens\":7") READY "data: [DONE]\n\n", NULL},
        {DOCUMENT("reading", ",\"tokens\":7") "data: [DONE]\n\n", "without a reason for its end"},
        {READY, "broke off"},
        {READY READY "data: [DONE]\n\n", "a state behind the last one"},
        {DOCUMENT("ready", "") "data: [DONE]\n\n", "a document without tokens"},
        {"data: {\"tokens\":7}\n\ndata: [DONE]\n\n", "an event without a state"},
        {DOCUMENT("reading", ",\"tokens\":7") "data: {\"error\":{\"message\":\"gone\"}}\n\n", "broke off: gone"},
    };
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) {
        struct lf_load_stream s;
        assert_int_equal(feed(&s, LF_LOAD_DOCUMENT, cases[i].text), 0);
        const char *wrong = lf_load_stream_end(&s);
        if (cases[i].wrong ? !wrong || !strstr(wrong, cases[i].wrong) : wrong != NULL)
            fail_msg("case %zu: %s", i, wrong ? wrong : "nothing");
        if (!wrong) assert_int_equal(s.n_prompt, 7);
    }
}

/* The names of events have so many bytes, and the first thing that is wrong is the one that is told. */
static void a_name_that_is_too_long_is_wrong_and_not_cut(void **state)
{
    (void)state;
    char text[128];
    struct lf_load_stream s;
    for (int n = LF_LOAD_EVENT_BYTES - 1; n <= LF_LOAD_EVENT_BYTES; n++) {
        char name[LF_LOAD_EVENT_BYTES + 1];
        memset(name, 'x', sizeof name);
        name[n] = '\0';
        snprintf(text, sizeof text, "event: %s\n", name);
        (void)feed(&s, LF_LOAD_MESSAGES, text);
        assert_int_equal(s.wrong[0] != '\0', n == LF_LOAD_EVENT_BYTES);
    }
    assert_non_null(strstr(lf_load_stream_end(&s), "name of 64 bytes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_completion_counts_every_event_with_a_choice),
        cmocka_unit_test(a_chat_counts_the_deltas_that_say_something),
        cmocka_unit_test(messages_count_what_comes_from_the_cache_beside_the_input),
        cmocka_unit_test(responses_count_the_deltas_of_all_items),
        cmocka_unit_test(what_does_not_belong_into_a_stream_is_named),
        cmocka_unit_test(a_document_is_read_until_it_is_ready),
        cmocka_unit_test(a_name_that_is_too_long_is_wrong_and_not_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
