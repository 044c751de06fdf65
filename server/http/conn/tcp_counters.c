/* On its own because <linux/tcp.h>, which has these counters, does not go together with <netinet/tcp.h>. */
#include "server/http/conn/tcp_counters.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

bool lf_tcp_counters(int fd, struct lf_tcp_counters *out)
{
    struct tcp_info info = {0};
    socklen_t n = sizeof info;
    int waiting = 0, unread = 0;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) != 0) return false;
    if (ioctl(fd, SIOCOUTQ, &waiting) != 0 || ioctl(fd, SIOCINQ, &unread) != 0) return false;
    if (n < offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received) return false;
    *out = (struct lf_tcp_counters){info.tcpi_bytes_acked, info.tcpi_bytes_received, waiting, unread};
    return true;
}
