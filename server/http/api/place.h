/* Where in a body something stands, as a refusal names it: "messages[3].content[0].text". */
#ifndef LF_SERVER_HTTP_API_PLACE_H
#define LF_SERVER_HTTP_API_PLACE_H

#include "core/json.h"
#include "server/http/conn/reply.h"

struct lf_place {
    char name[LF_PARAM_BYTES]; /* what is longer ends there */
};

struct lf_place lf_place_at(const char *fmt, ...) LF_PRINTF(1, 2);
/* 400, invalid_value: what was expected at the place, and what came. */
LF_MUST_CHECK enum lf_status lf_place_expected(struct lf_api_err *err, const char *name, struct lf_json_value v,
                                               const char *what);

#endif
