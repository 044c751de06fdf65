/* Reads an HTTP/1.1 response piece by piece, as a client: status, then the body with chunking taken off.
 *
 * Plain data, no allocation. Bytes of the body are handed to on_body as they come. */
#ifndef LF_SERVER_LOAD_HTTP_RESPONSE_H
#define LF_SERVER_LOAD_HTTP_RESPONSE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/str.h"

enum lf_response_part {
    LF_RESPONSE_HEAD,
    LF_RESPONSE_BODY,       /* counted by Content-Length */
    LF_RESPONSE_UNTIL_END,  /* until the connection closes */
    LF_RESPONSE_CHUNK_SIZE, /* a line with a hexadecimal number */
    LF_RESPONSE_CHUNK,
    LF_RESPONSE_CHUNK_END, /* the line break behind a chunk */
    LF_RESPONSE_TRAILER,
    LF_RESPONSE_DONE,
    LF_RESPONSE_BROKEN
};

struct lf_response {
    enum lf_response_part part;
    int status;         /* 0 until the head is whole */
    uint64_t remaining; /* bytes of the body or chunk still to come */
    char line[1024];    /* the line being read; what is longer is cut */
    size_t n_line;
    bool chunked, counted;
    void (*on_body)(void *ctx, const char *bytes, size_t n);
    void *ctx;
};

void lf_response_init(struct lf_response *r, void (*on_body)(void *ctx, const char *bytes, size_t n), void *ctx);
void lf_response_feed(struct lf_response *r, const char *bytes, size_t n);
/* The connection was closed: whether the response is whole. */
bool lf_response_end(struct lf_response *r);

#endif
