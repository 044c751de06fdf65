/* server/documents/keeper.c: after any end the table is what was answered for. */
#include "tests/support/mortal_disk.h"
#include "tests/support/temp_dir.h"

#include "core/text_memory.h"
#include "server/documents/document_folder.h"
#include "server/documents/keeper.h"

enum { BUDGET = 32 * 1024 * 1024, NOW = 1000 };

static const uint8_t nobody[LF_SHA256_BYTES], anna[LF_SHA256_BYTES] = {1};

struct rig {
    struct temp_dir tmp;
    char dir[512], undo[512];
    struct lf_text_memory *memory;
    struct lf_documents *docs;
    struct lf_keeper keeper;
};

static void begin(struct rig *r, int n_most, int64_t now_s)
{
    assert_int_equal(lf_text_memory_create(&r->memory, BUDGET, NULL), LF_OK);
    const struct lf_documents_opts opts = {.n_most = n_most, .memory = r->memory, .bytes_most = BUDGET};
    assert_int_equal(lf_documents_create(&r->docs, &opts, NULL), LF_OK);
    r->keeper = (struct lf_keeper){0};
    lf_keeper_init(&r->keeper, r->docs, r->dir);
    assert_int_equal(lf_keeper_load(&r->keeper, NULL, now_s, NULL), LF_OK);
}

static void end(struct rig *r)
{
    lf_keeper_deinit(&r->keeper);
    lf_documents_destroy(r->docs);
    lf_text_memory_destroy(r->memory);
}

static void restart(struct rig *r, int n_most, int64_t now_s)
{
    end(r);
    begin(r, n_most, now_s);
}

/* The keeper borrows the path: a rig stays where it is. */
static void make_rig(struct rig *r)
{
    *r = (struct rig){.tmp = temp_dir_make()};
    temp_dir_path(&r->tmp, "store", r->dir);
    temp_dir_path(&r->tmp, "undo", r->undo);
    assert_int_equal(mkdir(r->dir, 0700), 0);
    begin(r, 10, NOW);
}

static void drop_rig(struct rig *r)
{
    end(r);
    temp_dir_remove_tree(&r->tmp);
}

static struct lf_document_key key_of(const uint8_t *tenant, const char *name)
{
    return (struct lf_document_key){tenant, lf_str_c(name), NOW};
}

/* The status where it was not put at all. */
static enum lf_status put(struct rig *r, const uint8_t *tenant, const char *name, const char *text,
                          enum lf_document_verdict *verdict)
{
    const struct lf_document_content content = {.text = lf_str_c(text)};
    const struct lf_document_key key = key_of(tenant, name);
    struct lf_document *doc = lf_documents_find(r->docs, &key);
    struct lf_document_put p = {.key = key, .content = &content, .if_match = lf_str_c(doc ? "*" : ""), .n_tokens = 7};
    lf_document_unref(r->docs, doc);
    doc = NULL;
    enum lf_status status = lf_keeper_put(&r->keeper, &p, verdict, &doc, NULL);
    lf_document_unref(r->docs, doc);
    return status;
}

static void put_new(struct rig *r, const uint8_t *tenant, const char *name, const char *text)
{
    enum lf_document_verdict verdict;
    assert_int_equal(put(r, tenant, name, text, &verdict), LF_OK);
    assert_int_equal(verdict, LF_DOCUMENT_NEW);
}

/* The text of that name; NULL: there is none. */
static const char *text_of(struct rig *r, const uint8_t *tenant, const char *name, struct lf_document_view *view)
{
    static char text[64];
    const struct lf_document_key key = key_of(tenant, name);
    struct lf_document *doc = lf_documents_find(r->docs, &key);
    if (!doc) return NULL;
    struct lf_str s = lf_document_content(doc)->text;
    snprintf(text, sizeof text, "%.*s", (int)s.len, s.ptr);
    if (view) lf_document_look(r->docs, doc, view);
    lf_document_unref(r->docs, doc);
    return text;
}

static int n_files(const struct rig *r)
{
    char path[600];
    int n = 0;
    snprintf(path, sizeof path, "%s/documents", r->dir);
    DIR *d = opendir(path);
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) n += e->d_name[0] != '.' ? 1 : 0;
    if (d) closedir(d);
    return n;
}

static void names_texts_and_ends_are_there_again(void **state)
{
    (void)state;
    struct rig r;
    make_rig(&r);
    const struct lf_document_key key = key_of(nobody, "b");
    struct lf_document_view view;
    enum lf_document_verdict verdict;
    put_new(&r, nobody, "a", "one");
    put_new(&r, nobody, "b", "two");
    put_new(&r, anna, "a", "hers");
    put_new(&r, nobody, "c", "three");
    put_new(&r, nobody, "a", "four");
    assert_true(lf_keeper_remove(&r.keeper, &key, LF_STR(""), &verdict));
    const struct lf_document_key c = key_of(nobody, "c");
    struct lf_document *doc = lf_documents_find(r.docs, &c);
    assert_int_equal(lf_keeper_renew(&r.keeper, doc, NOW + 50, NULL), LF_OK);
    lf_document_unref(r.docs, doc);
    assert_int_equal(n_files(&r), 3);
    restart(&r, 10, NOW + 10);
    assert_string_equal(text_of(&r, nobody, "a", &view), "four");
    assert_true(view.created_s == NOW && view.expires_s == 0 && view.n_tokens == 7);
    assert_int_equal(view.state, LF_DOCUMENT_READING);
    assert_string_equal(text_of(&r, anna, "a", NULL), "hers");
    assert_null(text_of(&r, nobody, "b", NULL));
    assert_string_equal(text_of(&r, nobody, "c", &view), "three");
    assert_true(view.expires_s == NOW + 50);
    put_new(&r, nobody, "d", "a number that is free");
    restart(&r, 10, NOW + 50);
    assert_null(text_of(&r, nobody, "c", NULL));
    assert_int_equal(n_files(&r), 3);
    lf_keeper_expire(&r.keeper, NOW + 60);
    drop_rig(&r);
}

static void one_that_has_gone_is_not_written_again(void **state)
{
    (void)state;
    struct rig r;
    make_rig(&r);
    const struct lf_document_key key = key_of(nobody, "a");
    enum lf_document_verdict verdict;
    put_new(&r, nobody, "a", "one");
    struct lf_document *doc = lf_documents_find(r.docs, &key);
    assert_true(lf_keeper_remove(&r.keeper, &key, LF_STR(""), &verdict));
    assert_int_equal(lf_keeper_renew(&r.keeper, doc, NOW + 50, NULL), LF_NOT_FOUND);
    lf_document_unref(r.docs, doc);
    assert_int_equal(n_files(&r), 0);
    drop_rig(&r);
}

static void what_finds_no_room_stays_on_disk(void **state)
{
    (void)state;
    struct rig r;
    make_rig(&r);
    enum lf_document_verdict verdict;
    char name[16];
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "d%d", i);
        put_new(&r, nobody, name, "x");
    }
    assert_int_equal(put(&r, nobody, "more", "x", &verdict), LF_OK);
    assert_int_equal(verdict, LF_DOCUMENT_FULL);
    assert_int_equal(n_files(&r), 10);
    restart(&r, 4, NOW);
    assert_string_equal(text_of(&r, nobody, "d3", NULL), "x");
    assert_null(text_of(&r, nobody, "d4", NULL));
    assert_int_equal(n_files(&r), 10);
    restart(&r, 10, NOW);
    assert_string_equal(text_of(&r, nobody, "d9", NULL), "x");
    drop_rig(&r);
}

static void a_broken_file_is_dropped_and_counted(void **state)
{
    (void)state;
    struct rig r;
    make_rig(&r);
    put_new(&r, nobody, "a", "one");
    put_new(&r, nobody, "b", "two");
    char path[600];
    snprintf(path, sizeof path, "%s/documents/0000000000000001.doc", r.dir);
    assert_int_equal(truncate(path, 513), 0);
    restart(&r, 10, NOW);
    assert_true(lf_counter_get(&r.keeper.broken) == 1);
    assert_null(text_of(&r, nobody, "a", NULL));
    assert_string_equal(text_of(&r, nobody, "b", NULL), "two");
    assert_int_equal(n_files(&r), 1);
    drop_rig(&r);
}

/* ---- ends at any call ---- */

static bool replace_until(int call, bool has_power, unsigned *seed)
{
    struct rig r;
    make_rig(&r);
    enum lf_document_verdict verdict = LF_DOCUMENT_FULL;
    put_new(&r, nobody, "a", "one");
    put_new(&r, nobody, "b", "two");
    mortal_begin(call, 0, r.undo);
    enum lf_status status = put(&r, nobody, "a", "another", &verdict);
    bool all = mortal.n_calls <= call, answered = status == LF_OK;
    mortal_end(has_power, seed);
    restart(&r, 10, NOW);
    const char *a = text_of(&r, nobody, "a", NULL);
    assert_non_null(a);
    assert_true(strcmp(a, "another") == 0 || (!answered && strcmp(a, "one") == 0));
    assert_string_equal(text_of(&r, nobody, "b", NULL), "two");
    assert_true(lf_counter_get(&r.keeper.broken) == 0);
    assert_int_equal(n_files(&r), 2);
    drop_rig(&r);
    return all;
}

static void an_end_at_any_call_leaves_one_of_the_two(void **state)
{
    (void)state;
    unsigned seed = 3;
    for (int turn = 0; turn < 3; turn++) {
        int call = 0;
        while (!replace_until(call, turn == 0, &seed)) call++;
        assert_true(call >= 9);
    }
}

/* Two puts of one name at once: the second may not have it, so a process that ends meanwhile leaves no file that would.
 */
static void what_may_not_have_the_name_is_not_written(void **state)
{
    (void)state;
    struct rig r;
    struct lf_document *doc = NULL;
    enum lf_document_verdict verdict;
    make_rig(&r);
    put_new(&r, nobody, "a", "one");
    const struct lf_document_content content = {.text = LF_STR("another")};
    struct lf_document_put p = {.key = key_of(nobody, "a"), .content = &content};
    mortal_begin(1000, 0, r.undo);
    assert_int_equal(lf_keeper_put(&r.keeper, &p, &verdict, &doc, NULL), LF_OK);
    assert_int_equal(mortal.n_calls, 0);
    mortal_end(true, NULL);
    assert_int_equal(verdict, LF_DOCUMENT_IN_USE);
    assert_null(doc);
    restart(&r, 10, NOW);
    assert_string_equal(text_of(&r, nobody, "a", NULL), "one");
    drop_rig(&r);
}

enum { RACES_N = 40 };

static void *put_another(void *arg)
{
    struct rig *r = arg;
    const struct lf_document_content content = {.text = LF_STR("another")};
    struct lf_document_put p = {.key = key_of(nobody, "a"), .content = &content};
    struct lf_document *doc = NULL;
    enum lf_document_verdict verdict;
    assert_int_equal(lf_keeper_put(&r->keeper, &p, &verdict, &doc, NULL), LF_OK);
    lf_document_unref(r->docs, doc);
    return (void *)(intptr_t)verdict;
}

/* Whoever is told that it has the name has the only file that was ever written: the first number. */
static void of_two_at_once_one_is_written(void **state)
{
    (void)state;
    for (int i = 0; i < RACES_N; i++) {
        struct rig r;
        pthread_t thread;
        void *verdict;
        enum lf_document_verdict own;
        make_rig(&r);
        assert_int_equal(pthread_create(&thread, NULL, put_another, &r), 0);
        const struct lf_document_content content = {.text = LF_STR("one")};
        struct lf_document_put p = {.key = key_of(nobody, "a"), .content = &content};
        struct lf_document *doc = NULL;
        assert_int_equal(lf_keeper_put(&r.keeper, &p, &own, &doc, NULL), LF_OK);
        lf_document_unref(r.docs, doc);
        assert_int_equal(pthread_join(thread, &verdict), 0);
        enum lf_document_verdict other = (enum lf_document_verdict)(intptr_t)verdict;
        assert_true((own == LF_DOCUMENT_NEW) != (other == LF_DOCUMENT_NEW));
        assert_true(own == LF_DOCUMENT_IN_USE || other == LF_DOCUMENT_IN_USE);
        assert_true(atomic_load(&r.keeper.last) == 1);
        drop_rig(&r);
    }
}

static void a_disk_that_fails_changes_nothing(void **state)
{
    (void)state;
    struct rig r;
    make_rig(&r);
    const struct lf_document_key key = key_of(nobody, "a");
    enum lf_document_verdict verdict;
    put_new(&r, nobody, "a", "one");
    mortal_begin(1, ENOSPC, r.undo);
    assert_int_equal(put(&r, nobody, "a", "two", &verdict), LF_FULL);
    mortal_begin(1, EIO, r.undo);
    struct lf_document *doc = lf_documents_find(r.docs, &key);
    assert_int_equal(lf_keeper_renew(&r.keeper, doc, NOW + 9, NULL), LF_IO);
    lf_document_unref(r.docs, doc);
    mortal_end(true, NULL);
    struct lf_document_view view;
    assert_string_equal(text_of(&r, nobody, "a", &view), "one");
    assert_true(view.expires_s == 0);
    restart(&r, 10, NOW);
    assert_string_equal(text_of(&r, nobody, "a", &view), "one");
    assert_true(view.expires_s == 0);
    assert_int_equal(n_files(&r), 1);
    drop_rig(&r);
}

/* ---- many ---- */

static void ten_thousand_are_there_within_a_second(void **state)
{
    (void)state;
    struct rig r;
    make_rig(&r);
    char name[32], text[32];
    end(&r);
    for (int i = 0; i < LF_DOCUMENTS_N; i++) {
        snprintf(name, sizeof name, "document-%d", i);
        snprintf(text, sizeof text, "text %d", i);
        struct lf_document_file f = {.name = lf_str_c(name), .created_s = 1, .content = {.text = lf_str_c(text)}};
        uint8_t head[LF_DOCUMENT_HEAD_BYTES];
        char path[64], bytes[LF_DOCUMENT_HEAD_BYTES + sizeof text];
        if (i == 0) assert_int_equal(lf_document_folder_write(r.dir, 1, &f, NULL), LF_OK);
        lf_document_file_head(&f, head);
        memcpy(bytes, head, sizeof head);
        memcpy(bytes + sizeof head, text, strlen(text));
        snprintf(path, sizeof path, "store/documents/%016x.doc", (unsigned)i + 1);
        temp_dir_write(&r.tmp, path, bytes, sizeof head + strlen(text)); /* not synced: that is not what is measured */
    }
    double began = cpu_seconds();
    begin(&r, LF_DOCUMENTS_N, NOW);
    assert_true(cpu_seconds() - began < 1.0 * SLOWNESS);
    int n;
    uint64_t n_bytes;
    lf_documents_count(r.docs, &n, &n_bytes);
    assert_int_equal(n, LF_DOCUMENTS_N);
    drop_rig(&r);
}

static void without_a_directory_nothing_is_kept(void **state)
{
    (void)state;
    struct rig r;
    make_rig(&r);
    const struct lf_document_key key = key_of(nobody, "a");
    enum lf_document_verdict verdict;
    lf_keeper_deinit(&r.keeper);
    lf_keeper_init(&r.keeper, r.docs, NULL);
    assert_int_equal(lf_keeper_load(&r.keeper, NULL, NOW, NULL), LF_OK);
    put_new(&r, nobody, "a", "one");
    struct lf_document *doc = lf_documents_find(r.docs, &key);
    assert_int_equal(lf_keeper_renew(&r.keeper, doc, NOW + 9, NULL), LF_OK);
    lf_document_unref(r.docs, doc);
    lf_keeper_expire(&r.keeper, NOW + 9);
    assert_null(text_of(&r, nobody, "a", NULL));
    put_new(&r, nobody, "a", "one");
    assert_true(lf_keeper_remove(&r.keeper, &key, LF_STR(""), &verdict));
    assert_int_equal(n_files(&r), 0);
    drop_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_texts_and_ends_are_there_again),
        cmocka_unit_test(one_that_has_gone_is_not_written_again),
        cmocka_unit_test(what_finds_no_room_stays_on_disk),
        cmocka_unit_test(a_broken_file_is_dropped_and_counted),
        cmocka_unit_test(an_end_at_any_call_leaves_one_of_the_two),
        cmocka_unit_test(what_may_not_have_the_name_is_not_written),
        cmocka_unit_test(of_two_at_once_one_is_written),
        cmocka_unit_test(a_disk_that_fails_changes_nothing),
        cmocka_unit_test(ten_thousand_are_there_within_a_second),
        cmocka_unit_test(without_a_directory_nothing_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
