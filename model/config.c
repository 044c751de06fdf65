#include "model/config.h"

#include <inttypes.h>

#include "core/check.h"

enum lf_status lf_config_wrong_type(struct lf_json_value v, const char *key, const char *expected, struct lf_err *err)
{
    return lf_fail(err, LF_CORRUPT, "%s is %s, expected %s", key, lf_json_type_name(v), expected);
}

enum lf_status lf_config_int_of(struct lf_json_value v, const char *key, int64_t min, int64_t max, int *out,
                                struct lf_err *err)
{
    int64_t x;
    if (!lf_json_int64(v, &x)) return lf_config_wrong_type(v, key, "a whole number", err);
    if (x < min || x > max) {
        return lf_fail(err, LF_CORRUPT, "%s is %" PRId64 ", expected %" PRId64 " to %" PRId64, key, x, min, max);
    }
    *out = (int)x;
    return LF_OK;
}

enum lf_status lf_config_int(struct lf_json_value obj, const char *key, int64_t min, int64_t max, int *out,
                             struct lf_err *err)
{
    struct lf_json_value v = lf_json_get(obj, key);
    if (lf_json_is_absent(v)) return lf_fail(err, LF_CORRUPT, "%s is missing", key);
    return lf_config_int_of(v, key, min, max, out, err);
}

enum lf_status lf_config_number_or(struct lf_json_value obj, const char *key, double min, double max, double *out,
                                   bool *found, struct lf_err *err)
{
    struct lf_json_value v = lf_json_get(obj, key);
    if (found) *found = !lf_json_is_absent(v);
    if (lf_json_is_absent(v)) return LF_OK;
    double x;
    if (!lf_json_double(v, &x)) return lf_config_wrong_type(v, key, "a number", err);
    if (!(x >= min && x <= max)) {
        return lf_fail(err, LF_CORRUPT, "%s is %g, expected %g to %g", key, x, min, max);
    }
    *out = x;
    return LF_OK;
}

enum lf_status lf_config_number(struct lf_json_value obj, const char *key, double min, double max, double *out,
                                struct lf_err *err)
{
    bool found;
    LF_TRY(lf_config_number_or(obj, key, min, max, out, &found, err));
    return found ? LF_OK : lf_fail(err, LF_CORRUPT, "%s is missing", key);
}

enum lf_status lf_config_bool_or(struct lf_json_value obj, const char *key, bool *out, struct lf_err *err)
{
    struct lf_json_value v = lf_json_get(obj, key);
    if (lf_json_is_absent(v) || lf_json_bool(v, out)) return LF_OK;
    return lf_config_wrong_type(v, key, "true or false", err);
}
