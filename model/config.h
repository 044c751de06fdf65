/* Values of config.json, read and checked: what hparams.c and the files of families (arch/) read keys with. A value of
 * the wrong type, or out of range, is LF_CORRUPT, with its key. */
#ifndef LF_MODEL_CONFIG_H
#define LF_MODEL_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "core/json.h"
#include "core/status.h"

enum lf_status lf_config_wrong_type(struct lf_json_value v, const char *key, const char *expected, struct lf_err *err);
/* A whole number in [min, max]; key: what v is called. */
LF_MUST_CHECK enum lf_status lf_config_int_of(struct lf_json_value v, const char *key, int64_t min, int64_t max,
                                              int *out, struct lf_err *err);
/* The same of an object's member, which must be there. */
LF_MUST_CHECK enum lf_status lf_config_int(struct lf_json_value obj, const char *key, int64_t min, int64_t max,
                                           int *out, struct lf_err *err);
/* A number in [min, max]; *out keeps its default where the key is absent or null. *found may be NULL. */
LF_MUST_CHECK enum lf_status lf_config_number_or(struct lf_json_value obj, const char *key, double min, double max,
                                                 double *out, bool *found, struct lf_err *err);
LF_MUST_CHECK enum lf_status lf_config_number(struct lf_json_value obj, const char *key, double min, double max,
                                              double *out, struct lf_err *err);
LF_MUST_CHECK enum lf_status lf_config_bool_or(struct lf_json_value obj, const char *key, bool *out,
                                               struct lf_err *err);

#endif
