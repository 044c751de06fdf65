/* What is said of a document: as JSON, and as the refusal of one that is not there. */
#ifndef LF_SERVER_HTTP_API_DOCUMENT_JSON_H
#define LF_SERVER_HTTP_API_DOCUMENT_JSON_H

#include "server/documents/documents.h"
#include "server/http/conn/reply.h"

struct lf_document_places;

void lf_document_write(struct lf_buf *out, const struct lf_document_view *view);
/* Also where its tokens are; NULL: that is not known. */
void lf_document_write_placed(struct lf_buf *out, const struct lf_document_view *view,
                              const struct lf_document_places *places);
/* Its file could not be written: nothing of what was asked for has been done. */
LF_MUST_CHECK enum lf_status lf_document_refuse_disk(enum lf_status status, const struct lf_err *why,
                                                     struct lf_api_err *err);
/* 404 document_not_found, with the name that was asked for. */
LF_MUST_CHECK enum lf_status lf_refuse_document(struct lf_api_err *err, const char *param, struct lf_str name);

#endif
