/* What a parser gives out, in parts, and the names of tools that it looks for. */
#ifndef LF_TEMPLATE_ANSWER_OUT_H
#define LF_TEMPLATE_ANSWER_OUT_H

#include "template/answer_format.h"

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

#endif
