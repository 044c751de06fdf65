/* JSONTestSuite, where it is at hand: y_ must be accepted and n_ refused. Two of its y_ files repeat a name, and one
 * holds an escaped NUL; those this parser refuses by design. */
#include "tests/support/test.h"

#include <dirent.h>

#include "core/file.h"
#include "core/json.h"

static bool refused_by_design(const char *name)
{
    return strstr(name, "duplicated_key") || strcmp(name, "y_object_escaped_null_in_key.json") == 0 ||
           strcmp(name, "y_string_null_escape.json") == 0;
}

static void suite_verdicts_are_met(void **state)
{
    (void)state;
    char dir[1024];
    snprintf(dir, sizeof dir, "%s/json", test_assets());
    DIR *d = opendir(dir);
    if (!d) {
        print_message("skipped: no test material at %s\n", dir);
        skip();
        return;
    }
    int n_checked = 0;
    for (struct dirent *e; (e = readdir(d));) {
        if ((e->d_name[0] != 'y' && e->d_name[0] != 'n') || e->d_name[1] != '_') continue;
        char path[2048];
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        struct lf_buf text;
        lf_buf_init(&text, 1 << 24);
        assert_int_equal(lf_file_read(&text, path, 1 << 24, NULL), LF_OK);
        struct test_guarded g = test_guarded_copy(text.ptr, text.len);
        struct lf_json doc = {0};
        bool ok = lf_json_parse(&doc, lf_str_from(g.ptr, text.len), &lf_json_limits_request, NULL) == LF_OK;
        bool want = e->d_name[0] == 'y' && !refused_by_design(e->d_name);
        if (ok != want) fail_msg("%s was %s", e->d_name, ok ? "accepted" : "refused");
        lf_json_deinit(&doc);
        test_guarded_free(&g);
        lf_buf_deinit(&text);
        n_checked++;
    }
    closedir(d);
    print_message("%d files\n", n_checked);
    assert_true(n_checked > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(suite_verdicts_are_met)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
