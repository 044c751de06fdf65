/* Answers of the OpenAI API as JSON: whole ones, and the chunks of a stream. Pure functions of a generation. */
#ifndef LF_SERVER_HTTP_OPENAI_JSON_H
#define LF_SERVER_HTTP_OPENAI_JSON_H

#include "server/http/generation.h"

/* Writes what all chunks of the answer begin with into gen->head. */
void lf_openai_head(struct lf_generation *gen, const char *id, const char *model);
/* The answer without a stream. */
void lf_openai_write_answer(struct lf_buf *out, const struct lf_generation *gen);

/* One chunk, one line without its end. idx: the choice. */
void lf_openai_write_role(struct lf_buf *out, const struct lf_generation *gen, int idx); /* chat's first */
/* text: a piece of it, with the log-probabilities gathered so far. */
void lf_openai_write_text(struct lf_buf *out, const struct lf_generation *gen, int idx, struct lf_str text);
/* last: no other chunk follows, so the timings are in this one. */
void lf_openai_write_finish(struct lf_buf *out, const struct lf_generation *gen, int idx, bool last);
void lf_openai_write_usage(struct lf_buf *out, const struct lf_generation *gen);
void lf_openai_write_progress(struct lf_buf *out, const struct lf_generation *gen,
                              const struct lf_request_state *state);
/* A chunk that says nothing: --keep-alive chunk. */
void lf_openai_write_nothing(struct lf_buf *out, const struct lf_generation *gen);

#endif
