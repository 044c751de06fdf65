#include "tests/support/test.h"

#include "core/mix.h"
#include "core/sort.h"

struct item {
    int key, idx;
    char rest[40];
};

static bool less(const void *a, const void *b)
{
    return ((const struct item *)a)->key < ((const struct item *)b)->key;
}

static void sorts_any_length_and_keeps_every_element(void **state)
{
    (void)state;
    enum { MOST = 400 };
    struct item items[MOST];
    for (int n = 0; n <= MOST; n = n < 20 ? n + 1 : n * 2 + 1) {
        char seen[MOST] = {0};
        for (int i = 0; i < n; i++) {
            items[i] = (struct item){.key = (int)(lf_random64(9, (uint64_t)(n * MOST + i)) % 50), .idx = i};
            memset(items[i].rest, i & 0xff, sizeof items[i].rest);
        }
        lf_sort(items, (size_t)n, sizeof *items, less);
        for (int i = 0; i < n; i++) {
            if (i > 0) assert_true(items[i - 1].key <= items[i].key);
            assert_int_equal(seen[items[i].idx]++, 0);
            assert_int_equal((unsigned char)items[i].rest[39], items[i].idx & 0xff);
        }
    }
}

static void sorted_and_reversed_input_end_sorted(void **state)
{
    (void)state;
    struct item up[100], down[100];
    for (int i = 0; i < 100; i++) {
        up[i] = (struct item){.key = i};
        down[i] = (struct item){.key = 99 - i};
    }
    lf_sort(up, 100, sizeof *up, less);
    lf_sort(down, 100, sizeof *down, less);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(up[i].key, i);
        assert_int_equal(down[i].key, i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sorts_any_length_and_keeps_every_element),
                                       cmocka_unit_test(sorted_and_reversed_input_end_sorted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
