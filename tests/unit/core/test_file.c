#include "tests/support/test.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"

static char dir[32];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/lf_file_XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    return rmdir(dir);
}

/* A file of the directory with ten digits in it; its path goes into path. */
static void put_ten_bytes(char path[64], const char *name)
{
    assert_int_equal(lf_path_join(path, 64, dir, name), LF_OK);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("0123456789", f);
    fclose(f);
}

static void a_file_is_read_whole_or_refused(void **state)
{
    (void)state;
    char path[64];
    struct lf_err err;
    put_ten_bytes(path, "f");
    struct lf_buf text;
    lf_buf_init(&text, 100);
    assert_int_equal(lf_file_read(&text, path, 10, &err), LF_OK);
    assert_string_equal(text.ptr, "0123456789");
    assert_int_equal(lf_file_read(&text, path, 9, &err), LF_LIMIT);
    int fd;
    uint64_t size;
    assert_int_equal(lf_file_open(&fd, &size, path, &err), LF_OK);
    assert_int_equal(size, 10);
    char four[4];
    assert_int_equal(lf_file_pread(fd, four, 4, 6, path, &err), LF_OK);
    assert_memory_equal(four, "6789", 4);
    assert_int_equal(lf_file_pread(fd, four, 4, 7, path, &err), LF_CORRUPT);
    close(fd);
    unlink(path);
    lf_buf_deinit(&text);
}

static void what_is_no_file_is_an_error_and_never_a_hang(void **state)
{
    (void)state;
    char path[64];
    struct lf_err err;
    int fd;
    uint64_t size;
    assert_int_equal(lf_file_open(&fd, &size, "/nonexistent", &err), LF_NOT_FOUND);
    assert_int_equal(lf_file_open(&fd, &size, dir, &err), LF_INVALID);
    assert_int_equal(lf_path_join(path, sizeof path, dir, "fifo"), LF_OK);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(lf_file_open(&fd, &size, path, &err), LF_INVALID);
    unlink(path);
}

static void a_path_too_long_is_refused(void **state)
{
    (void)state;
    char path[8];
    assert_int_equal(lf_path_join(path, sizeof path, "abc", "def"), LF_OK);
    assert_string_equal(path, "abc/def");
    assert_int_equal(lf_path_join(path, sizeof path, "abc/", "def"), LF_OK);
    assert_int_equal(lf_path_join(path, sizeof path, "abcd", "def"), LF_LIMIT);
}

static void a_file_is_found_by_its_directory_and_name(void **state)
{
    (void)state;
    static char name[PATH_MAX + 1];
    char path[64];
    struct lf_err err;
    struct lf_buf text;
    put_ten_bytes(path, "g");
    lf_buf_init(&text, 100);
    assert_int_equal(lf_file_read_in(&text, dir, "g", 9, &err), LF_LIMIT);
    assert_int_equal(lf_file_read_in(&text, dir, "h", 10, &err), LF_NOT_FOUND);
    assert_int_equal(lf_file_read_in(&text, dir, "g", 10, &err), LF_OK);
    assert_string_equal(text.ptr, "0123456789");
    memset(name, 'x', PATH_MAX - 2); /* behind "/" one byte more than there is room for */
    assert_int_equal(lf_file_read_in(&text, "", name, 10, &err), LF_IO);
    name[PATH_MAX - 2] = 'x';
    assert_int_equal(lf_file_read_in(&text, "", name, 10, &err), LF_LIMIT);
    assert_non_null(strstr(err.message, "is too long"));
    assert_int_equal(text.len, 10);
    unlink(path);
    lf_buf_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_read_whole_or_refused),
        cmocka_unit_test(what_is_no_file_is_an_error_and_never_a_hang),
        cmocka_unit_test(a_path_too_long_is_refused),
        cmocka_unit_test(a_file_is_found_by_its_directory_and_name),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
