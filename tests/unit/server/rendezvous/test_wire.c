#include "tests/support/test.h"

#include <limits.h>

#include "core/check.h"
#include "core/le.h"
#include "server/rendezvous/identity.h"
#include "server/rendezvous/wire.h"

static const struct lf_secret secret = {(const uint8_t *)"sixteen bytes or more", 21};
static const struct lf_transcript transcript = {
    .caller_nonce = {1}, .door_nonce = {2}, .rank = 2, .to = 1, .n_ranks = 3};

static struct lf_message message_of(int type)
{
    struct lf_message m = {.type = (enum lf_wire_type)type,
                           .rank = 1,
                           .to = 2,
                           .n_ranks = INT_MAX,
                           .code = 4,
                           .text = "longflash é",
                           .address = {.family = 6, .port = 65535, .ip = {[15] = 1}}};
    m.table[1] = (struct lf_wire_address){.family = 4, .port = 1, .ip = {10, 0, 0, 1}};
    memset(m.nonce, 7, sizeof m.nonce);
    memset(m.mac, 9, sizeof m.mac);
    return m;
}

static void test_every_type_comes_back(void **state)
{
    (void)state;
    static const size_t bytes_of[LF_WIRE_TYPES_N] = {0, 56, 44, 1088, 1084, 12, 364, 44, 44, 1072};
    for (int type = LF_WIRE_HELLO; type < LF_WIRE_TYPES_N; type++) {
        uint8_t bytes[LF_WIRE_BYTES_MOST], again[LF_WIRE_BYTES_MOST];
        struct lf_message m = message_of(type), back;
        enum lf_wire_type read = LF_WIRE_TYPES_N;
        int version = 0;
        size_t n = lf_wire_put(bytes, &m);
        assert_int_equal(n, bytes_of[type]);
        assert_int_equal(n, lf_wire_bytes(m.type));
        assert_int_equal(lf_wire_head(&read, &version, bytes), LF_WIRE_KNOWN);
        assert_int_equal(read, type);
        assert_true(lf_wire_get(&back, bytes));
        assert_int_equal(lf_wire_put(again, &back), n);
        assert_memory_equal(bytes, again, n);
    }
}

static void test_heads_that_are_foreign(void **state)
{
    (void)state;
    struct lf_message m = message_of(LF_WIRE_PROOF);
    enum lf_wire_type type;
    int version = 0;
    for (size_t at = 0; at < LF_WIRE_HEAD_BYTES; at++)
        for (int bit = 0; bit < 8; bit++) {
            uint8_t bytes[LF_WIRE_BYTES_MOST];
            lf_wire_put(bytes, &m);
            bytes[at] ^= (uint8_t)(1 << bit);
            enum lf_wire_check check = lf_wire_head(&type, &version, bytes);
            assert_int_equal(check, at == 4 || at == 5 ? LF_WIRE_OTHER_VERSION : LF_WIRE_FOREIGN);
        }
    assert_int_equal(version, LF_WIRE_VERSION ^ 0x8000);
}

static void test_bodies_that_cannot_be(void **state)
{
    (void)state;
    uint8_t bytes[LF_WIRE_BYTES_MOST];
    struct lf_message m = message_of(LF_WIRE_HELLO), got;
    for (size_t i = 0; i < 3; i++) {
        lf_wire_put(bytes, &m);
        lf_put_le(bytes + LF_WIRE_HEAD_BYTES + LF_WIRE_NONCE_BYTES + 4 * i, 0x80000000u, 4);
        assert_false(lf_wire_get(&got, bytes));
    }
    m = message_of(LF_WIRE_PROOF);
    static const struct {
        size_t at;
        uint8_t byte;
    } bad[] = {{0, '\n'},
               {0, 0x7f},
               {0, 0xff},
               {0, 0} /* a text behind its end */,
               {LF_IDENTITY_BYTES - 1, 'x'},
               {LF_IDENTITY_BYTES, 5} /* the family */,
               {LF_IDENTITY_BYTES, 0}};
    for (size_t i = 0; i < LF_N_ELEMS(bad); i++) {
        lf_wire_put(bytes, &m);
        bytes[LF_WIRE_HEAD_BYTES + bad[i].at] = bad[i].byte;
        assert_false(lf_wire_get(&got, bytes));
    }
    m.address.port = 0;
    lf_wire_put(bytes, &m);
    assert_false(lf_wire_get(&got, bytes));
}

/* Each bit of a message and of what both sides know counts. */
static void test_proofs(void **state)
{
    (void)state;
    static const enum lf_wire_type types[] = {LF_WIRE_PROOF, LF_WIRE_ANSWER, LF_WIRE_TABLE,
                                              LF_WIRE_READY, LF_WIRE_GO,     LF_WIRE_END};
    for (size_t i = 0; i < LF_N_ELEMS(types); i++) {
        struct lf_message m = message_of((int)types[i]), other = m;
        lf_wire_sign(&m, &transcript, LF_WIRE_DOOR, secret);
        assert_true(lf_wire_verify(&m, &transcript, LF_WIRE_DOOR, secret));
        assert_false(lf_wire_verify(&m, &transcript, LF_WIRE_CALLER, secret));
        assert_false(lf_wire_verify(&m, &transcript, LF_WIRE_DOOR, (struct lf_secret){secret.bytes, 20}));
        other = m;
        other.type = types[(i + 1) % LF_N_ELEMS(types)];
        assert_false(lf_wire_verify(&other, &transcript, LF_WIRE_DOOR, secret));
        struct lf_transcript t[] = {transcript, transcript, transcript, transcript, transcript};
        t[0].caller_nonce[31] ^= 1;
        t[1].door_nonce[31] ^= 1;
        t[2].rank++;
        t[3].to--;
        t[4].n_ranks++;
        for (size_t k = 0; k < LF_N_ELEMS(t); k++) assert_false(lf_wire_verify(&m, &t[k], LF_WIRE_DOOR, secret));
    }
    struct lf_message proof = message_of(LF_WIRE_PROOF);
    uint8_t bytes[LF_WIRE_BYTES_MOST];
    lf_wire_sign(&proof, &transcript, LF_WIRE_CALLER, secret);
    size_t n = lf_wire_put(bytes, &proof);
    for (size_t at = LF_WIRE_HEAD_BYTES; at < n; at++) {
        struct lf_message got;
        bytes[at] ^= 1;
        assert_false(lf_wire_get(&got, bytes) && lf_wire_verify(&got, &transcript, LF_WIRE_CALLER, secret));
        bytes[at] ^= 1;
    }
}

static void compare(const char *a, const char *b, const char *expected)
{
    char text[512];
    lf_identity_compare(text, sizeof text, "it", a, "this rank", b);
    assert_string_equal(text, expected);
}

static void test_identities_are_told_apart(void **state)
{
    (void)state;
    compare("a b c", "a x c", "it has \"b\", this rank \"x\"");
    compare("a b c", "a b", "it has \"b c\", this rank \"b\"");
    compare("", "a", "it has \"\", this rank \"a\"");
    compare("v1 m tp=2", "v2 m tp=4", "it has \"v1 m tp=2\", this rank \"v2 m tp=4\"");
    compare("a a", "a a a", "it has \"a\", this rank \"a a\"");
    char long_one[400], text[512];
    memset(long_one, 'x', sizeof long_one);
    for (size_t i = 1; i + 1 < sizeof long_one; i += 2) memcpy(long_one + i, "é", 2);
    long_one[sizeof long_one - 1] = 0;
    lf_identity_compare(text, sizeof text, "it", long_one, "this rank", "y");
    assert_non_null(strstr(text, "…\", this rank \"y\""));
    assert_true(lf_utf8_valid(lf_str_c(text)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type_comes_back),     cmocka_unit_test(test_heads_that_are_foreign),
        cmocka_unit_test(test_bodies_that_cannot_be),     cmocka_unit_test(test_proofs),
        cmocka_unit_test(test_identities_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
