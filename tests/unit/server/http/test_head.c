/* server/http/conn/head.c: what is said of a request before its body, each limit at it and one past it. */
#include "tests/unit/server/http/exchange_rig.h"

#include "core/check.h"

static int setup(void **state)
{
    (void)state;
    open_rig(1 << 20);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close_rig();
    return 0;
}

/* What the head alone is answered with: a status and a code in the reply; 0 where the body may come. */
static void expect_reply(const char *text, int status, const char *code)
{
    assert_true(head(text));
    if (rig.x->reply.status != status) fail_msg("%s: %d", text, rig.x->reply.status);
    assert_int_equal(rig.x->discard, status != 0);
    if (!code) return;
    char body[1024] = "";
    struct lf_str got = lf_buf_view(&rig.x->reply.body);
    memcpy(body, got.ptr, LF_MIN(got.len, sizeof body - 1));
    if (!strstr(body, code)) fail_msg("%s: %s", text, body);
}

static void expect_accepted(const char *text)
{
    expect_reply(text, 0, NULL);
    assert_int_equal(rig.status, 0);
}

/* ---- ids ---- */

static void a_plain_id_of_the_client_is_kept(void **state)
{
    (void)state;
    static const char *const kept[] = {"a", "azAZ09", "._-", "0"};
    static const char *const replaced[] = {"a/b", "a:b", "a@b", "a[b", "a`b", "a{b", "a b", "a,b", "\xC3\xA9"};
    char text[256], id[80];
    for (size_t i = 0; i < LF_N_ELEMS(kept); i++) {
        snprintf(text, sizeof text, "GET /livez HTTP/1.1\r\n" HOST "X-Request-Id: %s\r\n\r\n", kept[i]);
        expect_accepted(text);
        assert_string_equal(rig.x->request_id, kept[i]);
    }
    for (size_t i = 0; i < LF_N_ELEMS(replaced); i++) {
        snprintf(text, sizeof text, "GET /livez HTTP/1.1\r\n" HOST "X-Request-Id: %s\r\n\r\n", replaced[i]);
        expect_accepted(text);
        snprintf(id, sizeof id, "req-%s", rig.x->id);
        assert_string_equal(rig.x->request_id, id);
    }
    for (int n = LF_REQUEST_ID_BYTES; n <= LF_REQUEST_ID_BYTES + 1; n++) {
        memset(id, 'x', sizeof id);
        id[n] = 0;
        snprintf(text, sizeof text, "GET /livez HTTP/1.1\r\n" HOST "X-Request-Id: %s\r\n\r\n", id);
        expect_accepted(text);
        assert_int_equal(strcmp(rig.x->request_id, id) == 0, n == LF_REQUEST_ID_BYTES);
    }
    expect_accepted("GET /livez HTTP/1.1\r\n" HOST "\r\n");
    assert_memory_equal(rig.x->request_id, "req-", 4);
    assert_int_equal(strlen(rig.x->id), 24);
}

/* ---- the route ---- */

static void what_follows_a_route_is_decoded_once(void **state)
{
    (void)state;
    static const struct {
        const char *tail, *decoded; /* NULL: refused */
    } cases[] = {{"abc", "abc"},  {"%41%7a", "Az"}, {"a%2Fb", "a/b"}, {"%2541", "%41"}, {"%0a", "\n"}, {"%A0", "\xA0"},
                 {"%fF", "\xFF"}, {"%10", "\x10"},  {"%99", "\x99"},  {"%4", NULL},     {"%", NULL},   {"abc%", NULL},
                 {"%00", NULL},   {"%0G", NULL},    {"%g0", NULL},    {"%/0", NULL},    {"%:0", NULL}, {"%@0", NULL},
                 {"%`0", NULL},   {"%0`", NULL},    {"%0/", NULL},    {"x%41", "xA"},   {"%41x", "Ax"}};
    char text[128];
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) {
        snprintf(text, sizeof text, "GET /v1/models/%s HTTP/1.1\r\n" HOST "\r\n", cases[i].tail);
        if (!cases[i].decoded) {
            expect_reply(text, 404, "unknown_route");
            assert_null(rig.x->route);
            continue;
        }
        expect_accepted(text);
        assert_int_equal(rig.x->tail.len, strlen(cases[i].decoded));
        assert_memory_equal(rig.x->tail.ptr, cases[i].decoded, rig.x->tail.len);
    }
}

static void a_path_has_its_methods(void **state)
{
    (void)state;
    expect_accepted("GET /livez HTTP/1.1\r\n" HOST "\r\n");
    expect_accepted("HEAD /livez HTTP/1.1\r\n" HOST "\r\n");
    expect_reply("POST /livez HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", 405, "method_not_allowed");
    assert_string_equal(rig.x->reply.allow, "GET, HEAD, OPTIONS");
    expect_reply("GET /tokenize HTTP/1.1\r\n" HOST "\r\n", 405, "method_not_allowed");
    assert_string_equal(rig.x->reply.allow, "POST, OPTIONS");
    expect_reply("HEAD /tokenize HTTP/1.1\r\n" HOST "\r\n", 405, "method_not_allowed");
    expect_reply("DELETE /livez HTTP/1.1\r\n" HOST "\r\n", 405, "method_not_allowed");
    expect_reply("OPTIONS /livez HTTP/1.1\r\n" HOST "\r\n", 204, NULL);
    assert_string_equal(rig.x->reply.allow, "GET, HEAD, OPTIONS");
    expect_reply("GET /nothing HTTP/1.1\r\n" HOST "\r\n", 404, "unknown_route");
    assert_null(rig.x->reply.allow);
    expect_reply("OPTIONS /nothing HTTP/1.1\r\n" HOST "\r\n", 404, "unknown_route");
}

static void a_target_has_so_many_bytes(void **state)
{
    (void)state;
    static char text[LF_URI_BYTES + 256];
    for (int n = LF_URI_BYTES; n <= LF_URI_BYTES + 1; n++) {
        int at = snprintf(text, sizeof text, "GET /v1/models/");
        memset(text + at, 'x', (size_t)n - 11);
        snprintf(text + 4 + n, 64, " HTTP/1.1\r\n" HOST "\r\n");
        if (n == LF_URI_BYTES)
            expect_accepted(text);
        else
            expect_reply(text, 414, "uri_too_long");
    }
}

/* ---- who asks, and when ---- */

static void while_the_model_is_loaded_health_is_answered(void **state)
{
    (void)state;
    atomic_store(&rig.server.ready, false);
    atomic_store(&rig.server.progress_permille, 250);
    expect_accepted("GET /readyz HTTP/1.1\r\n" HOST "\r\n");
    expect_reply("GET /v1/models HTTP/1.1\r\n" HOST "\r\n", 503, "\"code\":\"loading\",\"progress\":0.250");
    assert_int_equal(rig.x->reply.retry_after_s, 2);
    expect_reply("OPTIONS /v1/models HTTP/1.1\r\n" HOST "\r\n", 204, NULL);
}

static void while_it_drains_nothing_new_is_generated(void **state)
{
    (void)state;
    atomic_store(&rig.server.draining, true);
    expect_accepted("GET /v1/models HTTP/1.1\r\n" HOST "\r\n");
    expect_accepted("POST /tokenize HTTP/1.1\r\n" HOST JSON "Content-Length: 2\r\n\r\n");
    expect_reply("POST /v1/completions HTTP/1.1\r\n" HOST JSON "Content-Length: 2\r\n\r\n", 503, "draining");
}

static void a_slot_for_health_answers_health_alone(void **state)
{
    (void)state;
    expect_accepted("GET /livez HTTP/1.1\r\n" HOST "\r\n");
    assert_false(rig.x->reply.close);
    rig.conn->health_only = true;
    expect_accepted("GET /livez HTTP/1.1\r\n" HOST "\r\n");
    assert_true(rig.x->reply.close);
    expect_reply("GET /v1/models HTTP/1.1\r\n" HOST "\r\n", 503, "too_many_connections");
    assert_true(rig.x->reply.close);
    assert_int_equal(rig.x->reply.retry_after_s, 1);
    assert_int_equal(rig.status, 503);
    /* its body would keep the slot */
    expect_reply("POST /v1/completions HTTP/1.1\r\n" HOST JSON "Content-Length: 1000\r\n\r\n", 503,
                 "too_many_connections");
    assert_int_equal(rig.status, 503);
}

static void without_keys_a_tenant_is_its_address(void **state)
{
    (void)state;
    expect_accepted("GET /v1/models HTTP/1.1\r\n" HOST "\r\n");
    uint64_t id = rig.x->tenant.id;
    assert_true(id != 0 && !rig.x->tenant.by_key);
    expect_accepted("GET /v1/models HTTP/1.1\r\n" HOST "Authorization: Bearer whatever\r\n\r\n");
    assert_true(rig.x->tenant.id == id);
    rig.conn->peer.bytes[7] = 8;
    expect_accepted("GET /v1/models HTTP/1.1\r\n" HOST "\r\n");
    assert_true(rig.x->tenant.id != id && rig.x->tenant.id != 0);
    for (uint64_t address = 0; address < 64; address++) { /* never nobody's, whatever it is hashed to */
        rig.conn->peer.bytes[7] = (uint8_t)address;
        expect_accepted("GET /v1/models HTTP/1.1\r\n" HOST "\r\n");
        assert_int_equal(rig.x->tenant.id & 1, 1);
    }
}

/* The id of whoever asks through a trusted proxy with these fields. */
static uint64_t tenant_behind_proxy(const char *fields)
{
    char text[1024];
    snprintf(text, sizeof text, "GET /v1/models HTTP/1.1\r\n" HOST "%s\r\n", fields);
    expect_accepted(text);
    return rig.x->tenant.id;
}

static void behind_a_proxy_a_tenant_is_its_clients_address(void **state)
{
    (void)state;
    static const char *const proxies[] = {"10.0.0.0/8", NULL};
    struct lf_err err;
    char many[512];
    int n_bytes = 0;
    uint64_t stranger = tenant_behind_proxy("X-Forwarded-For: 203.0.113.7\r\n");
    assert_true(stranger == tenant_behind_proxy(""));
    assert_int_equal(lf_proxies_init(&rig.server.proxies, proxies, &err), LF_OK);
    rig.conn->by_proxy = true;
    uint64_t own = tenant_behind_proxy(""), client = tenant_behind_proxy("X-Forwarded-For: 203.0.113.7\r\n");
    assert_true(own == stranger && client != own);
    assert_true(client ==
                tenant_behind_proxy("x-forwarded-for: 1.2.3.4\r\nX-FORWARDED-FOR: 203.0.113.7,10.0.0.1 \r\n"));
    assert_true(client != tenant_behind_proxy("X-Forwarded-For: 203.0.113.8\r\n"));
    assert_int_equal(lf_counter_get(&rig.server.metrics.malformed_forwarded), 0);
    assert_true(own == tenant_behind_proxy("X-Forwarded-For: unknown\r\n"));
    assert_int_equal(lf_counter_get(&rig.server.metrics.malformed_forwarded), 1);
    for (int n = 1; n <= LF_FORWARDED_LINES_N + 1; n++) {
        n_bytes += snprintf(many + n_bytes, sizeof many - (size_t)n_bytes, "X-Forwarded-For: 203.0.113.7\r\n");
        assert_true(tenant_behind_proxy(many) == client); /* however many the client itself has put before it */
    }
    assert_int_equal(lf_counter_get(&rig.server.metrics.malformed_forwarded), 1);
}

static void with_keys_a_tenant_is_its_key(void **state)
{
    (void)state;
    struct lf_err err;
    lf_keys_deinit(&rig.server.keys);
    assert_int_equal(lf_keys_init(&rig.server.keys, NULL, "one,two", &err), LF_OK);
    expect_accepted("GET /livez HTTP/1.1\r\n" HOST "\r\n");
    assert_int_equal(rig.x->tenant.id, 0);
    expect_reply("GET /v1/models HTTP/1.1\r\n" HOST "\r\n", 401, "invalid_api_key");
    expect_reply("GET /v1/models HTTP/1.1\r\n" HOST "Authorization: Bearer three\r\n\r\n", 401, "invalid_api_key");
    expect_accepted("GET /v1/models HTTP/1.1\r\n" HOST "Authorization: Bearer one\r\n\r\n");
    assert_true(rig.x->tenant.by_key);
    uint64_t one = rig.x->tenant.id;
    expect_accepted("GET /v1/models HTTP/1.1\r\n" HOST "X-Api-Key: two\r\n\r\n");
    assert_true(rig.x->tenant.by_key && rig.x->tenant.id != one);
}

/* ---- the body that is announced ---- */

static void a_body_is_plain_json(void **state)
{
    (void)state;
    expect_accepted("POST /tokenize HTTP/1.1\r\n" HOST JSON "Content-Length: 2\r\n\r\n");
    expect_reply("POST /tokenize HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\n", 415, "unsupported_media_type");
    expect_reply("POST /tokenize HTTP/1.1\r\n" HOST JSON "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n", 415,
                 "Content-Encoding");
    expect_reply("GET /v1/models HTTP/1.1\r\n" HOST "Content-Encoding: gzip\r\n\r\n", 415, "Content-Encoding");
}

/* Too long: refused; so long that it is not even read and dropped: answered at once. */
static void a_body_has_so_many_bytes(void **state)
{
    (void)state;
    static const struct {
        int n, status;
        bool now;
    } cases[] = {{MAX_BODY, 0, false},
                 {MAX_BODY + 1, 413, false},
                 {MAX_BODY * LF_DISCARD_FACTOR, 413, false},
                 {MAX_BODY * LF_DISCARD_FACTOR + 1, 413, true}};
    char text[256];
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) {
        snprintf(text, sizeof text, "POST /tokenize HTTP/1.1\r\n" HOST JSON "Content-Length: %d\r\n\r\n", cases[i].n);
        expect_reply(text, cases[i].status, cases[i].status ? "body_too_large" : NULL);
        assert_int_equal(rig.status, cases[i].now ? 413 : 0);
    }
}

/* Who waits for our word before it sends the body gets the answer instead. */
static void an_expectation_is_answered_at_once(void **state)
{
    (void)state;
    expect_reply("POST /nothing HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\n", 404, NULL);
    assert_int_equal(rig.status, 0);
    expect_reply("POST /nothing HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n", 404, NULL);
    assert_int_equal(rig.status, 404);
    assert_false(rig.x->reply.close);
    expect_accepted("POST /tokenize HTTP/1.1\r\n" HOST JSON "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n");
}

static void a_head_without_sense_is_answered_at_once_and_ends_the_connection(void **state)
{
    (void)state;
    expect_reply("POST /tokenize HTTP/1.1\r\n" HOST JSON "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", 400,
                 "bad_framing");
    assert_int_equal(rig.status, 400);
    assert_true(rig.x->reply.close);
    assert_string_equal(header("Connection"), "close");
    expect_accepted("POST /tokenize HTTP/1.1\r\n" HOST JSON
                    "Transfer-Encoding: chunked\r\n\r\n"); /* what follows is unsure */
    assert_true(rig.x->reply.close);
}

static void a_foreign_host_hears_nothing_else(void **state)
{
    (void)state;
    expect_reply("GET /nothing HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403, "host_not_allowed");
    rig.server.loopback = false;
    expect_reply("GET /nothing HTTP/1.1\r\nHost: evil.example\r\n\r\n", 404, "unknown_route");
}

static void version_and_origin_are_kept(void **state)
{
    (void)state;
    expect_accepted("GET /livez HTTP/1.1\r\n" HOST "\r\n");
    assert_false(rig.x->http_1_0);
    assert_null(rig.x->cors);
    expect_accepted("GET /livez HTTP/1.0\r\n" HOST "Origin: http://page.example\r\n\r\n");
    assert_true(rig.x->http_1_0);
    assert_string_equal(rig.x->cors, "http://page.example");
    expect_reply("OPTIONS /livez HTTP/1.1\r\n" HOST "Access-Control-Request-Headers: accept\r\n\r\n", 204, NULL);
    assert_int_equal(rig.x->preflight.len, 6);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_plain_id_of_the_client_is_kept),
        CASE(what_follows_a_route_is_decoded_once),
        CASE(a_path_has_its_methods),
        CASE(a_target_has_so_many_bytes),
        CASE(while_the_model_is_loaded_health_is_answered),
        CASE(while_it_drains_nothing_new_is_generated),
        CASE(a_slot_for_health_answers_health_alone),
        CASE(without_keys_a_tenant_is_its_address),
        CASE(behind_a_proxy_a_tenant_is_its_clients_address),
        CASE(with_keys_a_tenant_is_its_key),
        CASE(a_body_is_plain_json),
        CASE(a_body_has_so_many_bytes),
        CASE(an_expectation_is_answered_at_once),
        CASE(a_head_without_sense_is_answered_at_once_and_ends_the_connection),
        CASE(a_foreign_host_hears_nothing_else),
        CASE(version_and_origin_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
