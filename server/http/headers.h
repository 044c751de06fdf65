/* The request's head: what we read from the header fields, and what makes us refuse before the body.
 *
 * libmicrohttpd takes messages whose framing two parsers could read in two ways (both Content-Length and
 * Transfer-Encoding, either of them twice, white space in a field's name, no Host or two). Behind a proxy that is how
 * requests are smuggled, so these fields are counted here and anything ambiguous is refused and the connection closed.
 */
#ifndef LF_SERVER_HTTP_HEADERS_H
#define LF_SERVER_HTTP_HEADERS_H

#include <stdbool.h>

#include "core/str.h"
#include "server/http/reply.h"

struct MHD_Connection;

/* Views are borrowed from libmicrohttpd and live as long as the request. Empty: not there. */
struct lf_headers {
    int n;
    size_t bytes; /* of the whole head, the request line included */
    bool bad_name, bad_value;
    int n_host, n_content_length, n_transfer_encoding, n_content_type, n_authorization, n_expect, n_origin;
    struct lf_str host, content_length, transfer_encoding, content_type, authorization, expect, origin;
    struct lf_str content_encoding, request_id, cors_request_headers;
};

void lf_headers_read(struct lf_headers *out, struct MHD_Connection *mhd);
/* What is wrong with the framing of the message, if anything: after such an error the connection must end, because
 * where the next request begins is not known. version as given by libmicrohttpd. */
LF_MUST_CHECK enum lf_status lf_headers_check_framing(const struct lf_headers *h, const char *version,
                                                      struct lf_api_err *err);
/* Declared length of the body: -1 unknown (chunked), 0 none. */
int64_t lf_headers_body_bytes(const struct lf_headers *h);
/* The body is compressed or so. */
bool lf_headers_is_encoded(const struct lf_headers *h);
bool lf_headers_is_json(const struct lf_headers *h);

#endif
