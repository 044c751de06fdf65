/* What came with a request, as it may stand in a message to people: short, and all of it visible. */
#ifndef LF_SERVER_HTTP_API_SHOWN_H
#define LF_SERVER_HTTP_API_SHOWN_H

#include "core/json.h"
#include "core/limits.h"
#include "core/str.h"

/* A string of less than LF_SHOWN_BYTES. Bytes that are not UTF-8, control characters, and those that hide or turn the
 * text around them become question marks; what is too long ends with three dots. */
void lf_shown(char out[LF_SHOWN_BYTES], struct lf_str s);
/* Letters, digits, ".", "_" and "-", 1 to max of them: what a client may call its request. */
bool lf_is_plain_id(struct lf_str s, size_t max);
/* A value behind "got": 1.5, true, null, the string "a\n" as it was written, an array of 3, an object, nothing. */
struct lf_shown_value {
    char text[LF_SHOWN_BYTES + 16];
};
struct lf_shown_value lf_shown_json(struct lf_json_value v);

#endif
