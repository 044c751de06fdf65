#include "server/load/url.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/str.h"

/* Host and port of text; false where it is of another shape. */
static bool split(struct lf_url *url, const char *text)
{
    struct lf_str s = lf_str_c(text);
    if (!lf_str_starts(s, LF_STR("http://"))) return false;
    const char *host = text + 7;
    size_t len;
    const char *rest;
    if (*host == '[') {
        host++;
        len = strcspn(host, "]");
        if (host[len] != ']') return false;
        rest = host + len + 1;
    } else {
        len = strcspn(host, ":/");
        rest = host + len;
    }
    if (len == 0 || len >= sizeof(url->host)) return false;
    memcpy(url->host, host, len);
    url->host[len] = '\0';
    url->port = 80;
    if (*rest == ':') {
        char *end;
        long port = strtol(rest + 1, &end, 10);
        if (end == rest + 1 || port < 1 || port > 65535) return false;
        url->port = (int)port;
        rest = end;
    }
    if (*rest != '\0' && strcmp(rest, "/") != 0) return false;
    return true;
}

enum lf_status lf_url_parse(struct lf_url *out, const char *text, struct lf_err *err)
{
    struct lf_url url = {.port = 0};
    if (!split(&url, text)) return lf_fail(err, LF_INVALID, "expected http://host:port, got \"%.100s\"", text);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char port[16];
    snprintf(port, sizeof(port), "%d", url.port);
    int rc = getaddrinfo(url.host, port, &hints, &found);
    if (rc != 0) return lf_fail(err, LF_NOT_FOUND, "%s: %s", url.host, gai_strerror(rc));
    memcpy(&url.address, found->ai_addr, found->ai_addrlen);
    url.address_len = found->ai_addrlen;
    freeaddrinfo(found);
    *out = url;
    return LF_OK;
}
