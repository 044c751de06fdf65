/* One compilation: where its memory comes from, what it may cost, and how it fails.
 *
 * Failure is sticky, as that of struct lf_buf: after the first one every function that takes a compilation does
 * nothing, returns something harmless, and status is asked at the end. What loops asks lf_compilation_step, which
 * counts towards LF_GRAMMAR_STEPS and looks whether somebody still waits. So a hostile schema ends. */
#ifndef LF_GRAMMAR_COMPILATION_H
#define LF_GRAMMAR_COMPILATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/arena.h"
#include "core/str.h"
#include "core/work.h"

struct lf_compilation {
    struct lf_arena scratch; /* freed at its end */
    struct lf_arena *keep;   /* borrowed: the grammar's */
    struct lf_work *work;    /* borrowed, may be NULL */
    struct lf_err *err;      /* borrowed, may be NULL */
    struct lf_str name;      /* that failures begin with; empty: none */
    uint64_t n_steps;
    enum lf_status status;
};

void lf_compilation_init(struct lf_compilation *c, struct lf_arena *keep, struct lf_work *work, struct lf_err *err);
void lf_compilation_deinit(struct lf_compilation *c);

/* The first failure counts. */
void lf_compilation_fail(struct lf_compilation *c, enum lf_status status, const char *fmt, ...) LF_PRINTF(3, 4);
/* So many steps more. False: it has failed, stop. */
bool lf_compilation_step(struct lf_compilation *c, uint64_t n);
static inline bool lf_compilation_ok(const struct lf_compilation *c)
{
    return c->status == LF_OK;
}

/* n × size bytes, zeroed; NULL where the compilation has failed (by this, too). n = 0 gives some address. */
void *lf_compilation_scratch(struct lf_compilation *c, size_t n, size_t size) LF_MUST_CHECK;
void *lf_compilation_keep(struct lf_compilation *c, size_t n, size_t size) LF_MUST_CHECK;
/* The text as scratch, where the buffer lost nothing; frees the buffer. */
struct lf_str lf_compilation_text(struct lf_compilation *c, struct lf_buf *text);
/* Room for one more element behind n of them: the list, moved where it has to be; NULL as above. */
void *lf_compilation_grow(struct lf_compilation *c, void *list, size_t n, size_t *cap, size_t size) LF_MUST_CHECK;

#endif
