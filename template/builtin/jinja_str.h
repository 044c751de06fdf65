/* What Python's strings can do, as filters and methods need it. Marks of the user's bytes are kept throughout; a letter
 * that changes case stays its writer's. */
#ifndef LF_TEMPLATE_BUILTIN_JINJA_STR_H
#define LF_TEMPLATE_BUILTIN_JINJA_STR_H

#include "template/jinja/jinja_run.h"

enum lf_jinja_sides { LF_JINJA_LEFT = 1, LF_JINJA_RIGHT = 2, LF_JINJA_BOTH = 3 };
enum lf_jinja_casing { LF_JINJA_UPPER, LF_JINJA_LOWER, LF_JINJA_CAPITALIZE, LF_JINJA_TITLE, LF_JINJA_SWAPCASE };

/* Without white space at the sides, or without the code points of chars (if not NULL). */
LF_MUST_CHECK enum lf_status lf_jinja_strip(struct lf_jinja *j, struct lf_jinja_text *out, struct lf_jinja_text t,
                                            const struct lf_jinja_text *chars, enum lf_jinja_sides sides);
LF_MUST_CHECK enum lf_status lf_jinja_case(struct lf_jinja *j, struct lf_jinja_text *out, struct lf_jinja_text t,
                                           enum lf_jinja_casing casing);
/* The first (or last) n = count places of old replaced; count < 0: all. */
LF_MUST_CHECK enum lf_status lf_jinja_replace(struct lf_jinja *j, struct lf_jinja_text *out, struct lf_jinja_text t,
                                              struct lf_jinja_text old, struct lf_jinja_text with, int64_t count);
/* Byte offset of needle in t at or behind `from`, or -1; the last one with `last`. */
LF_MUST_CHECK enum lf_status lf_jinja_find(struct lf_jinja *j, ptrdiff_t *out, struct lf_jinja_text t,
                                           struct lf_jinja_text needle, size_t from, bool last);
/* The line that begins at *pos, moved behind its end; false at the end of t. */
bool lf_jinja_next_line(struct lf_jinja_text t, size_t *pos, struct lf_jinja_text *line, bool keep_end);
/* Padded with `fill` to width code points: on which sides. */
LF_MUST_CHECK enum lf_status lf_jinja_pad(struct lf_jinja *j, struct lf_jinja_text *out, struct lf_jinja_text t,
                                          int64_t width, struct lf_jinja_text fill, enum lf_jinja_sides sides);
/* str.split and rsplit; sep NULL: at white space. */
LF_MUST_CHECK enum lf_status lf_jinja_split(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value self,
                                            const struct lf_jinja_text *sep, int64_t max, bool from_right);
/* Whether every cased letter is of that case, and there is one. */
LF_MUST_CHECK enum lf_status lf_jinja_is_cased(struct lf_jinja *j, bool *out, struct lf_jinja_text t, bool upper);
/* str(v) as a value: a string keeps its markup. */
LF_MUST_CHECK enum lf_status lf_jinja_soft_str(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value v);
/* An integer argument: the default where it is missing or None, LF_INVALID where it is none. */
LF_MUST_CHECK enum lf_status lf_jinja_int_arg(struct lf_jinja *j, int64_t *out, struct lf_jinja_value v,
                                              int64_t otherwise);
/* A string argument; LF_INVALID where it is none. */
LF_MUST_CHECK enum lf_status lf_jinja_text_arg(struct lf_jinja *j, struct lf_jinja_text *out, struct lf_jinja_value v);

#endif
