/* Documents that a server has kept (server/documents/document_file.h), for the command `documents`. */
#ifndef LF_SERVER_KEPT_DOCUMENTS_H
#define LF_SERVER_KEPT_DOCUMENTS_H

#include <stdbool.h>

#include "core/hash.h"
#include "core/str.h"

/* What names a document among the arguments of rm: documents/NAME; NULL: it names something else. */
const char *lf_kept_document_name(const char *arg);

struct lf_kept_documents {
    int n, n_broken; /* files; of these, those that are not what was written, or cannot be read */
};

/* Appends a line, or JSON objects that begin with a comma but for the first of all, for each. */
LF_MUST_CHECK enum lf_status lf_kept_documents_print(struct lf_buf *out, const char *dir, bool json, bool is_first,
                                                     struct lf_kept_documents *found, struct lf_err *err);
/* Of that name, of whichever keys, NULL: all of them; removes and says so, or only counts. The caller holds the lock of
 * dir. */
LF_MUST_CHECK enum lf_status lf_kept_documents_remove(const char *dir, const char *name, bool counts_only, int *n,
                                                      struct lf_err *err);

/* One of them, for the command `run`. */
struct lf_kept_document {
    struct lf_buf text, system;
    int64_t created_s;
    uint8_t tenant[LF_SHA256_BYTES]; /* whose, which its blocks are found by */
};
/* LF_NOT_FOUND: there is none of that name whose time is not over; LF_INVALID: several keys have one; LF_IO,
 * LF_NO_MEMORY. To be deinitialized whatever comes back. */
LF_MUST_CHECK enum lf_status lf_kept_document_read(struct lf_kept_document *out, const char *dir, const char *name,
                                                   int64_t now_s, struct lf_err *err);
void lf_kept_document_deinit(struct lf_kept_document *doc); /* accepts a zeroed one */

#endif
