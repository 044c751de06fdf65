/* Stop strings: finds the first of up to four strings in a text that arrives in pieces, and holds back what may still
 * become one. Text before a stop is given out, the stop and all behind it never is. One owner, no locking. */
#ifndef LF_TOKENIZER_STOP_H
#define LF_TOKENIZER_STOP_H

#include "core/limits.h"
#include "core/str.h"

struct lf_stop {
    struct lf_str stops[LF_STOP_N]; /* borrowed, each 1..LF_STOP_BYTES bytes */
    int n_stops;
    char held[LF_STOP_BYTES]; /* a suffix of the text that is a prefix of some stop */
    size_t n_held;
    int matched; /* index of the stop that was found, -1 before */
};

void lf_stop_init(struct lf_stop *stop, const struct lf_str *stops, int n_stops);
/* Takes text, appends what is safe to show to out. Returns whether a stop has been found (then and later nothing more
 * is given out). */
bool lf_stop_push(struct lf_stop *stop, struct lf_str text, struct lf_buf *out);
/* The end without a stop: what was held back is text after all. */
void lf_stop_flush(struct lf_stop *stop, struct lf_buf *out);

#endif
