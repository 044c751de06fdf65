/* What the OpenAI dialects print alike: errors, the beginning of an object, usage, timings, the marks of a stream. */
#ifndef LF_SERVER_HTTP_API_OPENAI_JSON_H
#define LF_SERVER_HTTP_API_OPENAI_JSON_H

#include "server/http/api/generation.h"

/* Usage and times, added up over the choices. The prompt's times are those of the first choice; decoding lasts from the
 * first token to the last of any choice. */
struct lf_totals {
    int64_t n_prompt, n_cached, n_completion;
    double queue_ms, prefill_ms, decode_ms;
    bool timed_out; /* a deadline ended it */
};
struct lf_totals lf_totals_of(const struct lf_generation *gen);

/* The members of `timings` and `prompt_progress`, for docs/api.md. */
struct lf_member_doc {
    const char *name, *help;
};
enum { LF_TIMINGS_N = 8, LF_PROGRESS_N = 5 };
extern const struct lf_member_doc lf_openai_timings[LF_TIMINGS_N], lf_openai_progress_members[LF_PROGRESS_N];

/* Writes what every object of the answer begins with into gen->head: `{"id":…,"object":…,"created":…,"model":…,` */
void lf_openai_prepare(struct lf_generation *gen, const char *id_prefix, const char *object);
void lf_openai_write_usage(struct lf_buf *out, const struct lf_totals *totals);
void lf_openai_write_timings(struct lf_buf *out, const struct lf_generation *gen, const struct lf_totals *totals);
/* ,"logprobs":… of what has been gathered for a choice, or null. */
void lf_openai_write_logprobs(struct lf_buf *out, const struct lf_generation *gen, int idx);

/* The head, and the beginning of `choices`. */
void lf_openai_begin_object(struct lf_buf *out, const struct lf_generation *gen);
/* A chunk of a stream: its beginning up to the elements of `choices`, and its end behind them. */
void lf_openai_begin_chunk(struct lf_buf *out, const struct lf_generation *gen);
void lf_openai_end_chunk(struct lf_buf *out, const struct lf_generation *gen);

/* The end of a chunk with a finish_reason: the last one carries the timings where no chunk with the usage follows. */
void lf_openai_end_finish_chunk(struct lf_buf *out, const struct lf_generation *gen);

/* Whole functions of a printer. The ends: what follows the choices. */
void lf_openai_text(struct lf_buf *out, const struct lf_generation *gen, int idx, struct lf_str piece);
void lf_openai_finish_whole(struct lf_buf *out, const struct lf_generation *gen, int idx);
void lf_openai_end_whole(struct lf_buf *out, const struct lf_generation *gen);
void lf_openai_end_stream(struct lf_buf *out, const struct lf_generation *gen);
void lf_openai_error(struct lf_buf *out, const struct lf_api_err *err);
void lf_openai_error_event(struct lf_buf *out, const struct lf_api_err *err);
void lf_openai_progress(struct lf_buf *out, const struct lf_generation *gen, const struct lf_request_state *state);

#endif
