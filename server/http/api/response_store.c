#include "server/http/api/response_store.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/check.h"
#include "core/list.h"
#include "core/text_memory.h"

/* Small pieces lie in slabs, which are counted whole: a response may need one for itself and one for its text. */
enum { SLACK_BYTES = 2 * LF_TEXT_SLAB_BYTES };

struct tenant {
    uint8_t salt[LF_SHA256_BYTES];
    struct lf_list node;
    struct lf_list responses; /* in the table; least recently used first */
    uint64_t n_bytes; /* of all that were put and are not freed: what a conversation goes on from holds memory */
    int n, n_held;    /* in the table; put and not freed */
};

struct lf_response {
    /* immutable from put on; the buffers are its owner's until then */
    char id[LF_RESPONSE_ID_BYTES];
    uint8_t salt[LF_SHA256_BYTES];
    struct lf_response *previous; /* one reference */
    struct lf_buf input, text;
    size_t output_at, output_len;
    uint64_t n_bytes, conversation_bytes;
    int64_t expires_s;
    /* under the lock */
    struct tenant *tenant; /* NULL: it was not put */
    struct lf_list in_tenant, by_age;
    int n_refs; /* one is the table's while it is in it */
};

struct lf_response_store {
    struct lf_text_memory *memory; /* owned; NULL: nothing is stored */
    uint64_t bytes_most;           /* of it */
    pthread_mutex_t lock;
    /* under the lock */
    struct lf_list tenants, by_age; /* by_age: oldest first */
    int n;
};

/* ---- the table, under the lock ---- */

static struct tenant *find_tenant(struct lf_response_store *store, const uint8_t *salt)
{
    LF_LIST_EACH(it, &store->tenants)
    {
        struct tenant *t = LF_LIST_ENTRY(it, struct tenant, node);
        if (memcmp(t->salt, salt, sizeof t->salt) == 0) return t;
    }
    return NULL;
}

static struct tenant *add_tenant(struct lf_response_store *store, const uint8_t *salt)
{
    struct tenant *t = lf_text_alloc_zeroed(store->memory, sizeof *t);
    if (!t) return NULL;
    memcpy(t->salt, salt, sizeof t->salt);
    lf_list_init(&t->responses);
    lf_list_push_back(&store->tenants, &t->node);
    return t;
}

/* One of a tenant's is freed. */
static void discharge(struct lf_response_store *store, struct tenant *t, uint64_t n_bytes)
{
    t->n_bytes -= n_bytes;
    if (--t->n_held > 0) return;
    lf_list_remove(&t->node);
    lf_text_free(store->memory, t);
}

/* A conversation may be as long as there are entries: without recursion. */
static void unref(struct lf_response_store *store, struct lf_response *r)
{
    while (r && --r->n_refs == 0) {
        struct lf_response *previous = r->previous;
        if (r->tenant) discharge(store, r->tenant, r->n_bytes);
        lf_buf_deinit(&r->input);
        lf_buf_deinit(&r->text);
        lf_text_free(store->memory, r);
        r = previous;
    }
}

static void remove_from_table(struct lf_response_store *store, struct lf_response *r)
{
    lf_list_remove(&r->in_tenant);
    lf_list_remove(&r->by_age);
    r->tenant->n--;
    store->n--;
    unref(store, r);
}

static void expire(struct lf_response_store *store, int64_t now_s)
{
    for (struct lf_list *it; (it = lf_list_first(&store->by_age));) {
        struct lf_response *r = LF_LIST_ENTRY(it, struct lf_response, by_age);
        if (r->expires_s > now_s) return;
        remove_from_table(store, r);
    }
}

static void evict_from(struct lf_response_store *store, struct tenant *t)
{
    remove_from_table(store, LF_LIST_ENTRY(lf_list_first(&t->responses), struct lf_response, in_tenant));
}

/* One goes of the tenant that has the most entries. */
static void evict_entry(struct lf_response_store *store)
{
    struct tenant *most = LF_LIST_ENTRY(lf_list_first(&store->tenants), struct tenant, node);
    LF_LIST_EACH(it, &store->tenants)
    {
        struct tenant *t = LF_LIST_ENTRY(it, struct tenant, node);
        if (t->n > most->n) most = t;
    }
    evict_from(store, most);
}

/* One goes for n bytes of a tenant's: of who holds most, if that is more than it would hold then, else its own. false:
 * there is none. */
static bool evict_for(struct lf_response_store *store, const uint8_t *salt, uint64_t n)
{
    struct tenant *own = find_tenant(store, salt), *most = own;
    uint64_t more_than = (own ? own->n_bytes : 0) + n;
    LF_LIST_EACH(it, &store->tenants)
    {
        struct tenant *t = LF_LIST_ENTRY(it, struct tenant, node);
        if (t == own || t->n == 0 || t->n_bytes <= more_than) continue;
        most = t;
        more_than = t->n_bytes;
    }
    if (!most || most->n == 0) return false;
    evict_from(store, most);
    return true;
}

/* Makes room for so many bytes more. What somebody still holds a reference to goes from the table, and stays. A piece
 * that is half of everything lets nothing go. */
static bool make_room(struct lf_response_store *store, const uint8_t *salt, uint64_t n)
{
    if (n > store->bytes_most / 2) return false;
    while (!lf_text_reserve(store->memory, n + SLACK_BYTES))
        if (!evict_for(store, salt, n)) return false;
    lf_text_unreserve(store->memory, n + SLACK_BYTES);
    return true;
}

static struct lf_response *find(struct lf_response_store *store, const uint8_t *salt, struct lf_str id)
{
    struct tenant *t = find_tenant(store, salt);
    for (struct lf_list *it = t ? t->responses.next : NULL; it && it != &t->responses; it = it->next) {
        struct lf_response *r = LF_LIST_ENTRY(it, struct lf_response, in_tenant);
        if (lf_str_eq(lf_str_c(r->id), id)) return r;
    }
    return NULL;
}

/* ---- the store ---- */

enum lf_status lf_response_store_create(struct lf_response_store **out, uint64_t bytes, struct lf_err *err)
{
    struct lf_response_store *store = calloc(1, sizeof *store);
    if (!store) return lf_fail(err, LF_NO_MEMORY, "no memory for the table of responses");
    enum lf_status status = bytes ? lf_text_memory_create(&store->memory, bytes, err) : LF_OK;
    if (status != LF_OK) {
        free(store);
        return status;
    }
    store->bytes_most = bytes;
    pthread_mutex_init(&store->lock, NULL);
    lf_list_init(&store->tenants);
    lf_list_init(&store->by_age);
    *out = store;
    return LF_OK;
}

void lf_response_store_destroy(struct lf_response_store *store)
{
    if (!store) return;
    expire(store, INT64_MAX);
    lf_text_memory_destroy(store->memory);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

struct lf_response *lf_response_begin(struct lf_response_store *store, const uint8_t *tenant,
                                      struct lf_response *previous, size_t n_bytes)
{
    struct lf_response *r = NULL;
    if (!store->memory) return NULL;
    pthread_mutex_lock(&store->lock);
    if (make_room(store, tenant, sizeof *r + n_bytes)) r = lf_text_alloc_zeroed(store->memory, sizeof *r);
    if (r) {
        memcpy(r->salt, tenant, sizeof r->salt);
        r->previous = previous;
        if (previous) previous->n_refs++;
        r->n_refs = 1;
        lf_list_init(&r->in_tenant);
        lf_list_init(&r->by_age);
    }
    pthread_mutex_unlock(&store->lock);
    if (!r) return NULL;
    lf_buf_init_in(&r->input, store->bytes_most, store->memory);
    lf_buf_init_in(&r->text, store->bytes_most, store->memory);
    (void)lf_buf_reserve(&r->input, n_bytes);
    return r;
}

struct lf_buf *lf_response_input_buf(struct lf_response *r)
{
    return &r->input;
}

struct lf_buf *lf_response_text_buf(struct lf_response *r)
{
    return &r->text;
}

void lf_response_reserve_text(struct lf_response_store *store, struct lf_response *r, size_t n_bytes)
{
    pthread_mutex_lock(&store->lock);
    bool there = make_room(store, r->salt, n_bytes);
    pthread_mutex_unlock(&store->lock);
    if (there) (void)lf_buf_reserve(&r->text, n_bytes);
    if (!there) r->text.status = LF_NO_MEMORY;
}

void lf_response_begin_output(struct lf_response *r)
{
    r->output_at = r->text.len - 1;
}

void lf_response_end_output(struct lf_response *r)
{
    r->output_len = r->text.len + 1 - r->output_at;
}

/* Into the table, with a reference of its own; no memory for a tenant: it is not stored. */
static void enter(struct lf_response_store *store, struct lf_response *r)
{
    while (store->n >= LF_RESPONSES_N) evict_entry(store);
    struct tenant *t = find_tenant(store, r->salt);
    if (!t && !(t = add_tenant(store, r->salt))) return;
    r->tenant = t;
    r->n_refs++;
    t->n_bytes += r->n_bytes;
    t->n_held++;
    t->n++;
    store->n++;
    lf_list_push_back(&t->responses, &r->in_tenant);
    lf_list_push_back(&store->by_age, &r->by_age);
}

void lf_response_put(struct lf_response_store *store, struct lf_response *r, const char *id, int64_t now_s)
{
    if (r->input.status != LF_OK || r->text.status != LF_OK) return;
    snprintf(r->id, sizeof r->id, "%s", id);
    r->n_bytes = sizeof *r + r->input.cap + r->text.cap;
    r->conversation_bytes = r->input.len + r->output_len + (r->previous ? r->previous->conversation_bytes : 0);
    r->expires_s = now_s + LF_RESPONSE_TTL_S;
    pthread_mutex_lock(&store->lock);
    expire(store, now_s);
    enter(store, r);
    pthread_mutex_unlock(&store->lock);
}

struct lf_response *lf_response_find(struct lf_response_store *store, const uint8_t *tenant, struct lf_str id,
                                     int64_t now_s)
{
    pthread_mutex_lock(&store->lock);
    expire(store, now_s);
    struct lf_response *r = find(store, tenant, id);
    if (r) {
        r->n_refs++;
        lf_list_remove(&r->in_tenant);
        lf_list_push_back(&r->tenant->responses, &r->in_tenant);
    }
    pthread_mutex_unlock(&store->lock);
    return r;
}

bool lf_response_remove(struct lf_response_store *store, const uint8_t *tenant, struct lf_str id, int64_t now_s)
{
    pthread_mutex_lock(&store->lock);
    expire(store, now_s);
    struct lf_response *r = find(store, tenant, id);
    if (r) remove_from_table(store, r);
    pthread_mutex_unlock(&store->lock);
    return r != NULL;
}

void lf_response_store_expire(struct lf_response_store *store, int64_t now_s)
{
    pthread_mutex_lock(&store->lock);
    expire(store, now_s);
    pthread_mutex_unlock(&store->lock);
}

void lf_response_unref(struct lf_response_store *store, struct lf_response *r)
{
    if (!r) return;
    pthread_mutex_lock(&store->lock);
    unref(store, r);
    pthread_mutex_unlock(&store->lock);
}

/* ---- one of them ---- */

struct lf_str lf_response_text(const struct lf_response *r)
{
    return lf_buf_view(&r->text);
}

struct lf_str lf_response_input(const struct lf_response *r)
{
    return lf_buf_view(&r->input);
}

struct lf_str lf_response_output(const struct lf_response *r)
{
    return lf_str_from(r->text.ptr + r->output_at, r->output_len);
}

const struct lf_response *lf_response_previous(const struct lf_response *r)
{
    return r->previous;
}

uint64_t lf_response_conversation_bytes(const struct lf_response *r)
{
    return r->conversation_bytes;
}
