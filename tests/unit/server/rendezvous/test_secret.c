#include "tests/support/temp_dir.h"

#include <sys/stat.h>

#include "server/rendezvous/secret.h"

static struct temp_dir tmp;
static char path[512];

static int make(void **state)
{
    (void)state;
    tmp = temp_dir_make();
    temp_dir_path(&tmp, "secret", path);
    return 0;
}

static int drop(void **state)
{
    (void)state;
    temp_dir_remove(&tmp);
    return 0;
}

static void fill(const void *bytes, size_t n)
{
    temp_dir_write(&tmp, "secret", bytes, n);
}

static void refuse(enum lf_status status, const char *words)
{
    uint8_t secret[LF_SECRET_MAX_BYTES];
    size_t n = 77;
    struct lf_err err = {0};
    assert_int_equal(lf_rendezvous_read_secret(secret, &n, path, &err), status);
    if (!strstr(err.message, words)) fail_msg("expected \"%s\" in: %s", words, err.message);
    assert_int_equal(n, 77);
}

static void expect(const void *bytes, size_t n_bytes)
{
    uint8_t secret[LF_SECRET_MAX_BYTES];
    size_t n = 0;
    assert_int_equal(lf_rendezvous_read_secret(secret, &n, path, NULL), LF_OK);
    assert_int_equal(n, n_bytes);
    assert_memory_equal(secret, bytes, n);
}

static void test_bounds(void **state)
{
    (void)state;
    char bytes[LF_SECRET_MAX_BYTES + 3];
    memset(bytes, 'k', sizeof bytes);
    fill(bytes, LF_SECRET_MIN_BYTES - 1);
    refuse(LF_INVALID, "fewer");
    fill("fifteen bytes..\n", LF_SECRET_MIN_BYTES);
    refuse(LF_INVALID, "fewer");
    fill(bytes, LF_SECRET_MIN_BYTES);
    expect(bytes, LF_SECRET_MIN_BYTES);
    fill(bytes, LF_SECRET_MAX_BYTES);
    expect(bytes, LF_SECRET_MAX_BYTES);
    fill(bytes, LF_SECRET_MAX_BYTES + 1);
    refuse(LF_INVALID, "more");
    bytes[LF_SECRET_MAX_BYTES] = '\n';
    fill(bytes, LF_SECRET_MAX_BYTES + 1);
    expect(bytes, LF_SECRET_MAX_BYTES);
    fill(bytes, LF_SECRET_MAX_BYTES + 3);
    refuse(LF_INVALID, "more");
    fill("", 0);
    refuse(LF_INVALID, "fewer");
}

static void test_one_newline_is_not_part_of_it(void **state)
{
    (void)state;
    static const char two[] = "\n with one inside \n\n";
    fill(two, sizeof two - 1);
    expect(two, sizeof two - 2);
}

static void test_mode(void **state)
{
    (void)state;
    fill("sixteen bytes or more", 21);
    static const mode_t open_to_others[] = {0640, 0604, 0620, 0601, 0777};
    for (size_t i = 0; i < sizeof open_to_others / sizeof open_to_others[0]; i++) {
        assert_int_equal(chmod(path, open_to_others[i]), 0);
        refuse(LF_INVALID, "chmod 600");
    }
    assert_int_equal(chmod(path, 0400), 0);
    expect("sixteen bytes or more", 21);
    assert_int_equal(chmod(path, 0600), 0);
}

static void test_no_file(void **state)
{
    (void)state;
    assert_int_equal(unlink(path), 0);
    refuse(LF_NOT_FOUND, path);
    assert_int_equal(mkfifo(path, 0600), 0);
    refuse(LF_INVALID, "no regular file");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/", path), 0);
    refuse(LF_INVALID, "no regular file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_one_newline_is_not_part_of_it),
        cmocka_unit_test(test_mode),
        cmocka_unit_test(test_no_file),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
