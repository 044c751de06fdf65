#include "tests/support/test.h"

#include "core/check.h"
#include "core/limits.h"
#include "kv/windows.h"

enum { B = LF_KV_BLOCK_TOKENS };

/* One group that sees all, one with a window of 1,024. */
static const struct lf_kv_windows two = {.n = 2, .tokens = {0, 1024}};

static void without_groups_there_is_one_that_sees_all(void **state)
{
    (void)state;
    const struct lf_kv_windows none = {0};
    assert_int_equal(lf_kv_windows_n(&none), 1);
    assert_int_equal(lf_kv_windows_n_full(&none), 1);
    assert_int_equal(lf_kv_windows_n_sliding(&none), 0);
    assert_int_equal(lf_kv_windows_need(&none, 2000), 2000);
    assert_int_equal(lf_kv_windows_fit(&none, 2000), 2000);
    assert_int_equal(lf_kv_windows_slack(&none, 8192), 0);
    assert_int_equal(lf_kv_windows_pinned(&none, 7), 7);
}

/* One group with this window, where blocks stand for so many tokens. */
static struct lf_kv_windows window_of(int window, int block_tokens)
{
    return (struct lf_kv_windows){.n = 1, .tokens = {window}, .block_tokens = block_tokens};
}

static void the_first_block_that_is_seen_is_the_one_of_the_first_position(void **state)
{
    (void)state;
    for (int block = B; block <= 4 * B; block += B)
        for (int window = 1; window <= 600; window++)
            for (int n = 0; n < 10; n++) {
                const struct lf_kv_windows w = window_of(window, block);
                int position = n * block; /* the first one that is not in the first n blocks */
                int sees = position - window + 1 < 0 ? 0 : position - window + 1;
                assert_int_equal(lf_kv_windows_first(&w, 0, n), sees / block);
            }
    const struct lf_kv_windows none = window_of(0, 0), longest = window_of(INT32_MAX, 0);
    assert_int_equal(lf_kv_windows_first(&none, 0, 1000), 0);
    assert_int_equal(lf_kv_windows_first(&longest, 0, INT32_MAX / B), 0);
}

/* What block_tables.c counts on, by trying: from any place, a chunk of any length needs no more than what is held
 * between steps and ceil(n / block) - 1 blocks beside. */
static void chunk_needs_no_more(int window, int block)
{
    const struct lf_kv_windows w = window_of(window, block);
    for (int done = 0; done < 5 * block; done++)
        for (int n = 1; n < 4 * block; n += n < 5 ? 1 : 7) {
            int held_from = lf_kv_windows_first(&w, 0, done > 0 ? (done - 1) / block : 0);
            int most = (int)(lf_kv_windows_held(&w, 0, INT32_MAX) + lf_kv_windows_slack(&w, n)) - 1;
            assert_true((done + n - 1) / block + 1 - held_from <= most);
        }
}

static void a_chunk_needs_no_more_than_is_held_and_slack(void **state)
{
    (void)state;
    const int windows[] = {1, 2, 63, 64, 65, 128, 129, 200, 500};
    for (size_t i = 0; i < LF_N_ELEMS(windows); i++)
        for (int n = 1; n <= 4; n++) chunk_needs_no_more(windows[i], n * B);
}

static void a_window_needs_its_own_blocks_only(void **state)
{
    (void)state;
    static const struct {
        int window, block, n, held;
    } cases[] = {{1024, 0, 2048, 18}, {1025, 0, 2048, 19},       {1, 0, 2048, 3},  {1024, 0, 5, 5},
                 {1024, 256, 512, 6}, {1025, 256, 512, 7},       {1, 256, 512, 3}, {1024, 256, 5, 5},
                 {1024, 192, 9, 8},   {INT32_MAX, 0, 2048, 2048}};
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) {
        const struct lf_kv_windows w = window_of(cases[i].window, cases[i].block);
        assert_int_equal(lf_kv_windows_held(&w, 0, cases[i].n), cases[i].held);
    }
    assert_int_equal(lf_kv_windows_need(&two, 2048), 2048 + 18);
    assert_int_equal(lf_kv_windows_slack(&two, 1000), 16);
    struct lf_kv_windows large = two;
    large.block_tokens = 256;
    assert_int_equal(lf_kv_windows_need(&large, 512), 512 + 6);
    assert_int_equal(lf_kv_windows_slack(&large, 1000), 4);
}

static void what_fits_is_the_most_that_needs_no_more(void **state)
{
    (void)state;
    for (int64_t n_blocks = 0; n_blocks < 100; n_blocks++) {
        int64_t n = lf_kv_windows_fit(&two, n_blocks);
        assert_true(lf_kv_windows_need(&two, n) <= n_blocks);
        assert_true(lf_kv_windows_need(&two, n + 1) > n_blocks);
    }
    const struct lf_kv_windows sliding = {.n = 1, .tokens = {1024}};
    assert_int_equal(lf_kv_windows_fit(&sliding, 17), 17);
    assert_int_equal(lf_kv_windows_fit(&sliding, 18), INT32_MAX); /* any length */
}

static void a_pin_keeps_what_is_seen_from_its_end(void **state)
{
    (void)state;
    assert_int_equal(lf_kv_windows_pinned(&two, 0), 0);
    assert_int_equal(lf_kv_windows_pinned(&two, 100), 100 + 17); /* 16 before the last, and that */
    assert_int_equal(lf_kv_windows_pinned(&two, 3), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_groups_there_is_one_that_sees_all),
        cmocka_unit_test(the_first_block_that_is_seen_is_the_one_of_the_first_position),
        cmocka_unit_test(a_chunk_needs_no_more_than_is_held_and_slack),
        cmocka_unit_test(a_window_needs_its_own_blocks_only),
        cmocka_unit_test(what_fits_is_the_most_that_needs_no_more),
        cmocka_unit_test(a_pin_keeps_what_is_seen_from_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
