#include "server/http/origin.h"

#include <strings.h>

#include "server/http/http_server.h"

/* Without the port; the brackets of an IPv6 address stay. */
static struct lf_str without_port(struct lf_str host)
{
    if (host.len && host.ptr[0] == '[') {
        const char *end = memchr(host.ptr, ']', host.len);
        return end ? lf_str_from(host.ptr, (size_t)(end - host.ptr) + 1) : host;
    }
    const char *colon = memchr(host.ptr, ':', host.len);
    return colon ? lf_str_from(host.ptr, (size_t)(colon - host.ptr)) : host;
}

static bool same(struct lf_str s, const char *name)
{
    return s.len == strlen(name) && strncasecmp(s.ptr, name, s.len) == 0;
}

/* 127.a.b.c in digits and dots only, so that 127.0.0.1.example.com is not one. */
static bool is_loopback_v4(struct lf_str s)
{
    if (!lf_str_starts(s, LF_STR("127."))) return false;
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] != '.' && (s.ptr[i] < '0' || s.ptr[i] > '9')) return false;
    return true;
}

bool lf_host_allowed(const struct lf_http_opts *opts, bool loopback, struct lf_str host)
{
    if (host.len == 0) return true; /* HTTP/1.0 without Host: no browser sends that */
    struct lf_str name = without_port(host);
    for (const char *const *p = opts->allowed_hosts; p && *p; p++)
        if (same(name, *p) || same(host, *p)) return true;
    if (!loopback && !opts->allowed_hosts) return true;
    return same(name, "localhost") || same(name, "[::1]") || is_loopback_v4(name);
}

const char *lf_cors_allow(const struct lf_http_opts *opts, struct lf_str origin)
{
    if (origin.len == 0) return NULL;
    for (const char *const *p = opts->cors_origins; p && *p; p++)
        if (strcmp(*p, "*") == 0 || lf_str_eq(origin, lf_str_c(*p))) return *p;
    return NULL;
}
