/* What the OpenAI dialects print: one pair of printers, and in what a choice of theirs differs as data. */
#ifndef LF_SERVER_HTTP_API_OPENAI_JSON_H
#define LF_SERVER_HTTP_API_OPENAI_JSON_H

#include "server/http/api/generation.h"

/* Usage and times, added up over the choices. The prompt's times are those of the first choice; decoding lasts from the
 * first token to the last of any choice. */
struct lf_totals {
    int64_t n_prompt, n_cached, n_completion, n_reasoning, n_proposed, n_accepted;
    double queue_ms, prefill_ms, decode_ms;
    bool timed_out; /* a deadline ended it */
};
struct lf_totals lf_totals_of(const struct lf_generation *gen);

/* The members of `timings` and `prompt_progress`, for docs/api.md. */
struct lf_member_doc {
    const char *name, *help;
};
enum { LF_TIMINGS_N = 10, LF_PROGRESS_N = 5 };
extern const struct lf_member_doc lf_openai_timings[LF_TIMINGS_N], lf_openai_progress_members[LF_PROGRESS_N];

void lf_openai_write_timings(struct lf_buf *out, const struct lf_generation *gen, const struct lf_totals *totals);

/* In what the two endpoints differ: pieces of JSON, written as they stand. */
struct lf_openai_form {
    const char *id_prefix;
    const char *object, *chunk_object; /* of a whole answer, of a stream's chunks */
    const char *text[3];       /* around the text of a whole answer, which brings its quotes; the last one comes behind
                                  the other members of a message */
    const char *chunk_text[2]; /* around the text of a chunk, which brings its quotes */
    const char *chunk_first;   /* in the chunk before any text; NULL: there is none */
    const char *chunk_no_text;
};

/* What they print of a choice is in the dialect's form. */
extern const struct lf_printer lf_openai_stream, lf_openai_whole;

#endif
