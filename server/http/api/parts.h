/* What an answer is made of, on its way from the tokens to a printer: a sequence of parts (template/answer_format.h),
 * of which some are made and not yet shown.
 *
 *     "Let me look."   weather   {"city":"Rome"}            parts
 *     TEXT             CALL      ARGUMENTS      CALL_END
 *     block 0          block 1 ─────────────────────▸
 *
 * A block is a stretch of text, one of reasoning, or a call. Where nothing is taken apart all is one stretch of text,
 * and there are no runs: the bytes alone say it. One thread at a time. */
#ifndef LF_SERVER_HTTP_API_PARTS_H
#define LF_SERVER_HTTP_API_PARTS_H

#include "template/answer_format.h"

/* A piece as a printer gets it: cut between code points, the bytes borrowed. */
struct lf_part {
    enum lf_answer_kind kind;
    int block;                  /* blocks of the answer before this one */
    int call;                   /* of a call: calls before this one */
    bool begins;                /* the first piece of its block */
    enum lf_answer_kind before; /* of a later block: how the one before it ended */
    struct lf_str bytes;
};

struct lf_part_run {
    enum lf_answer_kind kind, before;
    int block, call;
    bool begins;
    size_t n; /* bytes of `text` that are left of it */
};

struct lf_parts {
    struct lf_buf text; /* owned: made and not yet shown, all kinds; the plain answer is written into it directly */
    size_t shown;       /* of it */
    bool by_runs;       /* the text consists of runs; else it is plain */
    struct lf_part_run *runs; /* [n_runs], owned; those before first_run are shown */
    int n_runs, first_run, cap;
    /* of the answer since its beginning */
    int n_blocks, n_calls, n_whole_calls; /* n_whole_calls: that came to their end */
    bool has_text, has_reasoning, in_call;
    int last; /* the kind of the last one, -1: none yet */
};

void lf_parts_init(struct lf_parts *parts, struct lf_text_memory *memory);
void lf_parts_deinit(struct lf_parts *parts);
/* Back to the beginning of the answer. */
void lf_parts_restart(struct lf_parts *parts, bool by_runs);
/* The next piece of an answer by runs. Pieces of a call that is not open, and its end, are left out. */
void lf_parts_add(struct lf_parts *parts, enum lf_answer_kind kind, struct lf_str bytes);
/* The answer ends: so does a call that is open. */
void lf_parts_end(struct lf_parts *parts);

static inline bool lf_parts_any(const struct lf_parts *parts)
{
    return parts->shown < parts->text.len || parts->first_run < parts->n_runs;
}
/* The next part to show; false: none is there. */
bool lf_parts_next(const struct lf_parts *parts, struct lf_part *out);
/* It was shown. */
void lf_parts_shown(struct lf_parts *parts, const struct lf_part *part);
/* All of it is dropped as if it had been shown. */
void lf_parts_skip(struct lf_parts *parts);

#endif
