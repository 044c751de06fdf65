/* Iteration: over any value that has elements, and lazily through filters, as Python's generators do. */
#ifndef LF_TEMPLATE_JINJA_JINJA_ITER_H
#define LF_TEMPLATE_JINJA_JINJA_ITER_H

#include "template/jinja/jinja_run.h"

/* What a lazy filter does with the next element of its source: sets *out and *keep. */
struct lf_jinja_stage {
    enum lf_status (*step)(struct lf_jinja *j, const struct lf_jinja_stage *stage, struct lf_jinja_value item,
                           struct lf_jinja_value *out, bool *keep);
    const struct lf_jinja_builtin *fn; /* the filter or test, or NULL */
    struct lf_jinja_args args;
    struct lf_jinja_value attr;     /* attribute path, or MISSING */
    struct lf_jinja_value fallback; /* for elements without it, or MISSING */
    bool negate;
    struct lf_jinja_dict *seen;       /* unique */
    const struct lf_jinja_node *node; /* N_FOR: its target and test */
    struct lf_jinja_scope *scope;
};

struct lf_jinja_iter {
    struct lf_jinja_value source; /* STRING, LIST, TUPLE, DICT, VIEW, RANGE or nothing (MISSING) */
    size_t pos;                   /* bytes of a string, else elements */
    bool reversed;
    struct lf_jinja_iter *inner; /* a stage's source */
    struct lf_jinja_stage *stage;
};

/* An iterator over v; LF_INVALID where v cannot be iterated. An iterator gives itself. */
LF_MUST_CHECK enum lf_status lf_jinja_iter_of(struct lf_jinja *j, struct lf_jinja_iter **out, struct lf_jinja_value v);
bool lf_jinja_is_iterable(struct lf_jinja_value v);
/* *out is MISSING at the end. */
LF_MUST_CHECK enum lf_status lf_jinja_iter_next(struct lf_jinja *j, struct lf_jinja_iter *it,
                                                struct lf_jinja_value *out);
/* All that is left, as a list. */
LF_MUST_CHECK enum lf_status lf_jinja_collect(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value v);
/* A generator over v through the stage, which is copied. */
LF_MUST_CHECK enum lf_status lf_jinja_lazy(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value v,
                                           const struct lf_jinja_stage *stage);
/* The element at idx of a LIST, TUPLE or RANGE, idx in range. */
struct lf_jinja_value lf_jinja_at(struct lf_jinja_value v, size_t idx);

/* The loop variable. */
LF_MUST_CHECK enum lf_status lf_jinja_loop_next(struct lf_jinja *j, struct lf_jinja_loop *loop, bool *more);
LF_MUST_CHECK enum lf_status lf_jinja_loop_attr(struct lf_jinja *j, struct lf_jinja_value *out,
                                                struct lf_jinja_loop *loop, struct lf_str name);

/* Attribute paths as filters take them: "a.b.0", an integer, or MISSING for the item itself. */
LF_MUST_CHECK enum lf_status lf_jinja_path(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value item,
                                           struct lf_jinja_value path, struct lf_jinja_value fallback);

#endif
