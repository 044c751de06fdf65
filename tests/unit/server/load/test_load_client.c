/* The client against a server of one thread that answers each connection with the next of its scripted answers. */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/load/load_client.h"
#include "server/load/load_prompt.h"

struct script {
    int fd;
    char url[64];
    const char *const *answers; /* NULL: close without an answer */
    int n_answers;
    pthread_t thread;
};

static void *answer_all(void *arg)
{
    struct script *s = arg;
    for (int i = 0; i < s->n_answers; i++) {
        int fd = accept(s->fd, NULL, NULL);
        char bytes[4096];
        size_t n_read = 0;
        while (n_read < sizeof(bytes) - 1) {
            ssize_t n = recv(fd, bytes + n_read, sizeof(bytes) - 1 - n_read, 0);
            if (n <= 0) break;
            n_read += (size_t)n;
            bytes[n_read] = '\0';
            if (strstr(bytes, "\r\n\r\n")) break;
        }
        for (const char *p = s->answers[i]; p && *p;) { /* in small pieces, so that lines are cut anywhere */
            size_t n = strlen(p) < 7 ? strlen(p) : 7;
            if (send(fd, p, n, MSG_NOSIGNAL) != (ssize_t)n) break;
            p += n;
        }
        close(fd);
    }
    return NULL;
}

static void start_script(struct script *s, const char *const *answers, int n_answers)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    *s = (struct script){.answers = answers, .n_answers = n_answers};
    s->fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(s->fd >= 0);
    assert_int_equal(bind(s->fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(s->fd, 16), 0);
    assert_int_equal(getsockname(s->fd, (struct sockaddr *)&address, &len), 0);
    snprintf(s->url, sizeof(s->url), "http://127.0.0.1:%d", ntohs(address.sin_port));
    assert_int_equal(pthread_create(&s->thread, NULL, answer_all, s), 0);
}

static void make(void *ctx, struct lf_buf *out, uint64_t idx)
{
    (void)ctx;
    (void)idx;
    lf_load_get(out, "127.0.0.1", NULL, "/");
}

/* What the client was told of answers: 1 + their numbers, and the tokens of them that were cached. */
static int64_t n_told, n_told_cached;

static void answered(void *ctx, uint64_t idx, const struct lf_load_stream *stream)
{
    assert_ptr_equal(ctx, &n_told);
    n_told += 1 + (int64_t)idx;
    n_told_cached += stream->n_cached;
}

/* One client, as many requests as there are answers. */
static void run_script_as(const char *const *answers, int n, struct lf_load_result *result, struct lf_buf *body,
                          bool json)
{
    struct script s;
    struct lf_url url;
    struct lf_err err;
    start_script(&s, answers, n);
    assert_int_equal(lf_url_parse(&url, s.url, &err), LF_OK);
    struct lf_load_spec spec = {.url = &url,
                                .n_clients = 1,
                                .n_requests = n,
                                .timeout_ms = 5000,
                                .make = make,
                                .json = json,
                                .answered = answered,
                                .answered_ctx = &n_told,
                                .body = body};
    n_told = n_told_cached = 0;
    assert_int_equal(lf_load_run(result, &spec, &err), LF_OK);
    pthread_join(s.thread, NULL);
    close(s.fd);
}

static void run_script(const char *const *answers, int n, struct lf_load_result *result, struct lf_buf *body)
{
    run_script_as(answers, n, result, body, false);
}

#define STREAM_END  "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n"
#define STREAM_HEAD "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

static void a_stream_gives_times_and_counts(void **state)
{
    (void)state;
    static const char *const answers[] = {
        STREAM_HEAD ": keep-alive\n\n"
                    "data: {\"choices\":[{\"text\":\"a\"}]}\n\n"
                    "data: {\"choices\":[{\"text\":\"b\"}]}\n\n"
                    "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\n"
                    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3,"
                    "\"prompt_tokens_details\":{\"cached_tokens\":2}}}\n\n"
                    "data: [DONE]\n\n"};
    struct lf_load_result r;
    run_script(answers, 1, &r, NULL);
    assert_int_equal(r.n_ok, 1);
    assert_int_equal(r.n_failed, 0);
    assert_int_equal(r.n_tokens, 3);
    assert_int_equal(r.n_prompt_tokens, 7);
    assert_int_equal(r.n_cached, 2);
    assert_int_equal(r.ttft.n, 1);
    assert_int_equal(r.gaps.n, 2);
    lf_load_result_deinit(&r);
}

static void those_that_ended_well_are_told_with_their_numbers(void **state)
{
    (void)state;
#define GOOD(n)                                                                                                        \
    STREAM_HEAD "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\n"                                 \
                "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":90,\"completion_tokens\":1,"                       \
                "\"prompt_tokens_details\":{\"cached_tokens\":" n "}}}\n\ndata: [DONE]\n\n"
    static const char *const answers[] = {GOOD("5"), STREAM_HEAD "data: [DONE]\n\n", GOOD("64")};
    struct lf_load_result r;
    run_script(answers, 3, &r, NULL);
    assert_int_equal(r.n_ok, 2);
    assert_int_equal(n_told, 1 + 3);
    assert_int_equal(n_told_cached, 5 + 64);
    lf_load_result_deinit(&r);
}

static void refusals_and_broken_streams_are_failures_with_their_reason(void **state)
{
    (void)state;
    static const struct {
        const char *answer, *message;
        int status;
    } cases[] = {
        {"HTTP/1.1 429 Too Many\r\nContent-Length: 32\r\n\r\n{\"error\":{\"message\":\"too busy\"}}",
         "HTTP 429 too busy", 429},
        {"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops", "HTTP 500", 500},
        {STREAM_HEAD "data: {\"choices\":[{\"text\":\"a\"}]}\n\n", "the stream broke off", 0},
        {STREAM_HEAD "data: {\"error\":{\"message\":\"too hot\"}}\n\n", "the stream broke off: too hot", 0},
        {STREAM_HEAD "data: [DONE]\n\n", "an answer without a reason", 0},
        {"nonsense\r\n\r\n", "not HTTP", 0},
        {NULL, "", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lf_load_result r;
        run_script(&cases[i].answer, 1, &r, NULL);
        assert_int_equal(r.n_ok, 0);
        assert_int_equal(r.n_failed, 1);
        assert_int_equal(r.first_bad_status, cases[i].status);
        if (!strstr(r.first_bad, cases[i].message)) fail_msg("case %zu: %s", i, r.first_bad);
        assert_true(strlen(r.first_bad) > 0);
        lf_load_result_deinit(&r);
    }
}

static void the_first_failure_is_the_one_that_is_kept(void **state)
{
    (void)state;
    static const char *const answers[] = {"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",
                                          STREAM_HEAD "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":"
                                                      "\"length\"}],\"usage\":{\"prompt_tokens\":1,"
                                                      "\"completion_tokens\":0}}\n\n"
                                                      "data: [DONE]\n\n",
                                          "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"};
    struct lf_load_result r;
    run_script(answers, 3, &r, NULL);
    assert_int_equal(r.n_ok, 1);
    assert_int_equal(r.n_failed, 2);
    assert_int_equal(r.first_bad_status, 404);
    lf_load_result_deinit(&r);
}

static void an_answer_that_is_to_be_json_is_parsed(void **state)
{
    (void)state;
    static const char *const answers[] = {
        STREAM_HEAD "data: {\"choices\":[{\"text\":\"{\\\"a\\\":\"}]}\n\ndata: {\"choices\":[{\"text\":\"1}\","
                    "\"finish_reason\":\"stop\"}]}\n\n" STREAM_END,
        STREAM_HEAD "data: {\"choices\":[{\"text\":\"{\"}]}\n\ndata: {\"choices\":[{\"text\":\"\",\"finish_reason\":"
                    "\"length\"}]}\n\n" STREAM_END,
        STREAM_HEAD "data: {\"choices\":[{\"text\":\"{a}\",\"finish_reason\":\"stop\"}]}\n\n" STREAM_END,
        STREAM_HEAD "data: {\"choices\":[{\"text\":\"7\",\"finish_reason\":\"stop\"}]}\n\n" STREAM_END,
    };
    for (int json = 0; json < 2; json++) {
        struct lf_load_result r;
        run_script_as(answers, 4, &r, NULL, json);
        assert_int_equal(r.n_ok, json ? 3 : 4);
        assert_int_equal(r.n_cut, json ? 1 : 0);
        assert_int_equal(r.n_failed, json ? 1 : 0);
        if (json) assert_string_equal(r.first_bad, "the answer does not parse as JSON");
        lf_load_result_deinit(&r);
    }
}

static void a_wanted_body_is_kept(void **state)
{
    (void)state;
    static const char *const answers[] = {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwell"};
    struct lf_load_result r;
    struct lf_buf body;
    lf_buf_init(&body, 4096);
    run_script(answers, 1, &r, &body);
    assert_int_equal(r.n_ok, 1);
    assert_string_equal(lf_buf_view(&body).ptr, "well");
    lf_buf_deinit(&body);
    lf_load_result_deinit(&r);
}

static void a_port_where_nobody_listens_is_a_failure(void **state)
{
    (void)state;
    struct script s;
    static const char *const none[] = {NULL};
    start_script(&s, none, 0);
    pthread_join(s.thread, NULL);
    close(s.fd);
    struct lf_url url;
    struct lf_err err;
    struct lf_load_result r;
    assert_int_equal(lf_url_parse(&url, s.url, &err), LF_OK);
    struct lf_load_spec spec = {.url = &url, .n_clients = 3, .n_requests = 5, .timeout_ms = 5000, .make = make};
    assert_int_equal(lf_load_run(&r, &spec, &err), LF_OK);
    assert_int_equal(r.n_failed, 5);
    assert_string_equal(r.first_bad, "Connection refused");
    lf_load_result_deinit(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_gives_times_and_counts),
        cmocka_unit_test(those_that_ended_well_are_told_with_their_numbers),
        cmocka_unit_test(refusals_and_broken_streams_are_failures_with_their_reason),
        cmocka_unit_test(the_first_failure_is_the_one_that_is_kept),
        cmocka_unit_test(an_answer_that_is_to_be_json_is_parsed),
        cmocka_unit_test(a_wanted_body_is_kept),
        cmocka_unit_test(a_port_where_nobody_listens_is_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
