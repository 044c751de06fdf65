/* The lock of a store's directory: flock on the file `lock` in it, which goes with the process. Its owner writes its
 * process number into the file, if it can, for the message to the next one. */
#ifndef LF_KV_TIERS_DISK_LOCK_H
#define LF_KV_TIERS_DISK_LOCK_H

#include "core/status.h"

/* For who writes. The caller closes *fd, and with it gives the lock back; it is set on success only. LF_INVALID where
 * another process has the lock; LF_IO. */
LF_MUST_CHECK enum lf_status lf_disk_lock(int *fd, const char *dir, struct lf_err *err);
/* For who only reads, beside others that do: writes nothing. *fd is -1 where nobody has ever locked the directory. */
LF_MUST_CHECK enum lf_status lf_disk_lock_to_read(int *fd, const char *dir, struct lf_err *err);

#endif
