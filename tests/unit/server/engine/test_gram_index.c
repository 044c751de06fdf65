/* The index of grams: what it finds is what comparing with every place finds, among the latest that agree at all. */
#include "server/engine/gram_index.h"

#include "tests/support/test.h"

#include "core/check.h"
#include "core/mix.h"

enum { N = 3000, LOG2 = 16 };

static int32_t ids[N];
static uint32_t latest[1 << LOG2], before[N];

static int n_agree_at(int p, int n)
{
    int k = 0;
    while (k < LF_GRAM_MATCH_N && k < p && ids[p - 1 - k] == ids[n - 1 - k]) k++;
    return k;
}

/* Of the LF_GRAM_TRIES_N latest places whose gram is that of the end. */
static int find(int n, int *n_agree)
{
    int best = 0, n_tries = 0;
    *n_agree = LF_GRAM_N - 1;
    for (int p = n - 1; p >= LF_GRAM_N && n_tries < LF_GRAM_TRIES_N; p--) {
        int k = n_agree_at(p, n);
        if (k < LF_GRAM_N) continue;
        n_tries++;
        if (k <= *n_agree) continue;
        best = p;
        *n_agree = k;
    }
    if (best == 0) *n_agree = 0;
    return best;
}

/* Letters of so few kinds that grams come again, and of so many that they seldom do; no two grams of these texts have
 * the same hash in a table of this size, or this would not hold. */
static void it_finds_the_longest_of_the_latest(void **state)
{
    (void)state;
    static const int n_kinds[] = {1, 2, 3, 8, 40, 151936};
    int n_found = 0;
    for (size_t k = 0; k < LF_N_ELEMS(n_kinds); k++) {
        struct lf_gram_index x;
        for (int i = 0; i < N; i++) ids[i] = (int32_t)(lf_random64(k, (uint64_t)i) % (uint64_t)n_kinds[k]);
        for (int i = 0; i < 200; i++) ids[N - 200 + i] = ids[500 + i]; /* a quotation */
        lf_gram_index_init(&x, ids, latest, LOG2, before);
        for (int n = 0; n <= N; n += 1 + n % 3) {
            int n_expected;
            lf_gram_index_extend(&x, n);
            int expected = find(n, &n_expected), got = lf_gram_index_find(&x);
            if (n_kinds[k] > 8 && n < N - 100) {
                /* Where hashes are many, another gram may have taken a try. */
                assert_true(got == 0 || n_agree_at(got, n) >= LF_GRAM_N);
                continue;
            }
            assert_int_equal(got, expected);
            assert_int_equal(got > 0 ? n_agree_at(got, n) : 0, n_expected);
            n_found += got > 0;
        }
    }
    assert_true(n_found > 2000);
}

static void a_table_smaller_than_its_text_finds_what_agrees(void **state)
{
    (void)state;
    struct lf_gram_index x;
    int n_found = 0;
    for (int i = 0; i < N; i++) ids[i] = (int32_t)(lf_random64(9, (uint64_t)i) % 12);
    lf_gram_index_init(&x, ids, latest, 4, before);
    for (int n = 0; n <= N; n++) {
        lf_gram_index_extend(&x, n);
        int p = lf_gram_index_find(&x);
        assert_true(p == 0 || (p < n && n_agree_at(p, n) >= LF_GRAM_N));
        n_found += p > 0;
    }
    assert_true(n_found > 100);
}

static void nothing_is_found_before_a_gram_has_come_twice(void **state)
{
    (void)state;
    struct lf_gram_index x;
    for (int i = 0; i < 4; i++) ids[i] = 5;
    lf_gram_index_init(&x, ids, latest, 4, before);
    for (int n = 0; n <= 3; n++) {
        lf_gram_index_extend(&x, n);
        assert_int_equal(lf_gram_index_find(&x), 0);
    }
    lf_gram_index_extend(&x, 4);
    assert_int_equal(lf_gram_index_find(&x), 3);
}

/* Memory is not zeros where an index begins. */
static void it_begins_empty_whatever_was_there(void **state)
{
    (void)state;
    struct lf_gram_index x;
    memset(latest, 0xff, sizeof(latest));
    memset(before, 0xff, sizeof(before));
    for (int i = 0; i < N; i++) ids[i] = i;
    lf_gram_index_init(&x, ids, latest, LOG2, before);
    for (int i = 0; i < 1 << LOG2; i++) assert_int_equal(latest[i], 0);
    for (int n = 0; n <= N; n++) {
        lf_gram_index_extend(&x, n);
        assert_int_equal(lf_gram_index_find(&x), 0);
    }
}

static void a_table_has_an_entry_a_token(void **state)
{
    (void)state;
    assert_int_equal(lf_gram_index_log2(0), 4);
    assert_int_equal(lf_gram_index_log2(16), 4);
    assert_int_equal(lf_gram_index_log2(17), 5);
    assert_int_equal(lf_gram_index_log2(131072), 17);
    assert_int_equal(lf_gram_index_log2(INT32_MAX), 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_finds_the_longest_of_the_latest),
        cmocka_unit_test(a_table_smaller_than_its_text_finds_what_agrees),
        cmocka_unit_test(nothing_is_found_before_a_gram_has_come_twice),
        cmocka_unit_test(it_begins_empty_whatever_was_there),
        cmocka_unit_test(a_table_has_an_entry_a_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
