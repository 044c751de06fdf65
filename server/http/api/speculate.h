/* The field `speculate`: how many tokens a step may try beside the next one (server/engine/speculation.h). */
#ifndef LF_SERVER_HTTP_API_SPECULATE_H
#define LF_SERVER_HTTP_API_SPECULATE_H

#include "server/http/api/ask.h"

/* For a row of any table: into ask->speculate; what it takes, and what it does, for docs/api.md. */
lf_read_fn lf_speculate_read;
extern const char lf_speculate_type[], lf_speculate_help[];

#endif
