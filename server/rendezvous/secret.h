/* The secret of a group, from its file. Any thread. */
#ifndef LF_SERVER_RENDEZVOUS_SECRET_H
#define LF_SERVER_RENDEZVOUS_SECRET_H

#include "server/rendezvous/rendezvous.h"

/* All bytes of the file but one newline at its end. LF_NOT_FOUND, LF_IO; LF_INVALID where it is no regular file, where
 * its mode lets its group or others read it, or where LF_SECRET_MIN_BYTES to LF_SECRET_MAX_BYTES are not in it. */
LF_MUST_CHECK enum lf_status lf_rendezvous_read_secret(uint8_t out[LF_SECRET_MAX_BYTES], size_t *n, const char *path,
                                                       struct lf_err *err);

#endif
