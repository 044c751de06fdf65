/* http://host:port, the one kind of URL that load and health take. */
#ifndef LF_SERVER_LOAD_URL_H
#define LF_SERVER_LOAD_URL_H

#include <sys/socket.h>

#include "core/status.h"

enum { LF_URL_HOST_BYTES = 256 };

struct lf_url {
    char host[LF_URL_HOST_BYTES]; /* without brackets */
    int port;
    struct sockaddr_storage address; /* the first one the name resolves to */
    socklen_t address_len;
};

/* LF_INVALID for anything but http://host[:port][/]; LF_NOT_FOUND for a name that does not resolve. */
LF_MUST_CHECK enum lf_status lf_url_parse(struct lf_url *out, const char *text, struct lf_err *err);

#endif
