/* Tables of what templates may call. A name that Jinja has and these tables have not is refused by name. */
#ifndef LF_TEMPLATE_BUILTIN_JINJA_BUILTIN_H
#define LF_TEMPLATE_BUILTIN_JINJA_BUILTIN_H

#include "template/jinja/jinja_value.h"

/* NULL where there is none of that name. */
const struct lf_jinja_builtin *lf_jinja_find_filter(struct lf_str name);
const struct lf_jinja_builtin *lf_jinja_find_test(struct lf_str name);
const struct lf_jinja_builtin *lf_jinja_find_method(enum lf_jinja_type type, struct lf_str name);
const struct lf_jinja_builtin *lf_jinja_find_global(struct lf_str name);
/* Whether the name is a filter of Jinja's that is left out here on purpose. */
bool lf_jinja_is_left_out(struct lf_str name);

/* The rows, each in the file of its kind; the count is written to *n. */
const struct lf_jinja_builtin *lf_jinja_text_filters(size_t *n);
const struct lf_jinja_builtin *lf_jinja_list_filters(size_t *n);
const struct lf_jinja_builtin *lf_jinja_pick_filters(size_t *n);
const struct lf_jinja_builtin *lf_jinja_number_filters(size_t *n);
const struct lf_jinja_builtin *lf_jinja_string_methods(size_t *n);
const struct lf_jinja_builtin *lf_jinja_string_tests(size_t *n); /* isdigit, startswith … */
const struct lf_jinja_builtin *lf_jinja_container_methods(enum lf_jinja_type type, size_t *n);
const struct lf_jinja_builtin *lf_jinja_tests(size_t *n);
const struct lf_jinja_builtin *lf_jinja_globals(size_t *n);
enum lf_status lf_jinja_tojson(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call);
enum lf_status lf_jinja_str_format(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call);

#endif
