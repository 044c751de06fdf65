/* What the last process measured, beside the blocks that it kept: so that the first prompt after a start is restored or
 * computed, whichever is faster, though nothing has been measured yet.
 *
 *     DIR/<64 hexadecimal digits>/speed     one line: "LFspeed1", the times in ns, each as C's %.17g (0: not
 *                                           known), and the first 16
 *                                           digits of SHA-256 over what stands before the last space
 *
 * It is written beside itself and renamed, so it is whole or not there; it is not synced, because all that its loss
 * costs is a guess. Whoever writes holds the lock of DIR. identity: the digits. */
#ifndef LF_KV_TIERS_DISK_SPEED_H
#define LF_KV_TIERS_DISK_SPEED_H

#include <stdbool.h>

#include "core/status.h"

enum { LF_DISK_SPEED_N = 16 }; /* times, at most */

/* false: there are none, or not so many, or one of them is no time; nothing is written to ns. */
bool lf_disk_speed_read(double *ns, int n, const char *dir, const char *identity);
/* LF_IO. */
LF_MUST_CHECK enum lf_status lf_disk_speed_write(const double *ns, int n, const char *dir, const char *identity,
                                                 struct lf_err *err);

#endif
