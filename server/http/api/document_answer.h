/* The answer to who waits for a document: its state as server-sent events, until it is ready. */
#ifndef LF_SERVER_HTTP_API_DOCUMENT_ANSWER_H
#define LF_SERVER_HTTP_API_DOCUMENT_ANSWER_H

#include "core/status.h"
#include "server/http/conn/answer.h"

struct lf_document;
struct lf_documents;
struct lf_text_memory;

/* Takes the reference over; LF_NO_MEMORY: it stays the caller's. The rest is borrowed. */
LF_MUST_CHECK enum lf_status lf_document_answer_create(struct lf_answer **out, struct lf_documents *docs,
                                                       struct lf_document *document, struct lf_text_memory *memory);

#endif
