/* Dialects: the APIs in which one and the same thing is asked for, and answered.
 *
 * Inside there is one request (struct lf_ask) and one generation. A dialect parses its own body into that request, and
 * prints what comes of it in its own form: as a stream of events, and as one text. Nothing else asks which endpoint it
 * is; what else differs stands here as data. A new dialect is a file with one of these and a row in routes.c.
 *
 * Printing. Both printers are called in the same order, and append to `out` whole events (a stream) or pieces of one
 * JSON text (whole):
 *
 *     begin  { open  delta …  [turn  delta …]  shut  finish }  behind  end     a whole answer, choice after choice
 *     begin  { delta … finish } interleaved   end                      a stream; progress and nothing in between
 *
 * A delta is a piece of one part of the answer (parts.h). A form in which parts stand apart that come mixed is written
 * in several passes over the answer's tokens, as many as n_passes says; the choice's `pass` tells which one it is.
 *
 * What does not fit leaves out->status set. */
#ifndef LF_SERVER_HTTP_API_DIALECT_H
#define LF_SERVER_HTTP_API_DIALECT_H

#include "server/http/api/ask.h"
#include "server/http/api/token_text.h"

struct lf_generation;
struct lf_part;
struct lf_request_state;

struct lf_printer {
    void (*begin)(struct lf_buf *out, struct lf_generation *gen);
    int (*n_passes)(const struct lf_generation *gen, int idx);                  /* whole; NULL: one */
    void (*open)(struct lf_buf *out, const struct lf_generation *gen, int idx); /* whole: before a choice's text */
    void (*delta)(struct lf_buf *out, const struct lf_generation *gen, int idx, const struct lf_part *part);
    void (*turn)(struct lf_buf *out, const struct lf_generation *gen, int idx); /* whole: between two passes */
    void (*shut)(struct lf_buf *out, const struct lf_generation *gen, int idx); /* whole: behind it; log-probabilities
                                                                                   follow, if asked for */
    void (*finish)(struct lf_buf *out, const struct lf_generation *gen, int idx);
    void (*behind)(struct lf_buf *out,
                   const struct lf_generation *gen);                  /* whole: the choices end; NULL: nothing to say */
    void (*end)(struct lf_buf *out, const struct lf_generation *gen); /* usage, timings, the end mark */
    void (*error)(struct lf_buf *out, const struct lf_api_err *err);  /* instead of all that, or in the middle of it */
    void (*fail)(struct lf_buf *out, const struct lf_generation *gen); /* a stream: gen->err, in the middle of it, where
                                                                          that has another form; NULL: error */
    void (*progress)(struct lf_buf *out, const struct lf_generation *gen, const struct lf_request_state *state);
    void (*nothing)(struct lf_buf *out, const struct lf_generation *gen); /* --keep-alive chunk */
};

struct lf_dialect {
    const struct lf_field_table *fields; /* what its bodies have */
    unsigned endpoint;                   /* its bit in that table */
    const char *text_param;              /* what a refusal of the prompt names: "messages" */
    bool prompt_beside;            /* what is said of the prompt's tokens stands beside the choices, else in each */
    bool fills_context;            /* without a length an answer may take all of the context that is left */
    bool talks;                    /* an answer may have reasoning and calls of tools */
    bool continues;                /* the text goes on where the prompt ends: a leading mark of a word is a space */
    enum lf_logprob_form logprobs; /* in which form they are shown */
    enum lf_status (*parse)(struct lf_ask *ask, const struct lf_json *json, const struct lf_ask_limits *limits,
                            struct lf_api_err *err);
    const struct lf_printer *stream, *whole;
    void (*forget)(struct lf_generation *gen); /* frees what they keep; NULL: nothing */
    const void *form; /* their own: what they print differently for dialects that they serve alike */
};

/* The answer goes on from a text: a leading mark of a word is a space. */
static inline bool lf_answer_continues(const struct lf_dialect *dialect, const struct lf_ask *ask)
{
    return dialect->continues || ask->continue_final_message;
}

extern const struct lf_dialect lf_dialect_completions, lf_dialect_chat, lf_dialect_messages, lf_dialect_count_tokens,
    lf_dialect_responses;

#endif
