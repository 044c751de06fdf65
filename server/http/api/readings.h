/* Readings: documents on their way into the cache. Each is a request in the engine that generates nothing, of the
 * lowest priority its tenant can give; nobody waits for it but the watch thread, which looks at all of them at each
 * tick, tells the documents how far they are, and lets go of those that have ended or whose document is gone.
 *
 * A lock of its own, for the list alone: it is held while neither the engine nor the table of documents is asked. */
#ifndef LF_SERVER_HTTP_API_READINGS_H
#define LF_SERVER_HTTP_API_READINGS_H

#include <pthread.h>

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
/* Any thread. Takes a reference of each over; LF_NO_MEMORY: they stay the caller's. */
LF_MUST_CHECK enum lf_status lf_readings_add(struct lf_readings *readings, struct lf_document *document,
                                             struct lf_request *request);
/* The watch thread. */
void lf_readings_tick(struct lf_readings *readings);

#endif
