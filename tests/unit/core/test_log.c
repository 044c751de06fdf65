#include "tests/support/test.h"

#include <unistd.h>

#include "core/file.h"
#include "core/log.h"

static void lines_are_single_stamped_and_survive_a_rename(void **state)
{
    (void)state;
    char dir[] = "/tmp/lf_log_XXXXXX", path[64], moved[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/log", dir);
    snprintf(moved, sizeof moved, "%s/old", dir);
    assert_int_equal(lf_log_open(path, NULL), LF_OK);
    LF_INFO("first\nline %d", 1);
    LF_DEBUG_LOG("not shown");
    assert_int_equal(rename(path, moved), 0);
    assert_int_equal(lf_log_open(path, NULL), LF_OK); /* what SIGHUP does */
    LF_WARN("second");
    assert_int_equal(lf_log_open(NULL, NULL), LF_OK);
    struct lf_buf text;
    lf_buf_init(&text, 10000);
    assert_int_equal(lf_file_read(&text, moved, 10000, NULL), LF_OK);
    assert_non_null(strstr(text.ptr, " info first line 1\n"));
    assert_null(strstr(text.ptr, "not shown"));
    lf_buf_clear(&text);
    assert_int_equal(lf_file_read(&text, path, 10000, NULL), LF_OK);
    assert_non_null(strstr(text.ptr, " warn second\n"));
    lf_buf_deinit(&text);
    unlink(path);
    unlink(moved);
    rmdir(dir);
}

static void a_full_disk_drops_lines_and_counts_them(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK) != 0) skip();
    uint64_t before = lf_log_n_dropped();
    assert_int_equal(lf_log_open("/dev/full", NULL), LF_OK);
    LF_ERROR("lost");
    assert_int_equal(lf_log_open(NULL, NULL), LF_OK);
    assert_int_equal(lf_log_n_dropped(), before + 1);
}

static void a_path_that_cannot_be_opened_is_an_error(void **state)
{
    (void)state;
    struct lf_err err;
    assert_int_equal(lf_log_open("/nonexistent/dir/log", &err), LF_IO);
    assert_non_null(strstr(err.message, "/nonexistent/dir/log"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_single_stamped_and_survive_a_rename),
        cmocka_unit_test(a_full_disk_drops_lines_and_counts_them),
        cmocka_unit_test(a_path_that_cannot_be_opened_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
