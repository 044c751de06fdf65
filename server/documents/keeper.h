/* Documents over restarts: each in a file of its own before its name is taken, so that what was said to be there is
 * there again, whatever ends the process.
 *
 *     put      file written ──► name taken ──► file of the one before removed
 *     renew    file written anew ──► new end of life
 *     pin      file written anew ──► new place of its tokens
 *     remove   name free ──► file removed
 *     load     file ──► name taken; a broken file is removed, one that finds no room is left where it is
 *
 * A file has a number, and its document has it for good, so a writer needs no lock against others: only renewing,
 * pinning and removing one document are kept apart, and puts of one name: a file that is written has the name for the
 * next process, so it is not written where the name cannot be had. The table's lock is not held while the disk is
 * waited for.
 *
 * Without a directory nothing is kept, and all of this is the table's own business.
 *
 * load before all else; then any thread that may wait for a disk: a worker, not the engine's thread. */
#ifndef LF_SERVER_DOCUMENTS_KEEPER_H
#define LF_SERVER_DOCUMENTS_KEEPER_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/metrics.h"
#include "server/documents/documents.h"

enum { LF_KEEPER_PUTS_N = 16 };

struct lf_keeper {
    struct lf_documents *docs;              /* borrowed, as is dir */
    const char *dir;                        /* NULL: nothing is kept */
    _Atomic uint64_t last;                  /* number of a file */
    struct lf_counter broken;               /* files that were not what was written */
    pthread_mutex_t lock;                   /* one renews, pins or removes; taken before the table's */
    pthread_mutex_t puts[LF_KEEPER_PUTS_N]; /* by tenant and name, one puts; taken before all others */
};

/* dir: that of the store of blocks, whose lock the caller has when it loads. */
void lf_keeper_init(struct lf_keeper *keeper, struct lf_documents *docs, const char *dir);
void lf_keeper_deinit(struct lf_keeper *keeper);

/* Enters what the folder holds: documents that are being read, until somebody says how that goes. Those whose time is
 * over are removed. Files are read into that memory, one at a time. LF_IO, LF_NO_MEMORY where there is no telling what
 * the folder holds. */
LF_MUST_CHECK enum lf_status lf_keeper_load(struct lf_keeper *keeper, struct lf_text_memory *memory, int64_t now_s,
                                            struct lf_err *err);
/* As lf_documents_put. LF_FULL where the disk is, LF_IO: it is not put, and *verdict is not written. */
LF_MUST_CHECK enum lf_status lf_keeper_put(struct lf_keeper *keeper, struct lf_document_put *put,
                                           enum lf_document_verdict *verdict, struct lf_document **out,
                                           struct lf_err *err);
/* It ends at another time. LF_FULL, LF_IO: it ends when it did. LF_NOT_FOUND: it has no name any more. */
LF_MUST_CHECK enum lf_status lf_keeper_renew(struct lf_keeper *keeper, struct lf_document *doc, int64_t expires_s,
                                             struct lf_err *err);
/* Its tokens stay elsewhere: lf_document_pin. Failures as above. */
LF_MUST_CHECK enum lf_status lf_keeper_pin(struct lf_keeper *keeper, struct lf_document *doc, enum lf_pin pin,
                                           int64_t *pinning, struct lf_err *err);
/* As lf_documents_remove. A file that cannot be removed is said in the log, and its document is there again after the
 * next start. */
bool lf_keeper_remove(struct lf_keeper *keeper, const struct lf_document_key *key, struct lf_str if_match,
                      enum lf_document_verdict *verdict);
/* Lets go of those whose time is over, and of their files. */
void lf_keeper_expire(struct lf_keeper *keeper, int64_t now_s);

#endif
