/* Addresses of a rendezvous: HOST:PORT as a person writes it, sockets that listen or connect, and the form in messages.
 * Sockets are non-blocking and close-on-exec. Any thread. */
#ifndef LF_SERVER_RENDEZVOUS_ADDRESS_H
#define LF_SERVER_RENDEZVOUS_ADDRESS_H

#include <sys/socket.h>

#include "core/status.h"
#include "server/rendezvous/stream.h"
#include "server/rendezvous/wire.h"

enum { LF_HOST_BYTES = 256, LF_ADDRESSES_N = 8, LF_ADDRESS_TEXT_BYTES = 64 };

struct lf_host_port {
    char host[LF_HOST_BYTES]; /* without brackets */
    char port[8];
};

struct lf_address {
    struct sockaddr_storage sa;
    socklen_t n;
};

/* LF_INVALID: expected HOST:PORT. */
LF_MUST_CHECK enum lf_status lf_host_port_parse(struct lf_host_port *out, const char *text, struct lf_err *err);
/* What the host is now: LF_ADDRESSES_N at most. LF_NOT_FOUND, with the resolver's reason. */
LF_MUST_CHECK enum lf_status lf_address_resolve(struct lf_address *out, int *n, const struct lf_host_port *where,
                                                struct lf_err *err);
/* A listener. LF_IO. */
LF_MUST_CHECK enum lf_status lf_address_listen(int *fd, const struct lf_address *at, struct lf_err *err);
/* A listener at the address that the connected socket has on this side, on any port; *out is what others connect to. */
LF_MUST_CHECK enum lf_status lf_address_listen_beside(int *fd, struct lf_wire_address *out, int connected,
                                                      struct lf_err *err);
/* A connection; LF_IO where the other side refuses, or this one connected to itself, which a port that nobody listens
 * on makes possible; else what lf_wait_fd returns. */
LF_MUST_CHECK enum lf_status lf_address_connect(int *fd, const struct lf_address *to, const struct lf_wait *wait,
                                                struct lf_err *err);
/* From a message. A link-local one is on the interface of `beside`, a connected socket. */
struct lf_address lf_address_of_wire(const struct lf_wire_address *a, int beside);
/* "10.0.0.1:80", "[::1]:80". */
void lf_address_text(char out[LF_ADDRESS_TEXT_BYTES], const struct lf_address *a);

#endif
