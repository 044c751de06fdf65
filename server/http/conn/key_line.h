/* A line of the file of keys: a key, and behind it what whoever has it may do at most.
 *
 *     sk-0d1f                                              as everybody
 *     sk-77ab name=finance in-flight=4 tokens-per-minute=200K priority=0
 *
 * Words are parted by spaces or tabs, K and M are 1,024 and 1,048,576, and what is not said is as for everybody. */
#ifndef LF_SERVER_HTTP_CONN_KEY_LINE_H
#define LF_SERVER_HTTP_CONN_KEY_LINE_H

#include "core/status.h"
#include "core/str.h"
#include "server/engine/request.h"

enum { LF_API_KEY_BYTES = 512, LF_KEY_LIMITS_BYTES = 256, LF_KEY_NAME_BYTES = 64 };

enum { LF_PRIORITY_FIRST = -8, LF_PRIORITY_LAST = 8 };

/* 0: as for everybody. */
struct lf_key_limits {
    struct lf_tenant_limits requests;
    int documents;           /* with names */
    int64_t document_tokens; /* of all of them */
    int held_back;           /* no request's priority is before LF_PRIORITY_FIRST + this */
};

/* A line's words. */
struct lf_key_line {
    struct lf_str key,
        name; /* in the line; name: in metrics, of letters, digits, dots, underscores and dashes; empty: none */
    struct lf_key_limits limits;
};

/* Printable ASCII without spaces, of at most LF_API_KEY_BYTES. */
bool lf_is_key(struct lf_str s);
/* line is trimmed and not empty. LF_INVALID, with a message that has no word of the line, for it may be a key. */
LF_MUST_CHECK enum lf_status lf_key_line_read(struct lf_key_line *out, struct lf_str line, struct lf_err *err);

#endif
