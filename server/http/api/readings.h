/* Readings: documents on their way into the cache. Each is a request in the engine that generates nothing, of the
 * lowest priority its tenant can give; nobody waits for it but the watch thread, which looks at all of them at each
 * tick, tells the documents how far they are, and lets go of those that have ended or whose document is gone. A request
 * that holds what is pinned stays until its document is pinned elsewhere, unpinned or gone.
 *
 * A lock of its own, for the list alone: it is held while neither the engine nor the table of documents is asked. */
#ifndef LF_SERVER_HTTP_API_READINGS_H
#define LF_SERVER_HTTP_API_READINGS_H

#include <pthread.h>
#include <stdint.h>

#include "core/list.h"
#include "core/status.h"

struct lf_document;
struct lf_documents;
struct lf_request;
struct lf_text_memory;

struct lf_readings {
    struct lf_documents *documents; /* borrowed; so is the memory */
    struct lf_text_memory *memory;
    pthread_mutex_t lock;
    struct lf_list list;
};

void lf_readings_init(struct lf_readings *readings, struct lf_documents *documents, struct lf_text_memory *memory);
/* Ends all of them; accepts a zeroed one. Nobody ticks any more. */
void lf_readings_deinit(struct lf_readings *readings);
/* What a request does for its document: it says how far it has been read, or only holds what is pinned. */
enum lf_reading_way { LF_READING_READS, LF_READING_PINS };
/* Any thread. Takes a reference of each over; LF_NO_MEMORY: they stay the caller's. pinning: of lf_document_pinning,
 * for as long as which the request holds what it pins; -1: it pins nothing. */
LF_MUST_CHECK enum lf_status lf_readings_add(struct lf_readings *readings, struct lf_document *document,
                                             struct lf_request *request, enum lf_reading_way way, int64_t pinning);
/* The watch thread. */
void lf_readings_tick(struct lf_readings *readings);

#endif
