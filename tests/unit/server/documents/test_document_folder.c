/* server/documents/document_folder.c: whatever call of the system is the last one, or fails, each document is there
 * whole, as it was before or as it was to be; and what was answered for is. */
#include "tests/support/mortal_disk.h"
#include "tests/support/temp_dir.h"

#include "server/documents/document_folder.h"

enum { TURNS_N = 4 };

static const char old_text[] = "the old one", new_text[] =
                                                  "the new one, of more bytes than one call of the system takes: "
                                                  "01234567890123456789012345678901234567890123456789012345678901234567"
                                                  "89012345678901234567890123456789012345678901234"
                                                  "01234567890123456789012345678901234567890123456789012345678901234567"
                                                  "89012345678901234567890123456789012345678901234";

struct rig {
    struct temp_dir tmp;
    char dir[512], undo[512];
};

static struct rig make_rig(void)
{
    struct rig r = {.tmp = temp_dir_make()};
    temp_dir_path(&r.tmp, "store", r.dir);
    temp_dir_path(&r.tmp, "undo", r.undo);
    assert_int_equal(mkdir(r.dir, 0700), 0);
    return r;
}

static struct lf_document_file file_of(const char *name, const char *text)
{
    return (struct lf_document_file){.name = lf_str_c(name), .created_s = 5, .content = {lf_str_c(text), LF_STR("s")}};
}

static enum lf_status put(const struct rig *r, uint64_t number, const char *name, const char *text)
{
    const struct lf_document_file f = file_of(name, text);
    return lf_document_folder_write(r->dir, number, &f, NULL);
}

struct seen {
    int n, n_bad;
    char texts[8][512]; /* by number */
    uint64_t last;
};

static bool see(void *ctx, uint64_t number, enum lf_status status, const struct lf_document_file *f)
{
    struct seen *seen = ctx;
    assert_true(seen->n == 0 || number > seen->last);
    assert_true(number < 8);
    seen->last = number;
    seen->n++;
    if (status != LF_OK)
        seen->n_bad++;
    else
        snprintf(seen->texts[number], sizeof seen->texts[number], "%.*s", (int)f->content.text.len,
                 f->content.text.ptr);
    return true;
}

static struct seen look(const struct rig *r)
{
    struct seen seen = {0};
    assert_int_equal(lf_document_folder_walk(r->dir, true, NULL, see, &seen, NULL), LF_OK);
    return seen;
}

static int n_names(const struct rig *r)
{
    char path[600];
    int n = 0;
    snprintf(path, sizeof path, "%s/documents", r->dir);
    DIR *d = opendir(path);
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) n += e->d_name[0] != '.' ? 1 : 0;
    if (d) closedir(d);
    return n;
}

static void what_was_written_is_there_in_order(void **state)
{
    (void)state;
    struct rig r = make_rig();
    assert_int_equal(look(&r).n, 0);
    assert_int_equal(put(&r, 5, "b", "five"), LF_OK);
    assert_int_equal(put(&r, 2, "a", "two"), LF_OK);
    assert_int_equal(put(&r, 5, "b", "six"), LF_OK);
    struct seen seen = look(&r);
    assert_true(seen.n == 2 && seen.n_bad == 0);
    assert_string_equal(seen.texts[2], "two");
    assert_string_equal(seen.texts[5], "six");
    assert_int_equal(lf_document_folder_remove(r.dir, 2, NULL), LF_OK);
    assert_int_equal(lf_document_folder_remove(r.dir, 2, NULL), LF_OK);
    assert_int_equal(look(&r).n, 1);
    temp_dir_remove_tree(&r.tmp);
}

static void what_is_no_file_of_ours_is_left_alone(void **state)
{
    (void)state;
    static const char *const others[] = {"documents/readme", "documents/0000000000000001.docx",
                                         "documents/000000000000001.doc", "documents/000000000000000G.doc",
                                         "documents/000000000000000A.tmp"};
    struct rig r = make_rig();
    const struct temp_dir *tmp = &r.tmp;
    char name[600];
    assert_int_equal(put(&r, 1, "a", "one"), LF_OK);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        snprintf(name, sizeof name, "store/%s", others[i]);
        temp_dir_write_text(tmp, name, "x");
    }
    temp_dir_write_text(tmp, "store/documents/0000000000000003.doc", "broken");
    temp_dir_write_text(tmp, "store/documents/0000000000000004.tmp", "half");
    struct seen seen = look(&r);
    assert_true(seen.n == 2 && seen.n_bad == 1);
    assert_int_equal(n_names(&r), 2 + (int)(sizeof others / sizeof others[0]));
    temp_dir_remove_tree(&r.tmp);
}

/* ---- ends ---- */

enum work { REPLACE, ADD, REMOVE, WORKS_N };

static enum lf_status work_on(const struct rig *r, enum work work)
{
    if (work == REPLACE) return put(r, 1, "a", new_text);
    return work == ADD ? put(r, 2, "b", new_text) : lf_document_folder_remove(r->dir, 1, NULL);
}

static void check_after(const struct rig *r, enum work work, bool is_done)
{
    struct seen seen = look(r);
    bool old = strcmp(seen.texts[1], old_text) == 0, new = strcmp(seen.texts[1], new_text) == 0;
    assert_int_equal(seen.n_bad, 0);
    if (work == REPLACE) assert_true(seen.n == 1 && (is_done ? new : old || new));
    if (work == REMOVE) assert_true(is_done ? seen.n == 0 : seen.n == 0 || old);
    if (work == ADD) {
        bool there = strcmp(seen.texts[2], new_text) == 0;
        assert_true(old && seen.n == 1 + (there ? 1 : 0) && (there || !is_done));
    }
    assert_int_equal(n_names(r), seen.n);
}

/* Whether it came to its end before the process did. */
static bool end_at(enum work work, int call, bool has_power, unsigned *seed)
{
    struct rig r = make_rig();
    assert_int_equal(put(&r, 1, "a", old_text), LF_OK);
    mortal_begin(call, 0, r.undo);
    enum lf_status status = work_on(&r, work);
    bool all = mortal.n_calls <= call;
    mortal_end(has_power, seed);
    assert_int_equal(status == LF_OK, all);
    check_after(&r, work, all);
    temp_dir_remove_tree(&r.tmp);
    return all;
}

static void an_end_at_any_call_leaves_the_old_or_the_new(void **state)
{
    (void)state;
    unsigned seed = 1;
    for (int work = 0; work < WORKS_N; work++)
        for (int turn = 0; turn < TURNS_N; turn++) {
            int call = 0;
            while (!end_at((enum work)work, call, turn == 0, &seed)) call++;
            assert_true(call >= (work == REMOVE ? 3 : 9));
        }
}

static void a_call_that_fails_is_an_error_and_leaves_nothing_half(void **state)
{
    (void)state;
    static const int errors[] = {ENOSPC, EIO, EDQUOT, EACCES};
    for (int work = 0; work < WORKS_N; work++)
        for (int call = 0; call < 16; call++)
            for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
                struct rig r = make_rig();
                assert_int_equal(put(&r, 1, "a", old_text), LF_OK);
                mortal_begin(call, errors[i], r.undo);
                enum lf_status status = work_on(&r, (enum work)work);
                bool failed = mortal.n_calls > call;
                mortal_end(true, NULL);
                bool is_full = errors[i] == ENOSPC || errors[i] == EDQUOT;
                assert_int_equal(status, !failed ? LF_OK : is_full ? LF_FULL : LF_IO);
                check_after(&r, (enum work)work, !failed);
                temp_dir_remove_tree(&r.tmp);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_there_in_order),
        cmocka_unit_test(what_is_no_file_of_ours_is_left_alone),
        cmocka_unit_test(an_end_at_any_call_leaves_the_old_or_the_new),
        cmocka_unit_test(a_call_that_fails_is_an_error_and_leaves_nothing_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
