/* Programs of hyperparameters that a test makes up, and what is counted in them. */
#ifndef LF_TESTS_UNIT_MODEL_PROGRAMS_RIG_H
#define LF_TESTS_UNIT_MODEL_PROGRAMS_RIG_H

#include "model/programs.h"
#include "tests/support/test.h"

static inline struct lf_programs programs_of(const struct lf_hparams *hp, const struct lf_ops *ops, bool no_fusion)
{
    struct lf_programs p;
    struct lf_err err;
    if (lf_programs_make(&p, hp, ops, no_fusion, &err) != LF_OK) fail_msg("%s", err.message);
    return p;
}

static inline int count(const struct lf_program *p, enum lf_op_kind kind)
{
    int n = 0;
    for (int i = 0; i < p->n_ops; i++) n += p->ops[i].kind == kind;
    return n;
}

#endif
