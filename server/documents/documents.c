#include "server/documents/documents.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/check.h"
#include "core/list.h"
#include "core/text_memory.h"

enum { TENANT_BUCKETS_N = 64, SHARE = 4 /* of its share: three parts of so many are a tenant's at most */ };

struct tenant {
    uint8_t salt[LF_SHA256_BYTES];
    struct lf_list node; /* in its bucket */
    struct lf_list documents;
    int n;
    uint64_t n_bytes; /* of memory, that is with what a document has beside its text */
    int64_t n_tokens;
};

struct lf_document {
    /* immutable; the texts lie behind it, in the same piece of memory */
    struct lf_document_content content;
    struct lf_document_etag etag;
    char name[LF_DOCUMENT_NAME_BYTES + 1];
    uint8_t owner[LF_SHA256_BYTES];
    int64_t created_s;
    uint64_t hash; /* of tenant and name */
    uint64_t file;
    size_t piece_bytes;
    uint8_t *keys; /* [n_keys_most, LF_SHA256_BYTES] behind the texts; written once, before n_keys is */
    int n_keys_most;
    atomic_bool gone;
    /* under the lock */
    struct tenant *tenant; /* NULL: gone */
    struct lf_list in_bucket, in_tenant;
    int n_refs; /* one is the table's while it is in it */
    enum lf_document_state state;
    const char *reason;
    int64_t n_tokens, n_read, eta_ms, expires_s, n_hits;
    enum lf_pin pin;
    int64_t pinning;
    int n_keys;
};

struct lf_documents {
    /* fixed from create on */
    struct lf_text_memory *memory;
    uint64_t bytes_most;
    int64_t tokens_most;
    int n_most;
    size_t n_buckets; /* a power of two */
    pthread_mutex_t lock;
    /* under the lock */
    struct lf_list *buckets; /* [n_buckets], owned */
    struct lf_list tenants[TENANT_BUCKETS_N];
    int n;
    uint64_t n_bytes;   /* of the texts */
    int64_t next_end_s; /* nobody's time is over before */
};

/* ---- names and contents ---- */

bool lf_document_is_name(struct lf_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (lf_digit(c) == 36 && c != '.' && c != '_' && c != '-') return false;
    }
    bool is_place = lf_str_eq(name, LF_STR(".")) || lf_str_eq(name, LF_STR("..")); /* URLs lose these on their way */
    return name.len >= 1 && name.len <= LF_DOCUMENT_NAME_BYTES && !is_place;
}

static void hash_text(struct lf_sha256 *sha, struct lf_str s)
{
    uint64_t len = s.len;
    lf_sha256_update(sha, &len, sizeof len);
    if (s.len) lf_sha256_update(sha, s.ptr, s.len);
}

struct lf_document_etag lf_document_etag(const struct lf_document_content *content)
{
    struct lf_document_etag etag;
    struct lf_sha256 sha;
    uint8_t digest[LF_SHA256_BYTES];
    lf_sha256_init(&sha);
    hash_text(&sha, content->text);
    hash_text(&sha, content->system);
    if (content->tools.len) hash_text(&sha, content->tools);
    lf_sha256_final(&sha, digest);
    for (int i = 0; i < 16; i++) snprintf(etag.text + 1 + 2 * i, 3, "%02x", digest[i]);
    etag.text[0] = etag.text[LF_DOCUMENT_ETAG_BYTES - 1] = '"';
    etag.text[LF_DOCUMENT_ETAG_BYTES] = '\0';
    return etag;
}

static bool same_etag(const struct lf_document_etag *a, const struct lf_document_etag *b)
{
    return strcmp(a->text, b->text) == 0;
}

/* Whether a list of ETags, or *, has this one. Weak ones never match. */
static bool matches(struct lf_str if_match, const struct lf_document_etag *etag)
{
    struct lf_str own = lf_str_c(etag->text);
    for (size_t at = 0, end; at <= if_match.len; at = end + 1) {
        for (end = at; end < if_match.len && if_match.ptr[end] != ',';) end++;
        struct lf_str one = lf_str_trim(lf_str_from(if_match.ptr + at, end - at));
        if (lf_str_eq(one, LF_STR("*")) || lf_str_eq(one, own)) return true;
    }
    return false;
}

/* ---- the table ---- */

static uint64_t hash_of(const struct lf_document_key *key)
{
    char bytes[LF_SHA256_BYTES + LF_DOCUMENT_NAME_BYTES];
    size_t n = LF_MIN(key->name.len, (size_t)LF_DOCUMENT_NAME_BYTES);
    memcpy(bytes, key->tenant, LF_SHA256_BYTES);
    if (n) memcpy(bytes + LF_SHA256_BYTES, key->name.ptr, n);
    return lf_hash64(bytes, LF_SHA256_BYTES + n);
}

static struct lf_list *bucket_of(struct lf_documents *docs, uint64_t hash)
{
    return &docs->buckets[hash & (docs->n_buckets - 1)];
}

static struct lf_list *tenants_of(struct lf_documents *docs, const uint8_t *salt)
{
    return &docs->tenants[lf_hash64(salt, LF_SHA256_BYTES) % TENANT_BUCKETS_N];
}

static struct tenant *find_tenant(struct lf_documents *docs, const uint8_t *salt)
{
    LF_LIST_EACH(it, tenants_of(docs, salt))
    {
        struct tenant *t = LF_LIST_ENTRY(it, struct tenant, node);
        if (memcmp(t->salt, salt, sizeof t->salt) == 0) return t;
    }
    return NULL;
}

static struct tenant *add_tenant(struct lf_documents *docs, const uint8_t *salt)
{
    struct tenant *t = lf_text_alloc_zeroed(docs->memory, sizeof *t);
    if (!t) return NULL;
    memcpy(t->salt, salt, sizeof t->salt);
    lf_list_init(&t->documents);
    lf_list_push_back(tenants_of(docs, salt), &t->node);
    return t;
}

/* One without documents is no more. */
static void drop_if_empty(struct lf_documents *docs, struct tenant *t)
{
    if (t->n) return;
    lf_list_remove(&t->node);
    lf_text_free(docs->memory, t);
}

static bool is_over(const struct lf_document *doc, int64_t now_s)
{
    return doc->expires_s && doc->expires_s <= now_s;
}

static struct lf_document *ref(struct lf_document *doc)
{
    doc->n_refs++;
    return doc;
}

static void unref(struct lf_documents *docs, struct lf_document *doc)
{
    if (--doc->n_refs == 0) lf_text_free(docs->memory, doc);
}

/* Out of the table: its name is free. */
static void remove_from_table(struct lf_documents *docs, struct lf_document *doc)
{
    struct tenant *t = doc->tenant;
    lf_list_remove(&doc->in_bucket);
    lf_list_remove(&doc->in_tenant);
    t->n--;
    t->n_bytes -= doc->piece_bytes;
    t->n_tokens -= doc->n_tokens;
    docs->n--;
    docs->n_bytes -= doc->content.text.len;
    doc->tenant = NULL;
    atomic_store(&doc->gone, true);
    drop_if_empty(docs, t);
    unref(docs, doc);
}

static struct lf_document *find(struct lf_documents *docs, const struct lf_document_key *key)
{
    uint64_t hash = hash_of(key);
    LF_LIST_EACH(it, bucket_of(docs, hash))
    {
        struct lf_document *doc = LF_LIST_ENTRY(it, struct lf_document, in_bucket);
        if (doc->hash == hash && memcmp(doc->tenant->salt, key->tenant, LF_SHA256_BYTES) == 0 &&
            lf_str_eq(lf_str_c(doc->name), key->name))
            return is_over(doc, key->now_s) ? NULL : doc;
    }
    return NULL;
}

/* ---- putting ---- */

static void *copy_behind(char **at, struct lf_str s)
{
    char *to = *at;
    if (s.len) memcpy(to, s.ptr, s.len);
    *at += s.len;
    return to;
}

static struct lf_document *make(struct lf_documents *docs, const struct lf_document_put *put)
{
    const struct lf_document_content *c = put->content;
    size_t n_key_bytes = (size_t)put->n_keys * LF_SHA256_BYTES;
    size_t n = sizeof(struct lf_document) + n_key_bytes + c->text.len + c->system.len + c->tools.len;
    struct lf_document *doc = lf_text_alloc(docs->memory, n);
    if (!doc) return NULL;
    char *at = (char *)(doc + 1) + n_key_bytes;
    *doc = (struct lf_document){.etag = lf_document_etag(c),
                                .created_s = put->created_s ? put->created_s : put->key.now_s,
                                .expires_s = put->expires_s,
                                .file = put->file,
                                .pin = put->pin,
                                .keys = (uint8_t *)(doc + 1),
                                .n_keys_most = put->n_keys,
                                .n_keys = put->keys ? put->n_keys : 0,
                                .n_tokens = put->n_tokens,
                                .hash = hash_of(&put->key),
                                .piece_bytes = n,
                                .n_refs = 1};
    doc->content.text = lf_str_from(copy_behind(&at, c->text), c->text.len);
    doc->content.system = lf_str_from(copy_behind(&at, c->system), c->system.len);
    doc->content.tools = lf_str_from(copy_behind(&at, c->tools), c->tools.len);
    if (put->keys && n_key_bytes) memcpy(doc->keys, put->keys, n_key_bytes);
    memcpy(doc->name, put->key.name.ptr, put->key.name.len);
    memcpy(doc->owner, put->key.tenant, sizeof doc->owner);
    return doc;
}

static void set_end(struct lf_documents *docs, struct lf_document *doc, int64_t expires_s)
{
    doc->expires_s = expires_s;
    if (expires_s) docs->next_end_s = LF_MIN(docs->next_end_s, expires_s);
}

/* Nobody in particular may have all. */
static bool is_anyone(const uint8_t *salt)
{
    static const uint8_t nobody[LF_SHA256_BYTES];
    return memcmp(salt, nobody, sizeof nobody) == 0;
}

/* Tokens that a tenant has beside what is to go; t, old: may be NULL. */
static int64_t tokens_beside(const struct tenant *t, const struct lf_document *old)
{
    return t ? t->n_tokens - (old ? old->n_tokens : 0) : 0;
}

static bool has_quota(const struct lf_documents *docs, const struct lf_document_put *put, int64_t n_tokens)
{
    int64_t most = put->tokens_most ? put->tokens_most : docs->tokens_most;
    return most == 0 || is_anyone(put->key.tenant) || n_tokens <= most;
}

/* Whether one more may be there beside what is to stay; t, old: may be NULL. */
static bool has_number(const struct tenant *t, const struct lf_document_put *put, const struct lf_document *old)
{
    return put->n_most == 0 || (t ? t->n : 0) + 1 - (old ? 1 : 0) <= put->n_most;
}

/* Whether a tenant's share has room. */
static bool has_share(const struct lf_documents *docs, const struct tenant *t, const struct lf_document *old,
                      const struct lf_document *doc)
{
    int n = t->n + 1 - (old ? 1 : 0);
    uint64_t n_bytes = t->n_bytes + doc->piece_bytes - (old ? old->piece_bytes : 0);
    if (is_anyone(t->salt)) return true;
    return n <= LF_MAX(docs->n_most / SHARE * 3, 1) && n_bytes <= docs->bytes_most / SHARE * 3;
}

/* NEW: takes doc over; else there is no room, and all is as it was. */
static enum lf_document_verdict enter(struct lf_documents *docs, const struct lf_document_put *put,
                                      struct lf_document *doc, struct lf_document *old)
{
    struct tenant *t = find_tenant(docs, put->key.tenant);
    if (!has_number(t, put, old)) return LF_DOCUMENT_MANY;
    if (!has_quota(docs, put, tokens_beside(t, old) + doc->n_tokens)) return LF_DOCUMENT_QUOTA;
    if (docs->n - (old ? 1 : 0) >= docs->n_most) return LF_DOCUMENT_FULL;
    if (!t && !(t = add_tenant(docs, put->key.tenant))) return LF_DOCUMENT_FULL;
    if (!has_share(docs, t, old, doc)) {
        drop_if_empty(docs, t);
        return LF_DOCUMENT_FULL;
    }
    t->n++;
    t->n_bytes += doc->piece_bytes;
    t->n_tokens += doc->n_tokens;
    docs->n++;
    docs->n_bytes += doc->content.text.len;
    doc->tenant = t;
    lf_list_push_back(&t->documents, &doc->in_tenant);
    lf_list_push_back(bucket_of(docs, doc->hash), &doc->in_bucket);
    set_end(docs, doc, put->expires_s);
    if (old) remove_from_table(docs, old);
    return LF_DOCUMENT_NEW;
}

/* Whether the condition lets what is there go: NEW, or why not. */
static enum lf_document_verdict may_go(const struct lf_document *doc, struct lf_str if_match)
{
    if (if_match.len == 0) return LF_DOCUMENT_IN_USE;
    return matches(if_match, &doc->etag) ? LF_DOCUMENT_NEW : LF_DOCUMENT_NO_MATCH;
}

static enum lf_document_verdict judge(const struct lf_document *old, const struct lf_document_put *put,
                                      const struct lf_document_etag *etag)
{
    if (!old) return put->if_match.len ? LF_DOCUMENT_NO_MATCH : LF_DOCUMENT_NEW;
    if (!same_etag(&old->etag, etag)) return may_go(old, put->if_match);
    return old->state == LF_DOCUMENT_FAILED ? LF_DOCUMENT_NEW : LF_DOCUMENT_SAME;
}

enum lf_document_verdict lf_documents_check(struct lf_documents *docs, const struct lf_document_put *put,
                                            struct lf_document **out)
{
    struct lf_document_etag etag = lf_document_etag(put->content);
    pthread_mutex_lock(&docs->lock);
    struct lf_document *old = find(docs, &put->key);
    enum lf_document_verdict verdict = judge(old, put, &etag);
    if (verdict == LF_DOCUMENT_SAME) *out = ref(old);
    if (verdict == LF_DOCUMENT_NEW && !has_number(find_tenant(docs, put->key.tenant), put, old))
        verdict = LF_DOCUMENT_MANY;
    pthread_mutex_unlock(&docs->lock);
    return verdict;
}

bool lf_documents_has_quota(struct lf_documents *docs, const struct lf_document_put *put, int64_t *n_tokens)
{
    pthread_mutex_lock(&docs->lock);
    *n_tokens = tokens_beside(find_tenant(docs, put->key.tenant), find(docs, &put->key));
    pthread_mutex_unlock(&docs->lock);
    return has_quota(docs, put, *n_tokens + put->n_tokens);
}

/* One under the same name whose time is over is as good as gone. */
static void drop_over(struct lf_documents *docs, const struct lf_document_key *key, uint64_t *left)
{
    const struct lf_document_key ever = {key->tenant, key->name, 0};
    struct lf_document *doc = find(docs, &ever);
    if (!doc || !is_over(doc, key->now_s)) return;
    *left = doc->file;
    remove_from_table(docs, doc);
}

enum lf_document_verdict lf_documents_put(struct lf_documents *docs, const struct lf_document_put *put,
                                          struct lf_document **out, uint64_t *left)
{
    struct lf_document *doc = make(docs, put); /* before the lock: a text may be long */
    *left = 0;
    if (!doc) return LF_DOCUMENT_FULL;
    pthread_mutex_lock(&docs->lock);
    drop_over(docs, &put->key, left);
    struct lf_document *old = find(docs, &put->key);
    enum lf_document_verdict verdict = judge(old, put, &doc->etag);
    uint64_t old_file = old ? old->file : 0;
    if (verdict == LF_DOCUMENT_NEW) verdict = enter(docs, put, doc, old);
    if (verdict == LF_DOCUMENT_SAME) *out = ref(old);
    if (verdict == LF_DOCUMENT_NEW) {
        *out = ref(doc);
        if (old_file) *left = old_file;
    } else {
        unref(docs, doc);
    }
    pthread_mutex_unlock(&docs->lock);
    return verdict;
}

/* ---- asking ---- */

struct lf_document *lf_documents_find(struct lf_documents *docs, const struct lf_document_key *key)
{
    pthread_mutex_lock(&docs->lock);
    struct lf_document *doc = find(docs, key);
    if (doc) ref(doc);
    pthread_mutex_unlock(&docs->lock);
    return doc;
}

bool lf_documents_remove(struct lf_documents *docs, const struct lf_document_key *key, struct lf_str if_match,
                         enum lf_document_verdict *verdict, uint64_t *left)
{
    *left = 0;
    pthread_mutex_lock(&docs->lock);
    struct lf_document *doc = find(docs, key);
    if (doc) *verdict = if_match.len ? may_go(doc, if_match) : LF_DOCUMENT_NEW;
    if (doc && *verdict == LF_DOCUMENT_NEW) {
        *left = doc->file;
        remove_from_table(docs, doc);
    }
    pthread_mutex_unlock(&docs->lock);
    return doc != NULL;
}

static void view_of(const struct lf_document *doc, struct lf_document_view *out)
{
    *out = (struct lf_document_view){.name = lf_str_c(doc->name),
                                     .etag = doc->etag,
                                     .state = doc->state,
                                     .reason = doc->reason,
                                     .n_tokens = doc->n_tokens,
                                     .n_read = doc->n_read,
                                     .eta_ms = doc->eta_ms,
                                     .created_s = doc->created_s,
                                     .expires_s = doc->expires_s,
                                     .n_hits = doc->n_hits,
                                     .n_bytes = doc->content.text.len,
                                     .pin = doc->pin,
                                     .keys = doc->n_keys ? doc->keys : NULL,
                                     .n_keys = doc->n_keys};
}

void lf_documents_list(struct lf_documents *docs, const uint8_t *tenant, int64_t now_s,
                       void (*show)(void *ctx, const struct lf_document_view *view), void *ctx)
{
    struct lf_document_view view;
    pthread_mutex_lock(&docs->lock);
    struct tenant *t = find_tenant(docs, tenant);
    for (struct lf_list *it = t ? t->documents.next : NULL; it && it != &t->documents; it = it->next) {
        const struct lf_document *doc = LF_LIST_ENTRY(it, struct lf_document, in_tenant);
        if (is_over(doc, now_s)) continue;
        view_of(doc, &view);
        show(ctx, &view);
    }
    pthread_mutex_unlock(&docs->lock);
}

static void take_all(struct tenant *t, void (*take)(void *ctx, struct lf_document *doc), void *ctx)
{
    LF_LIST_EACH(it, &t->documents) take(ctx, ref(LF_LIST_ENTRY(it, struct lf_document, in_tenant)));
}

void lf_documents_each(struct lf_documents *docs, void (*take)(void *ctx, struct lf_document *doc), void *ctx)
{
    pthread_mutex_lock(&docs->lock);
    for (int i = 0; i < TENANT_BUCKETS_N; i++) LF_LIST_EACH(it, &docs->tenants[i])
    take_all(LF_LIST_ENTRY(it, struct tenant, node), take, ctx);
    pthread_mutex_unlock(&docs->lock);
}

/* Files that are left behind; past n_most the rest waits for the next call. */
struct left {
    uint64_t *files;
    int n, n_most;
};

/* A tenant without documents goes with its last one, so the next is looked for before. */
static void expire_bucket(struct lf_documents *docs, struct lf_list *bucket, int64_t now_s, struct left *left)
{
    LF_LIST_EACH_SAFE(it, bucket)
    {
        struct lf_document *doc = LF_LIST_ENTRY(it, struct lf_document, in_bucket);
        bool goes = is_over(doc, now_s) && !(doc->file && left->n == left->n_most);
        if (!goes && doc->expires_s) docs->next_end_s = LF_MIN(docs->next_end_s, doc->expires_s);
        if (goes && doc->file) left->files[left->n++] = doc->file;
        if (goes) remove_from_table(docs, doc);
    }
}

int lf_documents_expire(struct lf_documents *docs, int64_t now_s, uint64_t *files, int n_most)
{
    struct left left = {files, 0, n_most};
    pthread_mutex_lock(&docs->lock);
    if (now_s >= docs->next_end_s) {
        docs->next_end_s = INT64_MAX;
        for (size_t i = 0; i < docs->n_buckets; i++) expire_bucket(docs, &docs->buckets[i], now_s, &left);
    }
    pthread_mutex_unlock(&docs->lock);
    return left.n;
}

int lf_documents_n_pinned(struct lf_documents *docs)
{
    int n = 0;
    pthread_mutex_lock(&docs->lock);
    for (size_t i = 0; i < docs->n_buckets; i++)
        LF_LIST_EACH(it, &docs->buckets[i]) n += LF_LIST_ENTRY(it, struct lf_document, in_bucket)->pin != LF_PIN_NONE;
    pthread_mutex_unlock(&docs->lock);
    return n;
}

void lf_documents_count(struct lf_documents *docs, int *n, uint64_t *n_bytes)
{
    pthread_mutex_lock(&docs->lock);
    *n = docs->n;
    *n_bytes = docs->n_bytes;
    pthread_mutex_unlock(&docs->lock);
}

/* ---- one document ---- */

struct lf_document *lf_document_ref(struct lf_documents *docs, struct lf_document *doc)
{
    pthread_mutex_lock(&docs->lock);
    ref(doc);
    pthread_mutex_unlock(&docs->lock);
    return doc;
}

void lf_document_unref(struct lf_documents *docs, struct lf_document *doc)
{
    if (!doc) return;
    pthread_mutex_lock(&docs->lock);
    unref(docs, doc);
    pthread_mutex_unlock(&docs->lock);
}

const struct lf_document_content *lf_document_content(const struct lf_document *doc)
{
    return &doc->content;
}

int64_t lf_document_created_s(const struct lf_document *doc)
{
    return doc->created_s;
}

uint64_t lf_document_number(const struct lf_document *doc)
{
    return doc->file;
}

const uint8_t *lf_document_tenant(const struct lf_document *doc)
{
    return doc->owner;
}

void lf_document_look(struct lf_documents *docs, const struct lf_document *doc, struct lf_document_view *out)
{
    pthread_mutex_lock(&docs->lock);
    view_of(doc, out);
    pthread_mutex_unlock(&docs->lock);
}

void lf_document_hit(struct lf_documents *docs, struct lf_document *doc)
{
    pthread_mutex_lock(&docs->lock);
    doc->n_hits++;
    pthread_mutex_unlock(&docs->lock);
}

bool lf_document_is_gone(const struct lf_document *doc)
{
    return atomic_load(&doc->gone);
}

bool lf_document_renew(struct lf_documents *docs, struct lf_document *doc, int64_t expires_s)
{
    pthread_mutex_lock(&docs->lock);
    bool is_there = doc->tenant != NULL;
    if (is_there) set_end(docs, doc, expires_s);
    pthread_mutex_unlock(&docs->lock);
    return is_there;
}

bool lf_document_pin(struct lf_documents *docs, struct lf_document *doc, enum lf_pin pin, int64_t *pinning)
{
    pthread_mutex_lock(&docs->lock);
    bool is_there = doc->tenant != NULL;
    if (is_there) {
        doc->pin = pin;
        *pinning = ++doc->pinning;
    }
    pthread_mutex_unlock(&docs->lock);
    return is_there;
}

int64_t lf_document_pinning(struct lf_documents *docs, const struct lf_document *doc)
{
    pthread_mutex_lock(&docs->lock);
    int64_t pinning = doc->tenant && doc->pin != LF_PIN_NONE ? doc->pinning : -1;
    pthread_mutex_unlock(&docs->lock);
    return pinning;
}

void lf_document_set_keys(struct lf_documents *docs, struct lf_document *doc, const uint8_t *keys, int n_keys)
{
    pthread_mutex_lock(&docs->lock);
    int n = LF_MIN(n_keys, doc->n_keys_most);
    if (doc->n_keys == 0 && n > 0) {
        memcpy(doc->keys, keys, (size_t)n * LF_SHA256_BYTES);
        doc->n_keys = n;
    }
    pthread_mutex_unlock(&docs->lock);
}

void lf_document_recount(struct lf_documents *docs, struct lf_document *doc, int64_t n_tokens)
{
    pthread_mutex_lock(&docs->lock);
    if (doc->tenant) doc->tenant->n_tokens += n_tokens - doc->n_tokens;
    doc->n_tokens = n_tokens;
    pthread_mutex_unlock(&docs->lock);
}

void lf_document_read(struct lf_documents *docs, struct lf_document *doc, int64_t n_read, int64_t eta_ms)
{
    pthread_mutex_lock(&docs->lock);
    doc->n_read = n_read;
    doc->eta_ms = eta_ms;
    pthread_mutex_unlock(&docs->lock);
}

void lf_document_end(struct lf_documents *docs, struct lf_document *doc, const char *reason)
{
    pthread_mutex_lock(&docs->lock);
    doc->state = reason ? LF_DOCUMENT_FAILED : LF_DOCUMENT_READY;
    doc->reason = reason;
    if (!reason) doc->n_read = doc->n_tokens;
    doc->eta_ms = 0;
    pthread_mutex_unlock(&docs->lock);
}

/* ---- all of them ---- */

enum lf_status lf_documents_create(struct lf_documents **out, const struct lf_documents_opts *opts, struct lf_err *err)
{
    struct lf_documents *docs = calloc(1, sizeof *docs);
    if (!docs) return lf_fail(err, LF_NO_MEMORY, "no memory for the table of documents");
    docs->memory = opts->memory;
    docs->bytes_most = opts->bytes_most;
    docs->n_most = opts->n_most;
    docs->tokens_most = opts->tokens_most;
    docs->next_end_s = INT64_MAX;
    for (docs->n_buckets = 16; docs->n_buckets < (size_t)opts->n_most;) docs->n_buckets *= 2;
    docs->buckets = calloc(docs->n_buckets, sizeof *docs->buckets);
    if (!docs->buckets) {
        free(docs);
        return lf_fail(err, LF_NO_MEMORY, "no memory for the table of documents");
    }
    for (size_t i = 0; i < docs->n_buckets; i++) lf_list_init(&docs->buckets[i]);
    for (size_t i = 0; i < TENANT_BUCKETS_N; i++) lf_list_init(&docs->tenants[i]);
    pthread_mutex_init(&docs->lock, NULL);
    *out = docs;
    return LF_OK;
}

void lf_documents_destroy(struct lf_documents *docs)
{
    if (!docs) return;
    for (size_t i = 0; i < docs->n_buckets; i++) LF_LIST_EACH_SAFE(it, &docs->buckets[i])
    remove_from_table(docs, LF_LIST_ENTRY(it, struct lf_document, in_bucket));
    pthread_mutex_destroy(&docs->lock);
    free(docs->buckets);
    free(docs);
}
