/* The format of an answer: what a request asks its text to be, whichever of many fields it asks it in.
 *
 * A field is read into plain data, which borrows the request's document; a second field that asks for a format as well
 * is refused. The grammar is made of it later, on the same worker, under the request's memory and deadline. */
#ifndef LF_SERVER_HTTP_API_FORMAT_H
#define LF_SERVER_HTTP_API_FORMAT_H

#include "grammar/grammar.h"
#include "server/http/conn/reply.h"

struct lf_arena;
struct lf_reading;
struct lf_work;

enum lf_format_kind {
    LF_FORMAT_TEXT, /* any */
    LF_FORMAT_JSON_OBJECT,
    LF_FORMAT_JSON_SCHEMA,
    LF_FORMAT_REGEX,
    LF_FORMAT_CHOICE
};

struct lf_format {
    enum lf_format_kind kind;
    const char *param;            /* the field that asks for it, as refusals name it; static */
    struct lf_json_value schema;  /* of JSON_SCHEMA; borrowed from the document, or from parsed */
    struct lf_json *parsed;       /* a schema that came as the text of one; in the ask's arena, deinitialized with it */
    struct lf_str pattern;        /* of REGEX; this, choices and white space lie in the ask's arena */
    const struct lf_str *choices; /* [n_choices] */
    size_t n_choices;
    struct lf_grammar_options options; /* of JSON */
};

static inline void lf_format_deinit(struct lf_format *format)
{
    if (format->parsed) lf_json_deinit(format->parsed);
}

/* ---- reading, for the rows of tables (lf_read_fn of ask.h); each sets the ask's format ---- */

/* OpenAI's: {"type": "text" | "json_object" | "json_schema", …}. */
LF_MUST_CHECK enum lf_status lf_format_read_response_format(struct lf_reading *r, const char *name,
                                                            struct lf_json_value v);
/* The same in /v1/responses, where the members of json_schema stand beside the type; name is not looked at. */
LF_MUST_CHECK enum lf_status lf_format_read_text_format(struct lf_reading *r, const char *name, struct lf_json_value v);
/* vLLM's: one of its members, and what goes with it. */
LF_MUST_CHECK enum lf_status lf_format_read_structured_outputs(struct lf_reading *r, const char *name,
                                                               struct lf_json_value v);
/* A schema, as JSON or as the text of it; a pattern; a list of strings; the pattern of white space in JSON. name is
 * kept, so it must be static. */
LF_MUST_CHECK enum lf_status lf_format_read_schema(struct lf_reading *r, const char *name, struct lf_json_value v);
LF_MUST_CHECK enum lf_status lf_format_read_regex(struct lf_reading *r, const char *name, struct lf_json_value v);
LF_MUST_CHECK enum lf_status lf_format_read_choice(struct lf_reading *r, const char *name, struct lf_json_value v);
LF_MUST_CHECK enum lf_status lf_format_read_whitespace(struct lf_reading *r, const char *name, struct lf_json_value v);

/* ---- making grammars ---- */

/* *out is NULL where any text will do. Errors are those of grammar.h. */
LF_MUST_CHECK enum lf_status lf_format_grammar(struct lf_grammar **out, const struct lf_format *format,
                                               struct lf_work *work, struct lf_err *why);
/* The same as a part of a larger grammar; what a list of choices needs lies in the arena. The format is none of TEXT.
 * LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_format_part(struct lf_grammar_part *out, const struct lf_format *format,
                                            struct lf_arena *arena);
/* The refusal of a format of which no grammar could be made. */
LF_MUST_CHECK enum lf_status lf_format_refuse(struct lf_api_err *err, const struct lf_format *format,
                                              enum lf_status status, const struct lf_err *why);

#endif
