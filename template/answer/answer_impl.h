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
#include "template/answer/answer_out.h"
#include "template/answer/answer_rows.h"
#include "template/answer/json_scan.h"

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

enum lf_answer_parameter_state {
    LF_PARAMETER_BETWEEN,
    LF_PARAMETER_KEY,
    LF_PARAMETER_GAP,    /* between a name and the marker that opens its value */
    LF_PARAMETER_STRING, /* a value that goes out as a string */
    LF_PARAMETER_JSON,   /* … as JSON */
    LF_PARAMETER_HELD    /* … that is held until its end */
};

struct lf_answer_parameters {
    enum lf_answer_parameter_state state;
    size_t n;         /* parameters so far */
    bool is_known;    /* the tool has a parameter of this name */
    bool is_begun;    /* more than white space of the value that is held has come */
    uint8_t types;    /* that the value may have */
    const char *skip; /* of value_lead: what may still come */
    size_t n_tail;    /* newlines at the beginning of what is held */
    size_t marker_at; /* where the marker begins in what is held, behind white space */
};

enum lf_answer_gemma_state {
    LF_GEMMA_FIRST_KEY, /* behind { */
    LF_GEMMA_KEY,       /* behind a comma in an object */
    LF_GEMMA_BARE_KEY,
    LF_GEMMA_QUOTED_KEY,
    LF_GEMMA_COLON,
    LF_GEMMA_FIRST_VALUE, /* behind [ */
    LF_GEMMA_VALUE,
    LF_GEMMA_STRING,
    LF_GEMMA_WORD, /* a value without markers, which is held */
    LF_GEMMA_NEXT  /* behind a value */
};

struct lf_answer_gemma {
    enum lf_answer_gemma_state state;
    uint64_t objects; /* bit d: what is open at depth d is an object, else an array */
    uint32_t depth;
    uint32_t n_quote; /* bytes of the marker that opens a string */
};

enum lf_answer_python_state {
    LF_PYTHON_FIRST_KEY, /* behind ( or { */
    LF_PYTHON_KEY,       /* behind a comma between arguments, or in a dict */
    LF_PYTHON_ARGUMENT,  /* in the name of an argument */
    LF_PYTHON_COLON,
    LF_PYTHON_FIRST_VALUE, /* behind [ */
    LF_PYTHON_VALUE,
    LF_PYTHON_STRING,
    LF_PYTHON_ESCAPE,
    LF_PYTHON_HEX,
    LF_PYTHON_QUOTE, /* behind a quote that may end the string */
    LF_PYTHON_WORD,
    LF_PYTHON_NEXT /* behind a value */
};

struct lf_answer_python {
    enum lf_answer_python_state state;
    uint64_t objects; /* bit d: what is open at depth d is a dict, or the call itself, else a list */
    uint32_t depth;
    bool is_behind_comma;   /* which has not gone out: the end may come behind it */
    bool is_key;            /* the string in hand is a name in a dict */
    char quote;             /* what it ends with */
    size_t name_at, n_name; /* of an argument: where it lies in what is held, and its bytes */
    size_t n_space;         /* white space before the first argument */
    uint32_t n_hex, point;  /* of an escape: digits to come, and what they say so far */
    uint32_t high;          /* the first half of a pair of escapes; 0: none */
};

enum lf_answer_channel_state {
    LF_CHANNEL_BEFORE, /* a message may begin */
    LF_CHANNEL_HEADER, /* in what says what it is; held */
    LF_CHANNEL_BODY,
    LF_CHANNEL_CALL, /* behind the header of a call; held */
    LF_CHANNEL_ARGUMENTS,
    LF_CHANNEL_AFTER /* behind a call */
};

struct lf_answer_channels {
    enum lf_answer_channel_state state;
    bool is_reasoning, shows_markers; /* the message that it is in */
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
    bool is_think_left_open;     /* a call has ended it: its marker may come yet */
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
    struct lf_answer_parameters parameters;
    struct lf_answer_gemma gemma;
    struct lf_answer_python python;
    struct lf_answer_channels channels;
};

enum {
    LF_ANSWER_SPACE_N = 1024,          /* white space at one place that is still a call's */
    LF_ANSWER_MARKERS_BYTES = 8 * 1024 /* beside what is bounded: more than markers, names and white space take */
};

/* Keeps a byte back; false: no memory (status). All that holds without end looks first whether it is full. */
bool lf_answer_hold(struct lf_answer_parser *p, char c);
static inline bool lf_answer_is_full(const struct lf_answer_parser *p)
{
    return p->held.len >= LF_ANSWER_HELD_BYTES;
}
/* The tool's call is certain: it is given out, and the markers that were held are dropped. */
void lf_answer_call_begin(struct lf_answer_parser *p, const struct lf_tool *tool);
void lf_answer_argument(struct lf_answer_parser *p, char c);
/* Bytes of a string of JSON: as lf_json_write_escaped, but a code point may come in pieces. */
void lf_answer_put_escaped(struct lf_answer_parser *p, const char *bytes, size_t n);
/* A text as what it says where that is JSON, else as a string. as_python: True, False and None are words too. */
void lf_answer_put_value(struct lf_answer_parser *p, struct lf_str text, bool as_python);

void lf_answer_object_begin(struct lf_answer_parser *p);
enum lf_answer_fit lf_answer_object_byte(struct lf_answer_parser *p, char c);
/* Whether the prompt ends in reasoning that the template has opened; *is_closed: behind some that it has closed. */
bool lf_answer_prompt_opens(const struct lf_answer_format *f, struct lf_str prompt_end, bool *is_closed);
void lf_answer_channels_begin(struct lf_answer_parser *p);
void lf_answer_channels_byte(struct lf_answer_parser *p, char c);
void lf_answer_channels_flush(struct lf_answer_parser *p);
void lf_answer_gemma_begin(struct lf_answer_parser *p);
enum lf_answer_fit lf_answer_gemma_byte(struct lf_answer_parser *p, char c);
void lf_answer_python_begin(struct lf_answer_parser *p);
enum lf_answer_fit lf_answer_python_byte(struct lf_answer_parser *p, char c);
void lf_answer_parameters_begin(struct lf_answer_parser *p);
enum lf_answer_fit lf_answer_parameters_byte(struct lf_answer_parser *p, char c);
/* The next byte for p->step, which has had step_at. */
enum lf_answer_fit lf_answer_step_byte(struct lf_answer_parser *p, char c);

#endif
