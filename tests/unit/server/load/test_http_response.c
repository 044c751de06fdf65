#include "tests/support/test.h"

#include "server/load/http_response.h"

static void append(void *ctx, const char *bytes, size_t n)
{
    lf_buf_append(ctx, bytes, n);
}

/* Feeds text in pieces of n bytes; the body ends up in out. */
static void feed(struct lf_response *r, struct lf_buf *out, const char *text, size_t n)
{
    size_t len = strlen(text);
    lf_buf_clear(out);
    lf_response_init(r, append, out);
    for (size_t at = 0; at < len; at += n) lf_response_feed(r, text + at, len - at < n ? len - at : n);
}

static void bodies_come_out_whole_however_they_arrive(void **state)
{
    (void)state;
    static const struct {
        const char *text, *body;
        int status;
        enum lf_response_part part;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", 200, LF_RESPONSE_DONE},
        {"HTTP/1.1 200 OK\r\nCONTENT-LENGTH:5\r\n\r\nhello and more", "hello", 200, LF_RESPONSE_DONE},
        {"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", "", 204, LF_RESPONSE_DONE},
        {"HTTP/1.0 200 OK\n\nuntil the end", "until the end", 200, LF_RESPONSE_UNTIL_END},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nT: x\r\n\r\n",
         "abc0123456789", 200, LF_RESPONSE_DONE},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429 Busy\r\nContent-Length: 2\r\n\r\nno", "no", 429, LF_RESPONSE_DONE},
        {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", "short", 200, LF_RESPONSE_BODY},
        {"SSH-2.0-x\r\n\r\n", "", 0, LF_RESPONSE_BROKEN},
        {"\r\n\r\n", "", 0, LF_RESPONSE_BROKEN},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "", 200, LF_RESPONSE_BROKEN},
    };
    struct lf_buf body;
    lf_buf_init(&body, 4096);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t n = 1; n < 200; n = n < 8 ? n + 1 : n * 2) {
            struct lf_response r;
            feed(&r, &body, cases[i].text, n);
            assert_string_equal(lf_buf_view(&body).ptr, cases[i].body);
            assert_int_equal(r.status, cases[i].status);
            assert_int_equal(r.part, cases[i].part);
        }
    }
    lf_buf_deinit(&body);
}

static void only_a_counted_body_can_be_cut_short(void **state)
{
    (void)state;
    struct lf_response r;
    struct lf_buf body;
    lf_buf_init(&body, 4096);
    feed(&r, &body, "HTTP/1.1 200 OK\r\n\r\nxy", 99);
    assert_true(lf_response_end(&r));
    feed(&r, &body, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nxy", 99);
    assert_false(lf_response_end(&r));
    lf_buf_deinit(&body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_come_out_whole_however_they_arrive),
        cmocka_unit_test(only_a_counted_body_can_be_cut_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
