/* The HTTP API as an OpenAPI document, made of the tables that the server itself follows: routes, fields, error codes.
 * So it says no more than they do: of a field that is read by a function it has the description and no type, and of an
 * answer that it is an object. */
#ifndef LF_SERVER_HTTP_API_OPENAPI_H
#define LF_SERVER_HTTP_API_OPENAPI_H

#include "core/str.h"

void lf_openapi_write(struct lf_buf *out, const char *version);

#endif
