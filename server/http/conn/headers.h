/* The request's head: what we read from the header fields, and what makes us refuse before the body.
 *
 * libmicrohttpd takes messages whose framing two parsers could read in two ways (both Content-Length and
 * Transfer-Encoding, either of them twice, white space in a field's name, no Host or two). Behind a proxy that is how
 * requests are smuggled, so these fields are counted here and anything ambiguous is refused and the connection closed.
 *
 * Before 0.9.77 it also takes a bare LF for the end of a line, cuts a line at a NUL, skips spaces in the request line
 * and glues a folded line to the NAME of the field before it ("Content-Length: 0" and a line " 1" become a field named
 * Content-Length1: the length is gone, and the body is read as the next request). It tells nobody. But it parses in
 * place, and that can be told: it overwrites each CR, LF, colon and separating space with a NUL, and its strings point
 * into the bytes as they came. So where every line ended with CR LF, each string begins exactly where the one before
 * it ends plus the bytes that the grammar puts between them, from the method to the byte behind the head.
 *
 *     POST 0 /v1/models 0 HTTP/1.1 0 0 Host 0 _ localhost 0 0 Content-Length 0 _ 5 0 0 0 0 (body)
 *     method  url          version      name     value         name             value      method + bytes
 *
 * Any other distance is a line end, a fold or a NUL that is not ours to interpret: 400.
 */
#ifndef LF_SERVER_HTTP_CONN_HEADERS_H
#define LF_SERVER_HTTP_CONN_HEADERS_H

#include <stdbool.h>

#include "core/limits.h"
#include "core/str.h"
#include "server/http/conn/reply.h"

struct MHD_Connection;

/* As libmicrohttpd's access handler gets them. uri_bytes: of the whole target, arguments included, as its URI log
 * callback saw it. */
struct lf_request_line {
    const char *method, *url, *version;
    size_t uri_bytes;
};

/* Views are borrowed from libmicrohttpd and live as long as the request. Empty: not there. */
struct lf_headers {
    int n;
    size_t bytes; /* of the whole head, the request line included */
    bool bad_name, bad_value;
    bool bad_layout;                 /* two fields do not lie side by side */
    const char *fields, *fields_end; /* first name, end of the last value; NULL: no fields */
    int n_host, n_content_length, n_transfer_encoding, n_content_type, n_authorization, n_expect, n_origin;
    struct lf_str host, content_length, transfer_encoding, content_type, authorization, expect, origin;
    int n_forwarded_for; /* of more than LF_FORWARDED_LINES_N the last ones are kept */
    struct lf_str forwarded_for[LF_FORWARDED_LINES_N];
    struct lf_str content_encoding, request_id, cors_request_headers, api_key, if_match, if_none_match;
};

void lf_headers_read(struct lf_headers *out, struct MHD_Connection *mhd);
/* What is wrong with the framing of the message, if anything: after such an error the connection must end, because
 * where the next request begins is not known. */
LF_MUST_CHECK enum lf_status lf_headers_check_framing(const struct lf_headers *h, const struct lf_request_line *line,
                                                      struct lf_api_err *err);
/* The connection ends after the answer, though the message is well framed: libmicrohttpd takes a bare LF inside chunked
 * bodies and their trailers, where nothing tells us, so nothing may follow them. */
bool lf_headers_end_connection(const struct lf_headers *h);
/* Declared length of the body: -1 unknown (chunked), 0 none, INT64_MAX where it is no number that we take. */
int64_t lf_headers_body_bytes(const struct lf_headers *h);
/* The body is compressed or so. */
bool lf_headers_is_encoded(const struct lf_headers *h);
bool lf_headers_is_json(const struct lf_headers *h);
/* text/plain, in UTF-8 as far as it says. */
bool lf_headers_is_text(const struct lf_headers *h);

#endif
