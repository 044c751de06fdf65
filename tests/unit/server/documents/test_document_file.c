/* server/documents/document_file.c: what is written is what is read; nothing else is. */
#include "tests/support/test.h"

#include <string.h>

#include "server/documents/document_file.h"

enum { BYTES_N = LF_DOCUMENT_HEAD_BYTES + 700, REST_SHA = 448, HEAD_SHA = 480 };

static struct lf_document_file example(void)
{
    return (struct lf_document_file){.tenant = {1, 2, 3},
                                     .name = LF_STR("contract-2.txt"),
                                     .created_s = 1795374415,
                                     .expires_s = 1795379999,
                                     .n_tokens = 321,
                                     .pin = LF_PIN_MEMORY,
                                     .content = {LF_STR("The first paragraph. \xc3\xa9\n"), LF_STR("Be brief."),
                                                 LF_STR("[{\"type\": \"function\"}]")}};
}

static size_t write_to(uint8_t *out, const struct lf_document_file *f)
{
    const struct lf_document_content *c = &f->content;
    size_t n = LF_DOCUMENT_HEAD_BYTES;
    lf_document_file_head(f, out);
    memcpy(out + n, c->text.ptr, c->text.len);
    n += c->text.len;
    if (c->system.len) memcpy(out + n, c->system.ptr, c->system.len);
    n += c->system.len;
    if (c->tools.len) memcpy(out + n, c->tools.ptr, c->tools.len);
    return n + c->tools.len;
}

static enum lf_status read_from(const uint8_t *bytes, size_t n)
{
    struct lf_document_file f;
    struct test_guarded g = test_guarded_copy(bytes, n);
    enum lf_status status = lf_document_file_read(&f, (const uint8_t *)g.ptr, n);
    test_guarded_free(&g);
    return status;
}

static void sign(uint8_t *bytes, size_t n)
{
    lf_sha256(bytes + LF_DOCUMENT_HEAD_BYTES, n - LF_DOCUMENT_HEAD_BYTES, bytes + REST_SHA);
    lf_sha256(bytes, HEAD_SHA, bytes + HEAD_SHA);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    uint8_t bytes[BYTES_N];
    struct lf_document_file f = example(), got;
    uint64_t n_bytes;
    size_t n = write_to(bytes, &f);
    assert_int_equal(lf_document_file_bytes(bytes, &n_bytes), LF_OK);
    assert_true(n_bytes == n);
    assert_int_equal(lf_document_file_read(&got, bytes, n), LF_OK);
    assert_memory_equal(got.tenant, f.tenant, sizeof f.tenant);
    assert_true(lf_str_eq(got.name, f.name) && lf_str_eq(got.content.text, f.content.text) &&
                lf_str_eq(got.content.system, f.content.system) && lf_str_eq(got.content.tools, f.content.tools));
    assert_int_equal(got.pin, LF_PIN_MEMORY);
    assert_true(got.created_s == f.created_s && got.expires_s == f.expires_s && got.n_tokens == f.n_tokens);
    assert_memory_equal(bytes, "LFdoc001", 8);
    assert_true(bytes[8] == n % 256 && bytes[9] == n / 256 && bytes[72] == f.content.text.len && bytes[80] == 9);
    assert_true(bytes[88] == f.content.tools.len && bytes[96] == 2);
}

static void every_flipped_bit_is_seen(void **state)
{
    (void)state;
    uint8_t bytes[BYTES_N];
    struct lf_document_file f = example();
    size_t n = write_to(bytes, &f);
    for (size_t i = 0; i < 8 * n; i++) {
        bytes[i / 8] ^= (uint8_t)(1u << i % 8);
        assert_int_equal(read_from(bytes, n), LF_CORRUPT);
        bytes[i / 8] ^= (uint8_t)(1u << i % 8);
    }
    assert_int_equal(read_from(bytes, n), LF_OK);
}

static void a_file_that_was_cut_anywhere_is_none(void **state)
{
    (void)state;
    uint8_t bytes[BYTES_N] = {0};
    struct lf_document_file f = example();
    size_t n = write_to(bytes, &f);
    for (size_t i = 0; i < n; i++) assert_int_equal(read_from(bytes, i), LF_CORRUPT);
    assert_int_equal(read_from(bytes, n + 1), LF_CORRUPT);
}

static void a_later_versions_file_is_told_from_a_broken_one(void **state)
{
    (void)state;
    static const size_t places[] = {7 /* its number */, 97 /* pin */, 264, 447 /* zeros */};
    uint8_t bytes[BYTES_N];
    struct lf_document_file f = example();
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        size_t n = write_to(bytes, &f);
        bytes[places[i]]++;
        assert_int_equal(read_from(bytes, n), LF_CORRUPT);
        sign(bytes, n);
        assert_int_equal(read_from(bytes, n), LF_UNSUPPORTED);
    }
}

static void set(uint8_t *bytes, size_t at, uint64_t x)
{
    for (int i = 0; i < 8; i++) bytes[at + (size_t)i] = (uint8_t)(x >> (8 * i));
}

/* Checksums hold, and yet. */
static void what_no_server_wrote_is_refused(void **state)
{
    (void)state;
    const struct {
        size_t at;
        uint64_t x;
    } numbers[] = {{8, 511},         {8, UINT64_MAX},         {72, 0}, {72, UINT64_MAX}, {72, UINT64_MAX - 600},
                   {80, 8},          {80, UINT64_C(1) << 63}, {88, 3}, {88, UINT64_MAX}, {48, UINT64_MAX},
                   {56, UINT64_MAX}, {64, UINT64_C(1) << 63}};
    uint8_t bytes[BYTES_N];
    struct lf_document_file f = example();
    size_t n = write_to(bytes, &f);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        (void)write_to(bytes, &f);
        set(bytes, numbers[i].at, numbers[i].x);
        sign(bytes, n);
        assert_int_equal(read_from(bytes, n), LF_CORRUPT);
    }
    static const struct {
        size_t at;
        uint8_t byte;
    } chars[] = {{100, 0},
                 {100, 129},
                 {100, 200},
                 {104, 'x'},
                 {136, '/'},
                 {150, 'a'},
                 {LF_DOCUMENT_HEAD_BYTES, 0},
                 {LF_DOCUMENT_HEAD_BYTES, 0xff}};
    for (size_t i = 0; i < sizeof chars / sizeof chars[0]; i++) {
        (void)write_to(bytes, &f);
        bytes[chars[i].at] = chars[i].byte;
        sign(bytes, n);
        assert_int_equal(read_from(bytes, n), LF_CORRUPT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(every_flipped_bit_is_seen),
        cmocka_unit_test(a_file_that_was_cut_anywhere_is_none),
        cmocka_unit_test(a_later_versions_file_is_told_from_a_broken_one),
        cmocka_unit_test(what_no_server_wrote_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
