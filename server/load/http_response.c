#include "server/load/http_response.h"

#include <errno.h>
#include <stdlib.h>
#include <strings.h>

#include "core/check.h"

void lf_response_init(struct lf_response *r, void (*on_body)(void *ctx, const char *bytes, size_t n), void *ctx)
{
    memset(r, 0, sizeof(*r));
    r->on_body = on_body;
    r->ctx = ctx;
}

static void head_ends(struct lf_response *r)
{
    if (r->status >= 100 && r->status < 200) {
        r->status = 0; /* an interim answer: the real head follows */
    } else if (r->status == 0) {
        r->part = LF_RESPONSE_BROKEN;
    } else if (r->chunked) {
        r->part = LF_RESPONSE_CHUNK_SIZE;
    } else if (r->counted) {
        r->part = r->remaining ? LF_RESPONSE_BODY : LF_RESPONSE_DONE;
    } else {
        r->part = LF_RESPONSE_UNTIL_END;
    }
}

static void take_header(struct lf_response *r)
{
    if (r->status == 0) {
        if (strncmp(r->line, "HTTP/1.", 7) == 0 && r->n_line >= 12) r->status = (int)strtol(r->line + 9, NULL, 10);
        if (r->status < 100 || r->status > 599) r->part = LF_RESPONSE_BROKEN;
    } else if (strncasecmp(r->line, "content-length:", 15) == 0) {
        r->counted = true;
        r->remaining = strtoull(r->line + 15, NULL, 10);
    } else if (strncasecmp(r->line, "transfer-encoding:", 18) == 0) {
        r->chunked = true;
    }
}

static void take_chunk_size(struct lf_response *r)
{
    char *end;
    errno = 0;
    r->remaining = strtoull(r->line, &end, 16);
    if (end == r->line || errno != 0)
        r->part = LF_RESPONSE_BROKEN;
    else
        r->part = r->remaining ? LF_RESPONSE_CHUNK : LF_RESPONSE_TRAILER;
}

static void take_line(struct lf_response *r)
{
    switch (r->part) {
    case LF_RESPONSE_HEAD:
        if (r->n_line == 0 && r->status != 0)
            head_ends(r);
        else
            take_header(r);
        break;
    case LF_RESPONSE_CHUNK_SIZE:
        take_chunk_size(r);
        break;
    case LF_RESPONSE_CHUNK_END:
        r->part = LF_RESPONSE_CHUNK_SIZE;
        break;
    case LF_RESPONSE_TRAILER:
        if (r->n_line == 0) r->part = LF_RESPONSE_DONE;
        break;
    default:
        break;
    }
    r->n_line = 0;
}

static void feed_line_byte(struct lf_response *r, char c)
{
    if (c == '\n') {
        if (r->n_line > 0 && r->line[r->n_line - 1] == '\r') r->n_line--;
        r->line[r->n_line] = '\0';
        take_line(r);
    } else if (r->n_line + 1 < sizeof(r->line)) {
        r->line[r->n_line++] = c;
    }
}

void lf_response_feed(struct lf_response *r, const char *bytes, size_t n)
{
    while (n > 0 && r->part != LF_RESPONSE_DONE && r->part != LF_RESPONSE_BROKEN) {
        bool body = r->part == LF_RESPONSE_BODY || r->part == LF_RESPONSE_CHUNK || r->part == LF_RESPONSE_UNTIL_END;
        if (!body) {
            feed_line_byte(r, *bytes++);
            n--;
            continue;
        }
        size_t take = r->part == LF_RESPONSE_UNTIL_END ? n : (size_t)LF_MIN((uint64_t)n, r->remaining);
        r->on_body(r->ctx, bytes, take);
        bytes += take;
        n -= take;
        if (r->part == LF_RESPONSE_UNTIL_END) continue;
        r->remaining -= take;
        if (r->remaining == 0) r->part = r->part == LF_RESPONSE_BODY ? LF_RESPONSE_DONE : LF_RESPONSE_CHUNK_END;
    }
}

bool lf_response_end(struct lf_response *r)
{
    if (r->part == LF_RESPONSE_UNTIL_END) r->part = LF_RESPONSE_DONE;
    return r->part == LF_RESPONSE_DONE;
}
