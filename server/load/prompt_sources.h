/* Where the KV of a server's prompt tokens came from, as its /metrics page counts them: computed, found in memory, read
 * back from disk. Plain data. */
#ifndef LF_SERVER_LOAD_PROMPT_SOURCES_H
#define LF_SERVER_LOAD_PROMPT_SOURCES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/str.h"

struct lf_prompt_sources {
    int64_t n_computed, n_memory, n_disk; /* tokens, since the server began */
};

/* From a page in Prometheus' text. False where it does not have the counters. */
bool lf_prompt_sources_read(struct lf_prompt_sources *out, struct lf_str page);
/* What was counted from one page to the next. */
struct lf_prompt_sources lf_prompt_sources_between(const struct lf_prompt_sources *from,
                                                   const struct lf_prompt_sources *to);

#endif
