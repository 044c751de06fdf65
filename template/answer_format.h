/* Answer formats: how a family of models writes its reasoning and its calls of tools, and how that is taken apart.
 *
 *     "…</think>Let me look.<tool_call>{"name": "weather", "arguments": {"city": "Rome"}}</tool_call>"
 *      REASONING TEXT                             CALL weather          ARGUMENTS {"city": "Rome"}   CALL_END
 *
 * A format is a row of a table: markers, and the states between them. The parser takes an answer in pieces and gives
 * out its parts as they become certain; where the pieces are cut makes no difference to what the parts add up to. What
 * looks like a call and is none stays text: nothing that a model wrote is lost, but for the markers themselves and the
 * white space that a template writes around them.
 *
 * A call without a CALL_END was cut: by the end of the answer (as vLLM has it, finish_reason is then what ended the
 * answer, length or stop, and the call is given as far as it came), or by what is no JSON, which is text.
 *
 * A parser belongs to one thread at a time; formats are constant. */
#ifndef LF_TEMPLATE_ANSWER_FORMAT_H
#define LF_TEMPLATE_ANSWER_FORMAT_H

#include "grammar/grammar.h"
#include "template/tools.h"

struct lf_answer_format;
struct lf_text_memory;

/* The format that a chat template's source shows; the plain one, in which all is text, where it shows none. */
const struct lf_answer_format *lf_answer_format_of_template(struct lf_str source);
/* By the name in --tool-parser; NULL: there is none of that name. */
const struct lf_answer_format *lf_answer_format_by_name(struct lf_str name);
/* The same; LF_INVALID says which names there are. */
LF_MUST_CHECK enum lf_status lf_answer_format_find(const struct lf_answer_format **out, struct lf_str name,
                                                   struct lf_err *err);
const char *lf_answer_format_name(const struct lf_answer_format *format);
/* Row i of the table, NULL past its end: for --help and documents. */
const struct lf_answer_format *lf_answer_format_at(int i);
bool lf_answer_format_has_tools(const struct lf_answer_format *format);
bool lf_answer_format_has_reasoning(const struct lf_answer_format *format);
/* Whether a chat template's source has the markers of the format's reasoning: most rows have some, for the sake of the
 * models that think, and many models of the same family do not. */
bool lf_answer_format_shows_reasoning(const struct lf_answer_format *format, struct lf_str source);

/* ---- parsing ---- */

enum lf_answer_kind {
    LF_ANSWER_TEXT,
    LF_ANSWER_REASONING,
    LF_ANSWER_CALL,      /* a call begins; the bytes are the tool's whole name */
    LF_ANSWER_ARGUMENTS, /* a piece of its arguments, which together are the text of one JSON object */
    LF_ANSWER_CALL_END
};

/* Who takes the parts: called in their order, with at least one byte but for CALL_END. */
struct lf_answer_sink {
    void (*take)(void *ctx, enum lf_answer_kind kind, struct lf_str bytes);
    void *ctx;
};

struct lf_answer_parser_params {
    const struct lf_answer_format *format;
    bool reasoning;              /* split it off; else it is text, markers and all */
    struct lf_str prompt_end;    /* the last bytes of the rendered prompt: a template may open the reasoning block */
    const struct lf_tool *tools; /* [n_tools], borrowed; without tools a call is text */
    size_t n_tools;
    struct lf_text_memory *memory; /* NULL: the process's heap */
};

struct lf_answer_parser;
LF_MUST_CHECK enum lf_status lf_answer_parser_create(struct lf_answer_parser **out,
                                                     const struct lf_answer_parser_params *params);
void lf_answer_parser_destroy(struct lf_answer_parser *p); /* accepts NULL */
void lf_answer_parser_restart(struct lf_answer_parser *p); /* back to the beginning of the answer */
/* The next piece of the answer: text (UTF-8), or a control token by the text that it is written as. A control token
 * that the format does not know is passed over. What may be a call is held back until it is certain, at most
 * LF_ANSWER_HELD_BYTES of it: more than that is text. LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_answer_parser_push(struct lf_answer_parser *p, struct lf_str piece, bool is_control,
                                                   const struct lf_answer_sink *sink);
/* Whether the format knows the control token that is written so. */
bool lf_answer_parser_knows(const struct lf_answer_parser *p, struct lf_str control);
/* The end: what was held back comes out as what it is after all. */
LF_MUST_CHECK enum lf_status lf_answer_parser_flush(struct lf_answer_parser *p, const struct lf_answer_sink *sink);

/* ---- constraining ---- */

enum lf_tool_choice { LF_TOOL_CHOICE_NONE, LF_TOOL_CHOICE_AUTO, LF_TOOL_CHOICE_REQUIRED };

struct lf_answer_rules {
    struct lf_str prompt_end;    /* as above */
    bool reasoning;              /* the model may reason first, in the format's markers */
    const struct lf_tool *tools; /* [n_tools]: those that may be called; one where it is chosen by name */
    size_t n_tools;
    enum lf_tool_choice choice;
    bool parallel;                         /* more than one call in an answer */
    const struct lf_grammar_part *content; /* what the text must be; NULL: any */
};

/* What an answer may be under these rules, for constrained decoding: REQUIRED is one call or more and nothing beside
 * reasoning; AUTO is free until a call begins, and from then on a call of a tool that there is, with arguments that
 * meet its schema where it is strict, and are a JSON object anyway. *out is NULL where anything may come. Errors are
 * those of lf_grammar_of_parts; a schema's place is told with the tool's name. */
LF_MUST_CHECK enum lf_status lf_answer_format_grammar(struct lf_grammar **out, const struct lf_answer_format *format,
                                                      const struct lf_answer_rules *rules, struct lf_work *work,
                                                      struct lf_err *err);

#endif
