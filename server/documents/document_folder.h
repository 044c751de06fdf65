/* The folder that documents outlive the process in (document_file.h has the format): one file written, removed, all of
 * them read. Whoever calls holds the lock of the directory that it lies in, or only reads.
 *
 * write and remove: any thread; each file has one writer at a time. */
#ifndef LF_SERVER_DOCUMENTS_DOCUMENT_FOLDER_H
#define LF_SERVER_DOCUMENTS_DOCUMENT_FOLDER_H

#include "server/documents/document_file.h"

/* dir is the directory that has, or will have, the folder in it: a folder is made with its first file. On disk when
 * this returns LF_OK: instead of what was there under that number. Else what was there is as it was, or it is written
 * where only the directory could not be synced. LF_FULL where the disk is, LF_IO. */
LF_MUST_CHECK enum lf_status lf_document_folder_write(const char *dir, uint64_t number,
                                                      const struct lf_document_file *file, struct lf_err *err);
/* It is gone from the disk when this returns LF_OK; one that is not there is. LF_IO. */
LF_MUST_CHECK enum lf_status lf_document_folder_remove(const char *dir, uint64_t number, struct lf_err *err);

/* One file. status LF_OK: file is what it says. LF_CORRUPT, LF_UNSUPPORTED: as lf_document_file_read has them;
 * LF_NO_MEMORY; LF_IO: it cannot be read. false ends the walk. */
typedef bool lf_document_folder_fn(void *ctx, uint64_t number, enum lf_status status,
                                   const struct lf_document_file *file);

/* Calls fn for each document in the order of their numbers; what was being written when a process ended is removed, if
 * clears. Files are read into that memory (NULL: the heap), one at a time. Nothing where there is no folder. LF_IO,
 * LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_document_folder_walk(const char *dir, bool clears, struct lf_text_memory *memory,
                                                     lf_document_folder_fn *fn, void *ctx, struct lf_err *err);

#endif
