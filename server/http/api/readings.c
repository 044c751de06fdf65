#include "server/http/api/readings.h"

#include "core/clock.h"
#include "core/log.h"
#include "core/text_memory.h"
#include "server/documents/documents.h"
#include "server/engine/request.h"

struct reading {
    struct lf_list node;
    struct lf_document *document; /* a reference, as the next */
    struct lf_request *request;
    bool reads, has_ended;
    int64_t pinning; /* -1: it pins nothing, or not any more */
};

void lf_readings_init(struct lf_readings *readings, struct lf_documents *documents, struct lf_text_memory *memory)
{
    readings->documents = documents;
    readings->memory = memory;
    pthread_mutex_init(&readings->lock, NULL);
    lf_list_init(&readings->list);
}

static void drop(struct lf_readings *readings, struct reading *r)
{
    lf_list_remove(&r->node);
    lf_request_put(r->request);
    lf_document_unref(readings->documents, r->document);
    lf_text_free(readings->memory, r);
}

void lf_readings_deinit(struct lf_readings *readings)
{
    if (!readings->documents) return;
    LF_LIST_EACH_SAFE(it, &readings->list) drop(readings, LF_LIST_ENTRY(it, struct reading, node));
    pthread_mutex_destroy(&readings->lock);
    readings->documents = NULL;
}

enum lf_status lf_readings_add(struct lf_readings *readings, struct lf_document *document, struct lf_request *request,
                               enum lf_reading_way way, int64_t pinning)
{
    struct reading *r = lf_text_alloc(readings->memory, sizeof *r);
    if (!r) return LF_NO_MEMORY;
    *r = (struct reading){
        .document = document, .request = request, .reads = way == LF_READING_READS, .pinning = pinning};
    pthread_mutex_lock(&readings->lock);
    lf_list_push_back(&readings->list, &r->node);
    pthread_mutex_unlock(&readings->lock);
    return LF_OK;
}

/* NULL: all of it was read. */
static const char *why_it_failed(const struct lf_request_state *st)
{
    if (st->finish == LF_FINISH_LENGTH || st->finish == LF_FINISH_STOP) return NULL;
    if (st->status == LF_CORRUPT) return LF_BROKEN_LOGITS;
    return st->status == LF_DEVICE ? "The engine has failed." : "The server is shutting down.";
}

/* What could not be brought there is pinned no more; its file says so still, so the next process tries again. */
static void give_up(const struct lf_readings *readings, struct reading *r, const char *why)
{
    LF_WARN("a document is not pinned any more: %s", why);
    (void)lf_document_pin(readings->documents, r->document, LF_PIN_NONE, &r->pinning);
    r->pinning = -1;
}

/* Whether it is over. */
static bool look(const struct lf_readings *readings, struct reading *r)
{
    struct lf_request_state st;
    if (lf_document_is_gone(r->document)) return true;
    bool is_current = r->pinning >= 0 && lf_document_pinning(readings->documents, r->document) == r->pinning;
    if (!is_current) r->pinning = -1;
    if (r->has_ended || !r->reads) {
        if (r->pinning < 0) return true;
        if (r->has_ended) return false;
    }
    lf_request_snapshot(r->request, &st);
    if (st.finish == LF_FINISH_NONE) {
        if (r->reads) lf_document_read(readings->documents, r->document, st.n_processed, st.eta_ns / LF_NS_PER_MS);
        return false;
    }
    const char *why = why_it_failed(&st);
    r->has_ended = true;
    if (r->reads) lf_document_end(readings->documents, r->document, why);
    if (why && r->pinning >= 0) give_up(readings, r, why);
    return r->pinning < 0;
}

/* The list changes hands in between: others only add to it. */
static void swap(struct lf_readings *readings, struct lf_list *own)
{
    pthread_mutex_lock(&readings->lock);
    while (!lf_list_empty(&readings->list)) {
        struct lf_list *node = readings->list.next;
        lf_list_remove(node);
        lf_list_push_back(own, node);
    }
    pthread_mutex_unlock(&readings->lock);
}

static void give_back(struct lf_readings *readings, struct lf_list *own)
{
    pthread_mutex_lock(&readings->lock);
    while (!lf_list_empty(own)) {
        struct lf_list *node = own->prev;
        lf_list_remove(node);
        lf_list_push_front(&readings->list, node);
    }
    pthread_mutex_unlock(&readings->lock);
}

void lf_readings_tick(struct lf_readings *readings)
{
    struct lf_list own;
    lf_list_init(&own);
    swap(readings, &own);
    LF_LIST_EACH_SAFE(it, &own)
    {
        struct reading *r = LF_LIST_ENTRY(it, struct reading, node);
        if (look(readings, r)) drop(readings, r);
    }
    give_back(readings, &own);
}
