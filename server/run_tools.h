/* Tools in `run`: definitions from a file for the prompt, and calls out of the answer, each as a line of JSON.
 *
 *     {"name": "weather", "arguments": {"city": "Rome"}}
 *
 * Nothing is called: the lines are for the program that reads them. One thread. */
#ifndef LF_SERVER_RUN_TOOLS_H
#define LF_SERVER_RUN_TOOLS_H

#include "template/answer_format.h"
#include "tokenizer/detok.h"

enum { LF_PROMPT_END_BYTES = 64 };

struct lf_run_tools {
    struct lf_buf source; /* the file's text, and what it parses to */
    struct lf_json doc;
    struct lf_arena arena;
    struct lf_tool *tools; /* [n_tools], in the arena; n_tools 0: there are none */
    size_t n_tools;
    const struct lf_answer_format *format;
    struct lf_answer_parser *parser;
    char prompt_end[LF_PROMPT_END_BYTES]; /* the last bytes of the rendered prompt */
    size_t prompt_end_len;
    bool in_call, in_line; /* a call is under way; the line in hand has something in it */
};

/* path: a JSON array of {"type": "function", "function": {"name", "parameters" …}}. LF_INVALID names the place.
 * parser: --tool-parser, NULL: the form of calls is the one that the chat template shows. */
LF_MUST_CHECK enum lf_status lf_run_tools_read(struct lf_run_tools *t, const char *path, const char *parser,
                                               struct lf_err *err);
void lf_run_tools_deinit(struct lf_run_tools *t); /* accepts a zeroed one */
/* The prompt is there: what the answer must be (*out NULL: anything), and who takes it apart. template: its source. */
LF_MUST_CHECK enum lf_status lf_run_tools_begin(struct lf_run_tools *t, struct lf_grammar **out, struct lf_str template,
                                                struct lf_str prompt, struct lf_err *err);
/* The next token of the answer: what is to be printed is appended to out. */
LF_MUST_CHECK enum lf_status lf_run_tools_take(struct lf_run_tools *t, struct lf_detok *detok, int32_t id,
                                               struct lf_buf *out);
LF_MUST_CHECK enum lf_status lf_run_tools_end(struct lf_run_tools *t, struct lf_detok *detok, struct lf_buf *out);

#endif
