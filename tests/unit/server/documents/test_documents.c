/* server/documents/documents.c: names, conditions, tenants, bounds, ends of life, and many threads at once. */
#include "tests/support/test.h"

#include <pthread.h>

#include "core/text_memory.h"
#include "server/documents/documents.h"

enum { BUDGET = 32 * 1024 * 1024, NOW = 1000, TOKENS = 70 /* ten documents of seven, as put_as puts */ };

static const uint8_t nobody[LF_SHA256_BYTES], anna[LF_SHA256_BYTES] = {1}, berta[LF_SHA256_BYTES] = {2};

struct rig {
    struct lf_text_memory *memory;
    struct lf_documents *docs;
};

static struct rig make_rig(int n_most, uint64_t budget)
{
    struct rig r;
    assert_int_equal(lf_text_memory_create(&r.memory, budget, NULL), LF_OK);
    const struct lf_documents_opts opts = {n_most, r.memory, budget, TOKENS};
    assert_int_equal(lf_documents_create(&r.docs, &opts, NULL), LF_OK);
    return r;
}

/* What is left behind is the address sanitizer's to find: each piece of text memory is a block of its own there. */
static void drop_rig(struct rig *r)
{
    lf_documents_destroy(r->docs);
    lf_text_memory_destroy(r->memory);
}

static struct lf_document_key key_of(const uint8_t *tenant, const char *name)
{
    return (struct lf_document_key){tenant, lf_str_c(name), NOW};
}

static enum lf_document_verdict put_as(const struct rig *r, const uint8_t *tenant, const char *name, const char *text,
                                       const char *if_match)
{
    const struct lf_document_content content = {.text = lf_str_c(text)};
    const struct lf_document_put put = {
        .key = key_of(tenant, name), .content = &content, .if_match = lf_str_c(if_match), .n_tokens = 7};
    struct lf_document *doc = NULL, *same = NULL;
    enum lf_document_verdict before = lf_documents_check(r->docs, &put, &same);
    assert_int_equal(same != NULL, before == LF_DOCUMENT_SAME);
    lf_document_unref(r->docs, same);
    uint64_t left;
    enum lf_document_verdict verdict = lf_documents_put(r->docs, &put, &doc, &left);
    assert_true(left == 0);
    if (verdict != LF_DOCUMENT_FULL && verdict != LF_DOCUMENT_QUOTA) assert_int_equal(before, verdict);
    assert_int_equal(doc != NULL, verdict == LF_DOCUMENT_NEW || verdict == LF_DOCUMENT_SAME);
    lf_document_unref(r->docs, doc);
    return verdict;
}

static enum lf_document_verdict put(const struct rig *r, const char *name, const char *text, const char *if_match)
{
    return put_as(r, nobody, name, text, if_match);
}

static bool has_text(const struct rig *r, const uint8_t *tenant, const char *name, const char *text)
{
    const struct lf_document_key key = key_of(tenant, name);
    struct lf_document *doc = lf_documents_find(r->docs, &key);
    bool same = doc && lf_str_eq(lf_document_content(doc)->text, lf_str_c(text));
    lf_document_unref(r->docs, doc);
    return same;
}

static void a_name_is_plain(void **state)
{
    (void)state;
    char longest[LF_DOCUMENT_NAME_BYTES + 2];
    static const char *const good[] = {"a", "A-z_0.9", "...", ".a", "-"};
    static const char *const bad[] = {"",   ".",   "..", "a/b", "a b", "\xc3\xa9", "a%20",
                                      "\\", "a\n", "a@", "[",   "`",   "{"};
    memset(longest, 'x', sizeof longest);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) assert_true(lf_document_is_name(lf_str_c(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_false(lf_document_is_name(lf_str_c(bad[i])));
    assert_false(lf_document_is_name(lf_str_from("a\0b", 3)));
    assert_true(lf_document_is_name(lf_str_from(longest, LF_DOCUMENT_NAME_BYTES)));
    assert_false(lf_document_is_name(lf_str_from(longest, LF_DOCUMENT_NAME_BYTES + 1)));
}

static void an_etag_tells_contents_apart(void **state)
{
    (void)state;
    const struct lf_document_content a = {LF_STR("ab"), LF_STR("c"), LF_STR("")},
                                     b = {LF_STR("a"), LF_STR("bc"), LF_STR("")},
                                     c = {LF_STR("abc"), LF_STR(""), LF_STR("")};
    struct lf_document_etag ea = lf_document_etag(&a), eb = lf_document_etag(&b), ec = lf_document_etag(&c),
                            again = lf_document_etag(&a);
    assert_string_equal(ea.text, again.text);
    assert_string_not_equal(ea.text, eb.text);
    assert_string_not_equal(ea.text, ec.text);
    assert_string_not_equal(eb.text, ec.text);
    assert_int_equal(strlen(ea.text), LF_DOCUMENT_ETAG_BYTES);
    assert_true(ea.text[0] == '"' && ea.text[LF_DOCUMENT_ETAG_BYTES - 1] == '"');
}

static void another_text_needs_a_condition_that_names_what_is_there(void **state)
{
    (void)state;
    struct rig r = make_rig(10, BUDGET);
    const struct lf_document_content one = {.text = LF_STR("one")};
    struct lf_document_etag etag = lf_document_etag(&one);
    char list[128], weak[128];
    snprintf(list, sizeof list, "\"0123\" , %s", etag.text);
    snprintf(weak, sizeof weak, "W/%s", etag.text);
    assert_int_equal(put(&r, "a", "one", "*"), LF_DOCUMENT_NO_MATCH); /* there is none */
    assert_int_equal(put(&r, "a", "one", NULL), LF_DOCUMENT_NEW);
    assert_int_equal(put(&r, "a", "one", NULL), LF_DOCUMENT_SAME);
    assert_int_equal(put(&r, "a", "two", NULL), LF_DOCUMENT_IN_USE);
    assert_int_equal(put(&r, "a", "two", "\"0123\""), LF_DOCUMENT_NO_MATCH);
    assert_int_equal(put(&r, "a", "two", weak), LF_DOCUMENT_NO_MATCH);
    assert_true(has_text(&r, nobody, "a", "one"));
    assert_int_equal(put(&r, "a", "two", list), LF_DOCUMENT_NEW);
    assert_true(has_text(&r, nobody, "a", "two"));
    assert_int_equal(put(&r, "a", "three", "*"), LF_DOCUMENT_NEW);
    assert_true(has_text(&r, nobody, "a", "three"));
    drop_rig(&r);
}

static void what_is_replaced_or_deleted_stays_for_who_has_it(void **state)
{
    (void)state;
    struct rig r = make_rig(10, BUDGET);
    const struct lf_document_key key = key_of(nobody, "a");
    enum lf_document_verdict verdict;
    uint64_t left;
    assert_int_equal(put(&r, "a", "one", NULL), LF_DOCUMENT_NEW);
    struct lf_document *one = lf_documents_find(r.docs, &key);
    assert_int_equal(put(&r, "a", "two", "*"), LF_DOCUMENT_NEW);
    struct lf_document *two = lf_documents_find(r.docs, &key);
    assert_true(lf_documents_remove(r.docs, &key, LF_STR(""), &verdict, &left));
    assert_int_equal(verdict, LF_DOCUMENT_NEW);
    assert_false(lf_documents_remove(r.docs, &key, LF_STR(""), &verdict, &left));
    assert_null(lf_documents_find(r.docs, &key));
    assert_true(lf_document_is_gone(one) && lf_document_is_gone(two));
    assert_true(lf_str_eq(lf_document_content(one)->text, LF_STR("one")));
    assert_true(lf_str_eq(lf_document_content(two)->text, LF_STR("two")));
    lf_document_read(r.docs, one, 3, 0);
    lf_document_end(r.docs, two, NULL);
    lf_document_unref(r.docs, one);
    lf_document_unref(r.docs, two);
    drop_rig(&r);
}

static void deleting_obeys_a_condition(void **state)
{
    (void)state;
    struct rig r = make_rig(10, BUDGET);
    const struct lf_document_key key = key_of(nobody, "a");
    enum lf_document_verdict verdict;
    uint64_t left;
    assert_int_equal(put(&r, "a", "one", NULL), LF_DOCUMENT_NEW);
    assert_true(lf_documents_remove(r.docs, &key, LF_STR("\"x\""), &verdict, &left));
    assert_int_equal(verdict, LF_DOCUMENT_NO_MATCH);
    assert_true(has_text(&r, nobody, "a", "one"));
    assert_true(lf_documents_remove(r.docs, &key, LF_STR("*"), &verdict, &left));
    assert_int_equal(verdict, LF_DOCUMENT_NEW);
    assert_false(has_text(&r, nobody, "a", "one"));
    drop_rig(&r);
}

static void count_one(void *ctx, const struct lf_document_view *view)
{
    assert_true(view->name.len > 0);
    ++*(int *)ctx;
}

static int n_listed(const struct rig *r, const uint8_t *tenant)
{
    int n = 0;
    lf_documents_list(r->docs, tenant, NOW, count_one, &n);
    return n;
}

static void a_name_is_its_tenants(void **state)
{
    (void)state;
    struct rig r = make_rig(10, BUDGET);
    const struct lf_document_key hers = key_of(berta, "a");
    enum lf_document_verdict verdict;
    uint64_t left;
    assert_int_equal(put_as(&r, anna, "a", "one", NULL), LF_DOCUMENT_NEW);
    assert_null(lf_documents_find(r.docs, &hers));
    assert_false(lf_documents_remove(r.docs, &hers, LF_STR(""), &verdict, &left));
    assert_int_equal(n_listed(&r, berta), 0);
    assert_int_equal(put_as(&r, berta, "a", "two", NULL), LF_DOCUMENT_NEW);
    assert_true(has_text(&r, anna, "a", "one") && has_text(&r, berta, "a", "two"));
    assert_int_equal(n_listed(&r, anna), 1);
    assert_int_equal(n_listed(&r, nobody), 0);
    drop_rig(&r);
}

static void their_number_is_bounded_and_a_keys_share_of_it(void **state)
{
    (void)state;
    struct rig r = make_rig(8, BUDGET);
    char name[16];
    for (int i = 0; i < 7; i++) {
        snprintf(name, sizeof name, "d%d", i);
        assert_int_equal(put_as(&r, anna, name, "x", NULL), i < 6 ? LF_DOCUMENT_NEW : LF_DOCUMENT_FULL);
    }
    assert_int_equal(put_as(&r, anna, "d0", "y", "*"), LF_DOCUMENT_NEW); /* instead of one */
    assert_int_equal(put_as(&r, berta, "a", "x", NULL), LF_DOCUMENT_NEW);
    assert_int_equal(put_as(&r, berta, "b", "x", NULL), LF_DOCUMENT_NEW);
    assert_int_equal(put_as(&r, berta, "c", "x", NULL), LF_DOCUMENT_FULL);
    assert_int_equal(put_as(&r, berta, "b", "y", "*"), LF_DOCUMENT_NEW);
    drop_rig(&r);
    r = make_rig(8, BUDGET);
    for (int i = 0; i < 9; i++) {
        snprintf(name, sizeof name, "d%d", i);
        assert_int_equal(put(&r, name, "x", NULL), i < 8 ? LF_DOCUMENT_NEW : LF_DOCUMENT_FULL);
    }
    drop_rig(&r);
}

static void their_bytes_are_bounded_and_what_is_deleted_makes_room(void **state)
{
    (void)state;
    struct rig r = make_rig(100, BUDGET);
    const size_t n = 5 * 1024 * 1024;
    char *text = malloc(n + 1), name[16];
    enum lf_document_verdict verdict = LF_DOCUMENT_NEW;
    int i = 0, n_docs;
    uint64_t n_bytes, left;
    memset(text, 'x', n);
    text[n] = '\0';
    for (; verdict == LF_DOCUMENT_NEW; i++) {
        assert_true(i < 8);
        snprintf(name, sizeof name, "d%d", i);
        verdict = put_as(&r, anna, name, text, NULL);
    }
    assert_int_equal(verdict, LF_DOCUMENT_FULL);
    assert_int_equal(i, 5); /* three quarters of 32 MiB have room for four of 5 MiB */
    assert_int_equal(put_as(&r, anna, "small", "x", NULL), LF_DOCUMENT_NEW);
    lf_documents_count(r.docs, &n_docs, &n_bytes);
    assert_int_equal(n_docs, 5);
    assert_true(n_bytes == 4 * n + 1);
    const struct lf_document_key key = key_of(anna, "d1");
    assert_true(lf_documents_remove(r.docs, &key, LF_STR(""), &verdict, &left));
    assert_int_equal(put_as(&r, anna, "again", text, NULL), LF_DOCUMENT_NEW);
    free(text);
    drop_rig(&r);
}

static void put_until(const struct rig *r, const char *name, int64_t now_s, int64_t ttl_s,
                      enum lf_document_verdict want)
{
    const struct lf_document_content content = {.text = LF_STR("x")};
    struct lf_document_put put = {.key = key_of(nobody, name), .content = &content};
    struct lf_document *doc = NULL;
    uint64_t left;
    put.key.now_s = now_s;
    if (ttl_s) put.expires_s = now_s + ttl_s;
    assert_int_equal(lf_documents_put(r->docs, &put, &doc, &left), want);
    if (want == LF_DOCUMENT_SAME) assert_true(lf_document_renew(r->docs, doc, put.expires_s));
    lf_document_unref(r->docs, doc);
}

static bool is_there(const struct rig *r, const char *name, int64_t now_s)
{
    struct lf_document_key key = key_of(nobody, name);
    key.now_s = now_s;
    struct lf_document *doc = lf_documents_find(r->docs, &key);
    lf_document_unref(r->docs, doc);
    return doc != NULL;
}

static void a_document_ends_when_its_time_is_over(void **state)
{
    (void)state;
    struct rig r = make_rig(10, BUDGET);
    int n;
    uint64_t n_bytes;
    put_until(&r, "a", 1000, 10, LF_DOCUMENT_NEW);
    put_until(&r, "b", 1000, 0, LF_DOCUMENT_NEW);
    put_until(&r, "c", 1000, 20, LF_DOCUMENT_NEW);
    assert_true(is_there(&r, "a", 1009));
    assert_false(is_there(&r, "a", 1010));
    put_until(&r, "a", 1005, 100, LF_DOCUMENT_SAME); /* put again: from now on */
    assert_true(is_there(&r, "a", 1104));
    put_until(&r, "c", 1020, 5, LF_DOCUMENT_NEW); /* the old one's time was over */
    assert_int_equal(lf_documents_expire(r.docs, 1019, NULL, 0), 0);
    lf_documents_count(r.docs, &n, &n_bytes);
    assert_int_equal(n, 3);
    assert_int_equal(lf_documents_expire(r.docs, 1025, NULL, 0), 0);
    lf_documents_count(r.docs, &n, &n_bytes);
    assert_int_equal(n, 2);
    assert_int_equal(lf_documents_expire(r.docs, 1105, NULL, 0), 0);
    lf_documents_count(r.docs, &n, &n_bytes);
    assert_int_equal(n, 1);
    assert_true(is_there(&r, "b", INT64_MAX));
    drop_rig(&r);
}

static bool has_quota(const struct rig *r, const uint8_t *tenant, const char *name, int64_t n, int64_t beside)
{
    const struct lf_document_put put = {.key = key_of(tenant, name), .n_tokens = n};
    int64_t n_tokens = -1;
    bool has = lf_documents_has_quota(r->docs, &put, &n_tokens);
    assert_true(n_tokens == beside);
    return has;
}

static void a_keys_tokens_are_bounded(void **state)
{
    (void)state;
    struct rig r = make_rig(100, BUDGET);
    enum lf_document_verdict verdict;
    uint64_t left;
    char name[16];
    assert_true(has_quota(&r, anna, "a", 70, 0));
    assert_false(has_quota(&r, anna, "a", 71, 0));
    for (int i = 0; i < 11; i++) {
        snprintf(name, sizeof name, "d%d", i);
        assert_int_equal(put_as(&r, anna, name, "x", NULL), i < 10 ? LF_DOCUMENT_NEW : LF_DOCUMENT_QUOTA);
        assert_int_equal(put(&r, name, "x", NULL), LF_DOCUMENT_NEW); /* nobody in particular has none */
    }
    assert_int_equal(put_as(&r, berta, "a", "x", NULL), LF_DOCUMENT_NEW);
    assert_int_equal(put_as(&r, anna, "d0", "instead", "*"), LF_DOCUMENT_NEW);
    assert_true(has_quota(&r, anna, "d0", 7, 63));
    assert_false(has_quota(&r, anna, "d10", 1, 70));
    const struct lf_document_key key = key_of(anna, "d0");
    struct lf_document *doc = lf_documents_find(r.docs, &key);
    lf_document_recount(r.docs, doc, 8);
    assert_false(has_quota(&r, anna, "d10", 1, 71));
    lf_document_recount(r.docs, doc, 6);
    assert_true(has_quota(&r, anna, "d10", 1, 69));
    assert_true(lf_documents_remove(r.docs, &key, LF_STR(""), &verdict, &left));
    lf_document_recount(r.docs, doc, 60); /* it is nobody's any more */
    lf_document_unref(r.docs, doc);
    assert_true(has_quota(&r, anna, "d10", 7, 63));
    assert_int_equal(put_as(&r, anna, "d10", "x", NULL), LF_DOCUMENT_NEW);
    drop_rig(&r);
}

static enum lf_document_verdict put_with(const struct rig *r, const char *name, const char *text, const char *if_match,
                                         int n_most, int64_t tokens_most)
{
    const struct lf_document_content content = {.text = lf_str_c(text)};
    const struct lf_document_put put = {.key = key_of(anna, name),
                                        .content = &content,
                                        .if_match = lf_str_c(if_match),
                                        .n_tokens = 7,
                                        .n_most = n_most,
                                        .tokens_most = tokens_most};
    struct lf_document *doc = NULL;
    uint64_t left;
    enum lf_document_verdict before = lf_documents_check(r->docs, &put, &doc), verdict;
    lf_document_unref(r->docs, doc);
    doc = NULL;
    verdict = lf_documents_put(r->docs, &put, &doc, &left);
    lf_document_unref(r->docs, doc);
    assert_true(before == verdict || verdict == LF_DOCUMENT_QUOTA); /* a check does not look at tokens */
    return verdict;
}

static void a_key_may_have_limits_of_its_own(void **state)
{
    (void)state;
    struct rig r = make_rig(100, BUDGET); /* 70 tokens of any one key */
    assert_int_equal(put_with(&r, "a", "x", NULL, 2, 0), LF_DOCUMENT_NEW);
    assert_int_equal(put_with(&r, "b", "x", NULL, 2, 0), LF_DOCUMENT_NEW);
    assert_int_equal(put_with(&r, "c", "x", NULL, 2, 0), LF_DOCUMENT_MANY);
    assert_int_equal(put_with(&r, "b", "x", NULL, 2, 0), LF_DOCUMENT_SAME);
    assert_int_equal(put_with(&r, "b", "y", "*", 2, 0), LF_DOCUMENT_NEW);  /* in place of one */
    assert_int_equal(put_with(&r, "b", "z", "*", 1, 0), LF_DOCUMENT_MANY); /* lowered meanwhile */
    assert_int_equal(put_with(&r, "c", "x", NULL, 3, 20), LF_DOCUMENT_QUOTA);
    assert_int_equal(put_with(&r, "c", "x", NULL, 3, 21), LF_DOCUMENT_NEW);
    for (char name[] = "d"; name[0] <= 'j'; name[0]++)
        assert_int_equal(put_with(&r, name, "x", NULL, 0, 0), LF_DOCUMENT_NEW);
    assert_int_equal(put_with(&r, "k", "x", NULL, 0, 0), LF_DOCUMENT_QUOTA);
    assert_int_equal(put_with(&r, "k", "x", NULL, 0, 77), LF_DOCUMENT_NEW); /* more than others */
    drop_rig(&r);
}

static enum lf_document_verdict put_file(const struct rig *r, const char *text, int64_t expires_s, uint64_t file,
                                         uint64_t *left)
{
    const struct lf_document_content content = {.text = lf_str_c(text)};
    const struct lf_document_put put = {.key = key_of(anna, "a"),
                                        .content = &content,
                                        .if_match = lf_str_c(file > 1 ? "*" : ""),
                                        .expires_s = expires_s,
                                        .created_s = 500,
                                        .file = file};
    struct lf_document *doc = NULL;
    enum lf_document_verdict verdict = lf_documents_put(r->docs, &put, &doc, left);
    if (verdict == LF_DOCUMENT_NEW) {
        assert_true(lf_document_number(doc) == file && lf_document_created_s(doc) == 500);
        assert_memory_equal(lf_document_tenant(doc), anna, sizeof anna);
    }
    lf_document_unref(r->docs, doc);
    return verdict;
}

static void count_taken(void *ctx, struct lf_document *doc)
{
    struct lf_document **at = ctx;
    assert_null(*at);
    *at = doc;
}

static void the_file_of_what_is_gone_is_told_once(void **state)
{
    (void)state;
    struct rig r = make_rig(10, BUDGET);
    const struct lf_document_key key = key_of(anna, "a");
    struct lf_document *doc = NULL;
    enum lf_document_verdict verdict;
    uint64_t left, files[1] = {0};
    assert_int_equal(put_file(&r, "one", 0, 1, &left), LF_DOCUMENT_NEW);
    assert_true(left == 0);
    assert_int_equal(put_file(&r, "one", 0, 2, &left), LF_DOCUMENT_SAME);
    assert_true(left == 0);
    assert_int_equal(put_file(&r, "two", NOW - 1, 3, &left), LF_DOCUMENT_NEW);
    assert_true(left == 1);
    assert_int_equal(put_file(&r, "three", 0, 4, &left), LF_DOCUMENT_NO_MATCH); /* what was there is over */
    assert_true(left == 3);
    assert_int_equal(put_file(&r, "four", NOW + 5, 1, &left), LF_DOCUMENT_NEW);
    assert_true(left == 0);
    lf_documents_each(r.docs, count_taken, &doc);
    lf_document_recount(r.docs, doc, 99);
    lf_document_end(r.docs, doc, NULL);
    struct lf_document_view view;
    lf_document_look(r.docs, doc, &view);
    assert_true(view.n_tokens == 99 && view.n_read == 99);
    lf_document_unref(r.docs, doc);
    assert_int_equal(lf_documents_expire(r.docs, NOW + 5, files, 0), 0); /* no room to say it */
    assert_int_equal(lf_documents_expire(r.docs, NOW + 5, files, 1), 1);
    assert_true(files[0] == 1);
    assert_int_equal(lf_documents_expire(r.docs, NOW + 5, files, 1), 0);
    assert_int_equal(put_file(&r, "five", 0, 1, &left), LF_DOCUMENT_NEW);
    assert_true(lf_documents_remove(r.docs, &key, LF_STR(""), &verdict, &left));
    assert_true(left == 1);
    drop_rig(&r);
}

static void reading_is_told_and_a_failed_one_can_be_put_again(void **state)
{
    (void)state;
    struct rig r = make_rig(10, BUDGET);
    const struct lf_document_key key = key_of(nobody, "a");
    struct lf_document_view view;
    assert_int_equal(put(&r, "a", "x", NULL), LF_DOCUMENT_NEW);
    struct lf_document *doc = lf_documents_find(r.docs, &key);
    lf_document_read(r.docs, doc, 3, 250);
    lf_document_hit(r.docs, doc);
    lf_document_look(r.docs, doc, &view);
    assert_int_equal(view.state, LF_DOCUMENT_READING);
    assert_true(view.n_read == 3 && view.eta_ms == 250 && view.n_tokens == 7 && view.n_hits == 1 && view.n_bytes == 1);
    assert_true(view.created_s == NOW && view.expires_s == 0 && lf_document_created_s(doc) == NOW);
    lf_document_end(r.docs, doc, "why");
    lf_document_look(r.docs, doc, &view);
    assert_int_equal(view.state, LF_DOCUMENT_FAILED);
    assert_string_equal(view.reason, "why");
    lf_document_unref(r.docs, doc);
    assert_int_equal(put(&r, "a", "x", NULL), LF_DOCUMENT_NEW);
    doc = lf_documents_find(r.docs, &key);
    lf_document_end(r.docs, doc, NULL);
    lf_document_look(r.docs, doc, &view);
    assert_int_equal(view.state, LF_DOCUMENT_READY);
    assert_true(view.n_read == 7 && view.eta_ms == 0 && view.n_hits == 0);
    lf_document_unref(r.docs, doc);
    assert_int_equal(put(&r, "a", "x", NULL), LF_DOCUMENT_SAME);
    drop_rig(&r);
}

static void ten_thousand_are_listed_in_a_moment(void **state)
{
    (void)state;
    struct rig r = make_rig(LF_DOCUMENTS_N, BUDGET);
    char name[32], text[32];
    for (int i = 0; i < LF_DOCUMENTS_N; i++) {
        snprintf(name, sizeof name, "document-%d", i);
        snprintf(text, sizeof text, "text %d", i);
        assert_int_equal(put(&r, name, text, NULL), LF_DOCUMENT_NEW);
    }
    double began = cpu_seconds();
    assert_int_equal(n_listed(&r, nobody), LF_DOCUMENTS_N);
    assert_true(cpu_seconds() - began < 0.01 * SLOWNESS);
    drop_rig(&r);
}

/* ---- threads ---- */

enum { N_THREADS = 4, N_TURNS = 3000, N_NAMES = 8 };

struct player {
    const struct rig *r;
    unsigned seed;
};

/* One of two contents: whoever finds a document finds one of them whole. */
static const char *const two_texts[] = {"the first of the two texts", "the second"};

static void put_one(struct player *p, const struct lf_document_key *key)
{
    const struct lf_document_content content = {.text = lf_str_c(two_texts[rand_r(&p->seed) % 2])};
    struct lf_document_put put = {.key = *key, .content = &content};
    struct lf_document *doc = NULL;
    uint64_t left;
    enum lf_document_verdict verdict = lf_documents_put(p->r->docs, &put, &doc, &left);
    put.if_match = LF_STR("*");
    if (verdict == LF_DOCUMENT_IN_USE) (void)lf_documents_put(p->r->docs, &put, &doc, &left);
    if (doc) lf_document_end(p->r->docs, doc, rand_r(&p->seed) % 3 ? NULL : "failed");
    lf_document_unref(p->r->docs, doc);
}

static void use_one(struct player *p, const struct lf_document_key *key)
{
    struct lf_document_view view;
    struct lf_document *doc = lf_documents_find(p->r->docs, key);
    if (!doc) return;
    struct lf_str text = lf_document_content(doc)->text;
    if (!lf_str_eq(text, lf_str_c(two_texts[0])) && !lf_str_eq(text, lf_str_c(two_texts[1]))) abort();
    lf_document_hit(p->r->docs, doc);
    (void)lf_document_is_gone(doc);
    lf_document_look(p->r->docs, doc, &view);
    lf_document_unref(p->r->docs, doc);
}

static void play_once(struct player *p)
{
    char name[8];
    enum lf_document_verdict verdict;
    uint64_t left;
    snprintf(name, sizeof name, "n%d", rand_r(&p->seed) % N_NAMES);
    const uint8_t *tenant = rand_r(&p->seed) % 2 ? anna : berta;
    const struct lf_document_key key = key_of(tenant, name);
    int what = rand_r(&p->seed) % 4;
    if (what == 0) put_one(p, &key);
    if (what == 1) (void)lf_documents_remove(p->r->docs, &key, LF_STR(""), &verdict, &left);
    if (what == 2) (void)n_listed(p->r, tenant);
    if (what == 3) use_one(p, &key);
}

static void *play(void *ctx)
{
    struct player *p = ctx;
    for (int i = 0; i < N_TURNS; i++) play_once(p);
    return NULL;
}

static void many_threads_leave_nothing_behind(void **state)
{
    (void)state;
    struct rig r = make_rig(6, BUDGET);
    pthread_t threads[N_THREADS];
    struct player players[N_THREADS];
    for (unsigned i = 0; i < N_THREADS; i++) {
        players[i] = (struct player){&r, i + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, play, &players[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) pthread_join(threads[i], NULL);
    int n;
    uint64_t n_bytes;
    lf_documents_count(r.docs, &n, &n_bytes);
    assert_int_equal(n, n_listed(&r, anna) + n_listed(&r, berta));
    drop_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_plain),
        cmocka_unit_test(an_etag_tells_contents_apart),
        cmocka_unit_test(another_text_needs_a_condition_that_names_what_is_there),
        cmocka_unit_test(what_is_replaced_or_deleted_stays_for_who_has_it),
        cmocka_unit_test(deleting_obeys_a_condition),
        cmocka_unit_test(a_name_is_its_tenants),
        cmocka_unit_test(their_number_is_bounded_and_a_keys_share_of_it),
        cmocka_unit_test(their_bytes_are_bounded_and_what_is_deleted_makes_room),
        cmocka_unit_test(a_document_ends_when_its_time_is_over),
        cmocka_unit_test(a_keys_tokens_are_bounded),
        cmocka_unit_test(a_key_may_have_limits_of_its_own),
        cmocka_unit_test(the_file_of_what_is_gone_is_told_once),
        cmocka_unit_test(reading_is_told_and_a_failed_one_can_be_put_again),
        cmocka_unit_test(ten_thousand_are_listed_in_a_moment),
        cmocka_unit_test(many_threads_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
