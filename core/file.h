/* Files read whole or in pieces, into memory that we own: never mmap, so a file that shrinks is an error, not SIGBUS.
 */
#ifndef LF_CORE_FILE_H
#define LF_CORE_FILE_H

#include <stdint.h>

#include "core/str.h"

/* Appends the whole file to out. LF_NOT_FOUND, LF_IO, LF_LIMIT past max_bytes (or out's ceiling), LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_file_read(struct lf_buf *out, const char *path, size_t max_bytes, struct lf_err *err);

/* The same of dir/name; LF_LIMIT too where that path is too long. */
LF_MUST_CHECK enum lf_status lf_file_read_in(struct lf_buf *out, const char *dir, const char *name, size_t max_bytes,
                                             struct lf_err *err);

/* Reads exactly n bytes at offset of fd; resumes after EINTR and short reads. LF_CORRUPT where the file ends before
 * (it shrank), LF_IO otherwise. path only names the file in messages. */
LF_MUST_CHECK enum lf_status lf_file_pread(int fd, void *dst, size_t n, uint64_t offset, const char *path,
                                           struct lf_err *err);
/* Opens a regular file for reading and gives its size. The caller closes *fd. */
LF_MUST_CHECK enum lf_status lf_file_open(int *fd, uint64_t *size, const char *path, struct lf_err *err);
/* "dir/name" into out (terminated); LF_LIMIT where it does not fit. */
LF_MUST_CHECK enum lf_status lf_path_join(char *out, size_t out_bytes, const char *dir, const char *name);

#endif
