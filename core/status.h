/* Statuses: how every fallible function answers.
 *
 * A function that can fail returns enum lf_status and must be checked; its outputs come first and are written only on
 * success; where a person will read the reason it takes `struct lf_err *err` last (may be NULL) and fills it with what
 * was expected and what came. A broken invariant is LF_ASSERT (check.h), never a status. */
#ifndef LF_CORE_STATUS_H
#define LF_CORE_STATUS_H

#include <stdarg.h>

#include "core/limits.h"

#define LF_MUST_CHECK                __attribute__((warn_unused_result))
#define LF_PRINTF(fmt_idx, args_idx) __attribute__((format(printf, fmt_idx, args_idx)))

enum lf_status {
    LF_OK = 0,
    LF_INVALID,     /* the caller's input is wrong: HTTP 400, exit 2 */
    LF_UNSUPPORTED, /* understood, and not implemented: named in the message */
    LF_NOT_FOUND,   /* no such file, model, key */
    LF_LIMIT,       /* a bound of limits.h or of the configuration is passed */
    LF_CORRUPT,     /* a file's content contradicts itself or its format */
    LF_NO_MEMORY,   /* host or device memory is not there */
    LF_IO,          /* the operating system refused a read, a write, a socket */
    LF_FULL,        /* a queue is full: try again later */
    LF_CANCELLED,   /* the client went away or asked to stop */
    LF_TIMEOUT,     /* a deadline passed */
    LF_DEVICE,      /* the device failed; sticky */
    LF_SHUTDOWN,    /* the server is draining */
    LF_QUOTA        /* a limit of this client's own is reached: try again later */
};

/* A status with its reason. Plain data: copy freely. */
struct lf_err {
    enum lf_status status;
    char message[LF_ERR_MESSAGE_BYTES];
};

/* Fills err (if not NULL) and returns status, so that failing is one line: return lf_fail(err, LF_IO, "…", …). */
enum lf_status lf_fail(struct lf_err *err, enum lf_status status, const char *fmt, ...) LF_PRINTF(3, 4);

/* Puts "what: " before the message already in err; for a caller that knows the file or the tensor. Returns the status.
 */
enum lf_status lf_fail_within(struct lf_err *err, enum lf_status status, const char *fmt, ...) LF_PRINTF(3, 4);

/* The status as a word for logs: "ok", "invalid", … Never NULL. */
const char *lf_status_name(enum lf_status status);

#endif
