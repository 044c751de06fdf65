#include "core/status.h"

#include <stdio.h>
#include <string.h>

#include "core/check.h"

enum lf_status lf_fail(struct lf_err *err, enum lf_status status, const char *fmt, ...)
{
    if (err) {
        va_list args;
        va_start(args, fmt);
        vsnprintf(err->message, sizeof err->message, fmt, args);
        va_end(args);
        err->status = status;
    }
    return status;
}

enum lf_status lf_fail_within(struct lf_err *err, enum lf_status status, const char *fmt, ...)
{
    if (err) {
        char inner[LF_ERR_MESSAGE_BYTES];
        memcpy(inner, err->message, sizeof inner);
        va_list args;
        va_start(args, fmt);
        int n = vsnprintf(err->message, sizeof err->message, fmt, args);
        va_end(args);
        size_t at = n < 0 ? 0 : LF_MIN((size_t)n, sizeof err->message - 3);
        size_t room = sizeof err->message - 3 - at; /* ": " and the terminator */
        size_t len = LF_MIN(strlen(inner), room);
        memcpy(err->message + at, ": ", 2);
        memcpy(err->message + at + 2, inner, len);
        err->message[at + 2 + len] = 0;
        err->status = status;
    }
    return status;
}

const char *lf_status_name(enum lf_status status)
{
    static const char *const names[] = {
        [LF_OK] = "ok",
        [LF_INVALID] = "invalid",
        [LF_UNSUPPORTED] = "unsupported",
        [LF_NOT_FOUND] = "not found",
        [LF_LIMIT] = "limit",
        [LF_CORRUPT] = "corrupt",
        [LF_NO_MEMORY] = "no memory",
        [LF_IO] = "io",
        [LF_FULL] = "full",
        [LF_CANCELLED] = "cancelled",
        [LF_TIMEOUT] = "timeout",
        [LF_DEVICE] = "device",
        [LF_SHUTDOWN] = "shutdown",
        [LF_QUOTA] = "quota",
    };
    size_t i = (size_t)status;
    return i < sizeof names / sizeof names[0] ? names[i] : "unknown";
}
