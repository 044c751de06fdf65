#include "tests/support/test.h"

#include <fcntl.h>
#include <sys/stat.h>
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

/* As when the program at the other end of `2>&1 |` has stopped reading: an alarm ends the test where a line waits. */
static void a_pipe_that_nobody_reads_drops_lines(void **state)
{
    (void)state;
    int ends[2], kept = dup(STDERR_FILENO);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    uint64_t before = lf_log_n_dropped();
    alarm(20);
    for (int i = 0; i < 4000; i++) LF_ERROR("a line of a log that is full after some hundreds of them: %d", i);
    alarm(0);
    uint64_t n_dropped = lf_log_n_dropped() - before;
    assert_int_equal(dup2(kept, STDERR_FILENO), STDERR_FILENO);
    close(kept);
    close(ends[0]);
    close(ends[1]);
    assert_true(n_dropped > 0 && n_dropped < 4000);
}

static void a_fifo_is_not_waited_for(void **state)
{
    (void)state;
    char dir[] = "/tmp/lf_log_XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/fifo", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(20);
    assert_int_equal(lf_log_open(path, NULL), LF_IO);
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    assert_int_equal(lf_log_open(path, NULL), LF_OK);
    uint64_t before = lf_log_n_dropped();
    for (int i = 0; i < 4000; i++) LF_ERROR("a line of a log that is full after some hundreds of them: %d", i);
    alarm(0);
    assert_int_equal(lf_log_open(NULL, NULL), LF_OK);
    assert_true(lf_log_n_dropped() > before && lf_log_n_dropped() < before + 4000);
    close(reader);
    unlink(path);
    rmdir(dir);
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
        cmocka_unit_test(a_pipe_that_nobody_reads_drops_lines),
        cmocka_unit_test(a_fifo_is_not_waited_for),
        cmocka_unit_test(a_path_that_cannot_be_opened_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
