/* Reading and rounding numbers as Python does. */
#ifndef LF_TEMPLATE_JINJA_JINJA_NUMBER_H
#define LF_TEMPLATE_JINJA_JINJA_NUMBER_H

#include "template/jinja/jinja_run.h"

/* int(text, base) and float(text); false where Python raises ValueError. */
bool lf_jinja_read_int(struct lf_str s, int base, int64_t *out, bool *overflow);
bool lf_jinja_read_float(struct lf_str s, double *out);

#endif
