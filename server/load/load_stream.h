/* The streams of the dialects, read line by line, as strictly as they are written: a line that does not belong, a
 * member that is missing, an error in the middle or an end that does not come is a failure, for a client of that
 * dialect would stumble over it too. Plain data, no thread. */
#ifndef LF_SERVER_LOAD_LOAD_STREAM_H
#define LF_SERVER_LOAD_LOAD_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/str.h"

/* The first four as --dialect has them, in this order; the last is how far the reading of a document is. */
enum lf_load_dialect { LF_LOAD_COMPLETIONS, LF_LOAD_CHAT, LF_LOAD_RESPONSES, LF_LOAD_MESSAGES, LF_LOAD_DOCUMENT };

enum { LF_LOAD_WRONG_BYTES = 200, LF_LOAD_EVENT_BYTES = 64 };

struct lf_load_stream {
    enum lf_load_dialect dialect;
    bool began, finished, counted, ended; /* first event; why it ended; usage; the last event */
    bool cut;                             /* it ended by its length */
    char event[LF_LOAD_EVENT_BYTES];      /* name of the event whose data comes next, "": none was said */
    int64_t n_events;                     /* of those that are numbered */
    int64_t n_tokens, n_prompt, n_cached; /* of the usage, as the server counts */
    struct lf_buf *text;                  /* borrowed: where the answer's text is gathered; NULL: it is not wanted */
    char wrong[LF_LOAD_WRONG_BYTES];      /* "" as long as nothing is */
};

void lf_load_stream_init(struct lf_load_stream *s, enum lf_load_dialect dialect, struct lf_buf *text);
/* A line without its end. True: it brought a part of the answer. */
bool lf_load_stream_line(struct lf_load_stream *s, struct lf_str line);
/* The body is over: what is wrong with the stream, NULL: nothing. */
const char *lf_load_stream_end(struct lf_load_stream *s);

#endif
