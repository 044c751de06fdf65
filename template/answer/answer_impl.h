/* What the files of this folder share: a row of the table of formats, and the state of a parser.
 *
 * Picture
 *
 *     SCAN: text or reasoning ──opening marker──▶ HEAD ──▶ CALL ──▶ AFTER ──closing marker──▶ SCAN
 *           ▲                                      │        │ ▲       │
 *           └── not a call after all: it is text ──┴────────┘ └─next──┘
 *
 * Idea. The bytes of an answer come one at a time, and what a byte does depends on the bytes before it alone: so where
 * pieces are cut cannot matter. In SCAN a byte is text, or belongs to a marker. Behind the marker that opens calls the
 * row has steps, a small program that says what a call looks like: literals, white space, a tool's name, arguments.
 *
 * A byte that may belong to a call is held until it is certain. A call is certain when the name is one of the tools'
 * and its arguments begin: then it is given out, what was held (markers) is dropped, and the arguments go out byte by
 * byte. Before that, a byte that does not fit makes everything held text, and is itself looked at as text: bytes are
 * never looked at again, so any answer takes linear time, and what is held is bounded by LF_ANSWER_HELD_BYTES. Behind
 * that point a byte that does not fit ends the call as it is, without a CALL_END, and is text. */
#ifndef LF_TEMPLATE_ANSWER_IMPL_H
#define LF_TEMPLATE_ANSWER_IMPL_H

#include "core/str.h"
#include "template/answer/json_scan.h"
#include "template/answer_format.h"

/* ---------------------------------------------------------------------------------------------------------- formats */

enum lf_answer_step_kind {
    LF_STEP_END,
    LF_STEP_LITERAL,   /* this text */
    LF_STEP_SPACE,     /* white space; the text is what the template writes */
    LF_STEP_UNTIL,     /* few bytes up to this text, and it: an id that the model gives the call */
    LF_STEP_DIGITS,    /* digits, maybe none */
    LF_STEP_NAME,      /* the name of a tool */
    LF_STEP_ARGUMENTS, /* its arguments, a JSON object */
    LF_STEP_OBJECT     /* both in one JSON object, its members in any order, others beside them */
};

struct lf_answer_step {
    enum lf_answer_step_kind kind;
    const char *text;
};

enum { LF_ANSWER_SHOWS_N = 3, LF_ANSWER_HEAD_N = 4, LF_ANSWER_STEPS_N = 12, LF_ANSWER_CONTROLS_N = 12 };

/* A row. Texts that are NULL are not there. A marker has no newline in it. */
struct lf_answer_format {
    const char *name;
    const char *shows[LF_ANSWER_SHOWS_N]; /* a template whose source has all of these is one of this format */

    /* Reasoning: think lead … tail think_end after. The last three and the first are dropped with the markers. */
    const char *think, *think_end;
    const char *think_lead, *think_tail, *think_after;

    /* Calls: tail open head call (next call)* close after. */
    const char *open;
    const char *call_tail;  /* newlines before `open` that the template writes */
    const char *call_after; /* white space behind `close`, likewise */
    bool is_bare;           /* a { at the beginning of the answer opens calls too */
    struct lf_answer_step head[LF_ANSWER_HEAD_N];
    struct lf_answer_step call[LF_ANSWER_STEPS_N];
    const char *next;       /* between calls; NULL: the call's own first literal */
    const char *close;      /* behind the last one … */
    const char *close_lead; /* … and the white space that the template writes before it */
    /* Of OBJECT: what the template calls its two members. Any of the usual names is read. */
    const char *name_key, *arguments_key;

    /* Which parts of the markers may be control tokens. */
    const char *controls[LF_ANSWER_CONTROLS_N];
};

extern const struct lf_answer_format lf_answer_formats[];
extern const int lf_answer_n_formats;

/* ----------------------------------------------------------------------------------------------------------- output */

enum { LF_ANSWER_OUT_BYTES = 1024 };

/* Parts on their way to the sink, bytes of a kind together. */
struct lf_answer_out {
    const struct lf_answer_sink *sink;
    enum lf_answer_kind kind;
    size_t n;
    char bytes[LF_ANSWER_OUT_BYTES];
};

void lf_answer_put(struct lf_answer_out *out, enum lf_answer_kind kind, const char *bytes, size_t n);
void lf_answer_put_call(struct lf_answer_out *out, struct lf_str name);
void lf_answer_put_call_end(struct lf_answer_out *out);
/* What is still here goes to the sink. */
void lf_answer_out_flush(struct lf_answer_out *out);

/* ------------------------------------------------------------------------------------------------------------ names */

/* The tools by name, and those whose names begin with the bytes so far: sorted[first … end). */
struct lf_answer_names {
    const struct lf_tool **sorted; /* owned */
    size_t n;
    size_t first, end, len;
};

LF_MUST_CHECK enum lf_status lf_answer_names_init(struct lf_answer_names *names, const struct lf_tool *tools,
                                                  size_t n_tools, struct lf_text_memory *memory);
void lf_answer_names_begin(struct lf_answer_names *names);
/* One byte more; false: no tool's name goes on so, and nothing has changed. */
bool lf_answer_names_next(struct lf_answer_names *names, char c);
/* The tool that is called so, or NULL. */
const struct lf_tool *lf_answer_names_found(const struct lf_answer_names *names);

/* ----------------------------------------------------------------------------------------------------------- parser */

enum lf_answer_state {
    LF_ANSWER_SCAN, /* text or reasoning */
    LF_ANSWER_HEAD, /* behind the marker that opens calls */
    LF_ANSWER_IN_CALL,
    LF_ANSWER_AFTER /* behind a call */
};

/* The members of an OBJECT. */
struct lf_answer_object {
    struct lf_json_scan scan;
    char key[16];
    size_t n_key;
    bool in_name, has_name, in_arguments, has_arguments;
    size_t arguments_at, arguments_end; /* in what is held, where they came before the name */
};

/* What a step makes of a byte. */
enum lf_answer_fit {
    LF_FIT_MORE, /* taken; the step goes on */
    LF_FIT_DONE, /* taken; the step is done */
    LF_FIT_PASS, /* the step was done before it: the next step takes it */
    LF_FIT_NONE  /* it does not fit */
};

struct lf_answer_parser {
    struct lf_answer_parser_params params; /* prompt_end aside */
    const struct lf_answer_format *format;
    struct lf_answer_names names;
    struct lf_answer_out out;
    struct lf_buf held;
    enum lf_status status; /* sticky */
    enum lf_answer_state state;

    /* SCAN */
    bool begins_reasoning;       /* as the prompt leaves it, for a restart … */
    const char *begins_skip;     /* … and what may still come of the white space behind its marker */
    bool in_reasoning, at_start; /* at_start: nothing has been given out */
    const char *skip;            /* white space of the template that is dropped if it comes … */
    bool skip_is_text;           /* … or text, where reasoning is not split off */
    size_t n_tail;               /* newlines at the beginning of what is held; a part of a marker follows */

    /* HEAD, IN_CALL, AFTER */
    const struct lf_answer_step *step;
    size_t step_at;  /* bytes of the step */
    size_t after_at; /* AFTER: where white space ends in what is held */
    const struct lf_tool *tool;
    bool is_certain; /* this call is given out */
    struct lf_json_scan arguments;
    struct lf_answer_object object;
};

/* Keeps a byte back; false: there are too many, or no memory (status). */
bool lf_answer_hold(struct lf_answer_parser *p, char c);
/* The tool's call is certain: it is given out, and the markers that were held are dropped. */
void lf_answer_call_begin(struct lf_answer_parser *p, const struct lf_tool *tool);
void lf_answer_argument(struct lf_answer_parser *p, char c);

void lf_answer_object_begin(struct lf_answer_parser *p);
enum lf_answer_fit lf_answer_object_byte(struct lf_answer_parser *p, char c);

/* The next byte for p->step, of which p->step_at bytes were before. */
enum lf_answer_fit lf_answer_step_byte(struct lf_answer_parser *p, char c);

#endif
