/* See place.h. */
#include "server/http/api/place.h"

#include <stdarg.h>
#include <stdio.h>

#include "server/http/api/shown.h"

struct lf_place lf_place_at(const char *fmt, ...)
{
    struct lf_place place;
    va_list args;
    va_start(args, fmt);
    vsnprintf(place.name, sizeof place.name, fmt, args);
    va_end(args);
    return place;
}

enum lf_status lf_place_expected(struct lf_api_err *err, const char *name, struct lf_json_value v, const char *what)
{
    return lf_refuse(err, 400, name, "invalid_value", "%s: expected %s, got %s.", name, what, lf_shown_json(v).text);
}
