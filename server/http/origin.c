#include "server/http/origin.h"

#include <strings.h>

#include "server/http/http_server.h"

/* Without the port; the brackets of an IPv6 address stay. What follows the name and is no port stays as well. */
static struct lf_str without_port(struct lf_str host)
{
    size_t n = host.len;
    while (n > 0 && host.ptr[n - 1] >= '0' && host.ptr[n - 1] <= '9') n--;
    bool has_port = n > 1 && host.ptr[n - 1] == ':';
    struct lf_str name = lf_str_from(host.ptr, has_port ? n - 1 : host.len);
    bool is_v6 = name.len > 0 && name.ptr[0] == '[';
    return is_v6 && name.ptr[name.len - 1] != ']' ? host : name; /* inside brackets a colon begins no port */
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
