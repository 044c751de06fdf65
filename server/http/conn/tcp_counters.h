/* The kernel's counters of one TCP connection: the only honest measure of whether a peer sends and reads. */
#ifndef LF_SERVER_HTTP_CONN_TCP_COUNTERS_H
#define LF_SERVER_HTTP_CONN_TCP_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

struct lf_tcp_counters {
    uint64_t bytes_acked, bytes_received;
    int waiting_bytes; /* written by us, not yet acknowledged by the peer */
    int unread_bytes;  /* received, not yet read by us */
};

/* false where the socket or the kernel does not say. */
bool lf_tcp_counters(int fd, struct lf_tcp_counters *out);

#endif
