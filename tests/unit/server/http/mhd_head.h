/* A request's head as libmicrohttpd leaves it: parsed in place and as leniently, its strings point into the bytes as
 * they came. For programs that are linked with --wrap for the two functions. */
#ifndef LF_TESTS_UNIT_SERVER_HTTP_MHD_HEAD_H
#define LF_TESTS_UNIT_SERVER_HTTP_MHD_HEAD_H

#include "tests/support/test.h"

#include <microhttpd.h>

#include "server/http/conn/headers.h"

enum { FIELDS_N = 128, BYTES_N = 64 * 1024 };

struct field {
    char *name, *value;
};

struct MHD_Connection {
    char bytes[BYTES_N];
    struct field fields[FIELDS_N];
    int n;
    struct lf_request_line line;
    union MHD_ConnectionInfo info;
};

int __wrap_MHD_get_connection_values_n(struct MHD_Connection *c, enum MHD_ValueKind kind, MHD_KeyValueIteratorN each,
                                       void *ctx);
int __wrap_MHD_get_connection_values_n(struct MHD_Connection *c, enum MHD_ValueKind kind, MHD_KeyValueIteratorN each,
                                       void *ctx)
{
    assert_int_equal(kind, MHD_HEADER_KIND);
    for (int i = 0; i < c->n; i++) {
        const struct field *f = &c->fields[i];
        assert_int_equal(each(ctx, kind, f->name, strlen(f->name), f->value, f->value ? strlen(f->value) : 0), MHD_YES);
    }
    return c->n;
}

const union MHD_ConnectionInfo *__wrap_MHD_get_connection_info(struct MHD_Connection *c, enum MHD_ConnectionInfoType t,
                                                               ...);
const union MHD_ConnectionInfo *__wrap_MHD_get_connection_info(struct MHD_Connection *c, enum MHD_ConnectionInfoType t,
                                                               ...)
{
    assert_int_equal(t, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    return &c->info;
}

/* ---- a head, as libmicrohttpd leaves it ---- */

/* The end of the line at p, whose CR and LF become NULs; *next: the line behind it. */
static inline char *cut_line(char *p, char **next)
{
    char *lf = p;
    while (*lf != '\n') lf++;
    char *end = lf > p && lf[-1] == '\r' ? lf - 1 : lf;
    *next = lf + 1;
    end[0] = *lf = 0;
    return end;
}

static inline char *word(char **p, const char *end)
{
    char *begin = *p;
    while (*p < end && **p != ' ') ++*p;
    while (*p < end && **p == ' ') *(*p)++ = 0;
    return begin;
}

static inline void parse(struct MHD_Connection *c, const char *text, size_t n)
{
    char *p = c->bytes, *next;
    memset(c, 0, sizeof *c);
    assert_true(n < sizeof c->bytes);
    memcpy(c->bytes, text, n);
    char *end = cut_line(p, &next);
    c->line.method = word(&p, end);
    c->line.url = word(&p, end);
    c->line.version = p;
    c->line.uri_bytes = strlen(c->line.url);
    for (p = next; end = cut_line(p, &next), end > p; p = next) {
        assert_true(c->n < FIELDS_N);
        struct field *f = &c->fields[c->n++];
        f->name = p;
        while (*p != ':') p++;
        *p++ = 0;
        while (*p == ' ' || *p == '\t') p++;
        f->value = p;
    }
    c->info.header_size = (size_t)(next - c->bytes);
}

#endif
