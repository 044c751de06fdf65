#include "server/documents/keeper.h"

#include <inttypes.h>
#include <string.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/log.h"
#include "server/documents/document_folder.h"

enum { EXPIRE_N = 64 };

void lf_keeper_init(struct lf_keeper *k, struct lf_documents *docs, const char *dir)
{
    k->docs = docs;
    k->dir = dir;
    pthread_mutex_init(&k->lock, NULL);
    for (int i = 0; i < LF_KEEPER_PUTS_N; i++) pthread_mutex_init(&k->puts[i], NULL);
}

void lf_keeper_deinit(struct lf_keeper *k)
{
    if (!k->docs) return;
    pthread_mutex_destroy(&k->lock);
    for (int i = 0; i < LF_KEEPER_PUTS_N; i++) pthread_mutex_destroy(&k->puts[i]);
    k->docs = NULL;
}

/* Of a document that has no name any more. */
static void remove_file(struct lf_keeper *k, uint64_t number)
{
    struct lf_err err;
    if (!number) return;
    pthread_mutex_lock(&k->lock);
    enum lf_status status = lf_document_folder_remove(k->dir, number, &err);
    pthread_mutex_unlock(&k->lock);
    if (status != LF_OK) LF_WARN("a document that is gone may come back: %s", err.message);
}

/* ---- putting ---- */

static struct lf_document_file file_of(const struct lf_document_put *put)
{
    struct lf_document_file f = {.name = put->key.name,
                                 .created_s = put->key.now_s,
                                 .expires_s = put->expires_s,
                                 .n_tokens = put->n_tokens,
                                 .pin = put->pin,
                                 .content = *put->content};
    memcpy(f.tenant, put->key.tenant, sizeof f.tenant);
    return f;
}

/* Under the lock of its name. */
static enum lf_status put_on_disk(struct lf_keeper *k, struct lf_document_put *put, enum lf_document_verdict *verdict,
                                  struct lf_document **out, uint64_t *left, struct lf_err *err)
{
    const struct lf_document_file f = file_of(put);
    enum lf_document_verdict expected = lf_documents_check(k->docs, put, out);
    if (expected != LF_DOCUMENT_NEW) {
        *verdict = expected;
        return LF_OK;
    }
    put->file = atomic_fetch_add(&k->last, 1) + 1;
    enum lf_status status = lf_document_folder_write(k->dir, put->file, &f, err);
    if (status != LF_OK) {
        (void)!lf_document_folder_remove(k->dir, put->file, NULL);
        return status;
    }
    *verdict = lf_documents_put(k->docs, put, out, left);
    if (*verdict != LF_DOCUMENT_NEW) remove_file(k, put->file);
    return LF_OK;
}

static pthread_mutex_t *lock_of(struct lf_keeper *k, const struct lf_document_key *key)
{
    uint64_t hash = lf_hash64(key->tenant, LF_SHA256_BYTES) ^ lf_hash64(key->name.ptr, key->name.len);
    return &k->puts[hash % LF_KEEPER_PUTS_N];
}

enum lf_status lf_keeper_put(struct lf_keeper *k, struct lf_document_put *put, enum lf_document_verdict *verdict,
                             struct lf_document **out, struct lf_err *err)
{
    uint64_t left = 0;
    if (!k->dir) {
        *verdict = lf_documents_put(k->docs, put, out, &left);
        return LF_OK;
    }
    pthread_mutex_t *lock = lock_of(k, &put->key);
    pthread_mutex_lock(lock);
    enum lf_status status = put_on_disk(k, put, verdict, out, &left, err);
    pthread_mutex_unlock(lock);
    remove_file(k, left);
    return status;
}

/* As view says; the lock is held. Who removes it has taken its name before, and then waits for the lock: no file comes
 * back. */
static enum lf_status write_again(struct lf_keeper *k, struct lf_document *doc, const struct lf_document_view *view,
                                  struct lf_err *err)
{
    if (!lf_document_number(doc) || lf_document_is_gone(doc)) return LF_OK;
    struct lf_document_file f = {.name = view->name,
                                 .created_s = view->created_s,
                                 .expires_s = view->expires_s,
                                 .n_tokens = view->n_tokens,
                                 .pin = view->pin,
                                 .content = *lf_document_content(doc)};
    memcpy(f.tenant, lf_document_tenant(doc), sizeof f.tenant);
    return lf_document_folder_write(k->dir, lf_document_number(doc), &f, err);
}

static enum lf_status fail_as_ended(struct lf_err *err)
{
    return lf_fail(err, LF_NOT_FOUND, "it has just ended");
}

enum lf_status lf_keeper_renew(struct lf_keeper *k, struct lf_document *doc, int64_t expires_s, struct lf_err *err)
{
    enum lf_status status = LF_OK;
    struct lf_document_view view;
    pthread_mutex_lock(&k->lock);
    lf_document_look(k->docs, doc, &view);
    bool changes = view.expires_s != expires_s;
    view.expires_s = expires_s;
    if (changes) status = write_again(k, doc, &view, err);
    if (status == LF_OK && !lf_document_renew(k->docs, doc, expires_s)) status = fail_as_ended(err);
    pthread_mutex_unlock(&k->lock);
    return status;
}

enum lf_status lf_keeper_pin(struct lf_keeper *k, struct lf_document *doc, enum lf_pin pin, int64_t *pinning,
                             struct lf_err *err)
{
    enum lf_status status = LF_OK;
    struct lf_document_view view;
    pthread_mutex_lock(&k->lock);
    lf_document_look(k->docs, doc, &view);
    bool changes = view.pin != pin;
    view.pin = pin;
    if (changes) status = write_again(k, doc, &view, err);
    if (status == LF_OK && !lf_document_pin(k->docs, doc, pin, pinning)) status = fail_as_ended(err);
    pthread_mutex_unlock(&k->lock);
    return status;
}

bool lf_keeper_remove(struct lf_keeper *k, const struct lf_document_key *key, struct lf_str if_match,
                      enum lf_document_verdict *verdict)
{
    uint64_t left;
    bool was_there = lf_documents_remove(k->docs, key, if_match, verdict, &left);
    remove_file(k, left);
    return was_there;
}

void lf_keeper_expire(struct lf_keeper *k, int64_t now_s)
{
    uint64_t files[EXPIRE_N];
    int n;
    do {
        n = lf_documents_expire(k->docs, now_s, files, EXPIRE_N);
        for (int i = 0; i < n; i++) remove_file(k, files[i]);
    } while (n == EXPIRE_N);
}

/* ---- loading ---- */

struct load {
    struct lf_keeper *keeper;
    int64_t now_s;
    int n_loaded, n_left;
};

static enum lf_document_verdict put_loaded(struct lf_keeper *k, const struct lf_document_put *put)
{
    struct lf_document *doc = NULL;
    uint64_t left;
    enum lf_document_verdict verdict = lf_documents_put(k->docs, put, &doc, &left);
    lf_document_unref(k->docs, doc);
    remove_file(k, left);
    return verdict;
}

/* One of a later number is what holds; where there is no room for it, the one before stays. */
static enum lf_document_verdict enter(struct lf_keeper *k, struct lf_document_put put)
{
    enum lf_document_verdict verdict;
    struct lf_document *old = lf_documents_find(k->docs, &put.key);
    put.if_match = old ? LF_STR("*") : LF_STR("");
    lf_document_unref(k->docs, old);
    verdict = put_loaded(k, &put);
    if (verdict != LF_DOCUMENT_SAME) return verdict;
    (void)lf_keeper_remove(k, &put.key, LF_STR(""), &verdict);
    put.if_match = LF_STR("");
    return put_loaded(k, &put);
}

/* Keys of its blocks that it has room for, whatever a file says of its tokens. */
static int n_keys_of(const struct lf_document_file *f)
{
    int64_t n_bytes = (int64_t)(f->content.text.len + f->content.system.len + f->content.tools.len);
    return (int)(LF_MIN(f->n_tokens, n_bytes) / LF_KV_BLOCK_TOKENS);
}

static void load_file(struct load *load, uint64_t number, const struct lf_document_file *f)
{
    struct lf_keeper *k = load->keeper;
    const struct lf_document_put put = {.key = {f->tenant, f->name, load->now_s},
                                        .content = &f->content,
                                        .expires_s = f->expires_s,
                                        .n_tokens = f->n_tokens,
                                        .created_s = f->created_s,
                                        .pin = f->pin,
                                        .n_keys = n_keys_of(f),
                                        .file = number};
    if (f->expires_s && f->expires_s <= load->now_s)
        remove_file(k, number);
    else if (enter(k, put) == LF_DOCUMENT_NEW)
        load->n_loaded++;
    else
        load->n_left++;
}

static bool load_one(void *ctx, uint64_t number, enum lf_status status, const struct lf_document_file *f)
{
    struct load *load = ctx;
    struct lf_keeper *k = load->keeper;
    atomic_store(&k->last, number);
    if (status == LF_OK) {
        load_file(load, number, f);
    } else if (status == LF_CORRUPT) {
        LF_WARN("document file %016" PRIx64 " is broken: it is dropped", number);
        lf_counter_add(&k->broken, 1);
        remove_file(k, number);
    } else {
        LF_WARN("document file %016" PRIx64 " is left as it is: %s", number, lf_status_name(status));
        load->n_left++;
    }
    return true;
}

enum lf_status lf_keeper_load(struct lf_keeper *k, struct lf_text_memory *memory, int64_t now_s, struct lf_err *err)
{
    struct load load = {.keeper = k, .now_s = now_s};
    int64_t began_ns = lf_clock_ns();
    if (!k->dir) return LF_OK;
    LF_TRY(lf_document_folder_walk(k->dir, true, memory, load_one, &load, err));
    if (load.n_loaded + load.n_left > 0)
        LF_INFO("documents loaded=%d left=%d ms=%lld", load.n_loaded, load.n_left,
                (long long)((lf_clock_ns() - began_ns) / LF_NS_PER_MS));
    return LF_OK;
}
