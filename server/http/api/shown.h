/* A text that came with a request, as it may stand in a message to people: short, and all of it visible. */
#ifndef LF_SERVER_HTTP_API_SHOWN_H
#define LF_SERVER_HTTP_API_SHOWN_H

#include "core/limits.h"
#include "core/str.h"

/* A string of less than LF_SHOWN_BYTES. Bytes that are not UTF-8, control characters, and those that hide or turn the
 * text around them become question marks; what is too long ends with three dots. */
void lf_shown(char out[LF_SHOWN_BYTES], struct lf_str s);

#endif
