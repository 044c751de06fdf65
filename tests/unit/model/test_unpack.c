#include "model/unpack.h"

#include "tests/support/test.h"

static struct lf_threads *threads_of(int n)
{
    struct lf_threads *threads;
    assert_int_equal(lf_threads_create(&threads, n, NULL), LF_OK);
    return threads;
}

/* Every element of a matrix [n_rows, n_in] is another number: r · n_in + c. */
static void check_columns(struct lf_threads *threads, size_t elem_bytes, int n_rows, int n_in, int n_at_once)
{
    size_t n = (size_t)n_rows * (size_t)n_in;
    uint32_t *sheet = malloc(n * sizeof(*sheet)), *out = malloc(n * sizeof(*out) + 4);
    assert_true(sheet && out);
    uint16_t *sheet16 = (uint16_t *)sheet, *out16 = (uint16_t *)out;
    for (size_t c = 0; c < (size_t)n_in; c++) {
        for (size_t r = 0; r < (size_t)n_rows; r++) {
            size_t value = r * (size_t)n_in + c;
            if (elem_bytes == 2)
                sheet16[c * (size_t)n_rows + r] = (uint16_t)value;
            else
                sheet[c * (size_t)n_rows + r] = (uint32_t)value;
        }
    }
    for (int row = 0; row < n_rows; row += n_at_once) {
        int n_now = n_at_once < n_rows - row ? n_at_once : n_rows - row;
        size_t n_values = (size_t)n_now * (size_t)n_in, first = (size_t)row * (size_t)n_in;
        memset((char *)out + n_values * elem_bytes, 0x5a, 2);
        lf_unpack_columns(threads, out, sheet, elem_bytes, n_rows, n_in, row, n_now);
        for (size_t i = 0; i < n_values; i++)
            assert_int_equal(elem_bytes == 2 ? out16[i] : out[i], elem_bytes == 2 ? (uint16_t)(first + i) : first + i);
        assert_int_equal(((char *)out)[n_values * elem_bytes], 0x5a); /* not one more */
    }
    free(sheet);
    free(out);
}

static void columns_become_rows(void **state)
{
    (void)state;
    static const struct {
        int n_rows, n_in, n_at_once;
    } cases[] = {{1, 1, 1},     {3, 5, 3},       {32, 32, 32}, {33, 31, 7},
                 {100, 70, 64}, {257, 129, 100}, {1, 200, 1},  {200, 1, 9}};
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        struct lf_threads *threads = threads_of(n_threads);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            check_columns(threads, 2, cases[i].n_rows, cases[i].n_in, cases[i].n_at_once);
            check_columns(threads, 4, cases[i].n_rows, cases[i].n_in, cases[i].n_at_once);
        }
        lf_threads_destroy(threads);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(columns_become_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
