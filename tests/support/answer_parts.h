/* The parts of an answer as one text, T(text)R(reasoning)C(name)A(arguments)E, for tests and the fuzz driver to
 * compare: neighbours of a kind together, so that where an answer was cut does not show. */
#ifndef LF_TESTS_SUPPORT_ANSWER_PARTS_H
#define LF_TESTS_SUPPORT_ANSWER_PARTS_H

#include "core/check.h"
#include "core/str.h"
#include "template/answer/answer_impl.h"

struct answer_parts {
    struct lf_buf text;
    int open; /* the kind whose bracket is open, or -1 */
    size_t n_calls, n_ends;
};

static inline void answer_parts_init(struct answer_parts *parts)
{
    *parts = (struct answer_parts){.open = -1};
    lf_buf_init(&parts->text, 1 << 28);
}

static inline void answer_parts_close(struct answer_parts *parts)
{
    if (parts->open >= 0) lf_buf_char(&parts->text, ')');
    parts->open = -1;
}

static inline void answer_parts_take(void *ctx, enum lf_answer_kind kind, struct lf_str bytes)
{
    struct answer_parts *parts = ctx;
    LF_ASSERT((bytes.len > 0) == (kind != LF_ANSWER_CALL_END));
    if ((int)kind != parts->open || kind == LF_ANSWER_CALL) {
        answer_parts_close(parts);
        lf_buf_char(&parts->text, "TRCAE"[kind]);
        if (kind != LF_ANSWER_CALL_END) lf_buf_char(&parts->text, '(');
        if (kind != LF_ANSWER_CALL_END) parts->open = (int)kind;
    }
    lf_buf_str(&parts->text, bytes);
    parts->n_calls += kind == LF_ANSWER_CALL;
    parts->n_ends += kind == LF_ANSWER_CALL_END;
}

/* How long a piece of the answer is that begins at `at`: at least 1. */
typedef size_t answer_cut(void *ctx, struct lf_str answer, size_t at);

/* Takes an answer apart, cut into pieces by `cut` (NULL: whole). */
static inline void answer_parts_of(struct answer_parts *parts, struct lf_answer_parser *p, struct lf_str answer,
                                   answer_cut *cut, void *ctx)
{
    struct lf_answer_sink sink = {answer_parts_take, parts};
    answer_parts_init(parts);
    lf_answer_parser_restart(p);
    for (size_t at = 0; at < answer.len;) {
        size_t n = cut ? cut(ctx, answer, at) : answer.len;
        n = LF_MIN(n, answer.len - at);
        LF_ASSERT(lf_answer_parser_push(p, lf_str_from(answer.ptr + at, n), false, &sink) == LF_OK);
        at += n;
    }
    LF_ASSERT(lf_answer_parser_flush(p, &sink) == LF_OK);
    answer_parts_close(parts);
}

#endif
