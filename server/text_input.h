/* Text from a file or from standard input. */
#ifndef LF_SERVER_TEXT_INPUT_H
#define LF_SERVER_TEXT_INPUT_H

#include "core/str.h"

/* Appends all of the file at path, or of standard input for "-". LF_LIMIT past max_bytes. */
LF_MUST_CHECK enum lf_status lf_text_read(struct lf_buf *out, const char *path, size_t max_bytes, struct lf_err *err);

#endif
