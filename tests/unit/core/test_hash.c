#include "tests/support/test.h"

#include "core/hash.h"
#include "core/mix.h"

static void hex(const uint8_t *bytes, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

/* FIPS 180-4 examples. */
static void sha256_matches_the_standard(void **state)
{
    (void)state;
    static const struct {
        const char *text, *digest;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqr"
         "stu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t digest[32];
        char text[65];
        lf_sha256(cases[i].text, strlen(cases[i].text), digest);
        hex(digest, 32, text);
        assert_string_equal(text, cases[i].digest);
    }
}

/* RFC 4231, cases 1 to 4, 6 and 7 (5 is of a cut one). */
static void hmac_matches_the_standard(void **state)
{
    (void)state;
    uint8_t b0b[20], aaa[131], ddd[50], cdc[50], up[25];
    memset(b0b, 0x0b, sizeof b0b);
    memset(aaa, 0xaa, sizeof aaa);
    memset(ddd, 0xdd, sizeof ddd);
    memset(cdc, 0xcd, sizeof cdc);
    for (size_t i = 0; i < sizeof up; i++) up[i] = (uint8_t)(i + 1);
    static const char long_text[] =
        "This is a test using a larger than block-size key and a larger than block-size data. "
        "The key needs to be hashed before being used by the HMAC algorithm.";
    static const char key_text[] = "Test Using Larger Than Block-Size Key - Hash Key First";
    const struct {
        const void *key;
        size_t n_key;
        const void *bytes;
        size_t n;
        const char *digest;
    } cases[] = {
        {b0b, 20, "Hi There", 8, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
        {"Jefe", 4, "what do ya want for nothing?", 28,
         "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
        {aaa, 20, ddd, 50, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
        {up, 25, cdc, 50, "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
        {aaa, 131, key_text, sizeof key_text - 1, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
        {aaa, 131, long_text, sizeof long_text - 1, "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t digest[LF_SHA256_BYTES];
        char text[2 * LF_SHA256_BYTES + 1];
        lf_hmac_sha256(cases[i].key, cases[i].n_key, cases[i].bytes, cases[i].n, digest);
        hex(digest, sizeof digest, text);
        assert_string_equal(text, cases[i].digest);
    }
}

static void sha256_does_not_depend_on_the_pieces(void **state)
{
    (void)state;
    uint8_t bytes[300], whole[32], pieces[32];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 7);
    lf_sha256(bytes, sizeof bytes, whole);
    for (size_t step = 1; step < 130; step++) {
        struct lf_sha256 sha;
        lf_sha256_init(&sha);
        for (size_t at = 0; at < sizeof bytes; at += step)
            lf_sha256_update(&sha, bytes + at, at + step < sizeof bytes ? step : sizeof bytes - at);
        lf_sha256_final(&sha, pieces);
        assert_memory_equal(whole, pieces, 32);
    }
}

static void constant_time_compare_tells_the_truth(void **state)
{
    (void)state;
    uint8_t a[32] = {0}, b[32] = {0};
    assert_true(lf_equal_ct(a, b, 32));
    for (size_t i = 0; i < 32; i++) {
        b[i] = 1;
        assert_false(lf_equal_ct(a, b, 32));
        b[i] = 0;
    }
}

static void hash64_is_stable_in_a_process_and_spreads(void **state)
{
    (void)state;
    int buckets[64] = {0};
    for (uint32_t i = 0; i < 64000; i++) {
        assert_int_equal(lf_hash64(&i, 4), lf_hash64(&i, 4));
        buckets[lf_hash64(&i, 4) % 64]++;
    }
    for (int i = 0; i < 64; i++) assert_in_range(buckets[i], 800, 1200); /* mean 1000, sigma 31 */
}

static void random_numbers_depend_on_seed_and_counter(void **state)
{
    (void)state;
    assert_int_equal(lf_random64(1, 2), lf_random64(1, 2));
    assert_true(lf_random64(1, 2) != lf_random64(2, 1));
    int ones = 0;
    for (uint64_t i = 0; i < 1000; i++) ones += __builtin_popcountll(lf_random64(42, i));
    assert_in_range(ones, 31000, 33000); /* mean 32000, sigma 126 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_matches_the_standard),
        cmocka_unit_test(hmac_matches_the_standard),
        cmocka_unit_test(sha256_does_not_depend_on_the_pieces),
        cmocka_unit_test(constant_time_compare_tells_the_truth),
        cmocka_unit_test(hash64_is_stable_in_a_process_and_spreads),
        cmocka_unit_test(random_numbers_depend_on_seed_and_counter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
