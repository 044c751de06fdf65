/* What was measured is there for the next process, whole or not at all. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/check.h"
#include "core/file.h"
#include "kv/tiers/disk_speed.h"
#include "tests/support/temp_dir.h"

enum { N = 7 };
static const char identity[] = "ab0102";
static struct temp_dir temp;
static const char *const dir = temp.path;
static char path[1024];
static const double some[N] = {5e6, 61.25, 1.0 / 3, 1e5, 0.001, 0, 123456789.125};

static int setup(void **state)
{
    (void)state;
    temp = temp_dir_make();
    snprintf(path, sizeof path, "%s/%s", dir, identity);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/%s/speed", dir, identity);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    temp_dir_remove_tree(&temp);
    return 0;
}

static void write_text(const char *text, size_t n)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    fclose(f);
}

static void what_was_written_is_read(void **state)
{
    (void)state;
    double got[N] = {1};
    assert_false(lf_disk_speed_read(got, N, dir, identity));
    assert_true(got[0] == 1);
    for (int i = 0; i < 2; i++) { /* the second takes the place of the first */
        assert_int_equal(lf_disk_speed_write(some, N, dir, identity, NULL), LF_OK);
        assert_true(lf_disk_speed_read(got, N, dir, identity));
        assert_memory_equal(got, some, sizeof some);
    }
    assert_false(lf_disk_speed_read(got, N - 1, dir, identity));
    assert_false(lf_disk_speed_read(got, N + 1, dir, identity));
    static const char other[] = "ab0103";
    struct lf_err err;
    assert_false(lf_disk_speed_read(got, N, dir, other));
    assert_int_equal(lf_disk_speed_write(some, N, dir, other, &err), LF_IO);
}

static void whatever_else_is_there_is_not_believed(void **state)
{
    (void)state;
    struct lf_buf text;
    double got[N];
    lf_buf_init(&text, 4096);
    assert_int_equal(lf_disk_speed_write(some, N, dir, identity, NULL), LF_OK);
    assert_int_equal(lf_file_read(&text, path, 4000, NULL), LF_OK);
    for (size_t i = 0; i < 8 * text.len; i++) {
        text.ptr[i / 8] ^= (char)(1 << i % 8);
        write_text(text.ptr, text.len);
        assert_false(lf_disk_speed_read(got, N, dir, identity));
        text.ptr[i / 8] ^= (char)(1 << i % 8);
    }
    for (size_t n = 0; n < text.len; n++) {
        write_text(text.ptr, n);
        assert_false(lf_disk_speed_read(got, N, dir, identity));
    }
    lf_buf_char(&text, 'x');
    write_text(text.ptr, text.len);
    assert_false(lf_disk_speed_read(got, N, dir, identity));
    lf_buf_deinit(&text);
}

/* Under a sum that holds. */
static void what_is_no_time_is_not_believed(void **state)
{
    (void)state;
    static const double odd[] = {-1, 1e-4, 1e16, 1.0 / 0.0, 0.0 / 0.0};
    double got[N], ns[N];
    for (size_t i = 0; i < LF_N_ELEMS(odd); i++) {
        memcpy(ns, some, sizeof ns);
        ns[i % N] = odd[i];
        assert_int_equal(lf_disk_speed_write(ns, N, dir, identity, NULL), LF_OK);
        assert_false(lf_disk_speed_read(got, N, dir, identity));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_written_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(whatever_else_is_there_is_not_believed, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_time_is_not_believed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
