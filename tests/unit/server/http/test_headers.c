/* server/http/conn/headers.c: what is read from a head, and every head that is refused before its body. */
#include "tests/unit/server/http/mhd_head.h"

#include "core/check.h"
#include "core/limits.h"

static enum lf_status check_n(struct lf_headers *h, const char *text, size_t n, struct lf_api_err *err)
{
    static struct MHD_Connection c;
    parse(&c, text, n);
    *err = (struct lf_api_err){0};
    lf_headers_read(h, &c);
    return lf_headers_check_framing(h, &c.line, err);
}

static enum lf_status check(struct lf_headers *h, const char *text, struct lf_api_err *err)
{
    return check_n(h, text, strlen(text), err);
}

static void taken(const char *text)
{
    struct lf_headers h;
    struct lf_api_err err;
    if (check(&h, text, &err) != LF_OK) fail_msg("%s: %s", text, err.message);
}

static void refused(const char *text, int status, const char *code)
{
    struct lf_headers h;
    struct lf_api_err err;
    if (check(&h, text, &err) != LF_INVALID) fail_msg("taken: %s", text);
    if (err.status != status || strcmp(err.code, code) != 0) fail_msg("%s: %d %s", text, err.status, err.code);
}

#define HOST "Host: h\r\n"
#define GET  "GET / HTTP/1.1\r\n" HOST
#define POST "POST /x HTTP/1.1\r\n" HOST

/* ---- reading ---- */

static void assert_str(struct lf_str got, const char *want)
{
    assert_int_equal(got.len, strlen(want));
    assert_memory_equal(got.ptr, want, got.len);
}

static void fields_are_found_by_name_in_any_case(void **state)
{
    (void)state;
    struct lf_headers h;
    struct lf_api_err err;
    static const char text[] =
        "POST /x HTTP/1.1\r\nhOST: a:1\r\nCONTENT-length:\t 12 \t \r\ncontent-TYPE:a/b\r\n"
        "Authorization: Bearer k\r\nExpect: 100-Continue\r\nOrigin: o\r\nContent-Encoding: gzip\r\n"
        "X-Request-Id: r-1\r\nAccess-Control-Request-Headers: x, y\r\nHos: no\r\nHostt: no\r\nX-API-Key: k2\r\n\r\n";
    assert_int_equal(check(&h, text, &err), LF_OK);
    assert_int_equal(h.n, 12);
    assert_int_equal(h.bytes, sizeof text - 1);
    assert_str(h.host, "a:1");
    assert_str(h.content_length, "12");
    assert_str(h.content_type, "a/b");
    assert_str(h.authorization, "Bearer k");
    assert_str(h.expect, "100-Continue");
    assert_str(h.origin, "o");
    assert_str(h.content_encoding, "gzip");
    assert_str(h.request_id, "r-1");
    assert_str(h.cors_request_headers, "x, y");
    assert_str(h.api_key, "k2");
    assert_int_equal(h.transfer_encoding.len, 0);
    assert_int_equal(h.n_host, 1);
    assert_int_equal(h.n_transfer_encoding, 0);
    assert_int_equal(check(&h, "GET / HTTP/1.0\r\n\r\n", &err), LF_OK);
    assert_int_equal(h.n, 0);
    assert_int_equal(h.host.len + h.origin.len + (size_t)h.n_host, 0);
}

static void the_body_s_length_is_told(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int64_t bytes;
        bool ends;
    } rows[] = {
        {GET "\r\n", 0, false},
        {POST "Content-Length: 0\r\n\r\n", 0, false},
        {POST "Content-Length: 1048577\r\n\r\n", 1048577, false},
        {POST "Content-Length: 999999999999999999\r\n\r\n", INT64_C(999999999999999999), false},
        {POST "Content-Length: 1000000000000000000\r\n\r\n", INT64_MAX, false},
        {POST "Content-Length: five\r\n\r\n", INT64_MAX, false},
        {POST "Content-Length: \r\n\r\n", INT64_MAX, false},
        {POST "Transfer-Encoding: chunked\r\n\r\n", -1, true},
    };
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++) {
        struct lf_headers h;
        struct lf_api_err err;
        (void)!check(&h, rows[i].text, &err);
        assert_true(lf_headers_body_bytes(&h) == rows[i].bytes);
        assert_int_equal(lf_headers_end_connection(&h), rows[i].ends);
    }
}

static void what_the_body_is_in(void **state)
{
    (void)state;
    const struct {
        const char *type;
        bool json;
    } types[] = {
        {"application/json", true},    {"Application/JSON", true},    {"application/json; charset=utf-8", true},
        {"application/json ;x", true}, {"application/json\t;", true}, {"application/jsonl", false},
        {"application/jso", false},    {"text/json", false},          {"", false}};
    for (size_t i = 0; i < LF_N_ELEMS(types); i++) {
        struct lf_headers h = {.content_type = lf_str_c(types[i].type)};
        if (lf_headers_is_json(&h) != types[i].json) fail_msg("%s", types[i].type);
    }
    struct test_guarded g = test_guarded_copy("application/json", 16);
    struct lf_headers h = {.content_type = lf_str_from(g.ptr, 16)};
    assert_true(lf_headers_is_json(&h));
    test_guarded_free(&g);
    const struct {
        const char *coding;
        bool encoded;
    } codings[] = {{"", false}, {"identity", false}, {"Identity", false}, {"gzip", true}, {"identity, gzip", true}};
    for (size_t i = 0; i < LF_N_ELEMS(codings); i++) {
        h = (struct lf_headers){.content_encoding = lf_str_c(codings[i].coding)};
        assert_int_equal(lf_headers_is_encoded(&h), codings[i].encoded);
    }
}

/* ---- framing ---- */

static void versions_and_their_host(void **state)
{
    (void)state;
    taken(GET "\r\n");
    taken("GET / HTTP/1.0\r\n\r\n");
    taken("GET / HTTP/1.0\r\n" HOST "\r\n");
    refused("GET / HTTP/1.2\r\n" HOST "\r\n", 400, "bad_version");
    refused("GET / HTTP/2.0\r\n" HOST "\r\n", 400, "bad_version");
    refused("GET / HTTP/1.10\r\n" HOST "\r\n", 400, "bad_version");
    refused("GET / http/1.1\r\n" HOST "\r\n", 400, "bad_version");
    refused("GET / HTTP/1.1\r\n\r\n", 400, "bad_host");
    refused(GET HOST "\r\n", 400, "bad_host");
    refused("GET / HTTP/1.0\r\n" HOST HOST "\r\n", 400, "bad_host");
}

static void a_body_needs_one_length(void **state)
{
    (void)state;
    const char *methods[] = {"POST", "PUT", "PATCH"};
    char text[128];
    for (size_t i = 0; i < LF_N_ELEMS(methods); i++) {
        snprintf(text, sizeof text, "%s /x HTTP/1.1\r\n" HOST "\r\n", methods[i]);
        refused(text, 411, "length_required");
    }
    taken("DELETE /x HTTP/1.1\r\n" HOST "\r\n");
    taken("OPTIONS /x HTTP/1.1\r\n" HOST "\r\n");
    taken(POST "Content-Length: 5\r\n\r\n");
    taken(GET "Content-Length: 5\r\n\r\n");
    refused(POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", 400, "bad_framing");
    refused(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "bad_framing");
    refused(POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "bad_framing");
    refused(POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", 400, "bad_framing");
    taken(POST "Content-Length: 999999999999999999\r\n\r\n");
    refused(POST "Content-Length: 1000000000000000000\r\n\r\n", 400, "bad_framing");
    const char *lengths[] = {"", "+5", "-5", "5a", "0x5", "5 5", "5,5", "/", ":"};
    for (size_t i = 0; i < LF_N_ELEMS(lengths); i++) {
        snprintf(text, sizeof text, POST "Content-Length: %s\r\n\r\n", lengths[i]);
        refused(text, 400, "bad_framing");
    }
}

static void the_only_coding_is_chunked(void **state)
{
    (void)state;
    taken(POST "Transfer-Encoding: chunked\r\n\r\n");
    taken(POST "Transfer-Encoding: CHUNKED \t\r\n\r\n");
    refused(POST "Transfer-Encoding: gzip\r\n\r\n", 400, "bad_framing");
    refused(POST "Transfer-Encoding: chunked, gzip\r\n\r\n", 400, "bad_framing");
    refused(POST "Transfer-Encoding: chunke\r\n\r\n", 400, "bad_framing");
    refused(POST "Transfer-Encoding:\r\n\r\n", 400, "bad_framing");
    refused("POST /x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "bad_framing");
    refused(GET "Transfer-Encoding: identity\r\n\r\n", 400, "bad_framing");
}

static void fields_that_may_come_once(void **state)
{
    (void)state;
    const char *once[] = {"Authorization: a", "Content-Type: a", "Expect: 100-continue", "Origin: a"};
    char text[256];
    for (size_t i = 0; i < LF_N_ELEMS(once); i++) {
        snprintf(text, sizeof text, GET "%s\r\n\r\n", once[i]);
        taken(text);
        snprintf(text, sizeof text, GET "%s\r\n%s\r\n\r\n", once[i], once[i]);
        refused(text, 400, "bad_header");
    }
    taken(GET "X-Request-Id: a\r\nX-Request-Id: b\r\nContent-Encoding: a\r\nContent-Encoding: b\r\n\r\n");
    refused(GET "Expect: 200-ok\r\n\r\n", 400, "bad_header");
    refused(GET "Expect: \r\n\r\n", 400, "bad_header");
}

static void each_byte_is_allowed_where_the_grammar_allows_it(void **state)
{
    (void)state;
    static const char token[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char text[128];
    for (int c = 1; c < 256; c++) {
        if (c == '\n' || c == '\r') continue;
        bool in_token = strchr(token, c) != NULL;
        if (c != ':') {
            snprintf(text, sizeof text, GET "a%cb: v\r\n\r\n", c);
            in_token ? taken(text) : refused(text, 400, "bad_header");
        }
        snprintf(text, sizeof text, GET "a: v%cw\r\n\r\n", c);
        (c >= ' ' && c != 0x7f) || c == '\t' ? taken(text) : refused(text, 400, "bad_header");
        if (c == ' ') continue;
        snprintf(text, sizeof text, "G%cT / HTTP/1.1\r\n" HOST "\r\n", c);
        in_token ? taken(text) : refused(text, 400, "bad_request_line");
        snprintf(text, sizeof text, "GET /%ca HTTP/1.1\r\n" HOST "\r\n", c);
        c > ' ' && c != 0x7f ? taken(text) : refused(text, 400, "bad_request_line");
    }
    refused(GET ": v\r\n\r\n", 400, "bad_header"); /* no name */
    refused(GET "a\r: v\r\n\r\n", 400, "bad_header");
    refused(GET "a: v\rw\r\n\r\n", 400, "bad_header");
}

#if MHD_VERSION < 0x00097705
static void every_line_ends_with_cr_lf_and_nothing_lies_between(void **state)
{
    (void)state;
    taken(GET "a:v\r\nb:\tv\r\nc: \t v\r\nd:\r\n\r\n");
    refused("GET / HTTP/1.1\nHost: h\r\n\r\n", 400, "bad_framing");
    refused("GET / HTTP/1.1\r\nHost: h\n\r\n", 400, "bad_framing");
    refused("GET / HTTP/1.1\r\nHost: h\r\n\n", 400, "bad_framing");
    refused("GET / HTTP/1.1\r\nHost: h\nA: b\r\n\r\n", 400, "bad_framing");
    refused("GET / HTTP/1.0\n\n", 400, "bad_framing");
    refused("GET / HTTP/1.0\r\n\n", 400, "bad_framing");
    refused("GET  / HTTP/1.1\r\n" HOST "\r\n", 400, "bad_framing");
    refused("GET /  HTTP/1.1\r\n" HOST "\r\n", 400, "bad_framing");
    static const char in_value[] = GET "A: b\0c\r\n\r\n", in_last[] = "GET / HTTP/1.1\r\nHost: h\0i\r\n\r\n",
                      behind_colon[] = GET "A:\0b\r\n\r\n";
    const struct lf_str with_nul[] = {lf_str_from(in_value, sizeof in_value - 1),
                                      lf_str_from(in_last, sizeof in_last - 1),
                                      lf_str_from(behind_colon, sizeof behind_colon - 1)};
    for (size_t i = 0; i < LF_N_ELEMS(with_nul); i++) {
        struct lf_headers h;
        struct lf_api_err err;
        assert_int_equal(check_n(&h, with_nul[i].ptr, with_nul[i].len, &err), LF_INVALID);
        assert_string_equal(err.code, "bad_framing");
    }
}

/* What libmicrohttpd makes of a folded line: a name that is put together elsewhere, or no value. */
static void a_field_that_lies_elsewhere_is_no_field(void **state)
{
    (void)state;
    static struct MHD_Connection c;
    static const char text[] = GET "A: b\r\nC: d\r\n\r\n";
    char glued[] = "C\0d";
    for (int i = 0; i < 3; i++) {
        struct lf_headers h;
        struct lf_api_err err;
        parse(&c, text, sizeof text - 1);
        lf_headers_read(&h, &c);
        assert_false(h.bad_layout);
        if (i == 0) c.fields[1].value = NULL;
        if (i == 1) c.fields[1] = (struct field){glued, glued + 2};
        if (i == 2) c.fields[1] = c.fields[2];
        lf_headers_read(&h, &c);
        assert_true(h.bad_layout);
        assert_int_equal(lf_headers_check_framing(&h, &c.line, &err), LF_INVALID);
        assert_string_equal(err.code, "bad_framing");
    }
}
#endif

/* ---- size ---- */

static void so_many_fields_and_no_more(void **state)
{
    (void)state;
    for (int more = 0; more < 2; more++) {
        struct lf_buf text;
        lf_buf_init(&text, BYTES_N);
        lf_buf_cstr(&text, GET);
        for (int i = 1; i < LF_HEADERS_N + more; i++) lf_buf_cstr(&text, "A: b\r\n");
        lf_buf_cstr(&text, "\r\n");
        if (more)
            refused(text.ptr, 431, "headers_too_large");
        else
            taken(text.ptr);
        lf_buf_deinit(&text);
    }
}

static void so_many_bytes_and_no_more(void **state)
{
    (void)state;
    for (size_t more = 0; more < 2; more++) {
        struct lf_buf text;
        lf_buf_init(&text, BYTES_N);
        lf_buf_cstr(&text, GET "A: ");
        while (text.len < LF_HEADERS_BYTES - 4 + more) lf_buf_char(&text, 'a');
        lf_buf_cstr(&text, "\r\n\r\n");
        assert_int_equal(text.len, LF_HEADERS_BYTES + more);
        if (more)
            refused(text.ptr, 431, "headers_too_large");
        else
            taken(text.ptr);
        lf_buf_deinit(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_found_by_name_in_any_case),
        cmocka_unit_test(the_body_s_length_is_told),
        cmocka_unit_test(what_the_body_is_in),
        cmocka_unit_test(versions_and_their_host),
        cmocka_unit_test(a_body_needs_one_length),
        cmocka_unit_test(the_only_coding_is_chunked),
        cmocka_unit_test(fields_that_may_come_once),
        cmocka_unit_test(each_byte_is_allowed_where_the_grammar_allows_it),
#if MHD_VERSION < 0x00097705
        cmocka_unit_test(every_line_ends_with_cr_lf_and_nothing_lies_between),
        cmocka_unit_test(a_field_that_lies_elsewhere_is_no_field),
#endif
        cmocka_unit_test(so_many_fields_and_no_more),
        cmocka_unit_test(so_many_bytes_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
