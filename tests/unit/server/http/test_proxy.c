/* server/http/conn/proxy.c: what an option and a header say of addresses, and what they only seem to say. */
#include "tests/support/test.h"

#include "core/check.h"
#include "server/http/conn/proxy.h"

static const char *const trusted[] = {"10.0.0.0/8", "192.0.2.1", "2001:db8:5::/48", "fd00::1", NULL};

static void made(struct lf_proxies *out, const char *const *list)
{
    struct lf_err err = {0};
    if (lf_proxies_init(out, list, &err) != LF_OK) fail_msg("%s", err.message);
}

/* ---- the option ---- */

static void a_list_names_addresses_and_networks(void **state)
{
    (void)state;
    struct lf_proxies proxies;
    struct lf_address a;
    static const char *const many[] = {"10.0.0.0/8",    "172.16.0.0/12", " 192.0.2.1 ", "::ffff:198.51.100.0/120",
                                       "2001:db8::/33", "::1",           NULL};
    static const struct {
        const char *address;
        bool in;
    } cases[] = {
        {"10.0.0.0", true},
        {"10.255.255.255", true},
        {"11.0.0.0", false},
        {"9.255.255.255", false},
        {"172.16.0.1", true},
        {"172.31.255.255", true},
        {"172.32.0.0", false},
        {"192.0.2.1", true},
        {"192.0.2.2", false},
        {"198.51.100.77", true},
        {"198.51.101.0", false},
        {"::1", true},
        {"::2", false},
        {"2001:db8::1", true},
        {"2001:db8:7fff::", true},
        {"2001:db8:8000::", false},
        {"::ffff:10.1.2.3", true},
        {"::10.1.2.3", false},
        {"::ffff:192.0.2.1", true},
        {"2001:db9::", false},
    };
    made(&proxies, many);
    assert_int_equal(proxies.n, 6);
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) {
        const struct lf_str line = lf_str_c(cases[i].address);
        enum lf_forwarded got = lf_proxies_client(&proxies, &line, 1, &a);
        if (got != (cases[i].in ? LF_FORWARDED_NONE : LF_FORWARDED_CLIENT)) fail_msg("%s: %d", cases[i].address, got);
    }
    made(&proxies, NULL);
    assert_int_equal(proxies.n, 0);
}

static void a_network_of_ipv6_holds_no_ipv4(void **state)
{
    (void)state;
    struct lf_proxies proxies;
    struct lf_address a;
    static const char *const low[] = {"::/16", NULL};
    const struct lf_str v4 = LF_STR("192.0.2.1"), v6 = LF_STR("::2");
    made(&proxies, low);
    assert_int_equal(lf_proxies_client(&proxies, &v4, 1, &a), LF_FORWARDED_CLIENT);
    assert_int_equal(lf_proxies_client(&proxies, &v6, 1, &a), LF_FORWARDED_NONE);
}

static void what_is_no_network_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "x",
                                      "10.0.0",
                                      "10.0.0.0/",
                                      "10.0.0.0/0",
                                      "::/0",
                                      "10.0.0.0/33",
                                      "::1/129",
                                      "10.0.0.1/8",
                                      "2001:db8::1/32",
                                      "10.0.0.0/8 ",
                                      "10.0.0.0/+8",
                                      "10.0.0.0/-8",
                                      "10.0.0.0/8x",
                                      "10.0.0.0/255.0.0.0",
                                      "[::1]",
                                      "10.0.0.1:80",
                                      "fe80::1%eth0",
                                      "010.0.0.0/8",
                                      "localhost",
                                      "10.0.0.0/0008"};
    for (size_t i = 0; i < LF_N_ELEMS(bad); i++) {
        struct lf_proxies proxies;
        struct lf_err err = {0};
        const char *list[] = {"192.0.2.1", bad[i], NULL};
        if (lf_proxies_init(&proxies, list, &err) != LF_INVALID) fail_msg("%s", bad[i]);
        assert_non_null(strstr(err.message, "--trusted-proxy"));
    }
}

static void there_may_be_so_many(void **state)
{
    (void)state;
    struct lf_proxies proxies;
    struct lf_err err = {0};
    const char *list[LF_TRUSTED_PROXIES_N + 2] = {0};
    for (int i = 0; i < LF_TRUSTED_PROXIES_N; i++) list[i] = "192.0.2.1";
    made(&proxies, list);
    list[LF_TRUSTED_PROXIES_N] = "192.0.2.1";
    assert_int_equal(lf_proxies_init(&proxies, list, &err), LF_LIMIT);
}

/* ---- the header ---- */

static void the_client_is_the_rightmost_that_is_no_proxy(void **state)
{
    (void)state;
    static const struct {
        const char *lines[3];
        enum lf_forwarded got;
        const char *client;
    } cases[] = {
        {{"203.0.113.7"}, LF_FORWARDED_CLIENT, "203.0.113.7"},
        {{"198.51.100.9, 203.0.113.7"}, LF_FORWARDED_CLIENT, "203.0.113.7"},
        {{"198.51.100.9,203.0.113.7 ,10.1.1.1,\t10.0.0.2 "}, LF_FORWARDED_CLIENT, "203.0.113.7"},
        {{"10.9.9.9, 203.0.113.7, 10.0.0.2"}, LF_FORWARDED_CLIENT, "203.0.113.7"},
        {{"2001:db8::7"}, LF_FORWARDED_CLIENT, "2001:db8::7"},
        {{"[2001:DB8::7]"}, LF_FORWARDED_CLIENT, "2001:db8::7"},
        {{"[2001:db8::7]:4711"}, LF_FORWARDED_CLIENT, "2001:db8::7"},
        {{"203.0.113.7:4711"}, LF_FORWARDED_CLIENT, "203.0.113.7"},
        {{"::ffff:203.0.113.7"}, LF_FORWARDED_CLIENT, "203.0.113.7"},
        {{"[::ffff:cb00:7107]:1"}, LF_FORWARDED_CLIENT, "203.0.113.7"},
        {{"203.0.113.7, ::ffff:10.0.0.1, 2001:db8:5:1::9, fd00::1"}, LF_FORWARDED_CLIENT, "203.0.113.7"},
        /* fields in the order in which they came are one list */
        {{"198.51.100.9", "203.0.113.7", "10.0.0.2, 192.0.2.1"}, LF_FORWARDED_CLIENT, "203.0.113.7"},
        {{"203.0.113.7", "10.0.0.2"}, LF_FORWARDED_CLIENT, "203.0.113.7"},
        {{"10.0.0.2", "203.0.113.7"}, LF_FORWARDED_CLIENT, "203.0.113.7"},
        /* what the client sent itself is not even read */
        {{"garbage, , \"x\", 999.1.1.1, 203.0.113.7"}, LF_FORWARDED_CLIENT, "203.0.113.7"},
        {{",,,,203.0.113.7, 10.0.0.1"}, LF_FORWARDED_CLIENT, "203.0.113.7"},
        {{"<script>", "203.0.113.7"}, LF_FORWARDED_CLIENT, "203.0.113.7"},
        /* nobody but proxies */
        {{NULL}, LF_FORWARDED_NONE, NULL},
        {{"10.0.0.2"}, LF_FORWARDED_NONE, NULL},
        {{"192.0.2.1, 10.0.0.2", "fd00::1"}, LF_FORWARDED_NONE, NULL},
        /* where an address is looked for there is none */
        {{""}, LF_FORWARDED_MALFORMED, NULL},
        {{"203.0.113.7,"}, LF_FORWARDED_MALFORMED, NULL},
        {{"203.0.113.7, , 10.0.0.1"}, LF_FORWARDED_MALFORMED, NULL},
        {{",10.0.0.1"}, LF_FORWARDED_MALFORMED, NULL},
        {{"unknown"}, LF_FORWARDED_MALFORMED, NULL},
        {{"203.0.113.7, unknown, 10.0.0.1"}, LF_FORWARDED_MALFORMED, NULL},
        {{"_hidden"}, LF_FORWARDED_MALFORMED, NULL},
        {{"for=203.0.113.7"}, LF_FORWARDED_MALFORMED, NULL},
        {{"\"203.0.113.7\""}, LF_FORWARDED_MALFORMED, NULL},
        {{"203.0.113.7 10.0.0.1"}, LF_FORWARDED_MALFORMED, NULL},
        {{"203.0.113.7;10.0.0.1"}, LF_FORWARDED_MALFORMED, NULL},
        {{"203.0.113.256"}, LF_FORWARDED_MALFORMED, NULL},
        {{"203.0.113"}, LF_FORWARDED_MALFORMED, NULL},
        {{"203.0.113.007"}, LF_FORWARDED_MALFORMED, NULL},
        {{"0xcb.0.113.7"}, LF_FORWARDED_MALFORMED, NULL},
        {{"3405803783"}, LF_FORWARDED_MALFORMED, NULL},
        {{"203.0.113.7/32"}, LF_FORWARDED_MALFORMED, NULL},
        {{"203.0.113.7:"}, LF_FORWARDED_MALFORMED, NULL},
        {{"203.0.113.7:x"}, LF_FORWARDED_MALFORMED, NULL},
        {{"203.0.113.7:123456"}, LF_FORWARDED_MALFORMED, NULL},
        {{"[203.0.113.7]"}, LF_FORWARDED_MALFORMED, NULL},
        {{"[203.0.113.7]:80"}, LF_FORWARDED_MALFORMED, NULL},
        {{"[2001:db8::7"}, LF_FORWARDED_MALFORMED, NULL},
        {{"2001:db8::7]"}, LF_FORWARDED_MALFORMED, NULL},
        {{"[[2001:db8::7]]"}, LF_FORWARDED_MALFORMED, NULL},
        {{"[]"}, LF_FORWARDED_MALFORMED, NULL},
        {{"[]:80"}, LF_FORWARDED_MALFORMED, NULL},
        {{":80"}, LF_FORWARDED_MALFORMED, NULL},
        {{"2001:db8:0:0:0:0:0:7:443"}, LF_FORWARDED_MALFORMED, NULL},
        {{"2001:db8:::7"}, LF_FORWARDED_MALFORMED, NULL},
        {{"fe80::1%eth0"}, LF_FORWARDED_MALFORMED, NULL},
        {{"203.0.113.7\x01"}, LF_FORWARDED_MALFORMED, NULL},
        {{"203.0.113.7%00"}, LF_FORWARDED_MALFORMED, NULL},
        {{"203.0.113.7", "\xFF"}, LF_FORWARDED_MALFORMED, NULL},
        {{"2001:0db8:0000:0000:0000:0000:0000:0000000000000000000000000007"}, LF_FORWARDED_MALFORMED, NULL},
    };
    struct lf_proxies proxies;
    made(&proxies, trusted);
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) {
        struct lf_str lines[3];
        struct lf_address client;
        char text[LF_ADDRESS_TEXT_BYTES];
        int n = 0;
        while (n < 3 && cases[i].lines[n]) {
            lines[n] = lf_str_c(cases[i].lines[n]);
            n++;
        }
        enum lf_forwarded got = lf_proxies_client(&proxies, lines, n, &client);
        if (got != cases[i].got) fail_msg("case %zu, \"%s\": %d", i, n ? cases[i].lines[0] : "", got);
        if (got != LF_FORWARDED_CLIENT) continue;
        lf_address_print(text, &client);
        assert_string_equal(text, cases[i].client);
    }
}

/* Views, not strings: a NUL ends nothing, and nothing is read behind the end. */
static void a_nul_is_no_end(void **state)
{
    (void)state;
    struct lf_proxies proxies;
    struct lf_address a;
    const struct lf_str nul = lf_str_from("203.0.113.7\0", 12), cut = lf_str_from("203.0.113.77", 11);
    made(&proxies, trusted);
    assert_int_equal(lf_proxies_client(&proxies, &nul, 1, &a), LF_FORWARDED_MALFORMED);
    assert_int_equal(lf_proxies_client(&proxies, &cut, 1, &a), LF_FORWARDED_CLIENT);
    assert_int_equal(a.bytes[LF_ADDRESS_BYTES - 1], 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_names_addresses_and_networks),
        cmocka_unit_test(a_network_of_ipv6_holds_no_ipv4),
        cmocka_unit_test(what_is_no_network_is_refused),
        cmocka_unit_test(there_may_be_so_many),
        cmocka_unit_test(the_client_is_the_rightmost_that_is_no_proxy),
        cmocka_unit_test(a_nul_is_no_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
