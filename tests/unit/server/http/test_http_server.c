/* server/http/conn/http_server.c: what it starts with, and what it does not start without. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/check.h"
#include "core/mix.h"
#include "core/text_memory.h"
#include "server/http/conn/server.h"

static bool has_no_memory;
enum lf_status __real_lf_text_memory_create(struct lf_text_memory **out, uint64_t budget_bytes, struct lf_err *err);
enum lf_status __wrap_lf_text_memory_create(struct lf_text_memory **out, uint64_t budget_bytes, struct lf_err *err);

enum lf_status __wrap_lf_text_memory_create(struct lf_text_memory **out, uint64_t budget_bytes, struct lf_err *err)
{
    if (has_no_memory) return lf_fail(err, LF_NO_MEMORY, "no memory for texts");
    return __real_lf_text_memory_create(out, budget_bytes, err);
}

static void what_nobody_asked_for_has_its_default(void **state)
{
    (void)state;
    const struct lf_http_opts opts = {.n_connections = 4, .n_threads = 2};
    struct lf_http_server *server = NULL;
    struct lf_err err = {0};
    assert_int_equal(lf_http_server_create(&server, &opts, &err), LF_OK);
    const struct lf_http_opts *o = &server->opts;
    assert_string_equal(o->host, "127.0.0.1");
    assert_string_equal(o->model_id, "model");
    assert_true(o->max_body_bytes == LF_BODY_BYTES && o->text_bytes == lf_http_text_bytes(LF_BODY_BYTES, 0));
    assert_int_equal(o->max_choices, LF_CHOICES_N);
    assert_int_equal(o->default_max_tokens, 16);
    assert_int_equal(o->header_deadline_ms, LF_HEADER_DEADLINE_MS);
    assert_int_equal(o->body_deadline_ms, LF_BODY_DEADLINE_MS);
    assert_int_equal(o->slow_reader_ms, LF_SLOW_READER_MS);
    assert_int_equal(o->keep_alive_ms, 10000);
    lf_http_server_destroy(server);
}

/* Texts would have no bound: a server without their memory does not start. */
static void it_does_not_start_without_memory_for_texts(void **state)
{
    (void)state;
    const struct lf_http_opts opts = {.n_connections = 4, .n_threads = 2};
    struct lf_http_server *server = NULL;
    struct lf_err err = {0};
    has_no_memory = true;
    assert_int_equal(lf_http_server_create(&server, &opts, &err), LF_NO_MEMORY);
    has_no_memory = false;
    assert_null(server);
    assert_string_equal(err.message, "no memory for texts");
}

/* Twelve of the largest bodies, but at most an eighth of the memory, and at least what one body needs. */
static void texts_have_a_part_of_the_memory(void **state)
{
    (void)state;
    const uint64_t mib = UINT64_C(1) << 20, body = 32 * mib;
    assert_true(lf_http_text_bytes(body, 0) == 392 * mib);
    assert_true(lf_http_text_bytes(body, 8 * 392 * mib) == 392 * mib);
    assert_true(lf_http_text_bytes(body, 8 * 391 * mib) == 391 * mib);
    assert_true(lf_http_text_bytes(body, 8 * 232 * mib) == 232 * mib);
    assert_true(lf_http_text_bytes(body, 8 * 231 * mib) == 232 * mib); /* seven bodies and eight MiB */
    assert_true(lf_http_text_bytes(body, 1) == 232 * mib);
}

/* lf_mix64 backwards. */
static uint64_t unmixed(uint64_t x)
{
    x = (x ^ x >> 31 ^ x >> 62) * 0x319642b2d24d8ec3u;
    x = (x ^ x >> 27 ^ x >> 54) * 0x96de1b173f119089u;
    return (x ^ x >> 30 ^ x >> 60) - 0x9e3779b97f4a7c15u;
}

/* Who has the id of a stored response may read it, where there are no keys: one's own says nothing about the next one,
 * as it would if both were random numbers of one seed (core/mix.h). */
static void an_id_does_not_tell_the_next_one(void **state)
{
    (void)state;
    static struct lf_http_server server;
    const uint64_t first = UINT64_C(1) << 33;
    char ids[2][25], half[17];
    uint64_t halves[2];
    server.id_seed = 12345;
    atomic_store(&server.id_counter, first);
    for (int i = 0; i < 2; i++) {
        lf_new_id(&server, ids[i]);
        assert_int_equal(strlen(ids[i]), 24);
        snprintf(half, sizeof half, "%.16s", ids[i]);
        halves[i] = strtoull(half, NULL, 16);
    }
    assert_int_equal(unmixed(lf_mix64(first)), first);
    uint64_t by_seed = unmixed(halves[0]) ^ unmixed(lf_random64(0, first)) ^ unmixed(lf_random64(0, first + 1));
    assert_true(halves[1] != lf_mix64(by_seed));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nobody_asked_for_has_its_default),
        cmocka_unit_test(it_does_not_start_without_memory_for_texts),
        cmocka_unit_test(texts_have_a_part_of_the_memory),
        cmocka_unit_test(an_id_does_not_tell_the_next_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
