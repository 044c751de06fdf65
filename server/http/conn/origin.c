#include "server/http/conn/origin.h"

#include "core/check.h"
#include "server/http/conn/http_server.h"
#include "server/http/api/shown.h"

/* Nothing of it may hide where the name ends: no user, no escape, no character that a host and a port do not have. */
static bool is_authority(struct lf_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!alnum && (c == '\0' || !strchr("-._~:[]", c))) return false;
    }
    return s.len > 0 && s.ptr[0] != ':';
}

enum lf_status lf_target_split(const char *target, const char **path, struct lf_str *host, struct lf_api_err *err)
{
    static const char scheme[] = "http://";
    const size_t n = sizeof scheme - 1;
    if (strlen(target) < n || !lf_str_is_word(lf_str_from(target, n), scheme)) return LF_OK;
    struct lf_str authority = lf_str_from(target + n, strcspn(target + n, "/?#"));
    if (!is_authority(authority))
        return lf_refuse(err, 400, NULL, "bad_host", "The target names no host between http:// and its path.");
    *host = authority;
    *path = authority.ptr[authority.len] == '/' ? authority.ptr + authority.len : "/";
    return LF_OK;
}

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
        if (lf_str_is_word(name, *p) || lf_str_is_word(host, *p)) return true;
    if (!loopback && !opts->allowed_hosts) return true;
    return lf_str_is_word(name, "localhost") || lf_str_is_word(name, "[::1]") || is_loopback_v4(name);
}

enum lf_status lf_refuse_host(struct lf_api_err *err, struct lf_str host)
{
    char shown[LF_SHOWN_BYTES];
    lf_shown(shown, host);
    return lf_refuse(err, 403, NULL, "host_not_allowed",
                     "The request is for the host \"%s\", which this server does not answer to; start it with "
                     "--allowed-host NAME for each further name.",
                     shown);
}

const char *lf_cors_allow(const struct lf_http_opts *opts, struct lf_str origin)
{
    if (origin.len == 0) return NULL;
    for (const char *const *p = opts->cors_origins; p && *p; p++)
        if (strcmp(*p, "*") == 0 || lf_str_eq(origin, lf_str_c(*p))) return *p;
    return NULL;
}

/* What openai's, Anthropic's and other clients in browsers send; "x-stainless-os" and the like by their beginning. */
static const char *const header_names[] = {"accept",     "authorization", "content-type",
                                           "user-agent", "x-api-key",     "x-request-id"};
static const char *const header_prefixes[] = {"anthropic-", "openai-", "x-stainless-"};

/* A letter, digit or dash in lower case; 0 for what is in none of these names. */
static char lower_name_char(char c)
{
    if (c >= 'A' && c <= 'Z') return (char)(c - 'A' + 'a');
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ? c : '\0';
}

/* The name in lower case to out; false where it is not allowed. */
static bool header_allowed(char out[LF_HEADER_NAME_BYTES + 1], struct lf_str name)
{
    if (name.len > LF_HEADER_NAME_BYTES) return false;
    for (size_t i = 0; i < name.len; i++)
        if (!(out[i] = lower_name_char(name.ptr[i]))) return false;
    out[name.len] = '\0';
    for (size_t i = 0; i < LF_N_ELEMS(header_names); i++)
        if (strcmp(out, header_names[i]) == 0) return true;
    for (size_t i = 0; i < LF_N_ELEMS(header_prefixes); i++) {
        size_t n = strlen(header_prefixes[i]);
        if (name.len > n && memcmp(out, header_prefixes[i], n) == 0) return true;
    }
    return false;
}

/* Appends name to the list in out if it fits. */
static void add_header(char out[LF_CORS_HEADERS_BYTES], size_t *n, const char *name)
{
    size_t n_comma = *n ? 2 : 0, n_name = strlen(name);
    if (*n + n_comma + n_name >= LF_CORS_HEADERS_BYTES) return;
    memcpy(out + *n, ", ", n_comma);
    memcpy(out + *n + n_comma, name, n_name + 1);
    *n += n_comma + n_name;
}

void lf_cors_headers(char out[LF_CORS_HEADERS_BYTES], struct lf_str asked)
{
    char name[LF_HEADER_NAME_BYTES + 1];
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; asked.len == 0 && i < LF_N_ELEMS(header_names); i++) add_header(out, &n, header_names[i]);
    for (size_t at = 0; at < asked.len;) {
        const char *comma = memchr(asked.ptr + at, ',', asked.len - at);
        size_t len = comma ? (size_t)(comma - (asked.ptr + at)) : asked.len - at;
        if (header_allowed(name, lf_str_trim(lf_str_from(asked.ptr + at, len)))) add_header(out, &n, name);
        at += len + 1;
    }
}
