#include "tests/support/test.h"

#include "core/json.h"
#include "server/load/load_prompt.h"

/* The body's prompt as ids. */
static void prompt_of(const struct lf_load_shape *shape, uint64_t index, int64_t *ids)
{
    struct lf_buf request;
    struct lf_json json = {0};
    lf_buf_init(&request, 1 << 20);
    lf_load_request(&request, shape, index);
    assert_int_equal(request.status, LF_OK);
    struct lf_str all = lf_buf_view(&request);
    assert_true(lf_str_starts(all, LF_STR("POST /v1/completions HTTP/1.1\r\n")));
    ptrdiff_t end = lf_str_find(all, LF_STR("\r\n\r\n"));
    assert_true(end > 0);
    struct lf_str body = lf_str_from(all.ptr + end + 4, all.len - (size_t)end - 4);
    char length[64];
    snprintf(length, sizeof(length), "Content-Length: %zu\r\n", body.len);
    assert_non_null(strstr(all.ptr, length));
    assert_int_equal(lf_json_parse(&json, body, &lf_json_limits_request, NULL), LF_OK);
    struct lf_json_value prompt = lf_json_get(lf_json_root(&json), "prompt");
    assert_int_equal(lf_json_len(prompt), shape->n_prompt);
    int n = 0;
    for (struct lf_json_value it = lf_json_first(prompt); lf_json_more(prompt, it); it = lf_json_next(prompt, it))
        assert_true(lf_json_int64(it, &ids[n++]));
    lf_json_deinit(&json);
    lf_buf_deinit(&request);
}

static void prompts_share_what_was_asked_and_no_more(void **state)
{
    (void)state;
    struct lf_load_shape shape = {.n_prompt = 100, .n_shared = 40, .n_output = 3, .seed = 5, .host = "h", .key = "k"};
    int64_t a[100], b[100], again[100];
    prompt_of(&shape, 0, a);
    prompt_of(&shape, 1, b);
    prompt_of(&shape, 0, again);
    assert_memory_equal(a, again, sizeof(a));
    assert_memory_equal(a, b, 40 * sizeof(a[0]));
    int n_same = 0;
    for (int i = 40; i < 100; i++) n_same += a[i] == b[i];
    assert_true(n_same < 5);
    for (int i = 0; i < 100; i++) assert_true(a[i] >= 300 && a[i] < 4000);
}

static void a_schema_is_sent_as_it_stands_and_ends_the_answer(void **state)
{
    (void)state;
    struct lf_load_shape shape = {.n_prompt = 3, .n_output = 3, .host = "h"};
    for (int responses = 0; responses < 2; responses++) {
        struct lf_buf out;
        lf_buf_init(&out, 1 << 20);
        shape.dialect = responses ? LF_LOAD_RESPONSES : LF_LOAD_MESSAGES;
        shape.schema = LF_STR("{\"type\": \"null\"}");
        lf_load_request(&out, &shape, 0);
        assert_non_null(strstr(out.ptr, responses ? ",\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"load\","
                                                    "\"schema\":{\"type\": \"null\"}}}}"
                                                  : ",\"output_config\":{\"format\":{\"type\":\"json_schema\","
                                                    "\"schema\":{\"type\": \"null\"}}}}"));
        lf_buf_deinit(&out);
    }
    shape = (struct lf_load_shape){.n_prompt = 3, .n_output = 3, .host = "h"};
    for (int with = 0; with < 2; with++) {
        struct lf_buf out;
        struct lf_json json = {0};
        lf_buf_init(&out, 1 << 20);
        if (with) shape.schema = LF_STR("{\"type\": \"null\"}");
        lf_load_request(&out, &shape, 0);
        struct lf_str all = lf_buf_view(&out);
        ptrdiff_t end = lf_str_find(all, LF_STR("\r\n\r\n"));
        struct lf_str body = lf_str_from(all.ptr + end + 4, all.len - (size_t)end - 4);
        assert_int_equal(lf_json_parse(&json, body, &lf_json_limits_request, NULL), LF_OK);
        struct lf_json_value root = lf_json_root(&json), format = lf_json_get(root, "response_format");
        struct lf_json_value schema = lf_json_get(lf_json_get(format, "json_schema"), "schema");
        assert_int_equal(lf_json_type(lf_json_get(root, "ignore_eos")), with ? LF_JSON_NONE : LF_JSON_TRUE);
        assert_int_equal(lf_json_string_is(lf_json_get(format, "type"), "json_schema"), with);
        assert_int_equal(lf_json_string_is(lf_json_get(schema, "type"), "null"), with);
        lf_json_deinit(&json);
        lf_buf_deinit(&out);
    }
}

static void the_key_is_sent_where_there_is_one(void **state)
{
    (void)state;
    struct lf_buf out;
    lf_buf_init(&out, 4096);
    lf_load_get(&out, "h", NULL, "/readyz");
    assert_string_equal(out.ptr, "GET /readyz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    lf_buf_clear(&out);
    lf_load_get(&out, "h", "k", "/x");
    assert_non_null(strstr(out.ptr, "Authorization: Bearer k\r\n"));
    lf_buf_deinit(&out);
}

/* The body of a request for the dialect, which begins with that path. */
static void body_of(enum lf_load_dialect dialect, uint64_t index, const char *path, struct lf_buf *out)
{
    struct lf_load_shape shape = {
        .dialect = dialect, .n_prompt = 50, .n_shared = 20, .n_output = 3, .seed = 5, .host = "h"};
    char line[64];
    lf_load_request(out, &shape, index);
    snprintf(line, sizeof(line), "POST %s HTTP/1.1\r\n", path);
    assert_true(lf_str_starts(lf_buf_view(out), lf_str_c(line)));
    assert_int_equal(strstr(out->ptr, "anthropic-version: 2023-06-01\r\n") != NULL, dialect == LF_LOAD_MESSAGES);
    size_t at = (size_t)lf_str_find(lf_buf_view(out), LF_STR("\r\n\r\n")) + 4;
    memmove(out->ptr, out->ptr + at, out->len - at + 1);
    out->len -= at;
}

static void texts_are_of_so_many_words(void **state)
{
    (void)state;
    static const char *const paths[] = {NULL, "/v1/chat/completions", "/v1/responses", "/v1/messages"};
    for (enum lf_load_dialect d = LF_LOAD_CHAT; d <= LF_LOAD_MESSAGES; d++) {
        struct lf_buf bodies[2], texts[2];
        for (int i = 0; i < 2; i++) {
            struct lf_json json = {0};
            lf_buf_init(&bodies[i], 1 << 20);
            lf_buf_init(&texts[i], 1 << 20);
            body_of(d, (uint64_t)i, paths[d], &bodies[i]);
            assert_int_equal(lf_json_parse(&json, lf_buf_view(&bodies[i]), &lf_json_limits_request, NULL), LF_OK);
            struct lf_json_value root = lf_json_root(&json),
                                 messages = lf_json_get(root, d == LF_LOAD_RESPONSES ? "input" : "messages");
            struct lf_json_value one = lf_json_first(messages);
            assert_int_equal(lf_json_len(messages), 1);
            assert_true(lf_json_string_is(lf_json_get(one, "role"), "user"));
            assert_true(lf_json_string(lf_json_get(one, "content"), &texts[i]));
            assert_int_equal(lf_json_type(lf_json_get(root, "store")) == LF_JSON_FALSE, d == LF_LOAD_RESPONSES);
            assert_int_equal(lf_json_type(lf_json_get(root, "stream_options")) == LF_JSON_OBJECT, d == LF_LOAD_CHAT);
            int n_words = 1, n_shared = 0;
            for (size_t k = 0; k < texts[i].len; k++) n_words += texts[i].ptr[k] == ' ';
            for (size_t k = 0; i && k < texts[0].len && texts[0].ptr[k] == texts[1].ptr[k]; k++)
                n_shared += texts[0].ptr[k] == ' ';
            assert_int_equal(n_words, 50);
            if (i) assert_in_range(n_shared, 20, 24);
            lf_json_deinit(&json);
        }
        for (int i = 0; i < 2; i++) {
            lf_buf_deinit(&bodies[i]);
            lf_buf_deinit(&texts[i]);
        }
    }
}

/* The parsed body of what make appends, of a request that begins with this line. */
static void parse_body(struct lf_json *json, const struct lf_buf *request, const char *line)
{
    struct lf_str all = lf_buf_view(request);
    if (!lf_str_starts(all, lf_str_c(line))) fail_msg("%.100s", all.ptr);
    size_t at = (size_t)lf_str_find(all, LF_STR("\r\n\r\n")) + 4;
    char length[64];
    snprintf(length, sizeof(length), "Content-Length: %zu\r\n", all.len - at);
    assert_non_null(strstr(all.ptr, length));
    assert_int_equal(lf_json_parse(json, lf_str_from(all.ptr + at, all.len - at), &lf_json_limits_request, NULL),
                     LF_OK);
}

static void put(const struct lf_load_shape *shape, uint64_t index, const char *line, struct lf_buf *text)
{
    struct lf_buf out;
    struct lf_json json = {0};
    lf_buf_init(&out, 1 << 20);
    lf_load_put(&out, shape, index);
    parse_body(&json, &out, line);
    lf_buf_clear(text);
    assert_true(lf_json_string(lf_json_get(lf_json_root(&json), "text"), text));
    int64_t ttl_s;
    assert_true(lf_json_int64(lf_json_get(lf_json_root(&json), "ttl"), &ttl_s) && ttl_s == 86400);
    lf_json_deinit(&json);
    lf_buf_deinit(&out);
}

static void a_documents_name_and_text_follow_from_its_seed_length_and_number(void **state)
{
    (void)state;
    struct lf_buf texts[4];
    struct lf_load_shape shape = {.n_prompt = 40, .seed = 3, .document_seed = 17, .host = "h"};
    for (int i = 0; i < 4; i++) lf_buf_init(&texts[i], 1 << 20);
    put(&shape, 0, "PUT /v1/documents/load-11-40-0?wait=true HTTP/1.1\r\n", &texts[0]);
    put(&shape, 5, "PUT /v1/documents/load-11-40-5?wait=true HTTP/1.1\r\n", &texts[1]);
    shape.seed = 4; /* that of the questions */
    put(&shape, 0, "PUT /v1/documents/load-11-40-0?wait=true HTTP/1.1\r\n", &texts[2]);
    shape.document_seed = 18;
    put(&shape, 0, "PUT /v1/documents/load-12-40-0?wait=true HTTP/1.1\r\n", &texts[3]);
    assert_true(lf_str_starts(lf_buf_view(&texts[1]), LF_STR("Document 5. ")));
    assert_string_equal(texts[0].ptr, texts[2].ptr);
    assert_string_not_equal(texts[0].ptr, texts[3].ptr);
    assert_string_not_equal(strchr(texts[0].ptr, '.'), strchr(texts[1].ptr, '.'));
    int n_spaces = 0;
    for (const char *p = texts[0].ptr; *p; p++) n_spaces += *p == ' ';
    assert_int_equal(n_spaces, 41);
    for (int i = 0; i < 4; i++) lf_buf_deinit(&texts[i]);
}

static void questions_name_a_document_and_differ(void **state)
{
    (void)state;
    struct lf_zipf zipf;
    int n_asked[3] = {0};
    assert_int_equal(lf_zipf_init(&zipf, 3, 1), LF_OK);
    struct lf_load_shape shape = {.dialect = LF_LOAD_MESSAGES,
                                  .n_prompt = 40,
                                  .n_output = 3,
                                  .seed = 3,
                                  .document_seed = 17,
                                  .documents = &zipf,
                                  .host = "h"};
    struct lf_buf out, name, texts[2];
    lf_buf_init(&out, 1 << 20);
    lf_buf_init(&name, 1 << 20);
    for (int i = 0; i < 2; i++) lf_buf_init(&texts[i], 1 << 20);
    for (uint64_t i = 0; i < 50; i++) {
        struct lf_json json = {0};
        lf_buf_clear(&out);
        lf_buf_clear(&name);
        lf_buf_clear(&texts[i % 2]);
        lf_load_request(&out, &shape, i);
        parse_body(&json, &out, "POST /v1/messages HTTP/1.1\r\n");
        struct lf_json_value message = lf_json_first(lf_json_get(lf_json_root(&json), "messages"));
        struct lf_json_value parts = lf_json_get(message, "content"), first = lf_json_first(parts);
        assert_int_equal(lf_json_len(parts), 2);
        assert_true(lf_json_string_is(lf_json_get(first, "type"), "document"));
        assert_true(lf_json_string(lf_json_get(first, "name"), &name));
        int document = name.ptr[name.len - 1] - '0';
        assert_true(lf_str_starts(lf_buf_view(&name), LF_STR("load-11-40-")) && document >= 0 && document < 3);
        n_asked[document]++;
        assert_int_equal(lf_load_document_of(&shape, i), document);
        assert_true(lf_json_string(lf_json_get(lf_json_next(parts, first), "text"), &texts[i % 2]));
        if (i > 0) assert_string_not_equal(texts[0].ptr, texts[1].ptr);
        lf_json_deinit(&json);
    }
    assert_true(n_asked[0] > n_asked[2] && n_asked[1] > 0 && n_asked[2] > 0);
    lf_buf_deinit(&out);
    lf_buf_deinit(&name);
    for (int i = 0; i < 2; i++) lf_buf_deinit(&texts[i]);
    lf_zipf_deinit(&zipf);
}

/* The messages of a request of a workload, their contents one behind another with lines of their roles. */
static int conversation_of(struct lf_buf *out, const struct lf_load_shape *shape, uint64_t index, const char *line)
{
    struct lf_buf request;
    struct lf_json json = {0};
    lf_buf_init(&request, 1 << 20);
    lf_load_request(&request, shape, index);
    parse_body(&json, &request, line);
    struct lf_json_value root = lf_json_root(&json),
                         messages = lf_json_get(root, shape->dialect == LF_LOAD_RESPONSES ? "input" : "messages");
    assert_int_equal(lf_json_type(lf_json_get(root, "ignore_eos")), LF_JSON_NONE); /* the model ends it */
    lf_buf_clear(out);
    int n = 0;
    for (struct lf_json_value it = lf_json_first(messages); lf_json_more(messages, it);
         it = lf_json_next(messages, it)) {
        assert_true(lf_json_string_is(lf_json_get(it, "role"), n++ % 2 ? "assistant" : "user"));
        assert_true(lf_json_string(lf_json_get(it, "content"), out));
        lf_buf_cstr(out, n % 2 ? "\n< " : "\n> ");
    }
    lf_json_deinit(&json);
    lf_buf_deinit(&request);
    return n;
}

/* A turn begins with all of the turn before it, up to the answer; each conversation has a text of its own. */
static void turns_go_on_from_one_another(void **state)
{
    (void)state;
    static const char *const paths[] = {NULL, "POST /v1/chat/completions ", "POST /v1/responses ",
                                        "POST /v1/messages "};
    for (enum lf_load_dialect d = LF_LOAD_CHAT; d <= LF_LOAD_MESSAGES; d++) {
        struct lf_load_shape shape = {
            .dialect = d, .workload = LF_WORKLOAD_CHAT, .n_prompt = 500, .n_output = 3, .seed = 5, .host = "h"};
        struct lf_buf now, before;
        lf_buf_init(&now, 1 << 20);
        lf_buf_init(&before, 1 << 20);
        for (uint64_t i = 0; i < 3 * LF_WORKLOAD_TURNS_N; i++) {
            uint64_t turn = i % LF_WORKLOAD_TURNS_N;
            assert_int_equal(conversation_of(&now, &shape, i, paths[d]), 2 * (int)turn + 1);
            if (turn > 0) assert_memory_equal(now.ptr, before.ptr, before.len);
            if (turn == 0 && i > 0) assert_memory_not_equal(now.ptr, before.ptr, 100);
            lf_buf_clear(&before);
            lf_buf_str(&before, lf_buf_view(&now));
        }
        lf_buf_deinit(&now);
        lf_buf_deinit(&before);
    }
}

static void a_workload_is_a_text_and_a_question(void **state)
{
    (void)state;
    static const char *const begins[] = {[LF_WORKLOAD_EXTRACT] = "\n\nCopy the sentences about these, ",
                                         [LF_WORKLOAD_QA] = "\n\nWhat is the access code for ",
                                         [LF_WORKLOAD_SUMMARY] = "\n\nSummarize the text in "};
    struct lf_buf a, b;
    lf_buf_init(&a, 1 << 20);
    lf_buf_init(&b, 1 << 20);
    for (enum lf_workload w = LF_WORKLOAD_EXTRACT; w <= LF_WORKLOAD_SUMMARY; w++) {
        struct lf_load_shape shape = {
            .dialect = LF_LOAD_CHAT, .workload = w, .n_prompt = 500, .n_output = 3, .seed = 5, .host = "h"};
        assert_int_equal(conversation_of(&a, &shape, 0, "POST /v1/chat/completions "), 1);
        assert_int_equal(conversation_of(&b, &shape, 1, "POST /v1/chat/completions "), 1);
        assert_non_null(strstr(a.ptr, begins[w]));
        assert_memory_not_equal(a.ptr, b.ptr, 100); /* a text each */
    }
    lf_buf_deinit(&a);
    lf_buf_deinit(&b);
}

/* What is asked about stands in the document that is named, whose name is another than that of one of random words. */
static void a_workloads_documents_have_records(void **state)
{
    (void)state;
    struct lf_zipf zipf;
    assert_int_equal(lf_zipf_init(&zipf, 3, 1), LF_OK);
    struct lf_load_shape shape = {.dialect = LF_LOAD_CHAT,
                                  .workload = LF_WORKLOAD_QA,
                                  .n_prompt = 400,
                                  .n_output = 3,
                                  .seed = 3,
                                  .document_seed = 17,
                                  .documents = &zipf,
                                  .host = "h"};
    struct lf_buf out, text, question;
    lf_buf_init(&out, 1 << 20);
    lf_buf_init(&text, 1 << 20);
    lf_buf_init(&question, 1 << 20);
    for (uint64_t i = 0; i < 20; i++) {
        struct lf_json json = {0};
        char line[96], record[96];
        int document = lf_load_document_of(&shape, i);
        snprintf(line, sizeof line, "PUT /v1/documents/load-records-11-400-%d?wait=true HTTP/1.1\r\n", document);
        put(&shape, (uint64_t)document, line, &text);
        lf_buf_clear(&out);
        lf_buf_clear(&question);
        lf_load_request(&out, &shape, i);
        parse_body(&json, &out, "POST /v1/chat/completions HTTP/1.1\r\n");
        struct lf_json_value message = lf_json_first(lf_json_get(lf_json_root(&json), "messages")),
                             parts = lf_json_get(message, "content"), first = lf_json_first(parts);
        snprintf(line, sizeof line, "load-records-11-400-%d", document);
        assert_true(lf_json_string_is(lf_json_get(first, "name"), line));
        assert_true(lf_json_string(lf_json_get(lf_json_next(parts, first), "text"), &question));
        snprintf(record, sizeof record, "The access code for %.*s is ", (int)question.len - 1 - 28, question.ptr + 28);
        assert_non_null(strstr(text.ptr, record));
        lf_json_deinit(&json);
    }
    lf_buf_deinit(&out);
    lf_buf_deinit(&text);
    lf_buf_deinit(&question);
    lf_zipf_deinit(&zipf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_share_what_was_asked_and_no_more),
        cmocka_unit_test(a_schema_is_sent_as_it_stands_and_ends_the_answer),
        cmocka_unit_test(the_key_is_sent_where_there_is_one),
        cmocka_unit_test(texts_are_of_so_many_words),
        cmocka_unit_test(a_documents_name_and_text_follow_from_its_seed_length_and_number),
        cmocka_unit_test(questions_name_a_document_and_differ),
        cmocka_unit_test(turns_go_on_from_one_another),
        cmocka_unit_test(a_workload_is_a_text_and_a_question),
        cmocka_unit_test(a_workloads_documents_have_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
