/* The rows of the table of formats: what a row may say, and what each part of it means (answer_impl.h has the idea). */
#ifndef LF_TEMPLATE_ANSWER_ROWS_H
#define LF_TEMPLATE_ANSWER_ROWS_H

#include "template/answer_format.h"

enum lf_answer_step_kind {
    LF_STEP_END,
    LF_STEP_LITERAL,    /* this text */
    LF_STEP_SPACE,      /* white space; the text is what the template writes */
    LF_STEP_UNTIL,      /* few bytes up to this text, and it: an id that the model gives the call */
    LF_STEP_DIGITS,     /* digits, maybe none */
    LF_STEP_NAME,       /* the name of a tool */
    LF_STEP_ARGUMENTS,  /* its arguments, a JSON object */
    LF_STEP_OBJECT,     /* both in one JSON object, its members in any order, others beside them */
    LF_STEP_PARAMETERS, /* arguments between markers, and the marker behind them */
    LF_STEP_GEMMA,      /* arguments as Gemma 4 writes them */
    LF_STEP_PYTHON      /* … as in a call in Python, parentheses and all */
};

struct lf_answer_step {
    enum lf_answer_step_kind kind;
    const char *text;
};

enum { LF_ANSWER_SHOWS_N = 3, LF_ANSWER_HEAD_N = 4, LF_ANSWER_STEPS_N = 12, LF_ANSWER_CONTROLS_N = 12 };

/* Of PARAMETERS: (key_open name key_close value_open value_lead … value_tail value_close)* end, with any white space
 * between a marker that closes and one that opens. */
struct lf_answer_parameter_markers {
    const char *key_open, *key_close;
    const char *key_close_json; /* the model says itself what is a string: key_close; and what JSON: this one */
    const char *value_open;     /* NULL: the value begins behind key_close */
    const char *value_lead, *value_tail;
    const char *value_close;
    const char *between; /* what the template writes of that white space */
    const char *end;
};

/* A row. Texts that are NULL are not there. A marker has no newline in it. */
struct lf_answer_format {
    const char *name;
    bool is_channels; /* messages with headers (answer_channels.c), and none of what follows but `controls` */
    const char *shows[LF_ANSWER_SHOWS_N]; /* a template whose source has all of these is one of this format */

    /* Reasoning: think lead … tail think_end after. The last three and the first are dropped with the markers. */
    const char *think, *think_end;
    const char *think_lead, *think_tail, *think_after;
    bool calls_end_think; /* models call tools in the middle of it, too, and close it behind them or not at all */

    /* Calls: tail open head call (next call)* close after. */
    const char *open;
    const char *call_tail;  /* newlines before `open` that the template writes */
    const char *call_after; /* white space behind `close`, likewise */
    char bare;              /* this byte at the beginning of the answer opens calls too, { or [; 0: none does */
    struct lf_answer_step head[LF_ANSWER_HEAD_N];
    struct lf_answer_step call[LF_ANSWER_STEPS_N];
    const char *between;    /* white space that the template writes between calls, before … */
    const char *next;       /* … this; NULL: the call's own first literal */
    const char *close;      /* behind the last one … */
    const char *close_lead; /* … and the white space that the template writes before it */
    /* Of OBJECT: what the template calls its two members. Any of the usual names is read. */
    const char *name_key, *arguments_key;
    const char *id_key; /* before them, a number; NULL: there is none */
    bool sorts_names;   /* of GEMMA and PARAMETERS: the template writes arguments in the order of their names */
    struct lf_answer_parameter_markers parameters;

    /* Which parts of the markers may be control tokens. */
    const char *controls[LF_ANSWER_CONTROLS_N];
};

extern const struct lf_answer_format lf_answer_formats[];
extern const int lf_answer_n_formats;

#endif
